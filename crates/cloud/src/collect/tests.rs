//! The collector, with leases, pins, replicas and clones that want to keep something from it.

use super::*;
use crate::fickle::{Fate, Fickle, edit, numbers, open, table, world};
use crate::log::version_log::{Edit, Opening, VersionLog};
use crate::names::{Attempt, Name, PinName, TableId};
use crate::pins::clone::{clone_database, detach, let_go};
use crate::pins::follow::{Follower, Following};
use crate::pins::lease::{ReaderLease, Renewal};
use crate::pins::pin::{Pin, create_checkpoint, list_pins, remove_pin};
use crate::{Bucket, Call, Condition, Root};
use bytes::Bytes;
use siltstone::Clock;

const HOUR: Duration = Duration::from_secs(3600);

fn collect(home: &Home) -> Vec<(Reason, String)> {
    let options = CollectOptions { reconcile: true, ..CollectOptions::default() };
    let removed = Collector::new(home, options).collect(Token(77)).unwrap().removed;
    let short = |name: &str| name.rsplit('/').next().unwrap().trim_start_matches('0').to_owned();
    removed.iter().map(|doomed| (doomed.reason, short(&doomed.name))).collect()
}

fn tables(bucket: &Fickle, root: &str) -> Vec<String> {
    let names = bucket.names();
    let tables = names.iter().filter_map(|name| name.strip_prefix(root)?.strip_prefix("/s/"));
    let mut tables: Vec<_> = tables.map(|name| name[3..].trim_end_matches(".ldb").into()).collect();
    tables.sort();
    tables
}

fn pin(name: &str, token: u128, version: VersionNumber) -> Pin {
    let (name, token, life) = (PinName::new(name).unwrap(), Token(token), Duration::ZERO);
    Pin { name, token, version, life, note: String::new() }
}

#[test]
fn what_was_dropped_goes_once_it_is_old() {
    let (bucket, home) = world();
    let mut log = open(&home, 1);
    log.commit(edit(&log, &[4, 5], &[])).unwrap();
    log.commit(edit(&log, &[6], &[4])).unwrap();
    log.snapshot(Vec::new()).unwrap();
    assert_eq!(collect(&home), [], "too young");
    bucket.sleep(HOUR);
    let dry = CollectOptions { dry_run: true, ..CollectOptions::default() };
    let dry = Collector::new(&home, dry).collect(Token(5)).unwrap();
    let names = tables(&bucket, "db");
    let removed = collect(&home);
    assert_eq!((dry.removed.len(), names.len()), (removed.len(), 3), "a dry run removes nothing");
    let old = |number: &str| (Reason::OldRecord, number.to_owned());
    let dropped = (Reason::Dropped, "e1-4.ldb".to_owned());
    assert_eq!(removed, [dropped, old("1"), old("2"), old("3")]);
    assert_eq!(numbers(&home), [5, 6]);
    assert_eq!(collect(&home), []);
}

#[test]
fn one_collector_asks_for_nothing_twice() {
    let (bucket, home) = world();
    let mut log = open(&home, 1);
    let mut collector = Collector::new(&home, CollectOptions::default());
    let mut removed = Vec::new();
    for round in 0..40 {
        log.commit(edit(&log, &[10 + round], &[])).unwrap();
        log.commit(Edit { removed: vec![10 + round], ..Edit::default() }).unwrap();
        bucket.sleep(HOUR / 3);
        if log.is_snapshot_due() {
            log.snapshot(Vec::new()).unwrap();
        }
        let tables = collector.collect(Token(5)).unwrap().removed.into_iter();
        removed.extend(tables.filter(|doomed| doomed.reason == Reason::Dropped));
    }
    let count = removed.len();
    removed.sort();
    removed.dedup();
    assert_eq!(removed.len(), count);
    assert_eq!(tables(&bucket, "db").len() + count, 40);
    assert!(count > 30 && bucket.names().len() < 100);
}

#[test]
fn orphans_go_once_nobody_can_name_them() {
    let (bucket, home) = world();
    let mut log = open(&home, 1);
    table(&log, 4);
    let coming = table(&log, 7);
    let other =
        TableId::Worked { job: log.job_id(5), attempt: Attempt { term: 1, count: 1 }, ordinal: 0 };
    crate::upload(&home, other, &Bytes::new(), Purpose::CompactOut).unwrap();
    let spec = home.object(&Name::Job(log.job_id(5)));
    bucket.put(&spec, Bytes::new(), Condition::Always, Call::new(Purpose::Tool)).unwrap();
    bucket.sleep(HOUR * 50);
    assert_eq!(collect(&home), [], "the owner sleeps, and may name them tomorrow");
    log.keep_open(6, Vec::new()).unwrap();
    log.commit(Edit::default()).unwrap();
    let gone: BTreeSet<_> = collect(&home).into_iter().collect();
    let orphan = |name: &str| (Reason::Orphan, name.to_owned());
    let over = (Reason::JobOver, "1-5".to_owned());
    assert_eq!(gone, BTreeSet::from([orphan("e1-4.ldb"), orphan(".ldb"), over]));
    log.commit(Edit { added: vec![coming], ..Edit::default() }).unwrap();
    assert_eq!(tables(&bucket, "db"), ["e1-7"]);
}

#[test]
fn leases_and_checkpoints_keep_what_they_name() {
    let (bucket, home) = world();
    let mut log = open(&home, 1);
    let first = log.commit(edit(&log, &[4], &[])).unwrap();
    create_checkpoint(&home, &pin("first", 1, first)).unwrap();
    let taken = create_checkpoint(&home, &pin("first", 2, first)).unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::Exists);
    let second = log.commit(edit(&log, &[5], &[4])).unwrap();
    let mut lease = ReaderLease::new(&home, second, HOUR * 4, Token(3)).unwrap();
    log.commit(edit(&log, &[6], &[5])).unwrap();
    log.snapshot(Vec::new()).unwrap();
    for _ in 0..4 {
        bucket.sleep(HOUR * 2);
        collect(&home);
        assert_eq!(tables(&bucket, "db"), ["e1-4", "e1-5", "e1-6"]);
        assert_eq!(lease.renew(second, Token(4)).unwrap(), Renewal::InTime);
        assert_eq!(crate::read_version(&home, first).unwrap().state.tables().len(), 1);
    }
    bucket.sleep(HOUR * 5);
    assert!(!lease.is_alive());
    collect(&home);
    assert_eq!(tables(&bucket, "db"), ["e1-4", "e1-6"], "the lease has ended");
    assert_eq!(lease.renew(second, Token(5)).unwrap_err().kind(), ErrorKind::Gone);
    let late = create_checkpoint(&home, &pin("second", 6, second)).unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Gone);
    remove_pin(&home, &list_pins(&home).unwrap()[0]).unwrap();
    bucket.sleep(HOUR * 24);
    collect(&home);
    assert_eq!(tables(&bucket, "db"), ["e1-6"]);
    assert_eq!(bucket.names().len(), 5, "{:?}", bucket.names());
}

/// The simulation's first find. A record of a checkpoint came damaged from the way, was taken for a latecomer's, and so the
/// checkpoint for one that came too late: what it kept was removed.
#[test]
fn what_a_checkpoint_keeps_is_not_removed_because_it_cannot_be_read() {
    let (bucket, home) = world();
    let mut log = open(&home, 1);
    let first = log.commit(edit(&log, &[4], &[])).unwrap();
    create_checkpoint(&home, &pin("first", 1, first)).unwrap();
    log.commit(edit(&log, &[5], &[4])).unwrap();
    log.snapshot(Vec::new()).unwrap();
    bucket.sleep(HOUR * 2);
    log.commit(Edit::default()).unwrap();
    collect(&home);
    let record = home.object(&Name::Version(first));
    let collect = || Collector::new(&home, CollectOptions::default()).collect(Token(6));
    bucket.break_gets(&record, crate::Failure::Damaged);
    assert_eq!(collect().unwrap_err().kind(), ErrorKind::Damaged);
    bucket.mend_gets();
    let call = Call::new(Purpose::Tool);
    let whole = bucket.get(&record, crate::Part::Whole, call).unwrap().body;
    let cut = whole.slice(..whole.len() - 1);
    bucket.memory.put(&record, cut, Condition::Always, call).unwrap();
    assert_eq!(collect().unwrap_err().kind(), ErrorKind::Damaged, "nor because it is damaged");
    bucket.memory.put(&record, whole, Condition::Always, call).unwrap();
    collect().unwrap();
    assert_eq!(tables(&bucket, "db"), ["e1-4", "e1-5"]);
}

#[test]
fn a_lease_that_ended_for_nothing_is_made_again() {
    let (bucket, home) = world();
    let version = open(&home, 1).state().version();
    let mut lease = ReaderLease::new(&home, version, HOUR, Token(3)).unwrap();
    bucket.sleep(HOUR * 9);
    assert_eq!(lease.renew(version, Token(4)).unwrap(), Renewal::Again);
    assert!(lease.is_alive());
    assert_eq!(bucket.names().iter().filter(|name| name.contains("readers")).count(), 1);
    lease.release();
    assert!(!bucket.names().iter().any(|name| name.contains("readers")));
}

/// A collector has read the versions; then the database goes back to a checkpoint, which is removed.
#[test]
fn a_stale_collector_finds_the_new_owner() {
    let (bucket, home) = world();
    let mut log = open(&home, 1);
    let version = log.commit(edit(&log, &[4], &[])).unwrap();
    create_checkpoint(&home, &pin("a", 1, version)).unwrap();
    log.commit(edit(&log, &[5], &[4])).unwrap();
    log.commit(Edit::default()).unwrap();
    bucket.sleep(HOUR * 2);
    let mut stale = Collector::new(&home, CollectOptions::default());
    let owner = owner::look(&home, Purpose::Collect).unwrap().map(|(owner, _)| owner);
    stale.view.read(&home, Token(5)).unwrap();
    let past = stale.move_boundary(Token(5)).unwrap();
    let rewind = list_pins(&home).unwrap().pop();
    let opening = Opening { rewind, ..Opening::new(Token(2)) };
    let (_, _) = VersionLog::open(&home, &opening).unwrap();
    remove_pin(&home, &opening.rewind.unwrap()).unwrap();
    let reach = Reach::read(&home, &stale.view, past).unwrap();
    let doomed = stale.doomed(&reach, HOUR).unwrap();
    assert!(doomed.iter().any(|doomed| doomed.name.contains("e1-4")), "it would do harm");
    let stopped = sweep::remove(&home, owner.as_ref(), &doomed, 10).unwrap_err();
    assert_eq!(stopped.kind(), ErrorKind::Fenced);
    assert_eq!(tables(&bucket, "db"), ["e1-4", "e1-5"]);
}

#[test]
fn nothing_goes_during_a_takeover() {
    let (bucket, home) = world();
    drop(open(&home, 1));
    let patience = crate::Patience { total: Duration::ZERO, pause: Duration::ZERO };
    bucket.next("/v/", Fate::Unavailable);
    let home_2 = home.clone().with_patience(patience);
    assert!(VersionLog::open(&home_2, &Opening::new(Token(2))).is_err());
    let stopped = Collector::new(&home, CollectOptions::default()).collect(Token(9)).unwrap_err();
    assert_eq!(stopped.kind(), ErrorKind::Contended);
}

#[test]
fn clones_of_clones_share_and_stand_alone() {
    let (bucket, home) = world();
    let mut log = open(&home, 1);
    let version = log.commit(edit(&log, &[4, 5], &[])).unwrap();
    let child = home.at(Root::new("child").unwrap());
    clone_database(&home, &child, version, None, Token(10)).unwrap();
    clone_database(&home, &child, version, None, Token(10)).unwrap();
    assert_eq!(list_pins(&home).unwrap().len(), 1, "twice is once");
    let again = clone_database(&home, &child, version, None, Token(11)).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Exists);
    log.commit(edit(&log, &[6], &[4, 5])).unwrap();

    let mut child_log = open(&child, 2);
    let version = child_log.commit(edit(&child_log, &[7], &[4])).unwrap();
    let grandchild = home.at(Root::new("grandchild").unwrap());
    clone_database(&child, &grandchild, version, None, Token(20)).unwrap();
    assert_eq!(numbers(&grandchild), [5, 7]);
    detach(&mut child_log, Vec::new(), || 30).unwrap();
    let mut grand_log = open(&grandchild, 3);

    for (log, home) in [(&mut log, &home), (&mut child_log, &child), (&mut grand_log, &grandchild)]
    {
        log.keep_open(50, Vec::new()).unwrap();
        log.commit(Edit::default()).unwrap();
        bucket.sleep(HOUR * 3);
        collect(home);
    }
    assert_eq!(tables(&bucket, "db"), ["e1-4", "e1-5", "e1-6"], "the grandchild has a pin here");
    assert_eq!(tables(&bucket, "child"), ["e1-30", "e1-7"]);
    for table in grand_log.state().tables().values() {
        let name = crate::object_of(&grandchild, grand_log.state(), table);
        bucket.head(&name, Call::new(Purpose::Tool)).unwrap();
    }
    let ancestors = grand_log.state().ancestors().to_vec();
    assert_eq!(ancestors.len(), 2);
    let mut next = 60..;
    detach(&mut grand_log, Vec::new(), || next.next().unwrap()).unwrap();
    assert_eq!(list_pins(&home).unwrap(), []);
    let_go(&home, &ancestors).unwrap();
    assert_eq!(tables(&bucket, "grandchild"), ["e1-60", "e1-61"]);
    assert!(grand_log.state().ancestors().is_empty());
}

/// Found by the simulation: the first record of a clone was on its way, the call was made again, found the version past, and
/// took back the pin that had been put in time.
#[test]
fn a_clone_that_is_tried_again_keeps_its_pin() {
    let (bucket, home) = world();
    let mut log = open(&home, 1);
    let version = log.commit(edit(&log, &[4], &[])).unwrap();
    let child = home.at(Root::new("child").unwrap());
    (0..40).for_each(|_| bucket.next("child/v/", Fate::Late));
    let again = || clone_database(&home, &child, version, None, Token(10));
    assert_eq!(again().unwrap_err().kind(), ErrorKind::Undecided);
    log.commit(edit(&log, &[5], &[4])).unwrap();
    bucket.sleep(HOUR * 2);
    collect(&home);
    assert_eq!(again().unwrap_err().kind(), ErrorKind::Undecided);
    bucket.land();
    again().unwrap();
    collect(&home);
    assert_eq!(tables(&bucket, "db"), ["e1-4", "e1-5"]);
    assert_eq!(numbers(&child), [4]);
}

#[test]
fn a_replica_follows_and_rejoins() {
    let (bucket, home) = world();
    let mut log = open(&home, 1);
    let following = Following { lease: HOUR, ..Following::default() };
    let (mut follower, _) = Follower::start(&home, following, Token(4)).unwrap();
    assert!(follower.probe().unwrap().is_none());
    let idle = follower.pause();
    log.commit(edit(&log, &[4], &[])).unwrap();
    let upcoming = follower.probe().unwrap().unwrap();
    assert_eq!((upcoming.added.len(), upcoming.is_whole), (1, false));
    assert_eq!(follower.state().tables().len(), 0, "not before it says so");
    follower.switch(upcoming);
    assert!(follower.state().tables().contains_key(&4) && follower.pause() < idle);
    bucket.sleep(HOUR * 3);
    let here = follower.state().version();
    assert_eq!(follower.renew(here, Token(5)).unwrap(), Renewal::Again);
    log.snapshot(Vec::new()).unwrap();
    log.commit(edit(&log, &[5], &[4])).unwrap();
    bucket.sleep(HOUR * 3);
    collect(&home);
    assert_eq!(follower.renew(here, Token(6)).unwrap_err().kind(), ErrorKind::Gone);
    let (follower, replay) = Follower::start(&home, following, Token(7)).unwrap();
    assert!(replay.state.tables().contains_key(&5));
    follower.stop();
    assert!(!bucket.names().iter().any(|name| name.contains("readers")));
}
