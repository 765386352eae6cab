//! Logs at open.

use siltstone::{Db, WriteBatch, WriteOptions, plan_repair, verify};

use crate::support::log_file::{append_record, batch, log_file};
use crate::support::{Folder, World, contents, put_all, synced, unsynced};

/// The names of the keys found.
fn keys(db: &Db) -> String {
    contents(db).into_keys().collect::<Vec<_>>().join(" ")
}

/// The one log with anything in it.
fn live_log(folder: &Folder) -> String {
    let logs = folder.wals();
    assert_eq!(logs.len(), 1, "{logs:?}");
    logs[0].clone()
}

/// LevelDB's `Recover`.
#[test]
fn writes_survive_reopening_again_and_again() {
    let world = World::new();
    let db = world.open();
    put_all(&db, &[("foo", "v1"), ("baz", "v5")]);
    drop(db);
    let db = world.open();
    assert_eq!(keys(&db), "baz foo");
    put_all(&db, &[("bar", "v2"), ("foo", "v3")]);
    drop(db);
    let db = world.open();
    put_all(&db, &[("foo", "v4")]);
    assert_eq!(contents(&db)["foo"], "v4");
    let at = db.snapshot().seqno();
    drop(db);
    let db = world.open();
    assert_eq!(contents(&db)["foo"], "v4");
    assert_eq!(keys(&db), "bar baz foo");
    assert_eq!(db.snapshot().seqno(), at, "numbers go on where they were");
}

/// LevelDB's `RecoveryWithEmptyLog`.
#[test]
fn empty_logs_are_no_matter() {
    let world = World::new();
    for round in ["1", "2", "3"] {
        drop(world.open());
        drop(world.open());
        let db = world.open();
        put_all(&db, &[("foo", round)]);
        drop(db);
    }
    let db = world.open();
    assert_eq!(contents(&db)["foo"], "3");
    assert_eq!(db.levels().iter().map(|level| level.tables.len()).sum::<usize>(), 3);
}

/// The next log is made while the memtable fills. Who dies then leaves it behind: empty, or with the zeros of its first step.
#[test]
fn a_log_made_ahead_is_no_matter() {
    for (zeros, reuse_logs) in [(0, false), (0, true), (32 << 10, false), (32 << 10, true)] {
        let mut world = World::new();
        let mut expected = 0;
        for round in 0..3 {
            let db = world.open_with(|options| options.reuse_logs = reuse_logs);
            assert_eq!(contents(&db).len(), expected, "round {round}");
            assert!(db.recovery_report().dropped.is_empty());
            put_all(&db, &[(&format!("buffered{round}"), "1")]);
            synced(&db, format!("synced{round}"), "2").unwrap();
            expected += 2;
            world = world.after_crash();
            let last = world.folder.wals().pop().unwrap();
            let number: u64 = last.strip_suffix(".log").unwrap().parse().unwrap();
            let ahead = format!("{:06}.log", number + 1);
            world.folder.write(&ahead, &vec![0; zeros]);
        }
        assert_eq!(contents(&world.open()).len(), expected);
    }
}

/// LevelDB's `RecoverDuringMemtableCompaction` and `MultipleMemTables`: a crash while memtables wait
/// to be flushed, each with a log of its own.
#[test]
fn several_logs_are_replayed_in_order() {
    let world = World::new();
    let db = world.open();
    for round in 0..3u32 {
        put_all(&db, &[("counter", &round.to_string())]);
        db.put(format!("bulk{round}"), "x".repeat(40 << 10)).unwrap();
    }
    assert!(world.folder.wals().len() > 1);
    let expected = contents(&db);
    let crashed = world.after_crash();
    let logs = crashed.folder.wals().len();
    let db = crashed.open();
    assert_eq!(contents(&db), expected);
    let report = db.recovery_report();
    assert_eq!(report.wals.len(), logs);
    assert!(report.dropped.is_empty() && report.torn_bytes == 0);
    assert_eq!(report.last_seqno, db.snapshot().seqno());
}

/// LevelDB's `RecoverWithLargeLog`: a log larger than the write buffer becomes several tables.
#[test]
fn a_large_log_becomes_several_tables() {
    let world = World::new();
    let db = world.open_with(|options| options.write_buffer_size = 4 << 20);
    for number in 0..50 {
        db.put(format!("{number:02}"), number.to_string().repeat(5_000)).unwrap();
    }
    assert!(db.levels().is_empty());
    let expected = contents(&db);
    drop(db);
    let db = world.open();
    assert!(db.levels()[0].tables.len() > 3, "{:?}", db.levels());
    assert_eq!(contents(&db), expected);
}

/// LevelDB's `NoLogFiles`, where the open succeeds and what the log held is gone without a word: the
/// manifest names its log, and a crash cannot take it.
#[test]
fn a_missing_log_is_told_at_open() {
    let world = World::new();
    let db = world.open();
    put_all(&db, &[("foo", "bar")]);
    db.flush().unwrap();
    while db.run_background_step().unwrap() {}
    put_all(&db, &[("in the log", "1")]);
    drop(db);
    let log = live_log(&world.folder);
    let bytes = world.folder.read(&log);
    world.folder.remove(&log);
    for opened in [world.try_open(), world.open_read_only()] {
        let error = opened.unwrap_err();
        assert!(error.is_corruption(), "{error}");
        assert!(error.file().unwrap().ends_with(&log), "{error}");
    }
    world.folder.write(&log, &bytes);
    assert_eq!(keys(&world.open()), "foo in the log");
}

/// LevelDB's `MultipleLogFiles`: logs that appear beside those of the manifest, as a copying tool or
/// another writer leaves them, are replayed by number.
#[test]
fn logs_are_replayed_by_number() {
    let world = World::new();
    let db = world.open();
    put_all(&db, &[("foo", "bar")]);
    drop(db);
    let db = world.open();
    while db.run_background_step().unwrap() {}
    drop(db);
    // One number was given so far.
    let folder = &world.folder;
    let number: u64 = live_log(folder)[..6].parse().unwrap();
    let name = |ahead: u64| format!("{:06}.log", number + ahead);
    folder.write(&name(1), &log_file(&[batch(2, &[("hello", "world")])]));
    folder.write(&name(2), &log_file(&[batch(3, &[("hi", "there")])]));
    folder.write(&name(3), &log_file(&[batch(4, &[("foo", "bar2")])]));
    let db = world.open();
    assert_eq!(keys(&db), "foo hello hi");
    assert_eq!(contents(&db)["foo"], "bar2");
    assert_eq!(db.snapshot().seqno().0, 4);
}

/// A process that dies in the middle of an append leaves a beginning of it.
#[test]
fn a_torn_tail_is_cut_at_every_byte() {
    let world = World::new();
    let db = world.open();
    put_all(&db, &[("a", "1"), ("b", "2")]);
    let whole = world.folder.len(&live_log(&world.folder));
    let mut batch = WriteBatch::new();
    batch.put("c", "3".repeat(20));
    batch.delete("a");
    db.write(&batch, WriteOptions::default()).unwrap();
    let image = world.folder.files();
    let log = live_log(&world.folder);
    for end in whole..world.folder.len(&log) {
        for paranoid in [false, true] {
            let torn = World::with_files(&image);
            torn.folder.edit(&log, |bytes| bytes.truncate(end as usize));
            let db = torn.open_with(|options| options.paranoid_checks = paranoid);
            assert_eq!(keys(&db), "a b", "cut at {end}");
            assert_eq!(db.recovery_report().torn_bytes, end - whole);
            assert!(db.recovery_report().dropped.is_empty());
            synced(&db, "d", "4").unwrap();
            assert_eq!(keys(&torn.after_crash().open()), "a b d");
        }
    }
}

/// A batch is there as a whole or not at all, also where it spans several blocks of the log.
#[test]
fn a_large_batch_is_whole_or_not_there() {
    let world = World::new();
    let db = world.open_with(|options| options.write_buffer_size = 4 << 20);
    put_all(&db, &[("before", "1")]);
    let log = live_log(&world.folder);
    let start = world.folder.len(&log) as usize;
    let mut batch = WriteBatch::new();
    for number in 0..100 {
        batch.put(format!("{number:02}"), "v".repeat(1_000));
    }
    db.write(&batch, WriteOptions::default()).unwrap();
    let image = world.folder.files();
    let end = world.folder.len(&log) as usize;
    for cut in (start..end).step_by(997).chain([start + 1, 32 << 10, 64 << 10, end - 1]) {
        let torn = World::with_files(&image);
        torn.folder.edit(&log, |bytes| bytes.truncate(cut));
        assert_eq!(keys(&torn.open()), "before", "cut at {cut}");
    }
    assert_eq!(contents(&World::with_files(&image).open()).len(), 101);
}

/// Space that was preallocated, or that a file system gave but never filled, reads as zeros.
#[test]
fn zeros_at_the_end_are_no_damage() {
    for zeros in [1, 6, 7, 100, 32 << 10, 100_000] {
        let world = World::new();
        let db = world.open();
        put_all(&db, &[("a", "1")]);
        drop(db);
        let log = live_log(&world.folder);
        world.folder.edit(&log, |bytes| bytes.resize(bytes.len() + zeros, 0));
        let db = world.open_with(|options| options.paranoid_checks = true);
        assert_eq!(keys(&db), "a", "{zeros} zeros");
        assert!(db.recovery_report().dropped.is_empty());
    }
}

/// Unsynced writes may survive a power cut out of order: what lies behind a hole goes too, and is
/// reported and kept aside.
#[test]
fn a_hole_in_an_unsynced_log_ends_it() {
    let world = World::new();
    let db = world.open();
    for number in 0..100 {
        unsynced(&db, format!("{number:02}"), "v".repeat(50)).unwrap();
    }
    drop(db);
    let log = live_log(&world.folder);
    let record = world.folder.len(&log) / 100;
    let at = record * 40;
    for hole in [1, record, record * 2] {
        let image = World::with_files(&world.folder.files());
        image.folder.edit(&log, |bytes| bytes[at as usize..(at + hole) as usize].fill(0));
        let paranoid = image.try_open_with(|options| options.paranoid_checks = true);
        let error = paranoid.unwrap_err();
        assert!(error.is_corruption() && error.file().unwrap().ends_with(&log), "{error}");
        let db = image.open();
        assert_eq!(contents(&db).len(), 40, "the writes before the hole");
        let dropped = &db.recovery_report().dropped;
        assert_eq!(dropped.len(), 1);
        assert!(dropped[0].file.ends_with(&log));
        assert_eq!(dropped[0].offset, at);
        assert_eq!(dropped[0].bytes, record * 60);
        let lost = Folder::new(image.folder.fs.clone(), image.folder.path("lost"));
        assert_eq!(lost.names(), std::slice::from_ref(&log), "what was dropped is kept aside");
        drop(db);
        assert_eq!(contents(&image.open()).len(), 40, "and opening again changes nothing");
    }
}

/// A process that dies while it stores a record through a map leaves all but its first eight bytes, which come last.
#[test]
fn a_record_without_its_head_is_torn_if_it_is_the_last() {
    for (value_bytes, zeros) in [(50, 0), (50, 200_000), (70_000, 0), (70_000, 100_000)] {
        let world = World::new();
        let db = world.open_with(|options| options.write_buffer_size = 4 << 20);
        for number in 0..10 {
            unsynced(&db, format!("{number:02}"), "v".repeat(value_bytes)).unwrap();
        }
        let log = live_log(&world.folder);
        let whole = world.after_crash().folder.len(&log);
        unsynced(&db, "last", "v".repeat(value_bytes)).unwrap();
        drop(db);
        let image = World::with_files(&world.folder.files());
        let end = image.folder.len(&log);
        image.folder.edit(&log, |bytes| {
            bytes[whole as usize..][..8].fill(0);
            bytes.resize(bytes.len() + zeros, 0);
        });
        let verified = verify(&image.folder.dir, &image.options()).unwrap();
        assert!(verified.is_ok(), "{verified}");
        let plan = plan_repair(&image.folder.dir, &image.options()).unwrap();
        assert!(plan.is_whole(), "{plan}");
        for paranoid in [true, false] {
            let image = World::with_files(&image.folder.files());
            let db = image.open_with(|options| options.paranoid_checks = paranoid);
            let report = db.recovery_report();
            assert!(report.dropped.is_empty(), "{value_bytes}, {zeros}: {report:?}");
            assert_eq!(report.torn_bytes, end - whole, "{value_bytes}, {zeros}");
            assert_eq!(contents(&db).len(), 10);
        }
    }
}

/// A batch that is sound as a record but not as a batch: nobody wrote that.
#[test]
fn a_record_that_is_no_batch_ends_the_log() {
    let good = batch(1, &[("a", "1")]);
    let short = vec![7; 5];
    let wrong_count = {
        let mut bytes = batch(2, &[("b", "2")]);
        bytes[8] = 3;
        bytes
    };
    let wrong_kind = {
        let mut bytes = batch(2, &[("b", "2")]);
        bytes[12] = 9;
        bytes
    };
    for bad in [short, wrong_count, wrong_kind] {
        let world = World::new();
        drop(world.open());
        let log = live_log(&world.folder);
        let records = [good.clone(), bad, batch(3, &[("c", "3")])];
        world.folder.write(&log, &log_file(&records));
        let paranoid = world.try_open_with(|options| options.paranoid_checks = true);
        assert!(paranoid.unwrap_err().is_corruption());
        let db = world.open();
        assert_eq!(keys(&db), "a");
        assert_eq!(db.recovery_report().dropped.len(), 1);
    }
}

/// Sequence numbers that jump within a log are failed appends; LevelDB leaves such too.
#[test]
fn numbers_may_jump_within_a_log() {
    let world = World::new();
    drop(world.open());
    let mut log = log_file(&[batch(1, &[("a", "1")])]);
    append_record(&mut log, &batch(90, &[("b", "2"), ("c", "3")]));
    world.folder.write(&live_log(&world.folder), &log);
    let db = world.open();
    assert_eq!(keys(&db), "a b c");
    assert_eq!(db.snapshot().seqno().0, 91);
}

/// Sectors of a log in each other's place, or older ones, whose records are sound: their numbers tell.
#[test]
fn records_out_of_order_end_a_log_or_the_open() {
    let record = |seqno: &u64| match seqno {
        0 => b"no batch, and longer than a mark, which may be torn".to_vec(),
        seqno => batch(*seqno, &[(&seqno.to_string(), "1")]),
    };
    let records = |seqnos: &[u64]| -> Vec<Vec<u8>> { seqnos.iter().map(record).collect() };
    for (seqnos, found) in [
        (&[1, 2, 2, 3][..], Some("1 2")), // One was written over its neighbour.
        (&[1, 2, 1, 4], Some("1 2")),     // Something older where 3 should be.
        (&[1, 3, 2, 4], None),            // Two have changed places: 3 is applied, 2 is not.
        (&[1, 4, 3, 4], None),
        (&[1, 4, 0], None), // Numbers jump, and then comes damage.
    ] {
        let world = World::new();
        drop(world.open());
        let log = live_log(&world.folder);
        world.folder.write(&log, &log_file(&records(seqnos)));
        let report = verify("/db", &world.options()).unwrap();
        assert!(report.problems().any(|problem| problem.file().unwrap().ends_with(&log)));
        let paranoid = world.try_open_with(|options| options.paranoid_checks = true);
        assert!(paranoid.unwrap_err().is_corruption());
        match (world.try_open(), found) {
            (Ok(db), Some(found)) => {
                assert_eq!(keys(&db), found, "{seqnos:?}");
                assert_eq!(db.recovery_report().dropped.len(), 1, "{seqnos:?}");
            }
            (Err(error), None) => {
                assert!(error.is_corruption() && error.offset().is_some(), "{error}");
                assert!(error.file().unwrap().ends_with(&log), "{error}");
            }
            (opened, _) => panic!("{seqnos:?}: {opened:?}"),
        }
    }
}

/// What failed leaves gaps in the numbers, also in the copy that recovery makes of a log. A crash may
/// tear the mark that follows it, or whatever follows that.
#[test]
fn a_tail_behind_a_gap_may_be_torn() {
    let copy = || log_file(&[batch(1, &[("a", "1")]), batch(5, &[("b", "2")])]);
    let tail = |bytes: &mut Vec<u8>, record: &[u8]| {
        append_record(bytes, record);
        bytes.pop();
    };
    let mut torn_mark = copy();
    tail(&mut torn_mark, &batch(6, &[]));
    let mut torn_write = copy();
    append_record(&mut torn_write, &batch(6, &[]));
    tail(&mut torn_write, &batch(6, &[("c", &"3".repeat(100))]));
    for bytes in [torn_mark, torn_write] {
        let world = World::new();
        drop(world.open());
        world.folder.write(&live_log(&world.folder), &bytes);
        assert_eq!(keys(&world.open()), "a b");
    }
}

/// The newest log is replaced by an older one: all its records have been, and what it held is gone.
#[test]
fn an_old_log_in_the_place_of_a_new_one_is_told() {
    let world = World::new();
    let db = world.open();
    for key in ["a", "b", "c"] {
        unsynced(&db, key, "v".repeat(60 << 10)).unwrap();
    }
    drop(db);
    let logs = world.folder.wals();
    assert!(logs.len() > 2, "{logs:?}");
    let (first, last) = (&logs[0], &logs[logs.len() - 1]);
    world.folder.write(last, &world.folder.read(first));
    assert!(!verify("/db", &world.options()).unwrap().is_ok());
    let db = world.open();
    assert!(!contents(&db).contains_key("c"));
    let dropped = &db.recovery_report().dropped;
    assert_eq!(dropped.len(), 1, "{dropped:?}");
    assert!(dropped[0].file.ends_with(last), "{dropped:?}");
}

/// A crash while opening leaves the logs and perhaps a few orphans; any number of them in a row.
#[test]
fn opening_twice_from_the_same_image_gives_the_same() {
    let world = World::new();
    let db = world.open();
    put_all(&db, &[("a", "1"), ("b", "2")]);
    let mut image = world.after_crash();
    for _ in 0..5 {
        let db = image.open();
        assert_eq!(keys(&db), "a b");
        let next = image.after_crash();
        drop(db);
        image = next;
    }
}

/// LevelDB's `LogFileReuse`, and issue 1287: with `reuse_logs`, too, nothing is appended behind a
/// torn tail.
#[test]
fn regress_log_reuse() {
    for torn in [0, 1, 5, 20] {
        let world = World::new();
        let reuse = |world: &World| world.open_with(|options| options.reuse_logs = true);
        let db = reuse(&world);
        put_all(&db, &[("a", "1")]);
        drop(db);
        let log = live_log(&world.folder);
        let mut tail = Vec::new();
        append_record(&mut tail, &batch(2, &[("torn", "never acknowledged")]));
        world.folder.edit(&log, |bytes| bytes.extend_from_slice(&tail[..torn]));
        let db = reuse(&world);
        for number in 0..50 {
            synced(&db, format!("b{number:02}"), "2").unwrap();
        }
        let db = reuse(&world.after_crash());
        assert_eq!(contents(&db).len(), 51, "{torn} torn bytes");
    }
}
