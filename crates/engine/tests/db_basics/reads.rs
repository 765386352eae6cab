//! Point reads and writes.

use std::sync::Arc;

use siltstone::{BlockCache, BloomFilter, ErrorKind, ReadOptions, WriteBatch, WriteOptions};

use crate::support::{World, contents, put_all};
use crate::{files_per_level, work_off};

/// LevelDB's `Empty`, `EmptyKey`, `EmptyValue`, `ReadWrite`, `PutDeleteGet`; each state is looked at
/// in memory, in level 0, compacted, and after a reopen.
#[test]
fn keys_and_values_of_all_kinds() {
    let world = World::new();
    let mut db = world.open();
    assert_eq!(db.get("foo").unwrap(), None);
    assert!(contents(&db).is_empty());
    db.put("", "value of the empty key").unwrap();
    db.put("empty value", "").unwrap();
    db.put([0u8, 0xff, 0], [0xffu8; 300]).unwrap();
    db.put("foo", "v1").unwrap();
    db.put("foo", "v2").unwrap();
    db.put("gone", "v1").unwrap();
    db.delete("gone").unwrap();
    db.delete("never there").unwrap();
    for place in 0..4 {
        assert_eq!(db.get("").unwrap().unwrap(), b"value of the empty key");
        assert_eq!(db.get("empty value").unwrap().unwrap(), b"");
        assert_eq!(db.get([0u8, 0xff, 0]).unwrap().unwrap(), [0xff; 300]);
        assert_eq!(db.get("foo").unwrap().unwrap(), b"v2");
        for missing in ["gone", "never there", "fo", "fooo", "\0"] {
            assert_eq!(db.get(missing).unwrap(), None, "{missing:?} in place {place}");
        }
        match place {
            0 => db.flush().unwrap(),
            1 => db.compact_range(None, None).unwrap(),
            2 => {
                drop(db);
                db = world.open();
            }
            _ => {}
        }
    }
}

#[test]
fn a_batch_takes_effect_in_its_order() {
    let world = World::new();
    let db = world.open();
    let mut batch = WriteBatch::new();
    batch.put("a", "1");
    batch.delete("a");
    batch.put("b", "1");
    batch.put("b", "2");
    batch.delete("c");
    batch.put("c", "3");
    db.write(&batch, WriteOptions::default()).unwrap();
    assert_eq!(db.get("a").unwrap(), None);
    assert_eq!(db.get("b").unwrap().unwrap(), b"2");
    assert_eq!(db.get("c").unwrap().unwrap(), b"3");
    assert_eq!(db.snapshot().seqno().0, 6);
}

/// LevelDB's `GetFromImmutableLayer`.
#[test]
fn memtables_that_wait_are_read() {
    let world = World::new();
    let db = world.open();
    put_all(&db, &[("foo", "v1")]);
    for key in ["k1", "k2", "k3"] {
        db.put(key, "x".repeat(60 << 10)).unwrap();
    }
    assert_eq!(files_per_level(&db), "", "nothing is flushed yet");
    assert!(world.folder.wals().len() > 2, "several memtables wait");
    assert_eq!(db.get("foo").unwrap().unwrap(), b"v1");
    assert_eq!(contents(&db).len(), 4);
    work_off(&db);
    assert_eq!(db.get("foo").unwrap().unwrap(), b"v1");
}

/// LevelDB's `GetMemUsage`.
#[test]
fn memory_use_is_told() {
    let world = World::new();
    let db = world.open();
    let usage = || {
        let text = db.property("leveldb.approximate-memory-usage").unwrap();
        text.parse::<u64>().unwrap()
    };
    let before = usage();
    db.put("foo", "x".repeat(10 << 10)).unwrap();
    assert!((10 << 10..1 << 20).contains(&(usage() - before)), "{before}, {}", usage());
}

#[test]
fn memory_of_a_flushed_memtable_is_used_again() {
    let world = World::new();
    let db = world.open_with(|options| options.write_buffer_size = 4 << 20);
    let usage = || {
        let text = db.property("leveldb.approximate-memory-usage").unwrap();
        text.parse::<u64>().unwrap()
    };
    let fill = || (0..2_000).for_each(|n| db.put(format!("{n}"), "x".repeat(1_000)).unwrap());
    // The memtable that a new database begins with is not among them.
    for _ in 0..2 {
        fill();
        db.flush().unwrap();
    }
    let kept = usage();
    assert!((1 << 20..5 << 20).contains(&kept), "{kept}");
    fill();
    let filled = usage();
    assert!(filled < kept + (1 << 20), "{kept}, {filled}");
    db.flush().unwrap();
    assert!(usage() <= kept, "{kept}, {}", usage());
}

/// LevelDB's `GetLevel0Ordering`: a later table of level 0 wins, though its range is smaller.
#[test]
fn newer_tables_of_level_0_come_first() {
    let world = World::new();
    let db = world.open();
    put_all(&db, &[("bar", "b"), ("foo", "v1")]);
    db.flush().unwrap();
    put_all(&db, &[("foo", "v2")]);
    db.flush().unwrap();
    assert_eq!(files_per_level(&db), "2");
    assert_eq!(db.get("foo").unwrap().unwrap(), b"v2");
    db.delete("foo").unwrap();
    db.flush().unwrap();
    assert_eq!(db.get("foo").unwrap(), None);
    assert_eq!(contents(&db).len(), 1);
}

/// LevelDB's `GetOrderedByLevels` and `GetEncountersEmptyLevel`.
#[test]
fn upper_levels_come_first_also_past_an_empty_one() {
    let world = World::new();
    // Levels so small that everything sinks to the last.
    let db = world.open_with(|options| options.level1_bytes = 1);
    put_all(&db, &[("a", "begin"), ("foo", "v1"), ("z", "end")]);
    db.flush().unwrap();
    db.wait_for_background().unwrap();
    put_all(&db, &[("foo", "v2")]);
    assert_eq!(db.get("foo").unwrap().unwrap(), b"v2");
    db.compact_range(None, None).unwrap();
    db.wait_for_background().unwrap();
    let levels = files_per_level(&db);
    assert!(levels.starts_with("0,0,"), "{levels}");
    put_all(&db, &[("foo", "v3")]);
    db.flush().unwrap();
    assert_eq!(db.get("foo").unwrap().unwrap(), b"v3");
    for _ in 0..1000 {
        assert_eq!(db.get("missing").unwrap(), None);
    }
    assert_eq!(contents(&db).len(), 3);
}

/// LevelDB's `GetPicksCorrectFile`.
#[test]
fn the_right_table_of_a_level_is_read() {
    let world = World::new();
    let db = world.open_with(|options| options.max_file_size = 1);
    let value = "v".repeat(5 << 10);
    put_all(&db, &[("a", &value), ("f", &value), ("x", &value)]);
    db.compact_range(None, None).unwrap();
    assert_eq!(files_per_level(&db), "0,3");
    for key in ["a", "f", "x"] {
        assert_eq!(db.get(key).unwrap().unwrap(), value.as_bytes());
    }
    for key in ["", "b", "g", "z"] {
        assert_eq!(db.get(key).unwrap(), None);
    }
}

/// LevelDB's `BloomFilter`: reads of keys that are not there touch almost no data. Here the data is
/// made unreadable, so that whoever touches it fails.
#[test]
fn filters_spare_reads() {
    const KEYS: usize = 5_000;
    let world = World::new();
    let db = world.open_with(|options| {
        options.filter_policy = Some(Arc::new(BloomFilter::new(10)));
        options.block_cache = Some(Arc::new(BlockCache::new(0)));
    });
    let key = |number: usize| format!("key{number:06}");
    for number in 0..KEYS {
        db.put(key(number), key(number)).unwrap();
    }
    db.compact_range(None, None).unwrap();
    for number in (0..KEYS).step_by(100) {
        db.put(key(number), key(number)).unwrap();
    }
    db.flush().unwrap();
    assert!((0..KEYS).all(|number| db.get(key(number)).unwrap() == Some(key(number).into_bytes())));
    world.faults.fail_reads(".ldb");
    let there = (0..KEYS).filter(|number| db.get(key(*number)).is_ok()).count();
    assert_eq!(there, 0, "they are in blocks that cannot be read");
    let missing = |number: &usize| db.get(format!("{}.missing", key(*number))).is_err();
    let read = (0..KEYS).filter(missing).count();
    assert!(read < KEYS * 3 / 100, "{read} of {KEYS} reads of missing keys touched data");
}

/// LevelDB's `IterMulti` of values from tiny to huge, and `CompactionsGenerateMultipleFiles`.
#[test]
fn large_values() {
    let world = World::new();
    let db = world.open_with(|options| options.max_file_size = 1 << 20);
    let value = |number: usize| number.to_string().repeat(1 + number * number * 50);
    for number in 0..80 {
        db.put(format!("{number:02}"), value(number)).unwrap();
    }
    db.compact_range(None, None).unwrap();
    assert!(db.levels()[0].tables.len() > 5);
    for number in 0..80 {
        let got = db.get(format!("{number:02}")).unwrap().unwrap();
        assert!(got == value(number).as_bytes(), "value {number}");
    }
    // A value larger than write buffer, table and cache together.
    let huge = vec![b'h'; 20 << 20];
    db.put("huge", &huge).unwrap();
    drop(db);
    let db = world.open();
    assert!(db.get("huge").unwrap().unwrap() == huge);
}

#[test]
fn values_are_read_where_they_lie() {
    let world = World::new();
    let db = world.open();
    put_all(&db, &[("a", "some text")]);
    let length = |db: &siltstone::Db| db.read("a", &ReadOptions::default(), <[u8]>::len);
    assert_eq!(length(&db).unwrap(), Some(9));
    db.flush().unwrap();
    assert_eq!(length(&db).unwrap(), Some(9));
    assert_eq!(db.read("b", &ReadOptions::default(), |_| panic!("no such key")).unwrap(), None);
}

#[test]
fn a_closed_database_reads_and_refuses_to_write() {
    let world = World::new();
    let db = world.open();
    put_all(&db, &[("a", "1")]);
    let other = db.clone();
    let mut iter = db.iter().unwrap();
    db.close().unwrap();
    assert_eq!(other.get("a").unwrap().unwrap(), b"1");
    iter.seek_to_first().unwrap();
    assert_eq!(iter.key(), b"a");
    for refused in [other.put("b", "2"), other.flush(), other.compact_range(None, None)] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Closed);
    }
    assert!(world.try_open().unwrap_err().is_locked(), "handles hold the folder");
    drop((other, iter));
    assert_eq!(contents(&world.open()).len(), 1);
}

/// Gets of absent keys read a block each, until the table has earned itself a filter in memory.
#[test]
fn a_table_that_is_searched_in_vain_gets_a_filter() {
    let world = World::new();
    let db = world.open_with(|options| options.block_cache = Some(Arc::new(BlockCache::new(0))));
    let key = |number: u32| format!("key {number:06}");
    (0..2000).for_each(|number| db.put(key(2 * number), "value").unwrap());
    db.compact_range(None, None).unwrap();
    work_off(&db);
    let calls = || world.faults.all_calls().len();
    let read_blocks = |absent: bool| {
        let before = calls();
        for number in 0..2000 {
            let found = db.get(key(2 * number + u32::from(absent))).unwrap();
            assert_eq!(found.is_none(), absent);
        }
        calls() - before
    };
    assert!(read_blocks(true) >= 1990, "one each, but behind the last key");
    work_off(&db);
    let passed = read_blocks(true);
    assert!(passed < 60, "{passed} of 2000 passed the filter");
    assert_eq!(read_blocks(false), 2000);
}
