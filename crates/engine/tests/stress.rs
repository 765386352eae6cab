//! Many threads on one database: writers, readers and scans of snapshots at once, while memtables
//! are switched, flushed and compacted all the time. Run under ThreadSanitizer it looks for races
//! (`cargo xtask tsan`); run plainly it looks for torn batches and views that change.
#![allow(clippy::unwrap_used, reason = "a failing helper is a failing test")]
#![allow(clippy::disallowed_methods, reason = "tests start threads as they please")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use siltstone::{BloomFilter, Db, Env, Options, ReadOptions, WriteBatch, WriteOptions};

const WRITERS: u64 = 4;
const READERS: u64 = 4;
const SCANNERS: u64 = 2;
const KEYS: u64 = 2_000;
/// Each batch writes one value under this many keys, far apart in the order.
const COPIES: u64 = 3;

/// Batches per writer; `SILTSTONE_STRESS_BATCHES` asks for more.
fn batches() -> u64 {
    let asked = std::env::var("SILTSTONE_STRESS_BATCHES").ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(8_000)
}

fn options(env: Env) -> Options {
    Options {
        create_if_missing: true,
        env,
        // So small that every part of the background runs all the time.
        unclamped: true,
        write_buffer_size: 32 << 10,
        max_file_size: 32 << 10,
        level1_bytes: 128 << 10,
        max_open_files: 40,
        filter_policy: Some(std::sync::Arc::new(BloomFilter::new(10))),
        ..Options::default()
    }
}

fn key(copy: u64, id: u64) -> Vec<u8> {
    format!("{copy}/{id:06}").into_bytes()
}

/// A value that tells who wrote it, and which fills some space.
fn value(id: u64, writer: u64, count: u64) -> Vec<u8> {
    let mut text = format!("{id}:{writer}:{count}:");
    text.extend((0..(count % 40)).map(|_| 'x'));
    text.into_bytes()
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Every writer owns the ids that leave its number as remainder, so that it knows their last value.
fn write(db: &Db, writer: u64, written: &AtomicU64) -> Vec<u64> {
    let mut random = Random(writer + 1);
    let mut last = vec![0; KEYS as usize];
    for count in 1..=batches() {
        let id = random.below(KEYS / WRITERS) * WRITERS + writer;
        let mut batch = WriteBatch::new();
        let delete = random.below(10) == 0;
        for copy in 0..COPIES {
            match delete {
                true => batch.delete(key(copy, id)),
                false => batch.put(key(copy, id), value(id, writer, count)),
            }
        }
        let sync = random.below(200) == 0;
        db.write(&batch, WriteOptions { sync }).unwrap();
        last[id as usize] = if delete { 0 } else { count };
        written.fetch_add(1, Ordering::Relaxed);
    }
    last
}

/// All copies of an id are equal in every snapshot, and what a snapshot says stays said.
fn read(db: &Db, reader: u64, done: &AtomicBool) {
    let mut random = Random(100 + reader);
    while !done.load(Ordering::Relaxed) {
        let id = random.below(KEYS);
        let options = ReadOptions { snapshot: Some(db.snapshot()), ..Default::default() };
        let first = db.get_with(key(0, id), &options).unwrap();
        for copy in 1..COPIES {
            assert_eq!(db.get_with(key(copy, id), &options).unwrap(), first, "a torn batch");
        }
        if let Some(found) = first {
            assert!(found.starts_with(format!("{id}:").as_bytes()), "another key's value");
        }
        db.get(key(0, id)).unwrap();
    }
}

fn scan(db: &Db, done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        let options = ReadOptions { snapshot: Some(db.snapshot()), ..Default::default() };
        let forward: Vec<_> = {
            let iter = db.iter_with(&options).unwrap();
            iter.entries().unwrap().map(Result::unwrap).collect()
        };
        assert!(forward.is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!(forward.len() as u64 % COPIES, 0, "a torn batch");
        let mut backward = db.iter_with(&options).unwrap();
        backward.seek_to_last().unwrap();
        for (key, value) in forward.iter().rev() {
            assert_eq!((backward.key(), backward.value()), (&key[..], &value[..]));
            backward.prev().unwrap();
        }
        assert!(!backward.valid());
    }
}

#[test]
fn writers_readers_and_snapshots_at_once() {
    let env = Env::memory();
    let db = Db::open("stress", options(env.clone())).unwrap();
    let done = AtomicBool::new(false);
    let written = AtomicU64::new(0);
    let lasts: Vec<Vec<u64>> = std::thread::scope(|scope| {
        for reader in 0..READERS {
            let (db, done) = (&db, &done);
            scope.spawn(move || read(db, reader, done));
        }
        for _ in 0..SCANNERS {
            scope.spawn(|| scan(&db, &done));
        }
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (db, written) = (&db, &written);
                scope.spawn(move || write(db, writer, written))
            })
            .collect();
        let lasts = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        done.store(true, Ordering::Relaxed);
        lasts
    });
    assert_eq!(written.load(Ordering::Relaxed), WRITERS * batches());
    check(&db, &lasts);
    db.close().unwrap();
    check(&Db::open("stress", options(env)).unwrap(), &lasts);
}

fn check(db: &Db, lasts: &[Vec<u64>]) {
    for id in 0..KEYS {
        let writer = id % WRITERS;
        let expected = match lasts[writer as usize][id as usize] {
            0 => None,
            count => Some(value(id, writer, count)),
        };
        assert_eq!(db.get(key(0, id)).unwrap(), expected, "id {id}");
    }
}
