//! Failures that happened once, each with its story.

mod support;

use siltstone::{Background, Db, Env, Level0Limits, Options, Site};
use support::{Fault, World, contents, synced};

/// Waiting for background work asked the policy whether there was any, which took the noted seek
/// compactions out of it, and threw the answer away. By hand the compaction was lost; with lanes
/// nobody was left to do what the waiter waited for, and it hung.
#[test]
fn waiting_for_background_does_the_noted_seek_compaction() {
    let options = Options {
        create_if_missing: true,
        env: Env::memory(),
        background: Background::ByHand,
        seek_compaction: true,
        ..Options::default()
    };
    let db = Db::open("db", options).unwrap();
    for value in ["old", "new"] {
        db.put("a", value).unwrap();
        db.put("z", value).unwrap();
        db.flush().unwrap();
    }
    // Each of these reads visits the newer table in vain; a table bears a hundred of them.
    for _ in 0..100 {
        assert_eq!(db.get("m").unwrap(), None);
    }
    db.wait_for_background().unwrap();
    let metrics = db.metrics();
    assert_eq!(metrics.merges + metrics.moves, 1);
    assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"new"[..]));
}

/// Of several tables whose reads had spent their budget, the first to be picked made the policy
/// forget the others, which then were never compacted for it.
#[test]
fn every_noted_seek_compaction_is_done() {
    let options = Options {
        create_if_missing: true,
        env: Env::memory(),
        background: Background::ByHand,
        seek_compaction: true,
        level0: Level0Limits { compact: 8, slow_down: 8, stop: 12 },
        ..Options::default()
    };
    let db = Db::open("db", options).unwrap();
    for ends in [["a", "c"], ["x", "z"]] {
        // Two tables over the same range: a read between their keys goes through both.
        for value in ["old", "new"] {
            for end in ends {
                db.put(end, value).unwrap();
            }
            db.flush().unwrap();
        }
    }
    for _ in 0..100 {
        assert_eq!(db.get("b").unwrap(), None);
        assert_eq!(db.get("y").unwrap(), None);
    }
    db.wait_for_background().unwrap();
    assert_eq!(db.property("leveldb.num-files-at-level0").as_deref(), Some("0"));
}

/// A log that takes over begins with a mark, at the first number that memory may hold. Where failed
/// writes had used up that number, the next log to take over begins with the same mark: replay of both
/// held it for a write that came too late, and the database no longer opened. Both are there after a
/// crash between the new log's naming and the old one's removal, or where that fails.
#[test]
fn a_log_that_takes_over_again_begins_with_a_failed_writes_number() {
    let world = World::new();
    let db = world.open();
    let after_a_failure = |key: &str| {
        world.faults.fail_nth(Site::WalAppend, 1, Fault::Full(9));
        synced(&db, "torn", "v").unwrap_err();
        synced(&db, key, "v").unwrap();
    };
    after_a_failure("a");
    after_a_failure("b");
    synced(&db, "goes to another log", "v".repeat(100_000)).unwrap();
    let before = world.folder.wals();
    world.faults.fail_from(Site::WalRemove, 1, Fault::Io);
    after_a_failure("c");
    assert!(world.folder.wals().starts_with(&before), "the older are still there");

    let shown = contents(&db);
    assert_eq!(shown.len(), 4);
    assert_eq!(contents(&world.after_crash().open()), shown);
}

/// A log that takes over from a poisoned one did not say which numbers failed writes had used up.
/// If the memtable was full by then, the next write went to yet another log, a hole seemed to lie
/// between the two, and the database no longer opened.
#[test]
fn numbers_of_failed_writes_are_no_hole_after_a_switch() {
    let world = World::new();
    let db = world.open();
    for number in 0..10 {
        synced(&db, format!("{number}"), "v".repeat(4000)).unwrap();
    }
    world.faults.fail_nth(Site::WalAppend, 1, Fault::Full(9));
    synced(&db, "torn", "v").unwrap_err();
    // It heals, and finds no room for so much: the memtable is switched at once.
    synced(&db, "large", "v".repeat(200_000)).unwrap();
    synced(&db, "after", "v").unwrap();
    assert_eq!(contents(&world.after_crash().open()).len(), 12);
    drop(db);
    assert_eq!(contents(&world.open()).len(), 12);
}

/// A write whose sync failed stood whole in the poisoned log; the log that took over had a greater
/// number and older values. LevelDB, opening after a crash between the two, made a table of each,
/// and its `Get` returned another value than its iterator. Now there is one log, at any time.
#[test]
fn a_log_that_takes_over_leaves_no_newer_write_in_an_older_log() {
    for fault_at in [None, Some(Site::WalDirSync), Some(Site::WalRename)] {
        let world = World::new();
        let db = world.open();
        synced(&db, "key", "old").unwrap();
        world.faults.fail_nth(Site::WalSync, 1, Fault::NoSpace);
        synced(&db, "key", "failed").unwrap_err();
        if let Some(site) = fault_at {
            world.faults.fail_nth(site, 1, Fault::NoSpace);
            synced(&db, "other", "1").unwrap_err();
        }
        assert_eq!(world.folder.wals().len(), 1, "{fault_at:?}");
        synced(&db, "other", "2").unwrap();
        assert_eq!(world.folder.wals().len(), 1, "{fault_at:?}");
        let found = contents(&world.after_crash().open());
        assert_eq!(found["key"], "old", "{fault_at:?}");
    }
}
