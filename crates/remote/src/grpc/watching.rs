//! A replica's watch: news of one database from a broker, for as long as it is wanted.

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tonic::{Status, Streaming};

use super::link::open_watch;
use super::security::{BrokerAddress, TransportError};
use super::wire;
use crate::client::event::ClientConfig;
use crate::dice::Dice;
use crate::job::name::DbId;

/// Told a version's number, on one of the runtime's threads, which it must not block.
pub type OnVersion = Box<dyn Fn(u64) + Send + Sync>;

/// Hears which versions of a database are announced to a broker: the last one when it connects, and from then on each, or
/// the last of those that come faster than they are read. Connects again, after ever longer pauses, for as long as it is
/// there; what was announced meanwhile it hears the last of. All of it is hearsay: what counts is in the bucket.
///
/// ```no_run
/// # use siltstone_remote::{BrokerAddress, ClientConfig, DbId, TransportError, VersionWatch};
/// # fn example(address: BrokerAddress, runtime: &tokio::runtime::Handle, news: impl Fn(u64) + Send + Sync + 'static)
/// # -> Result<VersionWatch, TransportError> {
/// let db = DbId::new("orders").expect("a name");
/// VersionWatch::start(runtime, ClientConfig::new(7), address, db, Box::new(news))
/// # }
/// ```
#[must_use = "it ends when it is dropped"]
pub struct VersionWatch {
    task: JoinHandle<()>,
}

impl VersionWatch {
    /// Starts one on a runtime, from any thread.
    ///
    /// # Errors
    ///
    /// [`TransportError`] if the address cannot be used at all. A broker that cannot be reached, or refuses, is no error:
    /// the address is told, and it is asked again.
    pub fn start(
        runtime: &Handle,
        config: ClientConfig,
        address: BrokerAddress,
        db: DbId,
        on_version: OnVersion,
    ) -> Result<Self, TransportError> {
        address.endpoint()?;
        Ok(VersionWatch { task: runtime.spawn(run(config, address, db, on_version)) })
    }
}

impl Drop for VersionWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn run(config: ClientConfig, address: BrokerAddress, db: DbId, on_version: OnVersion) {
    let (mut dice, mut failures) = (Dice::new(config.seed), 0_u32);
    loop {
        let lost = match open_watch(&address, &db).await {
            Ok(news) => {
                failures = 0;
                hear(news, &on_version).await
            }
            Err(status) => status,
        };
        address.tell_lost(&lost);
        failures = failures.saturating_add(1);
        sleep(config.reconnect.wait(failures, &mut dice)).await;
    }
}

/// Until there is no more to hear; returns why.
async fn hear(mut news: Streaming<wire::News>, on_version: &OnVersion) -> Status {
    loop {
        match news.message().await {
            Ok(Some(news)) => on_version(news.version),
            Ok(None) => return Status::unavailable("the broker has ended the watch"),
            Err(status) => return status,
        }
    }
}
