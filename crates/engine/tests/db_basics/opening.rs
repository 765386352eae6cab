//! Opening, options, properties, and a database that LevelDB wrote.

use std::path::Path;
use std::sync::Arc;

use siltstone::{
    BloomFilter, BytewiseComparator, Comparator, Db, ErrorKind, Options, WriteBatch, WriteOptions,
};

use crate::support::{TempDir, World, contents, put_all};

/// LevelDB's `DBOpen_Options`.
#[test]
fn create_if_missing_and_error_if_exists() {
    let world = World::new();
    let open = |create: bool, error: bool| {
        world.try_open_with(|options| {
            options.create_if_missing = create;
            options.error_if_exists = error;
        })
    };
    let error = open(false, false).unwrap_err();
    assert!(error.to_string().starts_with("Invalid argument: "), "{error}");
    assert!(error.to_string().contains("does not exist"), "{error}");
    open(true, true).unwrap();
    let error = open(false, true).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("exists"), "{error}");
    open(true, false).unwrap();
    open(false, false).unwrap();
}

/// LevelDB's `Locking`, with its texts.
#[test]
fn a_database_opens_once() {
    let temp = TempDir::new("locking");
    let options = || Options { create_if_missing: true, ..Default::default() };
    let db = Db::open(temp.path(), options()).unwrap();
    let error = Db::open(temp.path(), options()).unwrap_err();
    assert!(error.is_locked());
    let lock = temp.path().join("LOCK");
    let expected = format!("IO error: lock {}: already held by process", lock.display());
    assert_eq!(error.to_string(), expected);
    drop(db);
    Db::open(temp.path(), options()).unwrap();
}

struct NewOrder;

impl Comparator for NewOrder {
    fn name(&self) -> &str {
        "leveldb.NewComparator"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        a.cmp(b)
    }
}

/// LevelDB's `ComparatorCheck`.
#[test]
fn another_comparator_is_refused() {
    let world = World::new();
    put_all(&world.open(), &[("a", "1")]);
    let before = world.folder.files();
    let error =
        world.try_open_with(|options| options.comparator = Some(Arc::new(NewOrder))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incompatible);
    let text = "leveldb.BytewiseComparator does not match existing comparator : \
                leveldb.NewComparator";
    assert!(error.to_string().contains(text), "{error}");
    assert_eq!(world.folder.files(), before);
    let named = world.open_with(|options| options.comparator = Some(Arc::new(BytewiseComparator)));
    assert_eq!(contents(&named).len(), 1);
}

#[test]
fn options_are_moved_into_their_ranges_or_refused() {
    let world = World::new();
    let db = world.open_with(|options| {
        options.unclamped = false;
        options.write_buffer_size = 1;
        options.max_file_size = 1;
        options.block_size = 1 << 30;
        options.max_open_files = 1;
        options.block_restart_interval = 0;
    });
    let options = db.options();
    assert_eq!(options.write_buffer_size, 64 << 10);
    assert_eq!(options.max_file_size, 1 << 20);
    assert_eq!(options.block_size, 4 << 20);
    assert_eq!(options.max_open_files, 74);
    assert_eq!(options.block_restart_interval, 1);
    drop(db);
    let refused = [
        world.try_open_with(|options| options.level0.stop = 1),
        world.try_open_with(|options| options.level0.compact = 0),
        world.try_open_with(|options| options.block_restart_interval = 0),
    ];
    for refused in refused {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}

/// Options that change how files are written may change with every open.
#[test]
fn options_may_change_between_opens() {
    let world = World::new();
    for round in 0..8 {
        let db = world.open_with(|options| {
            if round % 2 == 0 {
                options.filter_policy = Some(Arc::new(BloomFilter::new(10)));
            }
            if round % 3 == 0 {
                options.compression = siltstone::Compression::None;
            }
            options.block_size = 256 << round;
            options.block_restart_interval = 1 + round;
            options.reuse_logs = round % 2 == 1;
            options.max_file_size = 1 << (10 + round);
        });
        assert_eq!(contents(&db).len(), round * 50);
        for number in 0..50 {
            db.put(format!("{round}-{number}"), "v".repeat(100)).unwrap();
        }
        if round > 4 {
            db.compact_range(None, None).unwrap();
        }
    }
}

#[test]
fn properties_are_leveldbs() {
    let world = World::new();
    let db = world.open();
    put_all(&db, &[("a", "1"), ("b", "2")]);
    db.flush().unwrap();
    assert_eq!(db.property("leveldb.num-files-at-level0").unwrap(), "1");
    assert_eq!(db.property("leveldb.num-files-at-level6").unwrap(), "0");
    for unknown in [
        "leveldb.num-files-at-level7",
        "leveldb.num-files-at-level",
        "leveldb.num-files-at-level+1",
        "leveldb.num-files-at-level0x",
        "leveldb.nothing",
        "leveldb.",
        "",
    ] {
        assert_eq!(db.property(unknown), None, "{unknown}");
    }
    let stats = db.property("leveldb.stats").unwrap();
    assert!(stats.contains("Level  Files Size(MB) Time(sec) Read(MB) Write(MB)\n"), "{stats}");
    let tables = db.property("leveldb.sstables").unwrap();
    assert!(tables.starts_with("--- level 0 ---\n "), "{tables}");
    assert!(tables.contains("['a' @ 1 : 1 .. 'b' @ 2 : 1]"), "{tables}");
}

/// A database that LevelDB 1.23 wrote and closed opens as it is, takes writes, and opens again.
#[test]
fn a_database_of_leveldb_opens() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/leveldb-1.23/small");
    let temp = TempDir::new("golden");
    for entry in std::fs::read_dir(golden).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), temp.path().join(entry.file_name())).unwrap();
    }
    let check = |db: &Db| {
        let found = contents(db);
        let keys: Vec<&str> = found.keys().map(|key| &key[..]).collect();
        assert_eq!(keys, ["", "cherry", "date", "elder"]);
        assert_eq!(found[""], "empty key");
        assert_eq!(db.get("cherry").unwrap().unwrap(), b"\x00\xff'\\");
        assert_eq!((&found["date"][..], &found["elder"][..]), ("", "last"));
        assert_eq!((db.get("apple").unwrap(), db.get("banana").unwrap()), (None, None));
    };
    check(&Db::open_read_only(temp.path(), Options::default()).unwrap());
    for round in 0..2 {
        let options =
            Options { error_if_exists: false, paranoid_checks: true, ..Default::default() };
        let db = Db::open(temp.path(), options).unwrap();
        let report = db.recovery_report();
        assert!(report.dropped.is_empty() && report.torn_bytes == 0);
        check(&db);
        let mut batch = WriteBatch::new();
        batch.put("fig", "ours");
        batch.delete("fig");
        db.write(&batch, WriteOptions { sync: true }).unwrap();
        if round == 1 {
            db.compact_range(None, None).unwrap();
            check(&db);
        }
        db.close().unwrap();
    }
    check(&Db::open(temp.path(), Options::default()).unwrap());
}

/// The info log is kept once, told of what happens, and never in the way.
#[test]
fn the_info_log_tells_what_happened() {
    let world = World::new();
    let open = || world.open_with(|options| options.info_log = true);
    let db = open();
    put_all(&db, &[("a", "1")]);
    db.flush().unwrap();
    drop(db);
    let first = String::from_utf8(world.folder.read("LOG")).unwrap();
    assert!(first.contains("Opened") && first.contains("Level-0 table #"), "{first}");
    drop(open());
    assert_eq!(String::from_utf8(world.folder.read("LOG.old")).unwrap(), first);
    for site in siltstone::Site::ALL.iter().filter(|site| site.name().starts_with("info_log")) {
        world.faults.fail_from(*site, 1, crate::support::Fault::Io);
    }
    let db = open();
    put_all(&db, &[("b", "2")]);
    assert_eq!(contents(&db).len(), 2);
}
