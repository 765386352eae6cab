//! The writer's side: a database in a bucket gives its merges to workers, and has replicas told of its versions
//! (`--merge-at`).

use std::path::PathBuf;
use std::sync::Arc;

use siltstone::Options;
use siltstone_cloud::{Announce, CloudTables, Root};
use siltstone_fleet::{Fleet, FleetConfig, pace_for_workers};
use siltstone_remote::{BrokerAddress, BrokerPlace, ClientConfig, DbId, RemoteClient};
use tokio::runtime::Runtime;

use super::broker::seed;
use super::security::{SecurityArgs, token};
use super::{host_of, read, runtime, transport};
use crate::errors::Failure;

/// A way to a broker, and the threads of it.
pub(crate) struct Client {
    remote: RemoteClient,
    /// There until the last database has closed.
    _runtime: Runtime,
}

impl Client {
    /// Connects when there is something to merge, or to announce.
    pub(crate) fn new(uri: &str) -> Result<Self, Failure> {
        let file = |name: &str| std::env::var_os(name).map(PathBuf::from);
        let security = SecurityArgs::new(
            ["SILTSTONE_TLS_CERT", "SILTSTONE_TLS_KEY", "SILTSTONE_TLS_CA"].map(file),
            uri.starts_with("http://"),
        );
        let shown = file("SILTSTONE_TOKEN_FILE").as_deref().map(read).transpose()?;
        let shown = shown.map(|digits| token(&String::from_utf8_lossy(&digits))).transpose()?;
        let address = BrokerAddress {
            uri: uri.to_owned(),
            security: security.of_worker(host_of(uri))?,
            token: shown,
            on_lost: None,
        };
        let runtime = runtime()?;
        let place = BrokerPlace::There(address);
        let remote = RemoteClient::start(runtime.handle(), ClientConfig::new(seed()), place);
        let remote = remote.map_err(|error| transport(&error))?;
        Ok(Client { remote, _runtime: runtime })
    }

    /// For one database, merges of level 0 included: its user has asked for that. Nothing if its path is none that brokers
    /// could know it by: then it merges by itself.
    pub(crate) fn serve(&self, tables: &CloudTables, options: &mut Options) {
        let root = tables.home().root();
        let Some(name) = known_as(root) else { return };
        let config = FleetConfig::new(name, tables.epoch(), root.clone());
        let config = FleetConfig { takes_level0: true, ..config };
        let (bucket, tables) = (Arc::clone(tables.home().bucket()), Arc::new(tables.clone()));
        let clock = Arc::clone(&options.env.clock);
        let fleet = Fleet::new(self.remote.clone(), bucket, tables, clock, config);
        options.compaction_service = Some(Arc::new(fleet));
        pace_for_workers(options);
    }

    /// Tells the broker of each version of the database. `None` where [`serve`](Self::serve) does nothing.
    pub(crate) fn announce(&self, root: &Root) -> Option<Announce> {
        let (remote, db) = (self.remote.clone(), known_as(root)?);
        Some(Arc::new(move |version| remote.announce(&db, version.0)))
    }
}

/// What brokers call the database there.
fn known_as(root: &Root) -> Option<DbId> {
    let name = root.as_str().trim_end_matches('/').replace('/', ".");
    DbId::new(if name.is_empty() { "bucket" } else { &name }).ok()
}
