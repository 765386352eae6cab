//! Known ways of losing data or of answering wrongly, each named after what went wrong.

use std::sync::Mutex;

use siltstone::{Db, ErrorKind, Options, Site, WriteBatch, WriteOptions, verify};

use crate::support::log_file::{Named, batch, log_file, manifest};
use crate::support::{
    Fault, TempDir, World, contents, contents_at, put_all, scan, synced, unsynced,
};

/// Two logs with unsynced writes, the older one of which loses its end in a power cut: leveldb
/// issue 193. LevelDB shows the newer log's writes without the older one's.
struct TwoLogs {
    world: World,
    older: String,
}

fn two_logs(sync_between: bool) -> TwoLogs {
    let world = World::new();
    let db = world.open();
    for key in ["a", "b", "c"] {
        unsynced(&db, key, "v".repeat(30 << 10)).unwrap();
    }
    put_all(&db, &[("d", "4")]);
    if sync_between {
        synced(&db, "e", "5").unwrap();
        put_all(&db, &[("f", "6")]); // It is this write that brings the mark.
    }
    let logs = world.folder.wals();
    assert_eq!(logs.len(), 2, "{logs:?}");
    TwoLogs { world: world.after_crash(), older: logs[0].clone() }
}

#[test]
fn regress_wal_hole() {
    for lose in [1, 1000, 31 << 10, 90 << 10] {
        let TwoLogs { world, older } = two_logs(false);
        let keep = world.folder.len(&older).saturating_sub(lose);
        world.folder.edit(&older, |bytes| bytes.truncate(keep as usize));
        let db = world.open();
        let found: Vec<String> = contents(&db).into_keys().collect();
        assert!(["a", "b", "c"].starts_with(&found.iter().map(|key| &key[..]).collect::<Vec<_>>()));
        assert!(found.len() < 3, "{found:?}");
        let dropped = &db.recovery_report().dropped;
        let first = if keep == 0 { 1 } else { 2 }; // A log without bytes has nothing to drop.
        assert_eq!(dropped.len(), first, "the hole, and the log behind it: {dropped:?}");
        synced(&db, "z", "9").unwrap();
        let again = contents(&world.after_crash().open());
        assert_eq!(again.len(), found.len() + 1, "what was dropped does not come back");
    }
}

#[test]
fn regress_wal_hole_in_promised_writes() {
    for lose in [1, 1000, 31 << 10, 90 << 10] {
        let TwoLogs { world, older } = two_logs(true);
        let keep = world.folder.len(&older).saturating_sub(lose);
        world.folder.edit(&older, |bytes| bytes.truncate(keep as usize));
        let before = world.folder.files();
        let error = world.try_open().unwrap_err();
        assert!(error.is_corruption(), "{error}");
        // Of an empty log nothing tells that it was longer; it is its successor that misses writes.
        assert_eq!(error.file().unwrap().ends_with(&older), keep > 0, "{error}");
        assert!(error.offset().unwrap() <= keep, "{error}");
        assert_eq!(world.folder.files(), before, "a failed open changes nothing");
    }
}

#[test]
fn regress_wal_hole_where_a_whole_log_is_gone() {
    for promised in [false, true] {
        let TwoLogs { world, older } = two_logs(promised);
        world.folder.remove(&older);
        // Its name was durable before the manifest named it, whatever of its bytes was promised.
        let error = world.try_open().unwrap_err();
        assert!(error.is_corruption(), "{error}");
        assert!(error.file().unwrap().ends_with(&older), "{promised}: {error}");
    }
}

/// Torn appends at every length, then more writes: leveldb.md 4 row 1, for every way an append can
/// break off, at the beginning of the log and at a block's border.
#[test]
fn regress_append_after_error() {
    for fill in [0, 32_700] {
        for torn in (0..27).step_by(2) {
            let world = World::new();
            let db = world.open();
            if fill > 0 {
                synced(&db, "fill", "f".repeat(fill)).unwrap();
            }
            put_all(&db, &[("a", "1")]);
            world.faults.fail_nth(Site::WalAppend, 1, Fault::Full(torn));
            assert!(synced(&db, "torn", "t").unwrap_err().is_no_space());
            for number in 0..20 {
                synced(&db, format!("b{number:02}"), "2").unwrap();
            }
            let expected = contents(&db);
            assert_eq!(expected.len(), 21 + usize::from(fill > 0));
            assert_eq!(contents(&world.after_crash().open()), expected, "{torn} torn bytes");
            db.close().unwrap();
            assert_eq!(contents(&world.open()), expected, "{torn} torn bytes");
        }
    }
}

/// A crash between the steps of replacing logs, of which the last is torn: the new log is there, and
/// any of the others may be.
#[test]
fn regress_append_after_error_with_any_logs_left() {
    let world = World::new();
    let db = world.open_with(|options| options.max_immutable_memtables = 8);
    for number in 0..60 {
        synced(&db, format!("{number:02}"), "v".repeat(4000)).unwrap();
    }
    let replaced = world.folder.wals();
    assert!(replaced.len() > 3, "{replaced:?}");
    let bytes: Vec<_> = replaced.iter().map(|wal| world.folder.read(wal)).collect();
    world.faults.fail_nth(Site::WalAppend, 1, Fault::Full(9));
    db.put("torn", "t").unwrap_err();
    synced(&db, "after", "3").unwrap();
    assert_eq!(world.folder.wals(), replaced[replaced.len() - 1..], "under the name of the last");
    let expected = contents(&db);
    assert_eq!(expected.len(), 61);
    let others = replaced.len() - 1;
    for left in 0..1 << others {
        let crashed = world.after_crash();
        for index in (0..others).filter(|index| left & (1 << index) != 0) {
            crashed.folder.write(&replaced[index], &bytes[index]);
        }
        let report = verify("/db", &crashed.options()).unwrap();
        assert!(report.is_ok(), "{left:b} left: {report}");
        let read_only = crashed.open_read_only().unwrap();
        assert!(contents(&read_only) == expected, "{left:b} left, read-only");
        let db = crashed.open();
        assert!(contents(&db) == expected, "{left:b} left");
        assert!(db.recovery_report().dropped.is_empty());
    }
}

/// rocksdb issue 1370: a log that the manifest no longer needs comes back (its removal was not
/// durable, or a backup tool restored it) and must not be replayed over newer tables.
#[test]
fn regress_min_log() {
    let world = World::new();
    let db = world.open();
    put_all(&db, &[("a", "old"), ("deleted", "old")]);
    let log = world.folder.wals().remove(0);
    let bytes = world.folder.read(&log);
    put_all(&db, &[("a", "new")]);
    db.delete("deleted").unwrap();
    db.flush().unwrap();
    while db.run_background_step().unwrap() {}
    let crashed = world.after_crash();
    assert!(!crashed.folder.wals().contains(&log));
    crashed.folder.write(&log, &bytes);
    let db = crashed.open();
    let expected = [("a".to_owned(), "new".to_owned())];
    assert!(contents(&db).into_iter().eq(expected));
    while db.run_background_step().unwrap() {}
    assert!(!crashed.folder.wals().contains(&log), "it is swept");
}

/// leveldb issues 320, 339, 376; rocksdb issue 13155: the versions of one key, kept by snapshots,
/// lie in several tables of a level, and a compaction takes only some of them down. LevelDB wrote
/// such databases; we must read them right, and never write one.
#[test]
fn regress_boundary_files() {
    let (left, right) = (World::new(), World::new());
    let db = left.open();
    put_all(&db, &[("a", "left"), ("k", "new")]);
    db.flush().unwrap();
    drop(right.open()); // So that its table gets another number.
    let db = right.open();
    put_all(&db, &[("k", "old"), ("z", "right")]);
    db.flush().unwrap();
    let table = |world: &World| {
        let name = world.folder.tables().remove(0);
        let number: u64 = name[..6].parse().unwrap();
        (number, world.folder.read(&name), name)
    };
    let ((left_number, left, left_name), (right_number, right, right_name)) =
        (table(&left), table(&right));
    let tables = [
        Named {
            level: 1,
            number: left_number,
            size: left.len() as u64,
            smallest: ("a", 1),
            largest: ("k", 2),
        },
        Named {
            level: 1,
            number: right_number,
            size: right.len() as u64,
            smallest: ("k", 1),
            largest: ("z", 2),
        },
    ];
    let world = World::with_files(&[
        ("CURRENT".to_owned(), b"MANIFEST-000002\n".to_vec()),
        ("MANIFEST-000002".to_owned(), manifest(0, 8, 2, &tables)),
        (left_name, left),
        (right_name, right),
    ]);
    let db = world.open();
    let check = |db: &Db| {
        let found = scan(&mut db.iter().unwrap()).unwrap();
        let found: Vec<(&str, &str)> = found.iter().map(|(k, v)| (&k[..], &v[..])).collect();
        assert_eq!(found, [("a", "left"), ("k", "new"), ("z", "right")]);
        assert_eq!(contents(db)["k"], "new");
    };
    check(&db);
    // A table of level 0 that touches the left one only.
    put_all(&db, &[("a", "left")]);
    db.compact_range(Some(b"a"), Some(b"a")).unwrap();
    check(&db);
    db.delete("k").unwrap();
    db.compact_range(Some(b"k"), Some(b"k")).unwrap();
    assert_eq!(db.get("k").unwrap(), None, "the old version does not come out again");
    assert_eq!(contents(&db).len(), 2);
    drop(db);
    assert_eq!(contents(&world.open()).len(), 2);
}

/// A manifest that has lost count: its last sequence number lies below its table's entries. Those
/// nobody sees yet, so no merge drops them, and a table full of deletions would be rewritten in place
/// for ever.
#[test]
fn regress_endless_rewrite_of_entries_from_the_future() {
    let world = World::new();
    let db = world.open();
    for number in 1..=100 {
        db.delete(format!("{number:03}")).unwrap();
    }
    db.flush().unwrap();
    let name = world.folder.tables().remove(0);
    let bytes = world.folder.read(&name);
    let table = Named {
        level: 6,
        number: name[..6].parse().unwrap(),
        size: bytes.len() as u64,
        smallest: ("001", 1),
        largest: ("100", 100),
    };
    for (last_seqno, kept) in [(5, 1), (100, 0)] {
        let world = World::with_files(&[
            ("CURRENT".to_owned(), b"MANIFEST-000002\n".to_vec()),
            (
                "MANIFEST-000002".to_owned(),
                manifest(0, 8, last_seqno, std::slice::from_ref(&table)),
            ),
            (name.clone(), bytes.clone()),
        ]);
        let db = world.open();
        let steps = (0..100).take_while(|_| db.run_background_step().unwrap()).count();
        assert!(steps < 20, "{steps} steps");
        assert_eq!(world.folder.tables().len(), kept, "up to {last_seqno}");
    }
}

/// And the writing side of it: many versions of few keys under snapshots, in tiny tables.
#[test]
fn regress_boundary_files_are_never_written() {
    let world = World::new();
    let db = world.open_with(|options| {
        options.write_buffer_size = 4 << 10;
        options.max_file_size = 1 << 10;
        options.level1_bytes = 4 << 10;
    });
    let mut snapshots = Vec::new();
    for round in 0..60 {
        for key in ["a", "b", "c"] {
            db.put(key, format!("{round}").repeat(100)).unwrap();
            snapshots.push((db.snapshot(), contents(&db)));
        }
        while db.run_background_step().unwrap() {}
        for level in db.levels().iter().filter(|level| level.level.number() > 0) {
            for pair in level.tables.windows(2) {
                assert!(pair[0].largest < pair[1].smallest, "{level:?}");
            }
        }
    }
    db.compact_range(None, None).unwrap();
    for (snapshot, expected) in &snapshots {
        assert_eq!(&contents_at(&db, Some(snapshot)), expected);
    }
}

/// leveldb issue 178 (and 184), rocksdb issue 2722, badger issue 2310: a deletion is dropped before
/// what it hides, and the deleted key returns. LevelDB's own test writes 1.1 million keys to reach
/// the shape; small tables reach it with few.
#[test]
fn regress_resurrection() {
    const KEYS: usize = 4_000;
    let world = World::new();
    let db = world.open_with(|options| {
        options.write_buffer_size = 8 << 10;
        options.max_file_size = 4 << 10;
        options.level1_bytes = 16 << 10;
    });
    let key = |first: char, number: usize| format!("{first}.{number:06}");
    let mut batch = WriteBatch::new();
    for number in 0..KEYS {
        batch.put(key('a', number), "value for range 1 key");
        batch.put(key('b', number), "value for range 2 key");
    }
    db.write(&batch, WriteOptions::default()).unwrap();
    batch.clear();
    db.compact_range(None, None).unwrap();
    for number in 0..KEYS {
        batch.delete(key('b', number));
    }
    db.write(&batch, WriteOptions::default()).unwrap();
    db.compact_range(Some(key('a', 0).as_bytes()), Some(key('a', KEYS).as_bytes())).unwrap();
    db.compact_range(Some(key('b', 0).as_bytes()), Some(key('b', KEYS / 2).as_bytes())).unwrap();
    while db.run_background_step().unwrap() {}
    assert_eq!(contents(&db).len(), KEYS);
    let snapshot = db.snapshot();
    for number in 0..KEYS {
        db.delete(key('a', number)).unwrap();
    }
    db.compact_range(None, None).unwrap();
    assert!(contents(&db).is_empty());
    assert_eq!(contents_at(&db, Some(&snapshot)).len(), KEYS);
    drop(snapshot);
    db.compact_range(None, None).unwrap();
    drop(db);
    assert!(contents(&world.open()).is_empty());
}

/// leveldb issue 200: an iterator that turns from backwards to forwards right after a write to the
/// key before its own shows that key again.
#[test]
fn regress_iter_turn() {
    let world = World::new();
    let db = world.open();
    put_all(&db, &[("1", "b"), ("2", "c"), ("3", "d"), ("4", "e"), ("5", "f")]);
    put_all(&db, &[("25", "cd")]);
    let mut iter = db.iter().unwrap();
    iter.seek("5").unwrap();
    for (forward, expected) in
        [(false, "4"), (false, "3"), (false, "25"), (true, "3"), (true, "4"), (true, "5")]
    {
        if forward {
            iter.next().unwrap()
        } else {
            iter.prev().unwrap()
        }
        assert_eq!(iter.key(), expected.as_bytes());
    }
}

/// basho/leveldb issue 15: an open that comes while another handle closes. At any time one handle
/// has the database, and none of their writes is lost.
#[test]
fn regress_open_close_race() {
    let temp = TempDir::new("race");
    let options = || Options { create_if_missing: true, ..Default::default() };
    let inside = Mutex::new(());
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (inside, temp) = (&inside, &temp);
            scope.spawn(move || {
                let mut written = 0;
                while written < 5 {
                    let db = match Db::open(temp.path(), options()) {
                        Ok(db) => db,
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::Locked, "{error}");
                            std::thread::yield_now();
                            continue;
                        }
                    };
                    let alone = inside.try_lock().expect("nobody else has the database open");
                    for earlier in 0..written {
                        assert!(db.get(format!("{thread}-{earlier}")).unwrap().is_some());
                    }
                    db.put(format!("{thread}-{written}"), "v").unwrap();
                    written += 1;
                    drop(alone);
                    drop(db);
                }
            });
        }
    });
    assert_eq!(contents(&Db::open(temp.path(), options()).unwrap()).len(), 20);
}

/// A mark says that what is before it is all there; a log that begins with one needs no older one.
#[test]
fn a_log_that_begins_with_a_mark_stands_alone() {
    let world = World::new();
    drop(world.open());
    let log = world.folder.wals().remove(0);
    let records = [batch(40, &[]), batch(40, &[("a", "1")]), batch(60, &[("b", "2")])];
    world.folder.write(&log, &log_file(&records));
    let db = world.open();
    assert_eq!(contents(&db).len(), 2);
    assert_eq!(db.snapshot().seqno().0, 60);
}

/// New files take greater numbers than any that is there. A file planted near the end of what counts
/// as ours had them pass that end: the next open looked for its logs in vain.
#[test]
fn a_planted_file_does_not_lead_numbers_out_of_range() {
    // Ours end 2^41 before 2^63, and a database must have 2^40 numbers left.
    let ours = (1u64 << 63) - 1 - (1 << 41);
    let is_refused = |(planted, prefix, suffix): (u64, &str, &str)| {
        let name = format!("{prefix}{planted}{suffix}");
        let world = World::new();
        put_all(&world.open(), &[("a", "1")]);
        world.folder.write(&name, b"");
        let before = world.folder.files();
        for round in 0..3 {
            match world.try_open() {
                Ok(db) => synced(&db, format!("b{round}"), "2").unwrap(),
                Err(error) => {
                    assert!(error.is_corruption() && error.message().contains("used up"));
                    assert!(error.file().unwrap().ends_with(&name));
                    assert!(!verify("/db", &world.options()).unwrap().is_ok());
                    assert_eq!((round, world.folder.files()), (0, before));
                    assert_eq!(contents(&world.open_read_only().unwrap()).len(), 1);
                    return true;
                }
            }
        }
        assert_eq!(contents(&world.open()).len(), 4);
        assert!(verify("/db", &world.options()).unwrap().is_ok());
        false
    };
    let near = ours - (1 << 40);
    for (prefix, suffix) in [("", ".dbtmp"), ("", ".ldb"), ("MANIFEST-", "")] {
        assert_eq!(
            [1000, near - 100, near, ours, ours + 1].map(|n| is_refused((n, prefix, suffix))),
            [false, false, true, true, false],
            "{prefix}{suffix}"
        );
    }
}

/// A log that healing made holds what the memtables of that time did, and tables may hold some of it by
/// the next open. With `reuse_logs` that open wrote a manifest whose last sequence number fell behind
/// the tables: had the new log then lost its bytes, old values would have hidden new ones.
#[test]
fn the_last_sequence_number_does_not_fall_behind_the_tables() {
    let world = World::new();
    let reuse = |options: &mut Options| options.reuse_logs = true;
    let db = world.open_with(reuse);
    put_all(&db, &[("a", "1"), ("b", "2"), ("c", "3")]);
    world.faults.fail_nth(Site::TableAppend, 1, Fault::NoSpace);
    assert!(db.flush().unwrap_err().is_no_space());
    put_all(&db, &[("d", "4")]);
    world.faults.fail_nth(Site::WalAppend, 1, Fault::NoSpace);
    assert!(unsynced(&db, "e", "5").unwrap_err().is_no_space());
    put_all(&db, &[("e", "5")]);
    assert_eq!(world.folder.wals().len(), 1, "it was healed, and all is in one log");
    assert!(db.run_background_step().unwrap());
    assert_eq!(world.folder.tables().len(), 1);

    let world = world.after_crash();
    let db = world.open_with(reuse);
    assert_eq!(contents(&db).len(), 5);
    let last = db.snapshot().seqno();
    db.close().unwrap();
    assert!(verify("/db", &world.options()).unwrap().is_ok());

    let log = world.folder.wals().pop().unwrap();
    world.folder.edit(&log, Vec::clear);
    let db = world.open_with(reuse);
    put_all(&db, &[("a", "new")]);
    assert_eq!(db.get("a").unwrap().unwrap(), b"new");
    assert!(db.snapshot().seqno().0 > 3 && db.snapshot().seqno() < last);
}
