//! A writer's announcements on their way to a broker: the last of each database, until it has arrived. Over a connection of
//! their own: that of jobs is there only while there are jobs, and a submission may have megabytes, behind which news would
//! be old.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tonic::{Code, Status};

use super::board::Board;
use super::client::BrokerPlace;
use super::link::{Connected, announce, connect};
use super::security::BrokerAddress;
use crate::client::event::ClientConfig;
use crate::dice::Dice;
use crate::job::name::DbId;

/// For connecting and the call together.
const ANSWER: Duration = Duration::from_secs(10);

type Latest = BTreeMap<DbId, u64>;

/// Where announcements go. Clones are one. When the last goes, what has not arrived is tried once.
#[derive(Clone)]
pub(super) enum Announcer {
    Here(Arc<Board>),
    There(watch::Sender<Latest>),
}

impl Announcer {
    pub(super) fn start(runtime: &Handle, config: ClientConfig, broker: &Arc<BrokerPlace>) -> Self {
        if let BrokerPlace::Here(host) = &**broker {
            return Announcer::Here(Arc::clone(&host.board));
        }
        let (sender, latest) = watch::channel(Latest::new());
        let way = Way {
            broker: Arc::clone(broker),
            config,
            dice: Dice::new(config.seed),
            calls: None,
            failures: 0,
        };
        runtime.spawn(way.run(latest));
        Announcer::There(sender)
    }

    pub(super) fn announce(&self, db: &DbId, version: u64) {
        match self {
            Announcer::Here(board) => board.announce(db, version),
            Announcer::There(latest) => latest.send_modify(|latest| {
                latest.insert(db.clone(), version);
            }),
        }
    }
}

/// The task that takes them there.
struct Way {
    broker: Arc<BrokerPlace>,
    config: ClientConfig,
    dice: Dice,
    calls: Option<Connected>,
    failures: u32,
}

impl Way {
    async fn run(mut self, mut latest: watch::Receiver<Latest>) {
        let mut told = Latest::new();
        while latest.changed().await.is_ok() {
            loop {
                let due = due(&latest.borrow_and_update(), &told);
                let Some((db, version)) = due else { break };
                let outcome = self.tell(&db, version).await;
                if outcome.is_ok() || is_final(&outcome) {
                    told.insert(db, version);
                }
                if outcome.is_ok() {
                    self.failures = 0;
                    continue;
                }
                self.failures = self.failures.saturating_add(1);
                if latest.has_changed().is_err() {
                    return;
                }
                sleep(self.config.reconnect.wait(self.failures, &mut self.dice)).await;
            }
        }
    }

    async fn tell(&mut self, db: &DbId, version: u64) -> Result<(), Status> {
        let broker = Arc::clone(&self.broker);
        let BrokerPlace::There(address) = &*broker else { return Ok(()) };
        let told = timeout(ANSWER, self.call(address, (db, version))).await;
        let told = told.unwrap_or_else(|_| Err(Status::deadline_exceeded("no answer came")));
        if let Err(status) = &told {
            self.calls = None;
            address.tell_lost(status);
        }
        told
    }

    async fn call(&mut self, address: &BrokerAddress, what: (&DbId, u64)) -> Result<(), Status> {
        let calls = match self.calls.take() {
            Some(calls) => calls,
            None => connect(address).await?,
        };
        announce(self.calls.insert(calls), address, what).await
    }
}

/// Something that has not arrived.
fn due(latest: &Latest, told: &Latest) -> Option<(DbId, u64)> {
    let due = latest.iter().find(|(db, version)| told.get(db) != Some(version));
    due.map(|(db, version)| (db.clone(), *version))
}

/// The broker has understood, and will not have it: to say it again helps nobody.
fn is_final(outcome: &Result<(), Status>) -> bool {
    let refusals = [
        Code::InvalidArgument,
        Code::PermissionDenied,
        Code::Unauthenticated,
        // A broker from before there were announcements.
        Code::Unimplemented,
    ];
    outcome.as_ref().is_err_and(|status| refusals.contains(&status.code()))
}
