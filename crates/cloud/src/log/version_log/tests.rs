//! Owners one after another and at once, on a bucket that loses requests and answers.

use std::sync::Mutex;

use super::*;
use crate::bucket::{Bucket, Call};
use crate::collect::{CollectOptions, Collector};
use crate::fickle::{Fate, edit, numbers, open, table, world};
use crate::names::{Attempt, PinName};
use crate::pins::pin::create_checkpoint;

const HOUR: Duration = Duration::from_secs(3600);

fn kind<T>(outcome: Result<T, Error>) -> ErrorKind {
    outcome.err().unwrap().kind()
}

#[test]
fn what_was_committed_is_found() {
    let (_, home) = world();
    let mut log = open(&home, 1);
    log.commit(edit(&log, &[4, 5], &[])).unwrap();
    log.commit(edit(&log, &[6], &[4])).unwrap();
    log.snapshot(vec![Bytes::from_static(b"all")]).unwrap();
    log.commit(edit(&log, &[7], &[])).unwrap();
    assert_eq!(numbers(&home), [5, 6, 7]);
    let (log, replay) = VersionLog::open(&home, &Opening::new(Token(2))).unwrap();
    assert_eq!((log.epoch(), replay.state.version()), (Epoch(2), VersionNumber(6)));
    assert_eq!(replay.payloads, [&b"all"[..], b"edit"]);
}

#[test]
fn an_answer_that_got_lost_is_read_from_the_log() {
    for part in ["/v/", "owner"] {
        for fate in [Fate::AnswerLost, Fate::RequestLost, Fate::Unavailable, Fate::Late] {
            let (bucket, home) = world();
            bucket.next(part, fate);
            bucket.next(part, fate);
            let mut log = open(&home, 1);
            bucket.next("/v/", fate);
            assert_eq!(log.commit(edit(&log, &[4], &[])).unwrap(), VersionNumber(2), "{fate:?}");
            bucket.land();
            assert_eq!(log.commit(edit(&log, &[5], &[])).unwrap(), VersionNumber(3));
            assert_eq!(numbers(&home), [4, 5]);
        }
    }
}

#[test]
fn nothing_else_is_put_while_a_commit_is_undecided() {
    let (bucket, home) = world();
    let mut log = open(&home.clone().with_patience(patience()), 1);
    (0..9).for_each(|_| bucket.next("/v/", Fate::Late));
    assert_eq!(kind(log.commit(edit(&log, &[4], &[]))), ErrorKind::Undecided);
    assert_eq!(kind(log.commit(edit(&log, &[5], &[]))), ErrorKind::Undecided);
    bucket.land();
    assert_eq!(log.settle().unwrap(), Some(VersionNumber(2)));
    assert_eq!(log.settle().unwrap(), None);
    assert_eq!(numbers(&home), [4]);
}

#[test]
fn a_commit_that_was_certainly_not_done_is_forgotten() {
    let (bucket, home) = world();
    let mut log = open(&home.clone().with_patience(patience()), 1);
    (0..9).for_each(|_| bucket.next("/v/", Fate::Unavailable));
    assert_eq!(kind(log.commit(edit(&log, &[4], &[]))), ErrorKind::Unavailable);
    assert_eq!(log.settle().unwrap(), None);
    log.commit(edit(&log, &[5], &[])).unwrap();
    assert_eq!(numbers(&home), [5]);
}

/// A minute of pauses that grow from one second: seven tries.
fn patience() -> crate::home::Patience {
    crate::home::Patience { total: Duration::from_secs(60), pause: Duration::from_secs(1) }
}

#[test]
fn who_was_owner_before_is_fenced_for_good() {
    let (_, home) = world();
    let mut old = open(&home, 1);
    old.commit(edit(&old, &[4], &[])).unwrap();
    let mut new = open(&home, 2);
    assert_eq!(kind(old.commit(edit(&old, &[5], &[]))), ErrorKind::Fenced);
    assert_eq!(kind(old.commit(edit(&old, &[6], &[]))), ErrorKind::Fenced);
    new.commit(edit(&new, &[5], &[])).unwrap();
    assert_eq!(numbers(&home), [4, 5]);
}

/// The last commit of the owner before comes after the new owner has looked, and before he has put his record.
#[test]
fn commits_that_slip_in_are_part_of_what_is_taken_over() {
    let (bucket, home) = world();
    let mut old = open(&home.clone().with_patience(patience()), 1);
    (0..9).for_each(|_| bucket.next("/v/", Fate::Late));
    assert_eq!(kind(old.commit(edit(&old, &[4], &[]))), ErrorKind::Undecided);
    let newest = replay::newest(&home, Purpose::Manifest).unwrap();
    bucket.land();
    assert_eq!(newest.unwrap().version, VersionNumber(1));
    let new = open(&home, 2);
    assert_eq!(new.state().version(), VersionNumber(3));
    assert_eq!(old.settle().unwrap(), Some(VersionNumber(2)), "it was in time");
    assert_eq!(numbers(&home), [4]);
}

/// SlateDB's #1622: a writer sleeps through a takeover and the removal of its record, and its next number is free again.
#[test]
fn a_gap_that_a_collector_made_is_no_place_to_commit() {
    let (bucket, home) = world();
    let mut old = open(&home, 1);
    old.commit(edit(&old, &[4], &[])).unwrap();
    let mut new = open(&home, 2);
    new.commit(edit(&new, &[5], &[])).unwrap();
    new.snapshot(Vec::new()).unwrap();
    siltstone::Clock::sleep(&*bucket, HOUR * 2);
    new.commit(edit(&new, &[6], &[])).unwrap();
    Collector::new(&home, CollectOptions::default()).collect(Token(9)).unwrap();
    assert!(!bucket.names().contains(&home.object(&Name::Version(VersionNumber(3)))));
    assert_eq!(kind(old.commit(edit(&old, &[5], &[]))), ErrorKind::Fenced);
    assert_eq!(numbers(&home), [4, 5, 6], "what he has put there is nobody's");
    new.commit(edit(&new, &[7], &[])).unwrap();
}

#[test]
fn tables_that_were_given_up_cannot_be_added() {
    let (_, home) = world();
    let mut log = open(&home, 1);
    log.keep_open(10, Vec::new()).unwrap();
    log.commit(edit(&log, &[4], &[])).unwrap();
    assert_eq!(kind(log.commit(edit(&log, &[5], &[]))), ErrorKind::Misuse);
    assert_eq!(kind(log.keep_open(9, Vec::new())), ErrorKind::Misuse);
    assert_eq!(kind(log.keep_open(12, vec![log.job_id(12)])), ErrorKind::Misuse);
    log.commit(edit(&log, &[10], &[4])).unwrap();
    assert_eq!(kind(log.commit(edit(&log, &[11], &[4]))), ErrorKind::Misuse);
}

#[test]
fn jobs_go_on_under_a_new_owner() {
    let (_, home) = world();
    let mut old = open(&home, 1);
    let (dead, alive) = (old.job_id(3), old.job_id(8));
    old.keep_open(5, Vec::new()).unwrap();
    old.commit(edit(&old, &[6], &[])).unwrap();
    let mut new = open(&home, 2);
    assert!(new.state().is_alive(alive) && !new.state().is_alive(dead));
    assert_eq!(kind(new.keep_open(9, vec![dead])), ErrorKind::Misuse);
    new.keep_open(9, vec![alive]).unwrap();
    new.commit(Edit::default()).unwrap();
    assert!(!new.state().may_name(old.table_id(7)));
    let id = TableId::Worked { job: alive, attempt: Attempt { term: 1, count: 1 }, ordinal: 0 };
    let table = crate::table::upload(&home, id, &Bytes::new(), Purpose::CompactOut).unwrap();
    new.commit(Edit { added: vec![(9, table)], ..Edit::default() }).unwrap();
    assert_eq!(numbers(&home), [6, 9]);
}

#[test]
fn a_database_goes_back_to_a_checkpoint() {
    let (_, home) = world();
    let mut log = open(&home, 1);
    let version = log.commit(edit(&log, &[4], &[])).unwrap();
    let name = PinName::new("before").unwrap();
    let (token, life) = (Token(7), Duration::ZERO);
    let pin = Pin { name, token, version, life, note: String::new() };
    create_checkpoint(&home, &pin).unwrap();
    log.commit(edit(&log, &[5], &[4])).unwrap();
    let opening = Opening { rewind: Some(pin), ..Opening::new(Token(2)) };
    let (_, replay) = VersionLog::open(&home, &opening).unwrap();
    assert_eq!(replay.payloads, [&b"edit"[..]]);
    assert_eq!(numbers(&home), [4]);
    assert_eq!(kind(log.commit(edit(&log, &[6], &[]))), ErrorKind::Fenced);
}

#[test]
fn who_follows_waits_for_the_lease() {
    let (bucket, home) = world();
    let lease = Duration::from_secs(10);
    let opening = Opening { lease, ..Opening::new(Token(1)) };
    let (log, _) = VersionLog::open(&home, &opening).unwrap();
    let mut proof = log.lease();
    assert!(proof.is_proved());
    siltstone::Clock::sleep(&*bucket, lease);
    assert!(!proof.is_proved() && proof.due_in().is_zero());
    proof.prove().unwrap();
    assert!(proof.is_proved());
    let before = home.now();
    drop(open(&home, 2));
    assert!(home.now() >= before + lease);
    assert!(!proof.is_proved());
    assert_eq!(kind(proof.prove()), ErrorKind::Fenced);
}

#[test]
fn damage_in_the_log_is_told() {
    let (bucket, home) = world();
    let mut log = open(&home, 1);
    log.commit(edit(&log, &[4], &[])).unwrap();
    let (first, second) = (home.object(&Name::Version(VersionNumber(1))), VersionNumber(2));
    let call = Call::new(Purpose::Tool);
    let body = bucket.memory.get(&first, crate::bucket::Part::Whole, call).unwrap().body;
    bucket.memory.put(&home.object(&Name::Version(second)), body, Condition::Always, call).unwrap();
    assert_eq!(kind(replay::read_newest(&home)), ErrorKind::Damaged, "a record under a wrong name");
    bucket.memory.delete(&[first], call).unwrap();
    assert_eq!(kind(VersionLog::open(&home, &Opening::new(Token(2)))), ErrorKind::Damaged);
}

#[test]
fn two_copies_of_a_process_do_not_both_commit() {
    let (_, home) = world();
    let mut log = open(&home, 1);
    let mut copy = VersionLog {
        home: home.clone(),
        owner: log.owner.clone(),
        snapshot_every: 64,
        state: log.state.clone(),
        spans: log.spans.clone(),
        held: Vec::new(),
        pending: None,
        fenced: None,
        claimed: Duration::ZERO,
        announce: None,
    };
    let announced = Arc::new(Mutex::new(Vec::new()));
    for log in [&mut log, &mut copy] {
        let announced = Arc::clone(&announced);
        log.announce_to(Arc::new(move |version| announced.lock().unwrap().push(version)));
    }
    let version = log.commit(edit(&log, &[4], &[])).unwrap();
    let other = Edit { added: vec![table(&copy, 5)], ..Edit::default() };
    assert_eq!(kind(copy.commit(other)), ErrorKind::Fenced);
    assert_eq!(*announced.lock().unwrap(), [version], "what is not there is not announced");
}
