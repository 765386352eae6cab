//! Databases that have their merges done by workers over gRPC on the loopback interface, on a bucket in memory: whatever
//! happens to workers, wires and brokers, they hold what a database holds that merges by itself.
#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

mod depot;
mod liars;
mod news;
mod stage;
mod tiered;

use std::time::{Duration, Instant};

use siltstone::{Compaction, Metrics};
use siltstone_cloud::{Epoch, Name, TableId};
use siltstone_fleet::FleetConfig;
use siltstone_remote::loopback::Wire;
use siltstone_remote::{FailureCode, JobState, Patience, Policy};

use depot::Depot;
use stage::{Database, LEASE, config, cut, remote_only, start_broker, start_worker, until};

#[test]
fn workers_merge_and_the_database_has_their_tables() {
    for (workers, compaction) in [(1, Compaction::Leveled), (2, Compaction::Sliced)] {
        let (depot, broker) = (Depot::new(), start_broker(1, None));
        let _workers: Vec<_> = (0..workers)
            .map(|nth| start_worker(&format!("w{nth}"), nth, broker.socket(), &depot))
            .collect();
        let mut database =
            Database::open_with(&depot, broker.socket(), (remote_only(&depot), compaction));
        database.write(15_000);
        database.rest();
        database.check();
        database.write(3_000);
        database.db.compact_range(None, None).unwrap();
        database.check();
        let metrics = database.db.metrics();
        assert!(metrics.merges > 10 && metrics.merges_away == metrics.merges, "{metrics:?}");
        assert!(metrics.merges_come_home == 0 && metrics.background_errors == 0);
        let stats = broker.stats();
        println!("{stats:?}");
        assert_eq!((stats.failed, stats.rejected), (0, 0));
        assert!(stats.failures.is_empty() && stats.refusals.is_empty());
        // A collector knows whose they are.
        for object in depot.adopted() {
            let parsed = depot.root.parse(&object);
            let Some(Name::Table(TableId::Worked { job, attempt, .. })) = parsed else {
                panic!("{object} is {parsed:?}");
            };
            assert_eq!((job.epoch, attempt.term), (depot.epoch, 1));
        }
        assert_eq!(depot.open_jobs(), 0);
    }
}

#[test]
fn killed_paused_cut_off_and_doubled_workers_do_no_harm() {
    let (depot, broker) = (Depot::new(), start_broker(1, None));
    depot.bucket.set_pause(Duration::from_millis(3));
    let mut wire = Wire::to(broker.socket()).unwrap();
    let start = |name, seed| start_worker(name, seed, broker.socket(), &depot);
    // Two have one name, and one is at the end of a wire.
    let mut workers = vec![start("w", 1), start("w", 2), start("x", 3)];
    let _far = start_worker("far", 4, wire.socket(), &depot);
    let mut database = Database::open(&depot, broker.socket(), remote_only(&depot));
    for round in 0..9 {
        database.write(1_500);
        match round % 3 {
            0 => {
                workers.remove(0).kill();
                workers.push(start("w", 10 + round));
            }
            1 => workers[0].pause(LEASE * 2),
            _ => cut(&mut wire, LEASE + LEASE / 2),
        }
    }
    database.rest();
    database.check();
    let (stats, metrics) = (broker.stats(), database.db.metrics());
    println!("{stats:?}");
    assert!(metrics.merges > 10 && metrics.merges_away == metrics.merges, "{metrics:?}");
    assert!(stats.failures.contains_key(&FailureCode::LeaseExpired), "some were tried again");
    assert!(
        !stats.failures.contains_key(&FailureCode::InputMissing),
        "inputs stay while they live"
    );
    assert_eq!((stats.failed, stats.rejected), (0, 0));
}

#[test]
fn a_broker_that_starts_again_goes_on_with_what_runs() {
    let (depot, mut broker) = (Depot::new(), start_broker(1, None));
    depot.bucket.set_pause(Duration::from_millis(10));
    let _workers = [0, 1].map(|nth| start_worker(&format!("w{nth}"), nth, broker.socket(), &depot));
    let mut database = Database::open(&depot, broker.socket(), remote_only(&depot));
    let mut adopted = 0;
    for term in 2..5 {
        database.write(2_000);
        until("a job runs", || broker.stats().running > 0);
        let address = broker.end().unwrap();
        broker = start_broker(term, Some(address));
        database.write(2_000);
        database.rest();
        adopted += broker.stats().adopted;
    }
    database.check();
    println!("{adopted} running jobs adopted");
    assert!(adopted > 0);
    let metrics = database.db.metrics();
    assert!(metrics.merges_away == metrics.merges && metrics.merges_come_home == 0, "{metrics:?}");
}

#[test]
fn without_workers_all_is_merged_at_home() {
    let (depot, broker) = (Depot::new(), start_broker(1, None));
    let patience = Patience { wait: Duration::from_millis(50), failures: 2 };
    let impatient = FleetConfig { policy: Policy::PreferRemote(patience), ..config(&depot) };
    let mut database = Database::open(&depot, broker.socket(), impatient.clone());
    database.write(8_000);
    database.rest();
    database.check();
    let metrics = database.db.metrics();
    assert!(metrics.merges > 3 && metrics.merges_away == 0, "{metrics:?}");
    // Where level 0 pressed, some were not given away in the first place.
    assert!(metrics.merges_come_home > 0, "{metrics:?}");
    // A worker that comes later has work; without a broker there is none again.
    let worker = start_worker("late", 1, broker.socket(), &depot);
    until("the worker is there", || broker.stats().workers > 0);
    let mut merge_until = |what: &str, holds: &dyn Fn(&Metrics) -> bool| {
        let end = Instant::now() + Duration::from_secs(60);
        while !holds(&database.db.metrics()) {
            assert!(Instant::now() < end, "{what}: {:?}", database.db.metrics());
            database.write(2_000);
            database.rest();
        }
        database.db.metrics()
    };
    let before = merge_until("the worker merges", &|metrics| metrics.merges_away > 0);
    drop(worker);
    broker.end().unwrap();
    let comes_home = |metrics: &Metrics| metrics.merges_come_home > before.merges_come_home;
    let after = merge_until("merges come home", &comes_home);
    database.check();
    assert_eq!(after.background_errors, 0);
}

#[test]
fn closing_gives_up_what_is_away_and_a_new_opening_finds_its_tables() {
    let (depot, broker) = (Depot::new(), start_broker(1, None));
    // It is not done before the database has closed, however busy the machine is.
    depot.bucket.set_pause(Duration::from_secs(1));
    let _worker = start_worker("w", 1, broker.socket(), &depot);
    let mut database = Database::open(&depot, broker.socket(), remote_only(&depot));
    database.write(3_000);
    until("a job runs", || broker.stats().running > 0);
    assert!(depot.open_jobs() > 0);
    let again = FleetConfig { epoch: Epoch(depot.epoch.0 + 1), ..remote_only(&depot) };
    let mut database = database.reopen(&depot, broker.socket(), again);
    until("the job is cancelled", || broker.stats().cancelled > 0);
    depot.bucket.set_pause(Duration::ZERO);
    database.write(3_000);
    database.rest();
    database.check();
    assert!(database.db.metrics().merges_away > 0);
    until("no job is open", || depot.open_jobs() == 0);
}

/// A job that the next opening will find goes on; one whose record stays behind would go on for nobody.
#[test]
fn closing_leaves_a_job_only_if_it_will_be_found() {
    for are_found in [true, false] {
        let (depot, broker) = (Depot::new(), start_broker(1, None));
        depot.keep_records(are_found);
        let mut database = Database::open(&depot, broker.socket(), remote_only(&depot));
        database.write(3_000);
        until("a job waits", || broker.jobs().iter().any(|job| job.state == JobState::Waiting));
        let waits = broker.jobs().len();
        drop(database);
        if are_found {
            // Another one may have left meanwhile.
            assert!(broker.stats().cancelled == 0 && broker.jobs().len() >= waits);
        } else {
            until("all are cancelled", || broker.jobs().is_empty());
        }
    }
}
