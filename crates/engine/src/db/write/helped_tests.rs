//! While one who writes waits for its turn, what the other puts is there for every reader at once, whoever links it.
#![allow(clippy::disallowed_methods, reason = "tests start threads as they please")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread::{scope, yield_now};

use super::*;
use crate::Env;
use crate::db::handle::Db;
use crate::db::options::{Options, ReadOptions};
use crate::db::read::snapshot::Snapshot;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Memtables follow each other soon.
fn open() -> Db {
    let options = Options {
        create_if_missing: true,
        env: Env::memory(),
        write_buffer_size: 64 << 10,
        ..Options::default()
    };
    Db::open("db", options).unwrap()
}

fn key(n: u64) -> Vec<u8> {
    format!("key{:04}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54).into_bytes()
}

/// Forward and back.
fn check(db: &Db, snapshot: Option<Snapshot>, model: &Model) -> Result<()> {
    let mut iterator = db.iter_with(&ReadOptions { snapshot, ..ReadOptions::default() })?;
    iterator.seek_to_first()?;
    for (key, value) in model {
        assert_eq!(
            (iterator.valid(), iterator.key(), iterator.value()),
            (true, &key[..], &value[..])
        );
        iterator.next()?;
    }
    assert!(!iterator.valid());
    iterator.seek_to_last()?;
    for (key, value) in model.iter().rev() {
        assert_eq!(
            (iterator.valid(), iterator.key(), iterator.value()),
            (true, &key[..], &value[..])
        );
        iterator.prev()?;
    }
    assert!(!iterator.valid());
    Ok(())
}

fn count(db: &Db) -> Result<u64> {
    let (mut iterator, mut count) = (db.iter()?, 0);
    iterator.seek_to_first()?;
    while iterator.valid() {
        count += 1;
        iterator.next()?;
    }
    Ok(count)
}

#[test]
fn what_nobody_has_linked_is_read() {
    let (db, mut model) = (open(), Model::new());
    for n in 0..6_000_u64 {
        // Both ways of inserting, by turns, in each memtable.
        db.core().turns.pretend(n / 100 % 4 > 0);
        let (key, value) = (key(n), vec![n as u8; 100]);
        if n % 5 == 0 {
            db.delete(&key).unwrap();
            model.remove(&key);
        } else {
            db.put(&key, &value).unwrap();
            model.insert(key.clone(), value);
        }
        if n % 3 == 0 {
            assert_eq!(db.get(&key).unwrap(), model.get(&key).cloned());
        }
        if n % 700 == 650 {
            check(&db, None, &model).unwrap();
            let (snapshot, then) = (db.snapshot(), model.clone());
            for later in 0..20 {
                db.put(self::key(n + later), "later").unwrap();
                model.insert(self::key(n + later), b"later".to_vec());
            }
            check(&db, Some(snapshot), &then).unwrap();
        }
    }
    db.core().turns.pretend(true);
    db.put("last", "entry").unwrap();
    model.insert(b"last".to_vec(), b"entry".to_vec());
    db.flush().unwrap();
    check(&db, None, &model).unwrap();
}

#[test]
fn writers_find_their_own_beside_who_helps() {
    const WRITES: u64 = 4_000;
    let (db, left) = (open(), AtomicU64::new(2));
    let ends = AtomicBool::new(false);
    scope(|scope| {
        for writer in 0..2_u64 {
            let (db, left) = (&db, &left);
            scope.spawn(move || {
                for n in 0..WRITES {
                    let (key, value) = (format!("{writer}/{:05}", n * 7 % WRITES), n.to_string());
                    db.put(&key, &value).unwrap();
                    if n % 8 == writer {
                        assert_eq!(db.get(&key).unwrap().as_deref(), Some(value.as_bytes()));
                    }
                }
                left.fetch_sub(1, SeqCst);
            });
        }
        scope.spawn(|| {
            while !ends.load(SeqCst) {
                if db.core().view.load().memtable.help() == 0 {
                    yield_now();
                }
            }
        });
        let mut is_away = false;
        let mut seen = 0;
        while left.load(SeqCst) > 0 {
            is_away = !is_away;
            db.core().turns.pretend(is_away);
            let count = count(&db).unwrap();
            assert!(count >= seen, "entries are never fewer");
            seen = count;
        }
        ends.store(true, SeqCst);
        db.core().turns.pretend(false);
    });
    assert_eq!(count(&db).unwrap(), 2 * WRITES);
}
