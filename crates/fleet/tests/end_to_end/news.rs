//! Replicas that are told of versions by a broker, on a bucket in memory: they show what the writer commits at once, however
//! rarely they look, and go on by looking where nobody tells them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use siltstone::{Compaction, Env};
use siltstone_cloud::{CloudDb, CloudOptions, Following, Home, Replica, ReplicaOptions, Token};
use siltstone_remote::loopback::{address, runtime};
use siltstone_remote::{BrokerPlace, ClientConfig, DbId, RemoteClient, VersionWatch};
use tokio::runtime::Runtime;

use crate::depot::Depot;
use crate::stage::{SOON, options, start_broker, until};

const KEYS: u32 = 500;
const WITHIN: Duration = Duration::from_secs(60);
/// Looks when the test is long over.
const PATIENT: Following = Following {
    lease: Duration::from_secs(36_000),
    busy: Duration::from_secs(3_600),
    idle: Duration::from_secs(3_600),
};
const RESTLESS: Following = Following {
    lease: Duration::from_secs(36_000),
    busy: Duration::from_millis(20),
    idle: Duration::from_millis(50),
};

fn db() -> DbId {
    DbId::new("orders").unwrap()
}

fn config(seed: u64) -> ClientConfig {
    ClientConfig { reconnect: SOON, seed }
}

fn home(depot: &Depot) -> Home {
    Home::new(Arc::clone(&depot.bucket) as _, depot.root.clone(), Env::default().clock)
}

/// A database that announces its versions.
struct Writer {
    db: CloudDb,
    _runtime: Runtime,
}

impl Writer {
    fn open(depot: &Depot, broker: SocketAddr) -> Self {
        let runtime = runtime().unwrap();
        let there = BrokerPlace::There(address(broker));
        let client = RemoteClient::start(runtime.handle(), config(5), there).unwrap();
        let mut cloud = CloudOptions::default();
        cloud.token = Some(Token(1));
        cloud.announce = Some(Arc::new(move |version| client.announce(&db(), version.0)));
        let options = options(&Env::memory(), Compaction::Leveled);
        let db = CloudDb::open(&home(depot), "db", options, cloud).unwrap();
        Writer { db, _runtime: runtime }
    }

    /// Returns the version that has it.
    fn commit(&self, round: u32) -> u64 {
        for number in 0..KEYS {
            self.db.put(number.to_be_bytes(), round.to_be_bytes()).unwrap();
        }
        self.db.flush().unwrap();
        self.db.wait_for_bucket(WITHIN).unwrap();
        self.db.cloud_metrics().version
    }
}

/// A replica with an ear at the broker.
struct Told {
    _watch: VersionWatch,
    replica: Replica,
    _runtime: Runtime,
}

impl Told {
    fn follow(depot: &Depot, broker: SocketAddr, following: Following, token: u128) -> Self {
        let runtime = runtime().unwrap();
        let mut reading = ReplicaOptions::default();
        reading.token = Some(Token(token << 64));
        let options = options(&Env::memory(), Compaction::Leveled);
        let replica = Replica::follow(&home(depot), options, reading, following).unwrap();
        let news = replica.news();
        let hear = Box::new(move |version| news.tell(version));
        let (handle, address) = (runtime.handle(), address(broker));
        let watch = VersionWatch::start(handle, config(9), address, db(), hear).unwrap();
        Told { _watch: watch, replica, _runtime: runtime }
    }

    fn shows(&self, version: u64, round: u32) {
        until("the replica goes on", || self.replica.version() >= version);
        let db = self.replica.db();
        for number in 0..KEYS {
            let value = db.get(number.to_be_bytes()).unwrap();
            assert_eq!(value.as_deref(), Some(&round.to_be_bytes()[..]), "{number}");
        }
        assert!(self.replica.failure().is_none());
    }
}

#[test]
fn a_replica_that_is_told_shows_what_is_committed_without_looking() {
    let (depot, broker) = (Depot::new(), start_broker(1, None));
    let writer = Writer::open(&depot, broker.socket());
    writer.commit(0);
    let replicas = [1, 2].map(|token| Told::follow(&depot, broker.socket(), PATIENT, token));
    for round in 1..6 {
        let version = writer.commit(round);
        replicas.iter().for_each(|told| told.shows(version, round));
    }
    let stats = broker.stats();
    assert!(stats.announced >= 5 && stats.watchers == 2, "{stats:?}");
}

#[test]
fn without_a_broker_replicas_look_and_with_the_next_they_are_told_again() {
    let (depot, broker) = (Depot::new(), start_broker(1, None));
    let writer = Writer::open(&depot, broker.socket());
    writer.commit(0);
    let patient = Told::follow(&depot, broker.socket(), PATIENT, 1);
    let restless = Told::follow(&depot, broker.socket(), RESTLESS, 2);
    let version = writer.commit(1);
    patient.shows(version, 1);
    restless.shows(version, 1);
    let socket = broker.end().unwrap();
    let lost = writer.commit(2);
    restless.shows(lost, 2);
    assert!(patient.replica.version() < lost, "nobody can tell it");
    let broker = start_broker(2, Some(socket));
    // What could not be said is said when somebody listens.
    patient.shows(lost, 2);
    let version = writer.commit(3);
    patient.shows(version, 3);
    restless.shows(version, 3);
    assert!(broker.stats().announced >= 2);
}
