//! Walks one hot path of the engine a fixed number of times, for `cargo xtask callgrind` to count
//! instructions. Everything is settled: keys, seeds, one thread, background work by hand.
//!
//! ```text
//! hot_paths              prints the names of the paths, and how many operations each makes
//! hot_paths NAME FOLDER  walks one; the database is made in FOLDER
//! ```
//!
//! Only what happens within [`measured`] counts.
#![forbid(unsafe_code)]

use std::hint::black_box;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use siltstone::{
    Background, BlockCache, BloomFilter, Cache, Db, DbIterator, Env, FilterPolicy, Options,
    ReadOptions, Result,
};

/// Entries of a database to read from: some hundred blocks, in one table per two mebibytes.
const ENTRIES: u64 = 20_000;
/// Operations of each path but the slow ones.
const OPERATIONS: u64 = 20_000;

/// A path: its name, what it does, and how many operations that is.
struct HotPath {
    name: &'static str,
    operations: u64,
    walk: fn(&Path) -> Result<()>,
}

const PATHS: [HotPath; 11] = [
    HotPath { name: "put", operations: OPERATIONS, walk: put },
    HotPath { name: "put_ascending", operations: OPERATIONS, walk: put_ascending },
    HotPath { name: "get_memtable", operations: OPERATIONS, walk: get_memtable },
    HotPath { name: "get_cached", operations: OPERATIONS, walk: get_cached },
    HotPath { name: "get_page_cache", operations: OPERATIONS / 4, walk: get_page_cache },
    HotPath { name: "get_missing", operations: OPERATIONS, walk: get_missing },
    HotPath { name: "next", operations: ENTRIES, walk: next },
    HotPath { name: "prev", operations: ENTRIES, walk: prev },
    HotPath { name: "seek", operations: ENTRIES, walk: seek },
    HotPath { name: "scan", operations: ENTRIES, walk: short_scans },
    HotPath { name: "compact", operations: ENTRIES, walk: compact },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        [] => {
            PATHS.iter().for_each(|path| println!("{} {}", path.name, path.operations));
            ExitCode::SUCCESS
        }
        [name, folder] => match PATHS.iter().find(|path| path.name == *name) {
            Some(path) => match (path.walk)(Path::new(folder)) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => fail(&error.to_string()),
            },
            None => fail(&format!("there is no path {name}")),
        },
        _ => fail("usage: hot_paths [NAME FOLDER]"),
    }
}

fn fail(message: &str) -> ExitCode {
    eprintln!("{message}");
    ExitCode::FAILURE
}

/// Callgrind counts from this function's first instruction to its last.
#[inline(never)]
fn measured(work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
    black_box(work())
}

/// LevelDB's defaults, with a buffer that holds all, and a cache of so many bytes.
fn options(cache_bytes: usize) -> Options {
    Options {
        create_if_missing: true,
        env: Env { seed: 1, ..Env::posix() },
        info_log: false,
        write_buffer_size: 64 << 20,
        block_cache: Some(Arc::new(BlockCache::new(cache_bytes)) as Arc<dyn Cache>),
        background: Background::ByHand,
        ..Options::default()
    }
}

/// Everything fits into this.
const CACHE_BYTES: usize = 64 << 20;

/// The numbers below `ENTRIES`, each once, in an order that looks like none.
fn scattered() -> impl Iterator<Item = u64> {
    // A step that shares no factor with the count reaches every number.
    const STEP: u64 = 7_919;
    (0..ENTRIES).map(|number| number * STEP % ENTRIES)
}

fn key(number: u64) -> [u8; 16] {
    let mut key = [b'0'; 16];
    let mut rest = number;
    for digit in key.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// A hundred bytes that compress to about the half.
fn value(number: u64) -> [u8; 100] {
    let mut value = [b'v'; 100];
    let mut state = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for byte in value.iter_mut().take(50) {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        *byte = (state >> 56) as u8;
    }
    value
}

/// Entries that come in an order and stay in memory.
fn filled(folder: &Path, mut numbers: impl Iterator<Item = u64>) -> Result<Db> {
    let db = Db::open(folder, options(CACHE_BYTES))?;
    numbers.try_for_each(|number| db.put(key(number), value(number)))?;
    Ok(db)
}

/// All entries in tables, below which there is nothing.
fn settled(folder: &Path, options: Options) -> Result<Db> {
    let db = Db::open(folder, options)?;
    scattered().try_for_each(|number| db.put(key(number * 2), value(number)))?;
    db.compact_range(None, None)?;
    Ok(db)
}

fn put(folder: &Path) -> Result<()> {
    // The list is not empty when it begins, so that its height is a usual one.
    let db = filled(folder, scattered().map(|number| number * 2))?;
    puts(&db, scattered().map(|number| number * 2 + 1))
}

fn put_ascending(folder: &Path) -> Result<()> {
    let db = filled(folder, 0..ENTRIES)?;
    puts(&db, ENTRIES..2 * ENTRIES)
}

fn puts(db: &Db, numbers: impl Iterator<Item = u64>) -> Result<()> {
    let entries: Vec<_> = numbers.map(|number| (key(number), value(number))).collect();
    measured(&mut || entries.iter().try_for_each(|(key, value)| db.put(key, value)))
}

fn get_memtable(folder: &Path) -> Result<()> {
    let db = filled(folder, scattered().map(|number| number * 2))?;
    // Gets between puts have the memtable indexed.
    scattered().take(ENTRIES as usize / 8).try_for_each(|number| {
        db.get(key(number * 2))?;
        db.put(key(number * 2), value(number))
    })?;
    gets(&db, OPERATIONS, 0, true)
}

fn get_cached(folder: &Path) -> Result<()> {
    let db = settled(folder, options(CACHE_BYTES))?;
    scan(&db)?;
    make_directories(&db, 0)?;
    gets(&db, OPERATIONS, 0, true)
}

fn get_page_cache(folder: &Path) -> Result<()> {
    let db = settled(folder, options(0))?;
    gets(&db, OPERATIONS / 4, 0, true)
}

fn get_missing(folder: &Path) -> Result<()> {
    let filter = Arc::new(BloomFilter::new(10)) as Arc<dyn FilterPolicy>;
    let db = settled(folder, Options { filter_policy: Some(filter), ..options(CACHE_BYTES) })?;
    scan(&db)?;
    make_directories(&db, 1)?;
    gets(&db, OPERATIONS, 1, false)
}

/// A block that scans brought into the cache gets its directory when the first search comes to it.
fn make_directories(db: &Db, parity: u64) -> Result<()> {
    (0..ENTRIES).try_for_each(|number| db.get(key(number * 2 + parity)).map(drop))
}

/// Gets keys of the given parity: even ones are there, odd ones are not.
fn gets(db: &Db, operations: u64, parity: u64, expected: bool) -> Result<()> {
    let options = ReadOptions::default();
    let numbers = scattered().take(operations as usize);
    let keys: Vec<_> = numbers.map(|number| key(number * 2 + parity)).collect();
    let mut found = 0;
    measured(&mut || {
        for key in &keys {
            let read = db.read(key, &options, |value| {
                black_box(value);
            })?;
            found += u64::from(read.is_some());
        }
        Ok(())
    })?;
    assert_eq!(found, if expected { operations } else { 0 });
    Ok(())
}

/// Brings every block into the cache.
fn scan(db: &Db) -> Result<DbIterator> {
    let mut iter = db.iter()?;
    iter.seek_to_first()?;
    while iter.valid() {
        iter.next()?;
    }
    Ok(iter)
}

fn next(folder: &Path) -> Result<()> {
    let db = settled(folder, options(CACHE_BYTES))?;
    let mut iter = scan(&db)?;
    let mut steps = 0;
    iter.seek_to_first()?;
    measured(&mut || {
        while iter.valid() {
            black_box((iter.key(), iter.value()));
            iter.next()?;
            steps += 1;
        }
        Ok(())
    })?;
    assert_eq!(steps, ENTRIES);
    Ok(())
}

fn prev(folder: &Path) -> Result<()> {
    let db = settled(folder, options(CACHE_BYTES))?;
    let mut iter = scan(&db)?;
    let mut steps = 0;
    iter.seek_to_last()?;
    measured(&mut || {
        while iter.valid() {
            black_box((iter.key(), iter.value()));
            iter.prev()?;
            steps += 1;
        }
        Ok(())
    })?;
    assert_eq!(steps, ENTRIES);
    Ok(())
}

fn seek(folder: &Path) -> Result<()> {
    let db = settled(folder, options(CACHE_BYTES))?;
    let mut iter = scan(&db)?;
    let keys: Vec<_> = scattered().map(|number| key(number * 2)).collect();
    measured(&mut || {
        for key in &keys {
            iter.seek(key)?;
            assert!(iter.valid());
        }
        Ok(())
    })
}

/// What most scans are: a new iterator, a seek, and a few entries.
fn short_scans(folder: &Path) -> Result<()> {
    let db = settled(folder, options(CACHE_BYTES))?;
    scan(&db)?;
    let keys: Vec<_> = scattered().map(|number| key(number * 2)).collect();
    measured(&mut || {
        for key in &keys {
            let mut iter = db.iter()?;
            iter.seek(key)?;
            for _ in 0..10 {
                if iter.valid() {
                    black_box((iter.key(), iter.value()));
                    iter.next()?;
                }
            }
        }
        Ok(())
    })
}

/// Half of the entries lie in a table below, the others in one above: a merge of both.
fn compact(folder: &Path) -> Result<()> {
    let db = Db::open(folder, options(CACHE_BYTES))?;
    for half in [0, 1] {
        let mut numbers = scattered().filter(|number| number % 2 == half);
        numbers.try_for_each(|number| db.put(key(number), value(number)))?;
        db.flush()?;
    }
    measured(&mut || db.compact_range(None, None))?;
    assert_eq!(scan(&db).map(|_| db.metrics().merges)?, 1);
    Ok(())
}
