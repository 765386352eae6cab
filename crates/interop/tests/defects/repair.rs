//! Repair: of a healthy database, and of one that is open.

use siltstone::ErrorKind;
use siltstone_interop::candid::{Candid, Choice};
use siltstone_interop::leveldb::{self, LevelDb};
use siltstone_interop::peer::Engine;
use siltstone_interop::scratch::{self, Scratch};

use crate::Row;

/// Row 2: nothing is wrong with the database, save that old data were compacted after newer data
/// were flushed. The table of the older then has the greater number.
pub(crate) fn of_a_healthy_database(leveldb: LevelDb) -> Row {
    let scratch = Scratch::new("repair-healthy");
    let (theirs, source) = (scratch.join("theirs"), scratch.join("source"));
    let db = Candid::open(Engine::LevelDb(leveldb), &theirs, Choice::default()).unwrap();
    let put_all = |value: &[u8]| {
        db.put(b"a", value).unwrap();
        db.put(b"changed", value).unwrap();
        db.put(b"deleted", value).unwrap();
    };
    put_all(b"oldest");
    db.compact(b"a", b"z").unwrap(); // Into level 2.
    put_all(b"older");
    db.compact(b"zz", b"zz").unwrap(); // Only flushes, into level 1: level 2 overlaps.
    db.put(b"changed", b"new").unwrap();
    db.delete(b"deleted").unwrap();
    db.compact(b"zz", b"zz").unwrap(); // Only flushes, into level 0: level 1 overlaps.
    db.compact(b"a", b"a").unwrap(); // Level 1 into level 2, past level 0, which has no "a".
    assert_eq!(db.get(b"changed").unwrap().unwrap(), b"new");
    assert_eq!(db.get(b"deleted").unwrap(), None);
    drop(db);
    scratch::copy_files(&theirs, &source);

    leveldb.repair(&theirs, &leveldb::Options::default()).unwrap();
    let db = Candid::open(Engine::LevelDb(leveldb), &theirs, Choice::default()).unwrap();
    let changed = db.get(b"changed").unwrap().expect("it is there in any case");
    let deleted = db.get(b"deleted").unwrap().expect("the deleted key is back");
    assert_eq!(changed, b"older");
    let (shown, end) = db.scan();
    let keys: Vec<_> = shown.iter().map(|(key, _)| key.escape_ascii().to_string()).collect();
    assert!(keys == ["a", "changed"] && shown[1].1 == b"new" && end.is_ok(), "{shown:?}");
    let (changed, deleted) = (changed.escape_ascii(), deleted.escape_ascii());
    let told_by_leveldb = format!(
        "get returns the value before, `{changed}`, and the deleted key with `{deleted}`; a scan \
         shows `new`, and no deleted key"
    );

    let repaired = scratch.join("repaired");
    siltstone::repair(&source, &repaired, &siltstone::Options::default()).unwrap();
    for engine in [Engine::Siltstone, Engine::LevelDb(leveldb)] {
        let db = Candid::open(engine, &repaired, Choice::default()).unwrap();
        assert_eq!(db.get(b"changed").unwrap().unwrap(), b"new", "{}", engine.name());
        assert_eq!(db.get(b"deleted").unwrap(), None, "{}", engine.name());
    }
    Row {
        scenario: "A healthy database is repaired, in which a key was changed to `new` and another \
                   deleted, and an older part compacted since",
        leveldb: told_by_leveldb,
        siltstone:
            "get returns `new`, and the deleted key stays deleted; the source is untouched, \
                    the outcome is a new database"
                .to_string(),
    }
}

/// Row 3: repair while the same process has the database open.
pub(crate) fn of_an_open_database(leveldb: LevelDb) -> Row {
    let scratch = Scratch::new("repair-open");
    let (theirs, ours) = (scratch.join("theirs"), scratch.join("ours"));
    let (before, after): (&[u8], &[u8]) = (b"before", b"after");

    let db = Candid::open(Engine::LevelDb(leveldb), &theirs, Choice::default()).unwrap();
    db.put(before, b"").unwrap();
    leveldb.repair(&theirs, &leveldb::Options::default()).expect("it does not look for a lock");
    db.put(after, b"").expect("it is acknowledged");
    drop(db);
    let db = Candid::open(Engine::LevelDb(leveldb), &theirs, Choice::default()).unwrap();
    assert_eq!(db.get(after).unwrap(), None, "LevelDB loses it");

    let db = Candid::open(Engine::Siltstone, &ours, Choice::default()).unwrap();
    db.put(before, b"").unwrap();
    let repaired = scratch.join("repaired");
    let error = siltstone::repair(&ours, &repaired, &siltstone::Options::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked, "{error}");
    assert!(!repaired.exists());
    db.put(after, b"").unwrap();
    drop(db);
    let db = Candid::open(Engine::Siltstone, &ours, Choice::default()).unwrap();
    assert!([before, after].iter().all(|key| db.get(key).unwrap().is_some()));
    Row {
        scenario: "An open database is repaired, and then written to, synced",
        leveldb: "repair succeeds; the acknowledged put is gone after a reopen".to_string(),
        siltstone: "repair fails, as the database is locked; the put is there".to_string(),
    }
}
