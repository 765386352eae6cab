//! A broker that runs, in a database's process or by itself: started here, served on ports if it is to be reached from
//! elsewhere.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, timeout};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use super::MESSAGE_BYTES_MAX;
use super::board::Board;
use super::broker::{BrokerTask, Ended};
use super::security::{ServerSecurity, TransportError};
use super::service::Service;
use super::wire::compaction_server::CompactionServer;
use crate::broker::config::BrokerConfig;
use crate::broker::report::{BrokerStats, JobView};
use crate::job::name::DbId;
use crate::security::authority::Authority;

const KEEP_ALIVE: Duration = Duration::from_secs(10);
const GOODBYE: Duration = Duration::from_secs(2);
/// A peer has one stream, and the calls of an administrator.
const STREAMS_MAX: u32 = 64;
const HEADERS_BYTES_MAX: u32 = 16 << 10;

/// A running broker. It ends when the last handle, client and served port of it is gone.
#[derive(Clone)]
pub struct BrokerHost {
    pub(super) task: BrokerTask,
    pub(super) board: Arc<Board>,
}

impl BrokerHost {
    /// Starts one. Must be called within a tokio runtime, on which it then runs.
    pub fn start(config: BrokerConfig) -> Self {
        BrokerHost { task: BrokerTask::start(config), board: Arc::new(Board::new(&config)) }
    }

    /// Serves it on a port until `stop` is ready. Then connections are ended: peers connect again, elsewhere or here.
    ///
    /// # Errors
    ///
    /// [`TransportError`] if the port must not be served so, certificates cannot be used, or the port fails.
    pub async fn serve(
        &self,
        listener: TcpListener,
        security: ServerSecurity,
        authority: Authority,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<(), TransportError> {
        let address = listener.local_addr();
        let address = address.map_err(|error| TransportError::new(error.to_string()))?;
        let tls = security.tls(address)?;
        let (stopping, stopped) = watch::channel(false);
        let service = Service {
            host: self.clone(),
            authority: Arc::new(Mutex::new(authority)),
            started: Instant::now(),
            stop: stopped.clone(),
        };
        let service = CompactionServer::new(service)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        let mut server = Server::builder()
            .http2_keepalive_interval(Some(KEEP_ALIVE))
            .http2_keepalive_timeout(Some(KEEP_ALIVE))
            .http2_max_header_list_size(HEADERS_BYTES_MAX)
            .max_concurrent_streams(STREAMS_MAX);
        if let Some(tls) = tls {
            // What the library says about it might repeat parts of the key.
            let unusable = |_| TransportError::new("the certificates or the key cannot be used");
            server = server.tls_config(tls).map_err(unusable)?;
        }
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        let gone = async move {
            let mut stopped = stopped;
            let _ = stopped.wait_for(|stop| *stop).await;
        };
        let router = server.add_service(service);
        let mut serving = pin!(router.serve_with_incoming_shutdown(incoming, gone));
        let served = tokio::select! {
            served = &mut serving => served,
            () = stop => {
                // Its receivers are the service's: while there are none, nobody is connected.
                let _ = stopping.send(true);
                // A peer that does not end its side is not waited for.
                timeout(GOODBYE, serving).await.unwrap_or(Ok(()))
            }
        };
        served.map_err(|error| TransportError::new(error.to_string()))
    }

    /// Its counters; all zero if it has ended.
    pub async fn stats(&self) -> BrokerStats {
        self.counted().await.unwrap_or_default()
    }

    pub(super) async fn counted(&self) -> Result<BrokerStats, Ended> {
        let stats = self.task.ask(|broker| broker.stats()).await?;
        let (announced, watchers) = (self.board.announced(), self.board.watchers());
        Ok(BrokerStats { announced, watchers, ..stats })
    }

    /// Up to so many of its jobs, by id; those of one database only, if one is named.
    pub async fn jobs(&self, db: Option<DbId>, most: usize) -> Vec<JobView> {
        let list = self.task.ask(move |broker| broker.list(db.as_ref(), None, most)).await;
        list.unwrap_or_default()
    }
}
