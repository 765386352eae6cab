//! What LevelDB does wrong and we do right: each defect that was reproduced on LevelDB (both its
//! last release and its newest source), as a test that LevelDB fails.
//!
//! Not here: row 8, equal keys in a row, is below the public API: `equal_keys_in_a_row_are_kept` in
//! the tests of `format/table`.
#![expect(clippy::disallowed_methods, reason = "tests set the stage with the system's own files")]
#![expect(clippy::unwrap_used, reason = "cases are functions that the tests call")]

mod support;

use siltstone::{Compression, Db, ErrorKind, Level0Limits, Options, Site};
use support::{Fault, TempDir, World, contents, synced, unsynced};

fn key(number: usize) -> String {
    format!("{number:04}")
}

fn value(number: usize) -> String {
    format!("value-{number:04}-").repeat(8)
}

/// An append breaks off (disk full), later ones succeed and are synced and acknowledged: LevelDB
/// finds none of them after a reopen, because each follows a torn record and is misframed.
#[test]
fn defect_1_synced_writes_after_a_torn_append_survive() {
    let world = World::new();
    let db = world.open_with(|options| options.write_buffer_size = 4 << 20);
    synced(&db, "before", "1").unwrap();
    world.faults.fail_nth(Site::WalAppend, 1, Fault::Full(50));
    assert!(synced(&db, "torn", value(0)).unwrap_err().is_no_space());
    for number in 0..1000 {
        synced(&db, key(number), value(number)).unwrap();
    }
    let crashed = world.after_crash().open();
    db.close().unwrap();
    for db in [crashed, world.open()] {
        let found = contents(&db);
        assert_eq!(found.len(), 1001);
        assert!((0..1000).all(|number| found[&key(number)] == value(number)));
        assert!(!found.contains_key("torn"));
    }
}

/// A healthy database in which old data was compacted after newer data was flushed, so that the
/// older table has the greater number.
fn old_data_in_a_newer_table() -> World {
    let world = World::new();
    let open = |level0: usize, level1: u64| {
        world.open_with(|options| {
            options.level0 = Level0Limits { compact: level0, slow_down: 100, stop: 100 };
            options.level1_bytes = level1;
        })
    };
    let fill = |db: &Db, value: &str| {
        synced(db, "key", value).unwrap();
        synced(db, "gone", value).unwrap();
        db.flush().unwrap();
        while db.run_background_step().unwrap() {}
    };
    fill(&open(1, 1), "oldest"); // Sinks to the last level.
    fill(&open(1, 1 << 20), "older"); // Stays in level 1.
    let db = open(100, 1 << 20);
    db.delete("gone").unwrap();
    synced(&db, "key", "new").unwrap();
    db.flush().unwrap(); // Stays in level 0.
    drop(db);
    let db = open(100, 1); // Now level 1 is merged into the last.
    while db.run_background_step().unwrap() {}
    let levels = db.levels();
    let numbers: Vec<_> = levels.iter().map(|level| level.tables[0].number).collect();
    assert!(numbers.len() == 2 && numbers[0] < numbers[1], "{levels:?}");
    world
}

/// LevelDB's repair puts all tables into level 0, where the greater number counts as newer: `Get`
/// returns the old value, and the deleted key.
#[test]
fn defect_2_repair_keeps_new_values_and_deletions() {
    let world = old_data_in_a_newer_table();
    siltstone::repair("/db", "/repaired", &world.options()).unwrap();
    for path in ["/repaired", "/db"] {
        let found = contents(&Db::open(path, world.options()).unwrap());
        assert!(found.into_iter().eq([("key".to_owned(), "new".to_owned())]), "{path}");
    }
}

/// LevelDB's repair takes no lock; run beside an open database, it loses that one's writes.
#[test]
fn defect_3_repair_leaves_an_open_database_alone() {
    let world = World::new();
    let db = world.open();
    synced(&db, "before", "1").unwrap();
    let error = siltstone::repair("/db", "/repaired", &world.options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked, "{error}");
    synced(&db, "after", "2").unwrap();
    drop(db);
    assert_eq!(contents(&world.open()).len(), 2);
    assert!(Db::open_read_only("/repaired", world.options()).is_err(), "nothing was made");
}

/// A thousand writes in one log.
fn thousand(put: fn(&Db, String, String) -> siltstone::Result<()>) -> (World, String) {
    let world = World::new();
    let db = world.open_with(|options| options.write_buffer_size = 4 << 20);
    for number in 0..1000 {
        put(&db, key(number), value(number)).unwrap();
    }
    drop(db);
    let log = world.folder.wals().remove(0);
    (world, log)
}

/// One flipped byte in a log of synced puts: LevelDB opens, and 32 keys in the middle are missing.
/// Here the sync marks prove that the bytes had been promised.
#[test]
fn defect_4_damage_to_synced_writes_is_an_error_that_names_the_place() {
    let (world, log) = thousand(synced);
    let len = world.folder.len(&log);
    let last_mark = len - (len / 1000); // About: the last record lies behind the last mark.
    for at in (0..last_mark - 200).step_by(4999) {
        let damaged = World::with_files(&world.folder.files());
        damaged.folder.flip(&log, at);
        let error = damaged.try_open().unwrap_err();
        assert!(error.is_corruption(), "byte {at}: {error}");
        assert!(error.file().unwrap().ends_with(&log), "byte {at}: {error}");
        let told = error.offset().unwrap();
        assert!(told <= at && at - told < 200, "byte {at}: {error}");
        let reader = damaged.open_read_only();
        assert!(reader.unwrap_err().is_corruption(), "byte {at}: nor is it shown read-only");
    }
    // What follows the last mark may be an honest crash's tail: cut, and reported.
    let damaged = World::with_files(&world.folder.files());
    damaged.folder.flip(&log, len - 10);
    let db = damaged.open();
    assert_eq!(contents(&db).len(), 999);
    assert_eq!(db.recovery_report().dropped.len(), 1);
}

/// The same of unsynced puts may be what a power cut left: a prefix, never a hole, and a report.
#[test]
fn defect_4_damage_to_unsynced_writes_leaves_a_prefix() {
    let (world, log) = thousand(unsynced);
    let len = world.folder.len(&log);
    for at in (0..len).step_by(6007) {
        let damaged = World::with_files(&world.folder.files());
        damaged.folder.flip(&log, at);
        let db = damaged.open();
        let found = contents(&db);
        let count = (at * 1000 / len) as usize; // All records are about as long.
        assert!(found.len() <= count + 1 && found.len() + 2 >= count, "byte {at}: {}", found.len());
        assert!((0..found.len()).all(|number| found[&key(number)] == value(number)));
        let report = db.recovery_report();
        assert!(!report.dropped.is_empty() || report.torn_bytes > 0, "byte {at}: {report:?}");
        drop(db);
        let paranoid = World::with_files(&world.folder.files());
        paranoid.folder.flip(&log, at);
        let opened = paranoid.try_open_with(|options| options.paranoid_checks = true);
        assert!(opened.is_err() || report_is_torn(&opened.unwrap()), "byte {at}");
    }
}

fn report_is_torn(db: &Db) -> bool {
    db.recovery_report().torn_bytes > 0
}

/// `db` and `./db` are one folder. LevelDB locks by the name that it was given.
#[test]
fn defect_5_a_folder_is_locked_under_all_its_names() {
    let temp = TempDir::new("names");
    let path = temp.path().join("db");
    let options = || Options { create_if_missing: true, ..Default::default() };
    let db = Db::open(&path, options()).unwrap();
    std::os::unix::fs::symlink(&path, temp.path().join("link")).unwrap();
    for name in ["db", "./db", "db/.", "db/../db", "link", "link/."] {
        let error = Db::open(temp.path().join(name), options()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Locked, "{name}: {error}");
        let text = error.to_string();
        assert!(text.starts_with("IO error: lock ") && text.ends_with("already held by process"));
    }
    // And trying did not let go of it, as closing a second descriptor would.
    db.put("a", "1").unwrap();
    assert!(Db::open(&path, options()).unwrap_err().is_locked());
    drop(db);
    assert_eq!(contents(&Db::open(temp.path().join("link"), options()).unwrap()).len(), 1);
}

/// Opening a database that is not there, without asking for a new one: LevelDB fails, and leaves a
/// folder with a lock and a log.
#[test]
fn defect_6_a_failed_open_touches_nothing() {
    let temp = TempDir::new("untouched");
    let names = || std::fs::read_dir(temp.path()).unwrap().count();
    let error = Db::open(temp.path().join("a/b"), Options::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("does not exist (create_if_missing is false)"), "{error}");
    assert_eq!(names(), 0);
    // An empty folder stays empty, too.
    Db::open(temp.path(), Options::default()).unwrap_err();
    assert_eq!(names(), 0);

    let world = World::new();
    world.try_open_with(|options| options.create_if_missing = false).unwrap_err();
    drop(world.open());
    world.faults.take_trace();
    let error = world.try_open_with(|options| options.error_if_exists = true).unwrap_err();
    assert!(error.to_string().contains("exists (error_if_exists is true)"), "{error}");
    assert_eq!(world.faults.take_trace(), [], "no call that changes anything");
}

/// A table whose first block claims to be of compression `kind`.
fn with_block_type(kind: u8) -> World {
    let world = World::new();
    let db = world.open_with(|options| options.compression = Compression::None);
    synced(&db, "a", value(1)).unwrap();
    db.flush().unwrap();
    drop(db);
    let table = world.folder.tables().remove(0);
    world.folder.edit(&table, |bytes| {
        let checksum = |len: usize, kind: u8| {
            let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[..len]), &[kind]);
            crc.rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
        };
        let len = (1..bytes.len()).find(|len| bytes[len + 1..len + 5] == checksum(*len, 0));
        let len = len.expect("the first block begins the file, and its checksum follows");
        let sum = checksum(len, kind);
        bytes[len] = kind;
        bytes[len + 1..len + 5].copy_from_slice(&sum);
    });
    world
}

/// LevelDB 1.23 meets a zstd block: `bad block type` on get, and a scan that just ends. An engine
/// without the codec must say so, get or scan, and one with it must read the block.
#[test]
fn defect_7_a_block_that_cannot_be_read_is_never_the_end() {
    for kind in [2, 9] {
        let world = with_block_type(kind);
        let db = world.open();
        let errors = [db.get("a").unwrap_err(), db.iter().unwrap().seek_to_first().unwrap_err()];
        for error in errors {
            // Bytes that are no zstd are damage; a codec that is not here is another matter.
            let has_codec = kind == 2 && cfg!(feature = "zstd");
            let expected = if has_codec { ErrorKind::Corruption } else { ErrorKind::Incompatible };
            assert_eq!(error.kind(), expected, "type {kind}: {error}");
            assert!(error.file().is_some() && error.offset() == Some(0), "type {kind}: {error}");
        }
    }
}

#[cfg(feature = "zstd")]
#[test]
fn defect_7_zstd_is_read_with_the_codec_and_never_written_unasked() {
    let world = World::new();
    let db = world.open_with(|options| options.compression = Compression::ZSTD);
    for number in 0..100 {
        unsynced(&db, key(number), value(number)).unwrap();
    }
    db.flush().unwrap();
    drop(db);
    let small = world.folder.len(&world.folder.tables()[0]);
    let db = world.open();
    assert_eq!(db.options().compression, Compression::Snappy, "which LevelDB can read");
    assert_eq!(contents(&db).len(), 100);
    assert!(small < 100 * 100, "{small}: it was compressed");
}

#[cfg(not(feature = "zstd"))]
#[test]
fn defect_7_without_the_codec_zstd_is_refused_at_open() {
    let world = World::new();
    let error = world.try_open_with(|options| options.compression = Compression::ZSTD).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incompatible, "{error}");
}
