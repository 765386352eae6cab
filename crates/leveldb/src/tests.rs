//! The wrapper against the library itself.

use std::cmp::Ordering;
use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};

use super::*;
use siltstone_sim::TempDir;

fn created() -> Options {
    Options { create_if_missing: true, ..Options::default() }
}

fn scan(mut iter: Iter<'_>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    iter.seek_to_first();
    while iter.valid() {
        found.push((iter.key().to_vec(), iter.value().to_vec()));
        iter.next();
    }
    iter.status().unwrap();
    found
}

fn keys(iter: Iter<'_>) -> Vec<Vec<u8>> {
    scan(iter).into_iter().map(|(key, _)| key).collect()
}

fn file_ending(folder: &Path, ending: &str) -> PathBuf {
    let mut paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.find(|path| path.to_string_lossy().ends_with(ending)).unwrap()
}

#[test]
fn a_missing_library_is_told() {
    let error = Symbols::load(&["libno-such-leveldb.so"]).err().unwrap();
    assert!(error.starts_with("libno-such-leveldb.so: "), "{error}");
    // The C library is there but has none of the functions.
    assert!(LevelDb::load_from("libc.so.6").unwrap_err().contains("leveldb_"));
}

#[test]
fn puts_deletes_and_batches_outlive_a_close() {
    let Some(leveldb) = LevelDb::load_or_skip() else { return };
    assert_eq!(leveldb.version().0, 1);
    let scratch = TempDir::new("basics");
    let db = leveldb.open(scratch.path(), &created()).unwrap();
    db.put(b"a", b"1").unwrap();
    db.put_with(WriteOptions { sync: true }, b"b\0b", b"").unwrap();
    db.put(b"", b"value of the empty key").unwrap();
    db.delete(b"a").unwrap();
    db.delete_with(WriteOptions { sync: true }, b"never there").unwrap();
    let mut batch = leveldb.batch();
    batch.put(b"dropped", b"");
    batch.clear();
    batch.put(b"c", b"2");
    batch.delete(b"c");
    let mut more = leveldb.batch();
    more.put(b"d", b"3");
    batch.append(&more);
    db.write(&mut batch, WriteOptions { sync: true }).unwrap();
    drop(db);

    let db = leveldb.open(scratch.path(), &Options::default()).unwrap();
    assert_eq!(db.get(b"a").unwrap(), None);
    assert_eq!(db.get(b"b\0b").unwrap(), Some(Vec::new()));
    assert_eq!(db.get(b"").unwrap().unwrap(), b"value of the empty key");
    let checked = ReadOptions { verify_checksums: true, fill_cache: false, snapshot: None };
    assert_eq!(db.get_with(&checked, b"d").unwrap().unwrap(), b"3");
    assert_eq!(keys(db.iter()), [&b""[..], b"b\0b", b"d"]);
}

#[test]
fn iterators_move_both_ways() {
    let Some(leveldb) = LevelDb::load_or_skip() else { return };
    let scratch = TempDir::new("iterators");
    let db = leveldb.open(scratch.path(), &created()).unwrap();
    for key in [b"b", b"d", b"f"] {
        db.put(key, key).unwrap();
    }
    let mut iter = db.iter();
    assert!(!iter.valid());
    iter.seek(b"c");
    assert_eq!((iter.key(), iter.value()), (&b"d"[..], &b"d"[..]));
    iter.prev();
    assert_eq!(iter.key(), b"b");
    iter.prev();
    assert!(!iter.valid());
    iter.seek_to_last();
    assert_eq!(iter.key(), b"f");
    iter.next();
    assert!(!iter.valid());
    iter.seek(b"g");
    assert!(!iter.valid());
    iter.status().unwrap();
}

#[test]
fn reading_off_the_end_panics_instead_of_aborting() {
    let Some(leveldb) = LevelDb::load_or_skip() else { return };
    let scratch = TempDir::new("off-the-end");
    let db = leveldb.open(scratch.path(), &created()).unwrap();
    let off = |use_iter: fn(&mut Iter<'_>)| {
        panic::catch_unwind(AssertUnwindSafe(|| use_iter(&mut db.iter()))).is_err()
    };
    assert!(off(|iter| iter.next()));
    assert!(off(|iter| iter.prev()));
    assert!(off(|iter| assert!(iter.key().is_empty())));
    assert!(off(|iter| assert!(iter.value().is_empty())));
}

#[test]
fn snapshots_keep_what_was() {
    let Some(leveldb) = LevelDb::load_or_skip() else { return };
    let scratch = TempDir::new("snapshots");
    let db = leveldb.open(scratch.path(), &created()).unwrap();
    db.put(b"k", b"old").unwrap();
    let snapshot = db.snapshot();
    db.put(b"k", b"new").unwrap();
    db.put(b"l", b"new").unwrap();
    db.compact_range(None, None);
    let then = ReadOptions { snapshot: Some(&snapshot), ..ReadOptions::default() };
    assert_eq!(db.get_with(&then, b"k").unwrap().unwrap(), b"old");
    assert_eq!(db.get_with(&then, b"l").unwrap(), None);
    let old = db.iter_with(&then);
    drop(snapshot);
    db.compact_range(Some(b"a"), Some(b"z"));
    assert_eq!(scan(old), [(b"k".to_vec(), b"old".to_vec())]);
    assert_eq!(db.get(b"k").unwrap().unwrap(), b"new");
}

#[test]
fn every_option_reaches_the_library() {
    let Some(leveldb) = LevelDb::load_or_skip() else { return };
    let scratch = TempDir::new("options");
    let options = Options {
        create_if_missing: true,
        error_if_exists: true,
        paranoid_checks: true,
        write_buffer_size: 64 << 10,
        max_open_files: 80,
        block_size: 1 << 10,
        block_restart_interval: 1,
        max_file_size: 1 << 20,
        compression: Compression::None,
        bloom_bits_per_key: Some(10),
        cache_bytes: Some(1 << 20),
        comparator: None,
    };
    let db = leveldb.open(scratch.path(), &options).unwrap();
    let value = vec![b'v'; 1000];
    for number in 0..4000_u32 {
        db.put(&number.to_be_bytes(), &value).unwrap();
    }
    db.compact_range(None, None);
    let halves = (&0_u32.to_be_bytes()[..], &2000_u32.to_be_bytes()[..], &[0xff; 4][..]);
    let sizes = db.approximate_sizes(&[(halves.0, halves.1), (halves.1, halves.2)]);
    // Uncompressed, so each half is a little more than its two million bytes of values.
    assert!(sizes.iter().all(|size| (2_000_000..2_300_000).contains(size)), "{sizes:?}");
    let count = |level: u32| {
        let name = format!("leveldb.num-files-at-level{level}");
        db.property(&name).unwrap().parse::<u32>().unwrap()
    };
    // Four megabytes in tables of at most one.
    assert!((0..7).map(count).sum::<u32>() >= 4);
    assert_eq!(db.property("leveldb.nonsense"), None);
    assert!(db.property("leveldb.stats").unwrap().contains("Compactions"));
    drop(db);
    let table = fs::read(file_ending(scratch.path(), ".ldb")).unwrap();
    let filter = b"filter.leveldb.BuiltinBloomFilter2";
    assert!(table.windows(filter.len()).any(|bytes| bytes == filter));
    let error = leveldb.open(scratch.path(), &options).err().unwrap();
    assert!(error.is_invalid_argument(), "{error}");
}

#[test]
fn comparators_order_keys_and_guard_the_database() {
    fn backwards(a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }
    let Some(leveldb) = LevelDb::load_or_skip() else { return };
    let scratch = TempDir::new("comparator");
    let order = Comparator { name: c"siltstone.test.backwards", compare: backwards };
    let options = Options { comparator: Some(order), ..created() };
    let db = leveldb.open(scratch.path(), &options).unwrap();
    for key in [&b"a"[..], b"", b"b"] {
        db.put(key, b"").unwrap();
    }
    db.compact_range(None, None);
    assert_eq!(keys(db.iter()), [&b"b"[..], b"a", b""]);
    drop(db);
    let error = leveldb.open(scratch.path(), &Options::default()).err().unwrap();
    assert!(error.to_string().contains("does not match existing comparator"), "{error}");
}

#[test]
fn errors_carry_their_text() {
    let Some(leveldb) = LevelDb::load_or_skip() else { return };
    let scratch = TempDir::new("errors");
    let missing = leveldb.open(&scratch.path().join("missing"), &Options::default()).err().unwrap();
    assert!(missing.is_invalid_argument(), "{missing}");
    let db = leveldb.open(&scratch.path().join("db"), &created()).unwrap();
    let locked = leveldb.open(&scratch.path().join("db"), &created()).err().unwrap();
    assert!(locked.is_locked() && locked.is_io(), "{locked}");
    drop(db);
    leveldb.open(&scratch.path().join("db"), &created()).unwrap().close();
}

#[test]
fn damage_is_found_and_repair_keeps_the_rest() {
    let Some(leveldb) = LevelDb::load_or_skip() else { return };
    let scratch = TempDir::new("repair");
    let path = scratch.path();
    let options = Options { compression: Compression::None, ..created() };
    let db = leveldb.open(path, &options).unwrap();
    for number in 0..1000_u32 {
        db.put(&number.to_be_bytes(), &[7; 100]).unwrap();
    }
    db.compact_range(None, None);
    drop(db);
    let table = file_ending(path, ".ldb");
    let mut bytes = fs::read(&table).unwrap();
    bytes[50_000] ^= 1;
    fs::write(&table, bytes).unwrap();

    let paranoid = Options { paranoid_checks: true, ..options };
    let db = leveldb.open(path, &paranoid).unwrap();
    let checked = ReadOptions { verify_checksums: true, ..ReadOptions::default() };
    let mut iter = db.iter_with(&checked);
    iter.seek_to_first();
    while iter.valid() {
        iter.next();
    }
    let error = iter.status().unwrap_err();
    assert!(error.is_corruption(), "{error}");
    drop(iter);
    drop(db);

    leveldb.repair(path, &paranoid).unwrap();
    let db = leveldb.open(path, &paranoid).unwrap();
    // One block of the 28 is lost: some 38 entries of 4 + 100 bytes each.
    let left = scan(db.iter()).len();
    assert!((900..1000).contains(&left), "{left}");
}

#[test]
fn destroy_removes_the_database() {
    let Some(leveldb) = LevelDb::load_or_skip() else { return };
    let scratch = TempDir::new("destroy");
    let path = scratch.path().join("db");
    leveldb.open(&path, &created()).unwrap().put(b"k", b"v").unwrap();
    assert!(path.join("CURRENT").exists());
    leveldb.destroy(&path, &Options::default()).unwrap();
    assert!(!path.exists());
    leveldb.destroy(&path, &Options::default()).unwrap();
}
