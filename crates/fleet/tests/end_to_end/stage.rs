//! A broker and workers on the loopback interface, and a database that has them merge.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use siltstone::service::JobTools;
use siltstone::{Compaction, Compression, Db, Env, Level0Limits, Options};
use siltstone_fleet::{BucketRunner, Fleet, FleetConfig};
use siltstone_remote::loopback::{Broker, Wire, Worker, address, runtime};
use siltstone_remote::{
    BackoffLimits, BrokerConfig, BrokerPlace, ClientConfig, DbId, JobRunner, Policy, RemoteClient,
    WorkerConfig, WorkerId,
};
use tokio::runtime::Runtime;

use crate::depot::{Depot, Store};

pub(crate) const LEASE: Duration = Duration::from_millis(400);
pub(crate) const SOON: BackoffLimits =
    BackoffLimits { first: Duration::from_millis(10), most: Duration::from_millis(100) };
const PATIENCE: Duration = Duration::from_secs(60);
const KEYS: u32 = 2_000;

pub(crate) fn start_broker(term: u32, again: Option<SocketAddr>) -> Broker {
    start_broker_of(term, again, LEASE / 4)
}

/// One that asks for heartbeats this far apart, and waits twice as long for workers to come back.
pub(crate) fn start_broker_of(term: u32, again: Option<SocketAddr>, heartbeat: Duration) -> Broker {
    let lease = 4 * heartbeat;
    let config = BrokerConfig { lease, heartbeat, retry: SOON, ..BrokerConfig::new(term, 7) };
    Broker::start(config, again).unwrap()
}

pub(crate) fn start_worker(name: &str, seed: u64, broker: SocketAddr, depot: &Depot) -> Worker {
    let runner = BucketRunner::new(Arc::clone(&depot.bucket) as _, JobTools::default());
    let runner = runner.with_threads(Env::posix().threads);
    let known = runner.capabilities();
    let config = WorkerConfig::new(WorkerId::new(name).unwrap(), 2, known, seed);
    start_running(config, broker, Arc::new(runner))
}

pub(crate) fn start_running(
    config: WorkerConfig,
    broker: SocketAddr,
    runner: Arc<dyn JobRunner>,
) -> Worker {
    let config = WorkerConfig { reconnect: SOON, ..config };
    Worker::start(config, address(broker), runner).unwrap()
}

/// Nothing goes through for so long.
pub(crate) fn cut(wire: &mut Wire, time: Duration) {
    wire.cut();
    std::thread::sleep(time);
    wire.mend().unwrap();
}

/// A database, and what it should hold.
pub(crate) struct Database {
    pub(crate) db: Db,
    model: BTreeMap<String, String>,
    writes: u32,
    _runtime: Runtime,
}

/// Small tables, so that there is much to merge.
pub(crate) fn options(env: &Env, compaction: Compaction) -> Options {
    Options {
        create_if_missing: true,
        env: env.clone(),
        info_log: false,
        compaction,
        compression: Compression::None,
        write_buffer_size: 12 << 10,
        max_file_size: 8 << 10,
        level0: Level0Limits { compact: 2, slow_down: 20, stop: 36 },
        level1_bytes: 24 << 10,
        level_growth: 3,
        unclamped: true,
        ..Default::default()
    }
}

pub(crate) fn config(depot: &Depot) -> FleetConfig {
    let db = DbId::new("orders").unwrap();
    FleetConfig { takes_level0: true, ..FleetConfig::new(db, depot.epoch, depot.root.clone()) }
}

/// However long it takes.
pub(crate) fn remote_only(depot: &Depot) -> FleetConfig {
    FleetConfig { policy: Policy::RemoteOnly, ..config(depot) }
}

impl Database {
    pub(crate) fn open(depot: &Arc<Depot>, broker: SocketAddr, config: FleetConfig) -> Self {
        Database::open_with(depot, broker, (config, Compaction::Leveled))
    }

    pub(crate) fn open_with(
        depot: &Arc<Depot>,
        broker: SocketAddr,
        (config, compaction): (FleetConfig, Compaction),
    ) -> Self {
        let runtime = runtime().unwrap();
        let client = ClientConfig { reconnect: SOON, seed: 5 };
        let there = BrokerPlace::There(address(broker));
        let client = RemoteClient::start(runtime.handle(), client, there).unwrap();
        let (bucket, tables) = (Arc::clone(&depot.bucket) as _, Arc::clone(depot) as _);
        let clock = Env::default().clock;
        let fleet = Fleet::new(client, bucket, tables, clock, config);
        let options = Options {
            table_store: Some(Arc::new(Store(Arc::clone(depot)))),
            compaction_service: Some(Arc::new(fleet)),
            ..options(&depot.env, compaction)
        };
        let db = Db::open("db", options).unwrap();
        Database { db, model: BTreeMap::new(), writes: 0, _runtime: runtime }
    }

    /// Closes it, which waits for no job, and opens it again.
    pub(crate) fn reopen(
        self,
        depot: &Arc<Depot>,
        broker: SocketAddr,
        config: FleetConfig,
    ) -> Self {
        let Database { db, model, writes, _runtime } = self;
        db.close().unwrap();
        Database { model, writes, ..Database::open(depot, broker, config) }
    }

    pub(crate) fn write(&mut self, writes: u32) {
        let range = self.writes..self.writes + writes;
        self.writes = range.end;
        write_to(&self.db, range, &mut self.model);
    }

    /// What a database holds that has merged everything by itself, is what this one does.
    pub(crate) fn check(&self) {
        let alone =
            Db::open("alone", options(&Env::memory(), self.db.options().compaction)).unwrap();
        write_to(&alone, 0..self.writes, &mut BTreeMap::new());
        alone.compact_range(None, None).unwrap();
        let all = |db: &Db| -> Vec<_> {
            db.iter().unwrap().entries().unwrap().map(Result::unwrap).collect()
        };
        assert!(all(&self.db) == all(&alone));
        for (key, value) in &self.model {
            assert_eq!(self.db.get(key).unwrap().as_deref(), Some(value.as_bytes()), "{key}");
        }
        assert_eq!(all(&self.db).len(), self.model.len());
    }

    /// All that is to be merged is.
    pub(crate) fn rest(&self) {
        self.db.wait_for_background().unwrap();
    }
}

fn write_to(db: &Db, range: Range<u32>, model: &mut BTreeMap<String, String>) {
    for number in range {
        let key = format!("{:05}", number.wrapping_mul(2_654_435_761) % KEYS);
        if number % 7 == 0 {
            db.delete(&key).unwrap();
            model.remove(&key);
        } else {
            let value = number.to_string().repeat(20);
            db.put(&key, &value).unwrap();
            model.insert(key, value);
        }
    }
}

/// Waits until something holds.
pub(crate) fn until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
