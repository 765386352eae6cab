//! A broker and workers on the loopback interface, and a database that has them merge.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use siltstone::service::JobTools;
use siltstone::{Compaction, Compression, Db, Env, Level0Limits, Options};
use siltstone_fleet::{BucketRunner, Fleet, FleetConfig};
use siltstone_remote::{
    Authority, BackoffLimits, BrokerAddress, BrokerConfig, BrokerHost, BrokerPlace, BrokerStats,
    ClientConfig, ClientSecurity, DbId, Grant, JobRunner, Policy, RemoteClient, Role, Scope,
    ServerSecurity, WorkerConfig, WorkerId, run_worker,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::depot::{Depot, Store};

pub(crate) const LEASE: Duration = Duration::from_millis(400);
pub(crate) const SOON: BackoffLimits =
    BackoffLimits { first: Duration::from_millis(10), most: Duration::from_millis(100) };
const PATIENCE: Duration = Duration::from_secs(60);
const KEYS: u32 = 2_000;

pub(crate) fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// Binds a port of this machine; the broker before may not have let go of it yet.
async fn listen(address: Option<SocketAddr>) -> TcpListener {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let deadline = Instant::now() + PATIENCE;
    loop {
        match TcpListener::bind(address.unwrap_or(any)).await {
            Ok(listener) => return listener,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) struct Broker {
    runtime: Runtime,
    host: BrokerHost,
    pub(crate) address: SocketAddr,
    serving: JoinHandle<()>,
    stop: oneshot::Sender<()>,
}

impl Broker {
    pub(crate) fn start(term: u32, address: Option<SocketAddr>) -> Self {
        let runtime = runtime();
        let _inside = runtime.enter();
        let listener = runtime.block_on(listen(address));
        let address = listener.local_addr().unwrap();
        let config = BrokerConfig {
            lease: LEASE,
            heartbeat: LEASE / 4,
            retry: SOON,
            ..BrokerConfig::new(term, 7)
        };
        let host = BrokerHost::start(config);
        let mut authority = Authority::new();
        for role in [Role::Worker, Role::Client, Role::Replica] {
            authority.allow_plaintext(Grant { role, scope: Scope::All });
        }
        let (stop, stopped) = oneshot::channel::<()>();
        let served = host.clone();
        let serving = runtime.spawn(async move {
            let stopped = async { drop(stopped.await) };
            let security = ServerSecurity::PlaintextOnLoopback;
            served.serve(listener, security, authority, stopped).await.unwrap();
        });
        drop(_inside);
        Broker { runtime, host, address, serving, stop }
    }

    pub(crate) fn stats(&self) -> BrokerStats {
        self.runtime.block_on(self.host.stats())
    }

    /// All that it knew is gone.
    pub(crate) fn end(self) -> SocketAddr {
        let Broker { runtime, host, address, serving, stop } = self;
        stop.send(()).unwrap();
        runtime.block_on(serving).unwrap();
        drop(host);
        address
    }
}

pub(crate) fn broker_at(address: SocketAddr) -> BrokerAddress {
    BrokerAddress {
        uri: format!("http://{address}"),
        security: ClientSecurity::PlaintextOnLoopback,
        token: None,
        on_lost: None,
    }
}

/// A worker in a runtime of its own, so that it can be paused and killed without the others.
pub(crate) struct Worker {
    runtime: Option<Runtime>,
    ended: JoinHandle<()>,
}

impl Worker {
    pub(crate) fn start(name: &str, seed: u64, address: SocketAddr, depot: &Depot) -> Self {
        let runner = BucketRunner::new(Arc::clone(&depot.bucket) as _, JobTools::default());
        let known = runner.capabilities();
        let config = WorkerConfig::new(WorkerId::new(name).unwrap(), 2, known, seed);
        Worker::running(config, address, Arc::new(runner))
    }

    pub(crate) fn running(
        config: WorkerConfig,
        address: SocketAddr,
        runner: Arc<dyn JobRunner>,
    ) -> Self {
        let runtime = runtime();
        let config = WorkerConfig { reconnect: SOON, ..config };
        let ended = runtime.spawn(async move {
            run_worker(config, broker_at(address), runner, std::future::pending()).await.unwrap();
        });
        Worker { runtime: Some(runtime), ended }
    }

    /// Its only thread stands still: no heartbeats, no messages. Merges go on, as zombies do.
    pub(crate) fn pause(&self, time: Duration) {
        self.runtime.as_ref().unwrap().spawn(async move { std::thread::sleep(time) });
    }

    /// Its connection breaks, and nobody says goodbye.
    pub(crate) fn kill(self) {
        self.ended.abort();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A wire that can be cut.
pub(crate) struct Wire {
    runtime: Runtime,
    pub(crate) address: SocketAddr,
    carrying: Option<JoinHandle<()>>,
    to: SocketAddr,
}

impl Wire {
    pub(crate) fn to(to: SocketAddr) -> Self {
        let runtime = runtime();
        let listener = runtime.block_on(listen(None));
        let address = listener.local_addr().unwrap();
        let carrying = Some(runtime.spawn(Wire::carry(listener, to)));
        Wire { runtime, address, carrying, to }
    }

    async fn carry(listener: TcpListener, to: SocketAddr) {
        let mut lines = tokio::task::JoinSet::new();
        while let Ok((mut near, _)) = listener.accept().await {
            lines.spawn(async move {
                if let Ok(mut far) = TcpStream::connect(to).await {
                    let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                }
            });
        }
    }

    /// Nothing goes through for so long, and all connections are gone.
    pub(crate) fn cut(&mut self, time: Duration) {
        if let Some(carrying) = self.carrying.take() {
            carrying.abort();
            let _ = self.runtime.block_on(carrying);
        }
        std::thread::sleep(time);
        let listener = self.runtime.block_on(listen(Some(self.address)));
        self.carrying = Some(self.runtime.spawn(Wire::carry(listener, self.to)));
    }
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
        let runtime = runtime();
        let client = ClientConfig { reconnect: SOON, seed: 5 };
        let there = BrokerPlace::There(broker_at(broker));
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
