//! Tiered databases whose merges workers do: what they have made is theirs after a crash, and on another machine.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use siltstone::{Compaction, Env};
use siltstone_cloud::{
    Bucket, Call, CloudDb, CloudOptions, CloudTables, Home, Patience, Purpose, Token,
};
use siltstone_fleet::{Fleet, FleetConfig};
use siltstone_remote::loopback::{Broker, address, runtime};
use siltstone_remote::{BrokerPlace, ClientConfig, DbId, JobState, Policy, RemoteClient};
use tokio::runtime::Runtime;

use crate::depot::Depot;
use crate::stage::{SOON, options, start_broker, start_broker_of, start_worker, until};

const KEYS: u32 = 2_000;
const WITHIN: Duration = Duration::from_secs(30);

/// A database on a machine of its own, with its merges elsewhere.
struct Tiered {
    db: CloudDb,
    _runtime: Runtime,
}

impl Tiered {
    fn open(depot: &Depot, machine: &Env, broker: SocketAddr, token: u128) -> Self {
        let runtime = runtime().unwrap();
        let client = ClientConfig { reconnect: SOON, seed: 5 };
        let there = BrokerPlace::There(address(broker));
        let client = RemoteClient::start(runtime.handle(), client, there).unwrap();
        let bucket = Arc::clone(&depot.bucket);
        let patience = Patience { total: Duration::ZERO, pause: Duration::ZERO };
        let clock = Env::default().clock;
        let home = Home::new(bucket.clone() as _, depot.root.clone(), Arc::clone(&clock));
        let home = home.with_patience(patience);
        let mut cloud = CloudOptions::default();
        cloud.token = Some(Token(token));
        cloud.prepare = Some(Arc::new(move |tables: &CloudTables, options| {
            let db = DbId::new("orders").unwrap();
            let config = FleetConfig {
                takes_level0: true,
                policy: Policy::RemoteOnly,
                ..FleetConfig::new(db, tables.epoch(), tables.home().root().clone())
            };
            let (client, bucket) = (client.clone(), bucket.clone() as _);
            let tables = Arc::new(tables.clone());
            let fleet = Fleet::new(client, bucket, tables, Arc::clone(&clock), config);
            options.compaction_service = Some(Arc::new(fleet));
        }));
        let options = options(machine, Compaction::Leveled);
        Tiered { db: CloudDb::open(&home, "db", options, cloud).unwrap(), _runtime: runtime }
    }

    fn load(&self, round: u32) {
        self.load_first(KEYS, round);
    }

    fn load_first(&self, keys: u32, round: u32) {
        for number in 0..keys {
            self.db.put(key(number), format!("{number} of round {round}")).unwrap();
        }
        self.db.flush().unwrap();
    }

    fn check(&self, round: u32) {
        self.check_rounds(|_| round);
    }

    /// After the first fifth was written in another round than the rest.
    fn check_after(&self, round: u32) {
        self.check_rounds(|number| if number < KEYS / 5 { round } else { 0 });
    }

    fn check_rounds(&self, round: impl Fn(u32) -> u32) {
        for number in 0..KEYS {
            let value = self.db.get(key(number)).unwrap().expect("a value");
            assert_eq!(value, format!("{number} of round {}", round(number)).into_bytes());
        }
    }
}

fn key(number: u32) -> [u8; 4] {
    number.wrapping_mul(2_654_435_761).to_be_bytes()
}

fn notes(machine: &Env) -> usize {
    let names = machine.file_system.list("db".as_ref()).unwrap();
    names.iter().filter(|name| name.ends_with(".elsewhere")).count()
}

/// Numbers of the tables that lie in the folder.
fn tables_in(machine: &Env) -> Vec<u64> {
    let names = machine.file_system.list("db".as_ref()).unwrap();
    let numbers = names.iter().filter_map(|name| name.strip_suffix(".ldb")?.parse().ok());
    let mut numbers: Vec<u64> = numbers.collect();
    numbers.sort_unstable();
    numbers
}

/// Of those that it has.
fn tables_of(db: &CloudDb) -> Vec<u64> {
    let tables = db.levels().into_iter().flat_map(|level| level.tables);
    let mut numbers: Vec<u64> = tables.map(|table| table.number.0).collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn workers_tables_are_the_databases_wherever_it_opens() {
    let (depot, broker) = (Depot::new(), start_broker(1, None));
    let _worker = start_worker("w", 1, broker.socket(), &depot);
    let machine = Env::memory();
    let tiered = Tiered::open(&depot, &machine, broker.socket(), 1);
    for round in 0..4 {
        tiered.load(round);
        tiered.db.wait_for_bucket(WITHIN).unwrap();
        tiered.db.compact_range(None, None).unwrap();
    }
    tiered.check(3);
    assert!(tiered.db.metrics().merges_away > 3, "{:?}", tiered.db.metrics());
    tiered.db.wait_for_bucket(WITHIN).unwrap();
    assert_eq!(notes(&machine), 0, "the bucket knows");
    // They come here behind that, and nothing stays that does not count.
    until("copies", || tables_in(&machine) == tables_of(&tiered.db));
    tiered.check(3);
    tiered.db.close().unwrap();
    let elsewhere = Tiered::open(&depot, &Env::memory(), broker.socket(), 2);
    elsewhere.check(3);
}

/// Merges begin while their inputs are on their way to the bucket: they wait for them, and come home only if that takes long.
#[test]
fn jobs_wait_for_their_inputs() {
    let (depot, broker) = (Depot::new(), start_broker(1, None));
    let _worker = start_worker("w", 1, broker.socket(), &depot);
    let tiered = Tiered::open(&depot, &Env::memory(), broker.socket(), 1);
    depot.bucket.slow_uploads(Duration::from_millis(200));
    // So few that level 0 never holds writers back, where jobs wait for nothing.
    let keys = KEYS / 5;
    for round in 0..4 {
        tiered.load_first(keys, round);
        tiered.db.compact_range(None, None).unwrap();
    }
    for number in 0..keys {
        let value = format!("{number} of round 3").into_bytes();
        assert_eq!(tiered.db.get(key(number)).unwrap(), Some(value));
    }
    let metrics = tiered.db.metrics();
    assert!(metrics.merges_away > 2 && metrics.merges_come_home == 0, "{metrics:?}");
}

/// The bucket's log of versions is out of reach while workers merge, and then the process dies: only the folder knows what
/// they have made.
#[test]
fn a_crash_before_the_commit_loses_no_workers_table() {
    let (depot, broker) = (Depot::new(), start_broker(1, None));
    let _worker = start_worker("w", 1, broker.socket(), &depot);
    let machine = Env::memory();
    let tiered = Tiered::open(&depot, &machine, broker.socket(), 1);
    tiered.load(0);
    tiered.db.wait_for_bucket(WITHIN).unwrap();
    depot.bucket.refuse_versions(true);
    for round in 1..4 {
        tiered.load(round);
        let away = tiered.db.metrics().merges_away;
        let end = std::time::Instant::now() + WITHIN;
        // Inputs have to be in the bucket before they are given away.
        while tiered.db.metrics().merges_away == away && std::time::Instant::now() < end {
            tiered.db.compact_range(None, None).unwrap();
            tiered.load(round);
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    assert!(notes(&machine) > 0);
    drop(tiered);
    depot.bucket.refuse_versions(false);
    let tiered = Tiered::open(&depot, &machine, broker.socket(), 2);
    tiered.check(3);
    tiered.db.wait_for_bucket(WITHIN).unwrap();
    tiered.db.close().unwrap();
    assert_eq!(notes(&machine), 0);
    Tiered::open(&depot, &Env::memory(), broker.socket(), 3).check(3);
}

fn records(depot: &Depot) -> usize {
    let prefix = format!("{}away/", depot.root.as_str());
    depot.bucket.list(&prefix, "", Call::new(Purpose::Tool)).unwrap().len()
}

/// Where the next opening is, and whether it finds the broker that the last one had.
#[derive(Clone, Copy, Debug)]
enum Heir {
    Here,
    Elsewhere,
    WithAnotherBroker,
}

/// The first opening, of two rounds. There is no worker yet.
fn open_with_a_job_that_waits(depot: &Depot, machine: &Env, broker: &Broker) -> Tiered {
    let tiered = Tiered::open(depot, machine, broker.socket(), 1);
    (0..2).for_each(|round| tiered.load(round));
    tiered.db.wait_for_bucket(WITHIN).unwrap();
    until("a job waits, and is on record", || {
        broker.jobs().iter().any(|job| job.state == JobState::Waiting) && records(depot) > 0
    });
    tiered
}

/// A broker that has just started waits for workers that may hold tables of a job. Of this one there are none, and none is waited for.
#[test]
fn a_job_that_nobody_has_begun_goes_to_the_first_who_is_free() {
    let (depot, mut broker) = (Depot::new(), start_broker(1, None));
    let (machine, socket) = (Env::memory(), broker.socket());
    let tiered = open_with_a_job_that_waits(&depot, &machine, &broker);
    tiered.db.close().unwrap();
    broker.end().unwrap();
    // Ten minutes, if it waited.
    broker = start_broker_of(2, Some(socket), Duration::from_secs(300));
    let _worker = start_worker("w", 1, socket, &depot);
    let tiered = Tiered::open(&depot, &machine, socket, 2);
    tiered.db.wait_for_background().unwrap();
    tiered.check(1);
    assert!(broker.stats().done > 0, "{:?}", broker.stats());
}

/// What workers have begun for one opening of a database, the next one has, wherever it is.
#[test]
fn jobs_go_on_when_a_database_is_opened_anew() {
    for heir in [Heir::Here, Heir::Elsewhere, Heir::WithAnotherBroker] {
        let (depot, mut broker) = (Depot::new(), start_broker(1, None));
        let (machine, socket) = (Env::memory(), broker.socket());
        let tiered = open_with_a_job_that_waits(&depot, &machine, &broker);
        depot.bucket.set_pause(Duration::from_millis(100));
        let _worker = start_worker("w", 1, socket, &depot);
        until("a job is half done", || broker.jobs().iter().any(|job| job.outputs > 0));
        tiered.db.close().unwrap();
        if let Heir::WithAnotherBroker = heir {
            broker.end().unwrap();
            broker = start_broker(2, Some(socket));
        }
        depot.bucket.set_pause(Duration::ZERO);
        let machine = if let Heir::Elsewhere = heir { Env::memory() } else { machine };
        let tiered = Tiered::open(&depot, &machine, socket, 2);
        tiered.db.wait_for_background().unwrap();
        tiered.db.wait_for_bucket(WITHIN).unwrap();
        tiered.check(1);
        let (metrics, stats) = (tiered.db.metrics(), broker.stats());
        assert_eq!(metrics.merges_come_home, 0, "{heir:?}");
        // The first opening has installed none.
        match heir {
            Heir::Here | Heir::Elsewhere => {
                assert_eq!(stats.submitted, metrics.merges_away, "{heir:?}: one of them twice");
            }
            Heir::WithAnotherBroker => assert_eq!(stats.adopted, 1, "{stats:?}"),
        }
        until("records of jobs that are over are gone", || records(&depot) == 0);
        tiered.db.close().unwrap();
        Tiered::open(&depot, &Env::memory(), socket, 3).check(1);
        drop(broker);
    }
}

/// While versions are refused copies are made of nothing but what somebody reads.
/// So little is written that level 0 never holds writers back, whose merges bring nothing near.
fn merge_with_versions_refused(depot: &Depot, tiered: &Tiered) {
    tiered.db.wait_for_bucket(WITHIN).unwrap();
    depot.bucket.refuse_versions(true);
    let away = tiered.db.metrics().merges_away;
    tiered.load_first(KEYS / 5, 1);
    tiered.db.compact_range(None, None).unwrap();
    assert!(tiered.db.metrics().merges_away > away);
}

#[test]
fn a_workers_table_that_is_read_is_copied_at_once() {
    let (depot, broker) = (Depot::new(), start_broker(1, None));
    let _worker = start_worker("w", 1, broker.socket(), &depot);
    let machine = Env::memory();
    let tiered = Tiered::open(&depot, &machine, broker.socket(), 1);
    tiered.load(0);
    merge_with_versions_refused(&depot, &tiered);
    let (all, here) = (tables_of(&tiered.db), tables_in(&machine));
    assert!(all.iter().any(|table| !here.contains(table)), "nobody has read them");
    tiered.check_after(1);
    until("copies of all", || {
        let here = tables_in(&machine);
        tables_of(&tiered.db).iter().all(|table| here.contains(table))
    });
}

#[test]
fn what_was_read_is_here_when_a_worker_has_merged_it() {
    let (depot, broker) = (Depot::new(), start_broker(1, None));
    let _worker = start_worker("w", 1, broker.socket(), &depot);
    let machine = Env::memory();
    let tiered = Tiered::open(&depot, &machine, broker.socket(), 1);
    tiered.load(0);
    tiered.check(0);
    merge_with_versions_refused(&depot, &tiered);
    let here = tables_in(&machine);
    let all = tables_of(&tiered.db);
    assert!(all.iter().all(|table| here.contains(table)), "{all:?} {here:?}");
    tiered.check_after(1);
}
