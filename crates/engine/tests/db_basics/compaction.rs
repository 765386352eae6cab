//! What compaction keeps, drops and moves.

use siltstone::{Background, Compression, Db, Options};

use crate::support::{TempDir, World, contents, put_all};
use crate::{files_per_level, work_off};

/// LevelDB's `MinorCompactionsHappen`.
#[test]
fn full_memtables_become_tables() {
    let world = World::new();
    let db = world.open_with(|options| options.write_buffer_size = 10_000);
    for number in 0..500 {
        db.put(format!("{number:03}"), format!("{number}").repeat(300)).unwrap();
    }
    work_off(&db);
    assert!(db.metrics().flushes > 10);
    let expected = contents(&db);
    assert_eq!(expected.len(), 500);
    drop(db);
    assert_eq!(contents(&world.open()), expected);
}

/// By hand as well, where housekeeping has its turn only when nothing else is to be done.
#[test]
#[cfg(target_os = "linux")]
fn full_logs_are_not_mapped() {
    let temp = TempDir::new("maps");
    let background = Background::ByHand;
    let options = Options { create_if_missing: true, background, ..Default::default() };
    let db = Db::open(temp.path(), Options { write_buffer_size: 64 << 10, ..options }).unwrap();
    for number in 0..1_000 {
        db.put(format!("{number:04}"), "v".repeat(1_000)).unwrap();
    }
    assert!(db.metrics().flushes > 5);
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let folder = temp.path().display().to_string();
    assert!(maps.lines().filter(|map| map.contains(&folder)).count() <= 1, "{maps}");
}

/// LevelDB's `RepeatedWritesToSameKey`: one key overwritten for ever takes a bounded number of
/// files.
#[test]
fn one_key_overwritten_for_ever() {
    let world = World::new();
    let db = world.open_with(|options| options.write_buffer_size = 100_000);
    let value = "v".repeat(200_000);
    for _ in 0..60 {
        db.put("key", &value).unwrap();
        let tables: usize = db.levels().iter().map(|level| level.tables.len()).sum();
        assert!(tables <= db.options().level0.stop + 2, "{}", files_per_level(&db));
    }
    db.wait_for_background().unwrap();
    work_off(&db);
    let level0 = db.options().level0.compact;
    assert!(world.folder.tables().len() <= level0 + 1, "{}", files_per_level(&db));
}

/// Parts end with tables that are not full.
#[test]
fn merges_of_level_0_run_in_parts_if_there_are_lanes() {
    let tables = |lanes| {
        let world = World::new();
        let db = world.open_with(|options| {
            options.compression = Compression::None;
            options.write_buffer_size = 16 << 20;
            options.max_file_size = 1 << 20;
            options.level1_bytes = 64 << 20;
            options.compaction_lanes = lanes;
        });
        for round in 0..4 {
            let keys = (0..1_000).map(|nth| format!("{:05}", nth * 4 + round));
            keys.for_each(|key| db.put(key, "v".repeat(850)).unwrap());
            db.flush().unwrap();
        }
        work_off(&db);
        assert_eq!(contents(&db).len(), 4_000);
        files_per_level(&db)
    };
    assert_eq!((tables(1), tables(3)), ("0,4".to_owned(), "0,5".to_owned()));
}

/// LevelDB's `SparseMerge`: no merge may meet more than its share of the level below.
#[test]
fn a_sparse_update_does_not_rewrite_the_level_below_at_once() {
    let world = World::new();
    let table = 10 << 10;
    let db = world.open_with(|options| {
        options.compression = Compression::None;
        options.max_file_size = table;
        options.level1_bytes = 40 << 10;
    });
    for number in 0..2_000 {
        db.put(format!("B{number:04}"), "v".repeat(400)).unwrap();
    }
    put_all(&db, &[("A", "va"), ("C", "vc")]);
    db.compact_range(None, None).unwrap();
    db.wait_for_background().unwrap();
    // Few keys, far apart.
    put_all(&db, &[("A", "va2"), ("B0100", "bvalue2"), ("C", "vc2")]);
    db.compact_range(None, None).unwrap();
    db.wait_for_background().unwrap();
    let largest = db.levels().into_iter().flat_map(|level| level.tables);
    assert!(largest.map(|table| table.bytes).max().unwrap() < 3 * table as u64);
    assert_eq!(db.get("B0100").unwrap().unwrap(), b"bvalue2");
    assert_eq!(contents(&db).len(), 2_002);
}

/// Whatever levels it lies in.
#[test]
fn a_small_range_is_written_once() {
    let world = World::new();
    let db = world.open_with(|options| {
        options.compression = Compression::None;
        options.write_buffer_size = 16 << 10;
        options.max_file_size = 8 << 10;
        options.level1_bytes = 32 << 10;
        options.level_growth = 3;
    });
    let put = |round: u32| {
        for number in 0..2_000_u32 {
            let key = number.wrapping_mul(2_654_435_761) % 2_000;
            db.put(format!("{key:04}"), format!("{round}").repeat(100)).unwrap();
        }
    };
    (1..4).for_each(put);
    work_off(&db);
    put(4);
    db.flush().unwrap();
    assert!(db.levels().len() >= 4, "{}", files_per_level(&db));
    let before = db.metrics();
    db.compact_range(None, None).unwrap();
    let written = db.metrics().compaction_bytes_written - before.compaction_bytes_written;
    let levels = db.levels();
    let left: u64 = levels.iter().flat_map(|level| &level.tables).map(|table| table.bytes).sum();
    assert_eq!((levels.len(), written), (1, left), "{}", files_per_level(&db));
    assert_eq!(db.metrics().merges, before.merges + 1);
    assert!(contents(&db).values().all(|value| value.starts_with('4')));
}

/// LevelDB's `HiddenValuesAreRemoved`.
#[test]
fn overwritten_values_go() {
    let world = World::new();
    let db = world.open();
    db.put("foo", "x".repeat(50_000)).unwrap();
    db.flush().unwrap();
    put_all(&db, &[("foo", "tiny"), ("pastfoo", "v")]);
    let snapshot = db.snapshot();
    put_all(&db, &[("pastfoo", "v2")]);
    db.compact_range(None, None).unwrap();
    assert_eq!(db.metrics().entries_dropped, 1, "the snapshot keeps one of the two");
    assert!(db.approximate_sizes(&[(b"", b"pastfoo")]).unwrap()[0] < 1_000);
    drop(snapshot);
    db.compact_range(None, None).unwrap();
    put_all(&db, &[("pastfoo", "v3")]);
    db.compact_range(None, None).unwrap();
    assert_eq!(db.metrics().entries_dropped, 3);
    assert_eq!(contents(&db)["pastfoo"], "v3");
}

/// LevelDB's `DeletionMarkers1` and `DeletionMarkers2`: a deletion stays while anything below may
/// hold its key, and goes when nothing can.
#[test]
fn deletions_stay_as_long_as_they_hide_something() {
    let world = World::new();
    let db = world.open();
    put_all(&db, &[("a", "begin"), ("foo", "v1"), ("z", "end")]);
    db.compact_range(None, None).unwrap();
    db.delete("foo").unwrap();
    put_all(&db, &[("foo", "v2")]);
    db.delete("foo").unwrap();
    db.flush().unwrap();
    assert_eq!(files_per_level(&db), "1,1");
    assert_eq!(db.get("foo").unwrap(), None);
    db.compact_range(None, None).unwrap();
    assert_eq!(db.get("foo").unwrap(), None);
    assert_eq!(db.metrics().entries_dropped, 4, "both deletions and both values");
    assert_eq!(contents(&db).len(), 2);
}

/// LevelDB's `OverlapInLevel0`.
#[test]
fn overlapping_tables_of_level_0_go_down_together() {
    let world = World::new();
    let db = world.open();
    put_all(&db, &[("100", "v100"), ("999", "v999")]);
    db.flush().unwrap();
    db.delete("100").unwrap();
    db.delete("999").unwrap();
    db.flush().unwrap();
    put_all(&db, &[("300", "v300"), ("500", "v500")]);
    db.flush().unwrap();
    put_all(&db, &[("200", "v200"), ("600", "v600"), ("900", "v900")]);
    db.flush().unwrap();
    // Asked for the middle only.
    db.compact_range(Some(b"300"), Some(b"400")).unwrap();
    work_off(&db);
    assert_eq!(db.get("100").unwrap(), None);
    let found: Vec<String> = contents(&db).into_keys().collect();
    assert_eq!(found, ["200", "300", "500", "600", "900"]);
}

/// LevelDB's `L0_CompactionBug_Issue44_a` and `_b`: reopens between small overlapping writes.
#[test]
fn issue_44_reopens_between_overlapping_writes() {
    let steps = |script: &[&str]| {
        let world = World::new();
        let mut db = world.open();
        for step in script {
            match step.split_at(1) {
                ("r", _) => {
                    drop(db);
                    db = world.open();
                }
                ("-", key) => db.delete(key).unwrap(),
                (_, key) => db.put(key, "v").unwrap(),
            }
        }
        drop(db);
        db = world.open();
        db.wait_for_background().unwrap();
        contents(&db).into_keys().collect::<Vec<_>>().join(" ")
    };
    let first = ["r", "+b", "r", "-b", "-e", "r", "-a", "r", "+a", "r", "r"];
    assert_eq!(steps(&first), "a");
    let second =
        ["r", "+", "r", "-e", "+", "r", "+c", "+v", "r", "+", "r", "+", "r", "+p", "r", "-p"];
    assert_eq!(steps(&second), " c v");
}

/// LevelDB's `ManualCompaction`: only what the range meets is touched.
#[test]
fn a_range_compaction_touches_its_range() {
    let world = World::new();
    let db = world.open();
    let fill = |db: &Db| {
        for key in ["p", "q"] {
            put_all(db, &[(key, "v")]);
            db.flush().unwrap();
        }
    };
    fill(&db);
    fill(&db);
    let at_level_0 =
        || db.levels().first().filter(|l| l.level.number() == 0).map(|l| l.tables.len());
    assert_eq!(at_level_0(), Some(4));
    db.compact_range(Some(b""), Some(b"c")).unwrap(); // Before.
    assert_eq!(at_level_0(), Some(4));
    db.compact_range(Some(b"r"), Some(b"z")).unwrap(); // Behind.
    assert_eq!(at_level_0(), Some(4));
    db.compact_range(Some(b"p"), Some(b"p")).unwrap();
    assert_eq!(at_level_0(), Some(2));
    db.compact_range(None, None).unwrap();
    assert_eq!(at_level_0(), None);
    db.compact_range(Some(b"z"), Some(b"a")).unwrap(); // An empty range.
    assert_eq!(contents(&db).len(), 2);
}

/// LevelDB's `ApproximateSizes` and `ApproximateSizes_MixOfSmallAndLarge`.
#[test]
fn sizes_of_ranges_are_about_right() {
    let world = World::new();
    let open = || world.open_with(|options| options.compression = Compression::None);
    let mut db = open();
    let size = |db: &Db, from: &str, to: &str| {
        db.approximate_sizes(&[(from.as_bytes(), to.as_bytes())]).unwrap()[0]
    };
    assert_eq!(size(&db, "", "z"), 0);
    for number in 0..80 {
        db.put(format!("{number:02}"), "v".repeat(10_000)).unwrap();
    }
    drop(db);
    for _ in 0..3 {
        db = open();
        for number in [10, 20, 50] {
            let upto = size(&db, "", &format!("{number:02}"));
            let expected = number * 10_000;
            assert!(
                (expected..expected + 10_000 + number * 200).contains(&upto),
                "{number}: {upto}"
            );
            let one = size(&db, &format!("{number:02}"), &format!("{:02}", number + 1));
            assert!((10_000..20_000).contains(&one), "{one}");
        }
        assert_eq!(size(&db, "50", "50"), 0);
        assert_eq!(size(&db, "60", "50"), 0, "an empty range");
        assert!(size(&db, "", "zz") > 800_000);
        db.compact_range(Some(b"00"), Some(b"30")).unwrap();
        drop(db);
    }
}

/// LevelDB's `autocompact_test`: reads that visit a table in vain get it compacted, if asked for;
/// by default reads never write.
#[test]
fn reads_in_vain_compact_if_the_user_wants() {
    for wanted in [true, false] {
        let world = World::new();
        let db = world.open_with(|options| options.seek_compaction = wanted);
        // Each read of a middle key passes the upper table before it finds it.
        put_all(&db, &[("a", "1"), ("m", "1"), ("z", "1")]);
        db.compact_range(None, None).unwrap();
        put_all(&db, &[("a", "2"), ("z", "2")]);
        db.flush().unwrap();
        assert_eq!(files_per_level(&db), "1,1");
        for _ in 0..500 {
            assert!(db.get("m").unwrap().is_some());
        }
        work_off(&db);
        assert_eq!(files_per_level(&db), if wanted { "0,1" } else { "1,1" });
        assert_eq!(contents(&db)["a"], "2");
    }
}

/// Scans visit each table of level 0; once that was dearer than merging them, they are merged.
#[test]
fn scans_of_level_0_compact_it_once() {
    for wanted in [true, false] {
        let world = World::new();
        let db = world.open_with(|options| options.scan_compaction = wanted);
        put_all(&db, &[("a", "1"), ("z", "1")]);
        db.flush().unwrap();
        put_all(&db, &[("a", "2"), ("z", "2")]);
        db.flush().unwrap();
        assert_eq!(files_per_level(&db), "2");
        let scan = |times| {
            for _ in 0..times {
                let mut iter = db.iter().unwrap();
                iter.seek("m").unwrap();
                assert_eq!(iter.value(), b"2");
            }
            work_off(&db);
        };
        scan(2000);
        assert_eq!(files_per_level(&db), "2", "too few to tell");
        scan(100);
        assert_eq!(files_per_level(&db), if wanted { "0,1" } else { "2" });
        scan(10_000);
        assert_eq!(files_per_level(&db), if wanted { "0,1" } else { "2" });
        put_all(&db, &[("b", "3")]);
        db.flush().unwrap();
        scan(5000);
        assert_eq!(files_per_level(&db), if wanted { "0,1" } else { "3" });
        assert_eq!(contents(&db)["b"], "3");
    }
}

/// Tables larger than level 1 should be gather in level 0 up to twice the usual number, as long as nobody scans.
#[test]
fn large_tables_of_level_0_wait_for_more_or_for_scans() {
    let world = World::new();
    let open = |wanted| {
        world.open_with(|options| {
            options.scan_compaction = wanted;
            options.unclamped = true;
            options.level1_bytes = 1000;
            options.compression = Compression::None;
            options.write_buffer_size = 4 << 20;
        })
    };
    let large = "x".repeat(500_000);
    let flush = |db: &Db, times| {
        for _ in 0..times {
            put_all(db, &[("a", "1"), ("m", &large), ("z", "1")]);
            db.flush().unwrap();
            work_off(db);
        }
    };
    let db = open(true);
    flush(&db, 7);
    (0..10_000).for_each(|_| assert!(db.get("m").unwrap().is_some()));
    work_off(&db);
    assert_eq!(files_per_level(&db), "7", "gets have filters");
    flush(&db, 1);
    assert!(files_per_level(&db).starts_with("0,"), "{}", files_per_level(&db));
    flush(&db, 4);
    assert!(files_per_level(&db).starts_with("4,"), "{}", files_per_level(&db));
    for _ in 0..1100 {
        db.iter().unwrap().seek("m").unwrap();
    }
    work_off(&db);
    assert!(files_per_level(&db).starts_with("0,"), "{}", files_per_level(&db));
    db.close().unwrap();
    let db = open(false);
    flush(&db, 4);
    assert!(files_per_level(&db).starts_with("0,"), "{}", files_per_level(&db));
}

/// The same for scans, which are sampled: about once for each mebibyte they read.
#[test]
fn scans_in_vain_compact_if_the_user_wants() {
    for wanted in [true, false] {
        let world = World::new();
        let db = world.open_with(|options| options.seek_compaction = wanted);
        let large = "x".repeat(1 << 20);
        put_all(&db, &[("a", "1"), ("m", &large), ("z", "1")]);
        db.compact_range(None, None).unwrap();
        put_all(&db, &[("a", "2"), ("z", "2")]);
        db.flush().unwrap();
        let before = files_per_level(&db);
        for _ in 0..500 {
            let mut iter = db.iter().unwrap();
            iter.seek("m").unwrap();
            assert_eq!(iter.value().len(), large.len());
        }
        work_off(&db);
        assert_eq!(files_per_level(&db) != before, wanted, "{before}");
    }
}
