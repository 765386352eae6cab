//! Whole databases whose log goes to the bucket. A machine that is lost is one that is never opened again.

use std::sync::Arc;
use std::time::Duration;

use siltstone::{Env, ErrorKind, Options, WriteOptions};

use super::restore::list;
use crate::bucket::Failure;
use crate::fickle::{Fate, Fickle};
use crate::home::{Home, Patience};
use crate::names::{Root, Token};
use crate::tiered::{CloudDb, CloudOptions, LogArchive};

const SYNC: WriteOptions = WriteOptions { sync: true };
const ALWAYS: LogArchive = LogArchive::BeforeAcknowledging { patience: Duration::from_secs(5) };
const SOON: LogArchive = LogArchive::Every(Duration::from_millis(5));

fn world() -> (Arc<Fickle>, Home) {
    let bucket = Arc::new(Fickle::default());
    let patience = Patience { total: Duration::from_millis(100), pause: Duration::from_millis(1) };
    let home = Home::new(bucket.clone(), Root::new("db").unwrap(), Env::memory().clock);
    (bucket, home.with_patience(patience))
}

fn open(home: &Home, machine: &Env, token: u128, log: LogArchive) -> CloudDb {
    let options = Options {
        create_if_missing: true,
        env: machine.clone(),
        info_log: false,
        write_buffer_size: 64 << 10,
        unclamped: true,
        ..Options::default()
    };
    let cloud = CloudOptions {
        log,
        token: Some(Token(token)),
        close_within: Duration::from_millis(200),
        ..CloudOptions::default()
    };
    CloudDb::open(home, "db", options, cloud).unwrap()
}

fn put(db: &CloudDb, number: u32) -> siltstone::Result<()> {
    db.put_with(number.to_be_bytes(), vec![number as u8; 100], SYNC)
}

/// How many of the first numbers are there; the rest must not be.
fn count(db: &CloudDb, of: u32) -> u32 {
    let there = |number: &u32| db.get(number.to_be_bytes()).unwrap().is_some();
    let count = (0..of).take_while(there).count() as u32;
    assert!(!(count..of).any(|number| there(&number)), "a prefix");
    count
}

fn wait_for_log(db: &CloudDb) {
    let until = std::time::Instant::now() + Duration::from_secs(10);
    while db.cloud_metrics().log_lag > 0 {
        assert!(std::time::Instant::now() < until);
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_was_acknowledged_is_in_the_bucket() {
    let (_, home) = world();
    let db = open(&home, &Env::memory(), 1, ALWAYS);
    for number in 0..3000 {
        put(&db, number).unwrap();
    }
    let metrics = db.cloud_metrics();
    assert!(metrics.log_pieces > 10 && metrics.log_lag == 0, "{metrics:?}");
    // The machine is lost; another one opens the database, and is lost in turn.
    let second = open(&home, &Env::memory(), 2, ALWAYS);
    assert_eq!(count(&second, 3000), 3000);
    (3000..3100).for_each(|number| put(&second, number).unwrap());
    let third = open(&home, &Env::memory(), 3, LogArchive::Off);
    assert_eq!(count(&third, 3100), 3100);
    third.close().unwrap();
}

/// The mark that goes ahead of a write behind a synced one leaves with that write, not before it.
#[test]
fn a_synced_put_is_one_piece() {
    let (_, home) = world();
    let db = open(&home, &Env::memory(), 1, ALWAYS);
    put(&db, 0).unwrap();
    let before = db.cloud_metrics().log_pieces;
    (1..=100).for_each(|number| put(&db, number).unwrap());
    let pieces = db.cloud_metrics().log_pieces - before;
    // More only if a put was kept from going on for a tenth of a second.
    assert!((100..120).contains(&pieces), "{pieces}");
}

#[test]
fn what_nobody_waits_for_gathers() {
    let (_, home) = world();
    let db = open(&home, &Env::memory(), 1, ALWAYS);
    put(&db, 0).unwrap();
    let (before, begin) = (db.cloud_metrics().log_pieces, std::time::Instant::now());
    (1..300_u32).for_each(|number| db.put(number.to_be_bytes(), [1]).unwrap());
    wait_for_log(&db);
    let pieces = u128::from(db.cloud_metrics().log_pieces - before);
    let took = begin.elapsed().as_millis();
    assert!((1..=2 + took / 100).contains(&pieces), "{pieces} in {took} ms");
    let elsewhere = open(&home, &Env::memory(), 2, LogArchive::Off);
    assert_eq!(elsewhere.get(299_u32.to_be_bytes()).unwrap().as_deref(), Some(&[1][..]));
}

/// A version makes a log needless while it gathers for its next piece: the logs behind it go on.
#[test]
fn what_becomes_needless_while_it_gathers_ends_nothing() {
    let (_, home) = world();
    let log = LogArchive::Every(Duration::from_millis(100));
    let db = open(&home, &Env::memory(), 1, log);
    for number in 0..5 {
        db.put([number], "in a table at once").unwrap();
        db.flush().unwrap();
        db.wait_for_bucket(Duration::from_secs(10)).unwrap();
        std::thread::sleep(Duration::from_millis(120));
    }
    db.put("last", "in the log").unwrap();
    wait_for_log(&db);
    let elsewhere = open(&home, &Env::memory(), 2, LogArchive::Off);
    assert_eq!(elsewhere.get("last").unwrap().as_deref(), Some(&b"in the log"[..]));
}

#[test]
fn who_was_overtaken_acknowledges_nothing_more() {
    let (_, home) = world();
    let first = open(&home, &Env::memory(), 1, ALWAYS);
    put(&first, 0).unwrap();
    let second = open(&home, &Env::memory(), 2, ALWAYS);
    let refused = put(&first, 1).unwrap_err();
    assert!(
        matches!(refused.kind(), ErrorKind::Fenced | ErrorKind::ReadOnly),
        "{:?} {refused}",
        refused.kind()
    );
    assert_eq!(put(&first, 2).unwrap_err().kind(), ErrorKind::Fenced);
    assert_eq!(count(&second, 3), 1);
}

#[test]
fn the_log_follows_soon_and_in_order() {
    let (bucket, home) = world();
    let machine = Env::memory();
    let db = open(&home, &machine, 1, SOON);
    for number in 0..2000_u32 {
        db.put(number.to_be_bytes(), vec![number as u8; 100]).unwrap();
        if number % 500 == 0 {
            bucket.next("wal/", Fate::AnswerLost);
            bucket.next("wal/", Fate::RequestLost);
        }
    }
    wait_for_log(&db);
    bucket.break_puts(Failure::Unavailable);
    (2000..2500_u32).for_each(|number| db.put(number.to_be_bytes(), [1]).unwrap());
    assert!(db.cloud_metrics().log_lag > 0);
    bucket.mend_puts();
    bucket.forget_fates();
    let elsewhere = open(&home, &Env::memory(), 2, SOON);
    let there = count(&elsewhere, 2500);
    assert!(there >= 2000, "{there}");
    drop(db);
}

#[test]
fn pieces_that_no_version_needs_are_removed() {
    let (_, home) = world();
    let db = open(&home, &Env::memory(), 1, SOON);
    for number in 0..20_000_u32 {
        db.put(number.to_be_bytes(), vec![7; 200]).unwrap();
    }
    db.flush().unwrap();
    db.close().unwrap();
    let left = list(&home).unwrap().len();
    assert!(left <= 3, "{left}");
    let again = open(&home, &Env::memory(), 2, LogArchive::Off);
    assert_eq!(count(&again, 20_000), 20_000);
}

/// The folder goes on: what is there need not be fetched, and nothing of it is mixed up with what comes.
#[test]
fn a_folder_that_goes_on_keeps_the_order() {
    let (bucket, home) = world();
    let machine = Env::memory();
    let mut wanted = 0;
    for token in 1..6 {
        let db = open(&home, &machine, token, SOON);
        assert_eq!(count(&db, 10_000), wanted);
        for number in wanted..wanted + 300 {
            put(&db, number).unwrap();
        }
        wanted += 300;
        if token % 2 == 1 {
            wait_for_log(&db);
        } else {
            bucket.break_puts(Failure::Unavailable);
            (wanted..wanted + 100).for_each(|number| put(&db, number).unwrap());
            wanted += 100;
        }
        drop(db);
        bucket.mend_puts();
    }
    let db = open(&home, &Env::memory(), 99, LogArchive::Off);
    assert_eq!(count(&db, wanted), wanted);
}

#[test]
fn a_bucket_that_takes_nothing_is_told_in_time() {
    let (bucket, home) = world();
    let log = LogArchive::BeforeAcknowledging { patience: Duration::from_millis(300) };
    let db = open(&home, &Env::memory(), 1, log);
    put(&db, 0).unwrap();
    bucket.break_puts(Failure::Unavailable);
    let refused = put(&db, 1).unwrap_err();
    assert!(refused.to_string().contains("has not taken the log"), "{refused}");
    bucket.mend_puts();
}

/// What was put without an answer is not put again as something else, though there is more by then.
#[test]
fn a_piece_of_which_nobody_knows_is_asked_about_first() {
    let (bucket, home) = world();
    let db = open(&home, &Env::memory(), 1, SOON);
    db.put("first", "1").unwrap();
    wait_for_log(&db);
    bucket.break_gets("wal/", Failure::Unavailable);
    bucket.next("wal/", Fate::AnswerLost);
    db.put("second", "2").unwrap();
    let until = std::time::Instant::now() + Duration::from_secs(10);
    while db.cloud_metrics().failures == 0 {
        assert!(std::time::Instant::now() < until);
        db.put("more", "3").unwrap();
    }
    db.put("last", "4").unwrap();
    bucket.mend_gets();
    wait_for_log(&db);
    db.put("later", "5").unwrap();
    wait_for_log(&db);
    let elsewhere = open(&home, &Env::memory(), 2, LogArchive::Off);
    for key in ["first", "second", "more", "last", "later"] {
        assert!(elsewhere.get(key).unwrap().is_some(), "{key}");
    }
}
