//! What is kept is used again, shows all that is there by then, and keeps nothing from going.
#![allow(clippy::disallowed_methods, reason = "tests start threads as they please")]

use std::cmp::Ordering;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use super::*;
use crate::Env;
use crate::base::comparator::Comparator;
use crate::base::error::Result;
use crate::db::handle::Db;
use crate::db::options::{Background, Options};
use crate::db::read::iterator::DbIterator;

fn open() -> Db {
    let options = Options {
        create_if_missing: true,
        env: Env::memory(),
        write_buffer_size: 64 << 10,
        ..Options::default()
    };
    Db::open("db", options).expect("it is made anew")
}

/// Where what this thread's last iterator has left lies.
fn kept(db: &Db) -> Option<*const Scan> {
    db.core().kept_scans.place().lock().as_deref().map(std::ptr::from_ref)
}

fn keys(db: &Db, options: &ReadOptions) -> Result<Vec<Vec<u8>>> {
    let entries = db.iter_with(options)?.entries()?;
    entries.map(|entry| entry.map(|(key, _)| key)).collect()
}

#[test]
fn the_next_iterator_has_what_the_last_one_left() {
    let db = open();
    let all = ReadOptions::default();
    db.put("a", "1").unwrap();
    assert!(kept(&db).is_none());
    assert_eq!(keys(&db, &all).unwrap(), [b"a"]);
    let first = kept(&db);
    assert!(first.is_some());
    db.put("b", "2").unwrap();
    let snapshot = db.snapshot();
    db.put("c", "3").unwrap();
    assert_eq!(keys(&db, &all).unwrap(), [b"a", b"b", b"c"]);
    assert_eq!(kept(&db), first);
    let then = ReadOptions { snapshot: Some(snapshot), ..ReadOptions::default() };
    assert_eq!(keys(&db, &then).unwrap(), [b"a", b"b"]);
    assert_eq!(kept(&db), first);
    // Two at a time: one is made anew, and one of both is kept.
    let (one, other) = (db.iter().unwrap(), db.iter().unwrap());
    assert!(kept(&db).is_none() && !one.valid() && !other.valid());
    drop(other);
    let second = kept(&db);
    assert!(second.is_some() && second != first);
    drop(one);
    assert_eq!(kept(&db), second);
}

#[test]
fn it_is_of_no_use_to_who_asks_for_something_else() {
    let db = open();
    db.put("a", "1").unwrap();
    keys(&db, &ReadOptions::default()).unwrap();
    let asks = ReadOptions { fill_cache: false, ..ReadOptions::default() };
    assert_eq!(keys(&db, &asks).unwrap(), [b"a"]);
    let kept = db.core().kept_scans.place().lock().as_ref().map(|scan| scan.asked());
    assert!(kept == Some(Asked::of(&asks)));
}

#[test]
fn it_goes_with_its_view() {
    let db = open();
    let all = ReadOptions::default();
    db.put("a", "1").unwrap();
    keys(&db, &all).unwrap();
    let mut early = db.iter().unwrap();
    db.flush().unwrap();
    assert!(kept(&db).is_none(), "it is in use");
    early.seek_to_first().unwrap();
    assert_eq!(early.key(), b"a");
    drop(early);
    assert!(kept(&db).is_none(), "it is of an earlier view");
    assert_eq!(keys(&db, &all).unwrap(), [b"a"]);
    assert!(kept(&db).is_some());
    db.put("b", "2").unwrap();
    db.flush().unwrap();
    assert!(kept(&db).is_none(), "whoever has published has emptied its place");
    assert_eq!(keys(&db, &all).unwrap(), [b"a", b"b"]);
}

#[test]
fn it_keeps_no_database_open() {
    let db = open();
    db.put("a", "1").unwrap();
    keys(&db, &ReadOptions::default()).unwrap();
    assert!(kept(&db).is_some());
    let core = Arc::downgrade(db.core());
    drop(db);
    assert!(core.upgrade().is_none());
}

/// The order of bytes, told so many times more.
#[derive(Clone)]
struct Patience(Arc<AtomicU64>);

impl Comparator for Patience {
    fn name(&self) -> &str {
        "patience"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let left = self.0.load(SeqCst);
        assert!(left > 0, "it has lost its patience");
        self.0.store(left - 1, SeqCst);
        a.cmp(b)
    }
}

/// Here and there, in either direction.
fn wander(iter: &mut DbIterator) -> Result<()> {
    iter.seek("035")?;
    (0..8).try_for_each(|_| iter.next())?;
    (0..12).try_for_each(|_| iter.prev())?;
    iter.next()?;
    iter.seek_to_last()?;
    (0..3).try_for_each(|_| iter.prev())?;
    iter.seek_to_first()?;
    iter.next()
}

/// As the C library catches it: its iterator lives on, and ends in peace.
#[test]
fn what_a_panic_has_left_is_put_in_order() {
    const KEYS: u32 = 100;
    let patience = Patience(Arc::new(AtomicU64::new(u64::MAX)));
    let db = Db::open(
        "db",
        Options {
            create_if_missing: true,
            env: Env::memory(),
            background: Background::ByHand,
            comparator: Some(Arc::new(patience.clone())),
            ..Options::default()
        },
    )
    .unwrap();
    // Each third key in a table, in another, and in memory.
    for third in 0..3 {
        for nth in (0..KEYS).filter(|nth| nth % 3 == third) {
            db.put(format!("{nth:03}"), "value").unwrap();
        }
        if third < 2 {
            db.flush().unwrap();
        }
    }
    let all: Vec<_> = (0..KEYS).map(|nth| format!("{nth:03}").into_bytes()).collect();
    let mut panics = 0;
    loop {
        let mut iter = db.iter().unwrap();
        patience.0.store(panics, SeqCst);
        let wandered = catch_unwind(AssertUnwindSafe(|| wander(&mut iter)));
        patience.0.store(u64::MAX, SeqCst);
        drop(iter);
        assert!(kept(&db).is_some());
        assert_eq!(keys(&db, &ReadOptions::default()).unwrap(), all, "after {panics} comparisons");
        let Err(_) = wandered else { break };
        panics += 1;
    }
    assert!(panics > 50, "{panics}");
}

/// A writer whose memtables follow each other, and scans of two threads: each finds all that was there before it began.
#[test]
fn scans_beside_a_writer_miss_nothing() {
    const KEYS: u64 = 6_000;
    let (db, done) = (open(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(SeqCst) {
                    let before = db.core().view.visible().0;
                    // The n-th write is of the n-th key.
                    let seen = db.iter().and_then(|mut iter| {
                        iter.seek(before.saturating_sub(20).to_be_bytes())?;
                        let mut seen = 0;
                        while iter.valid() {
                            seen = u64::from_be_bytes(iter.key().try_into().unwrap());
                            iter.next()?;
                        }
                        Ok(seen)
                    });
                    assert!(seen.unwrap() >= before);
                }
            });
        }
        for n in 1..=KEYS {
            db.put(n.to_be_bytes(), [0; 100]).unwrap();
        }
        done.store(true, SeqCst);
    });
}
