//! I/O errors (rule R6): a failed sync or append of the log or the manifest is final, and nothing
//! touches that file again; tables are written anew.

use std::sync::{Arc, Mutex};

use siltstone::{Db, ErrorKind, Event, EventListener, Site};

use crate::promises::{Promises, open};
use crate::support::{Fault, World, contents, synced, unsynced};

/// Writes are refused with the first cause, and reads go on.
#[track_caller]
fn assert_read_only(db: &Db, count: usize, when: &str) {
    for _ in 0..3 {
        for refused in
            [synced(db, "x", "1"), unsynced(db, "y", "2"), db.flush(), db.compact_range(None, None)]
        {
            let error = refused.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ReadOnly, "{when}: {error}");
            assert!(error.to_string().contains("os error 5"), "{when}: {error}");
            assert!(error.to_string().contains("reopen"), "{when}: {error}");
            let cause = std::error::Error::source(&error);
            assert!(cause.is_some(), "{when}: the first cause is its source");
        }
        assert_eq!(contents(db).len(), count, "{when}");
    }
}

#[test]
fn a_failed_log_is_left_alone() {
    for site in [Site::WalSync, Site::WalAppend, Site::WalDirSync] {
        for fault in [Fault::Io, Fault::Torn(7), Fault::DoneUntold] {
            let when = format!("{fault:?} at {}", site.name());
            let world = World::new();
            let db = world.open();
            unsynced(&db, "a", "1").unwrap();
            world.faults.fail_nth(site, 1, fault);
            let error = synced(&db, "b", "2").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Io, "{when}");
            let calls =
                |site: &Site| (world.faults.calls(*site), world.faults.calls(Site::WalCreate));
            let log_sites = [Site::WalAppend, Site::WalSync, Site::WalSyncOlder, Site::WalDirSync];
            let before: Vec<_> = log_sites.iter().map(calls).collect();
            assert_read_only(&db, 1, &when);
            let error = db.close().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Io, "{when}: closing tells the failure again");
            let after: Vec<_> = log_sites.iter().map(calls).collect();
            assert_eq!(before, after, "{when}: no second sync, no further append");

            let db = world.open();
            let found = contents(&db);
            assert_eq!(found["a"], "1", "{when}");
            assert!(found.len() == 1 || found["b"] == "2", "{when}");
            synced(&db, "c", "3").unwrap();
            assert_eq!(contents(&db).len(), found.len() + 1, "{when}");
        }
    }
}

/// A sync that fails once and then pretends to succeed is the trap: the pages are gone.
#[test]
fn an_older_log_that_cannot_be_synced_ends_writing() {
    let world = World::new();
    let db = world.open();
    let value = "v".repeat(60 << 10);
    for key in ["a", "b", "c"] {
        unsynced(&db, key, &value).unwrap();
    }
    world.faults.fail_nth(Site::WalSyncOlder, 1, Fault::Io);
    assert_eq!(synced(&db, "d", "4").unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(world.faults.calls(Site::WalSync), 0, "the newer log is not synced past it");
    assert_read_only(&db, 3, "older log");
}

#[test]
fn a_failed_manifest_is_left_alone() {
    for site in [Site::ManifestAppend, Site::ManifestSync] {
        for fault in [Fault::Io, Fault::Torn(7), Fault::DoneUntold] {
            let when = format!("{fault:?} at {}", site.name());
            let world = World::new();
            let db = world.open();
            synced(&db, "a", "1").unwrap();
            world.faults.fail_nth(site, 1, fault);
            assert_eq!(db.flush().unwrap_err().kind(), ErrorKind::Io, "{when}");
            let calls =
                (world.faults.calls(Site::ManifestAppend), world.faults.calls(Site::ManifestSync));
            assert_read_only(&db, 1, &when);
            let _ = db.run_background_step();
            assert!(db.close().is_err(), "{when}: closing tells the failure again");
            let now =
                (world.faults.calls(Site::ManifestAppend), world.faults.calls(Site::ManifestSync));
            assert_eq!(calls, now, "{when}");

            let db = world.open();
            assert_eq!(contents(&db).len(), 1, "{when}");
            synced(&db, "b", "2").unwrap();
            db.flush().unwrap();
            drop(db);
            assert_eq!(contents(&world.open()).len(), 2, "{when}");
        }
    }
}

/// CURRENT may name either of two manifests once one could not be begun: what is flushed later must be in whichever it is.
#[test]
fn a_manifest_that_could_not_be_renewed_takes_no_more_edits() {
    for site in [Site::CurrentRename, Site::CurrentDirSync, Site::ManifestDirSync] {
        for fault in [Fault::Io, Fault::NoSpace, Fault::DoneUntold] {
            let when = format!("{fault:?} at {}", site.name());
            let world = World::new();
            let db = world.open();
            synced(&db, "a", "1").unwrap();
            world.faults.fail_nth(site, 1, fault);
            assert!(db.drain_logs().is_err(), "{when}");
            synced(&db, "b", "2").unwrap();
            db.flush().unwrap();
            // So that the log goes, from which the writes could be had else.
            while db.run_background_step().unwrap() {}
            drop(db);
            assert_eq!(contents(&world.open()).len(), 2, "{when}");
        }
    }
}

/// Listeners were told of a retry that never came.
#[test]
fn a_failed_manifest_is_not_told_as_one_that_is_tried_again() {
    struct Told(Mutex<Vec<bool>>);
    impl EventListener for Told {
        fn on_event(&self, event: &Event) {
            if let Event::BackgroundError { retries, .. } = event {
                self.0.lock().unwrap().push(*retries);
            }
        }
    }
    let (world, told) = (World::new(), Arc::new(Told(Mutex::default())));
    let db = world.open_with(|options| options.listeners.push(told.clone()));
    synced(&db, "a", "1").unwrap();
    world.faults.fail_nth(Site::ManifestAppend, 1, Fault::Io);
    db.flush().unwrap_err();
    assert_eq!(*told.0.lock().unwrap(), [false]);
}

/// A table is written again, from memory or from its inputs, under a new number.
#[test]
fn a_failed_table_is_written_anew() {
    for site in [
        Site::TableCreate,
        Site::TableAppend,
        Site::TableSync,
        Site::TableClose,
        Site::TableDirSync,
    ] {
        for fault in [Fault::Io, Fault::Torn(7), Fault::DoneUntold] {
            let when = format!("{fault:?} at {}", site.name());
            let world = World::new();
            let db = world.open();
            synced(&db, "a", "1").unwrap();
            world.faults.fail_nth(site, 1, fault);
            assert_eq!(db.flush().unwrap_err().kind(), ErrorKind::Io, "{when}");
            assert_eq!(contents(&db).len(), 1, "{when}");
            assert_eq!(world.folder.tables(), [""; 0], "{when}: what failed is removed");
            synced(&db, "b", "2").unwrap();
            db.flush().unwrap();
            let tables = world.faults.take_trace().into_iter();
            let mut made: Vec<String> = tables
                .filter(|(site, _)| *site == Site::TableCreate)
                .map(|(_, name)| name)
                .collect();
            let count = made.len();
            made.sort();
            made.dedup();
            assert_eq!(made.len(), count, "{when}: each attempt has a number of its own");
            assert_eq!(contents(&db).len(), 2, "{when}");
        }
    }
}

/// LevelDB's `NonWritableFileSystem` and `NewFileErrorDuringWrite`: no new file can be made. Writes
/// that need one fail, and go on when it can.
#[test]
fn a_folder_that_takes_no_files() {
    let world = World::new();
    let db = open(&world).unwrap();
    let mut promises = Promises::default();
    promises.write(&db).unwrap();
    for site in [Site::WalCreate, Site::TableCreate] {
        world.faults.fail_from(site, 1, Fault::Io);
    }
    let failed = (0..100).filter(|_| promises.write(&db).is_err()).count();
    assert!(failed > 50, "{failed}");
    promises.check(&db, "no new files");
    world.faults.heal();
    promises.write(&db).unwrap();
    promises.check(&db, "new files again");
    promises.check_both_reopens(&world, db, "new files again");
}

/// LevelDB's `LogCloseError`: a log is closed when it was synced, or when its memtable is a table;
/// either way a failure to close it can tell nothing that matters.
#[test]
fn a_log_that_cannot_be_closed_costs_nothing() {
    let world = World::new();
    let db = open(&world).unwrap();
    let mut promises = Promises::default();
    world.faults.fail_from(Site::WalClose, 1, Fault::Io);
    for _ in 0..60 {
        promises.write(&db).unwrap();
        db.run_background_step().unwrap();
    }
    assert!(world.faults.fired() > 0);
    promises.check_both_reopens(&world, db, "close");
}

/// What housekeeping cannot remove stays until the next open, and disturbs nobody.
#[test]
fn files_that_cannot_be_removed_disturb_nobody() {
    let world = World::new();
    let db = open(&world).unwrap();
    let mut promises = Promises::default();
    for site in [Site::WalRemove, Site::TableRemove, Site::ManifestRemove, Site::TempRemove] {
        world.faults.fail_from(site, 1, Fault::Io);
    }
    for _ in 0..60 {
        promises.write(&db).unwrap();
    }
    db.compact_range(None, None).unwrap();
    while db.run_background_step().unwrap() {}
    promises.check(&db, "nothing goes");
    db.close().unwrap();
    let left = world.folder.names().len();
    world.faults.heal();
    let db = open(&world).unwrap();
    while db.run_background_step().unwrap() {}
    assert!(world.folder.names().len() < left / 2, "{:?}", world.folder.names());
    promises.check_both_reopens(&world, db, "swept");
}

/// LevelDB's `RecoverWriteError`: an open that cannot write fails, and harms nothing.
#[test]
fn an_open_that_cannot_write_fails() {
    let world = World::new();
    let db = world.open();
    synced(&db, "a", "1").unwrap();
    drop(db);
    world.faults.fail_from(Site::TableAppend, 1, Fault::Io);
    assert_eq!(world.try_open().unwrap_err().kind(), ErrorKind::Io);
    world.faults.heal();
    assert_eq!(contents(&world.open()).len(), 1);
}

#[test]
fn reads_that_fail_say_so_and_succeed_later() {
    let world = World::new();
    let db = world.open_with(|options| {
        options.block_cache = Some(Arc::new(siltstone::BlockCache::new(0)));
    });
    for number in 0..500 {
        db.put(format!("{number:04}"), "v".repeat(100)).unwrap();
    }
    db.flush().unwrap();
    let mut iter = db.iter().unwrap();
    world.faults.fail_reads(".ldb");
    let error = db.get("0250").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.file().unwrap().ends_with(&world.folder.tables()[0]));
    assert_eq!(db.get("none").unwrap(), None, "outside every table's range");
    iter.seek("0100").unwrap_err();
    assert!(!iter.valid());
    assert!(iter.seek_to_last().is_err() && !iter.valid());
    world.faults.heal();
    iter.seek("0100").unwrap();
    assert_eq!(iter.key(), b"0100");
    assert_eq!(contents(&db).len(), 500);
}

/// What a table was made of stays until the table has been opened.
#[test]
fn a_table_that_cannot_be_read_back_replaces_nothing() {
    type Act = fn(&Db) -> siltstone::Result<()>;
    let acts: [(&str, Act); 2] =
        [("flush", |db| db.flush()), ("compaction", |db| db.compact_range(None, None))];
    for (what, act) in acts {
        let prepare = || {
            let world = World::new();
            let db = world.open();
            for (key, flushes) in [("a", true), ("b", true), ("c", what == "compaction")] {
                synced(&db, key, "1").unwrap();
                synced(&db, "shared", key).unwrap();
                if flushes {
                    db.flush().unwrap();
                }
            }
            (world, db)
        };
        let (world, db) = prepare();
        act(&db).unwrap();
        let made = world.folder.tables().into_iter().max().unwrap();

        let (world, db) = prepare();
        world.faults.fail_reads(&made);
        assert_eq!(act(&db).unwrap_err().kind(), ErrorKind::Io, "{what}");
        assert_eq!(contents(&db).len(), 4, "{what}");
        act(&db).unwrap_or_else(|error| panic!("{what} under another number: {error}"));
        while db.run_background_step().unwrap() {}
        assert!(!world.folder.tables().contains(&made), "{what}");
        assert_eq!(contents(&db).len(), 4, "{what}");
        drop(db);
        assert_eq!(contents(&world.open()).len(), 4, "{what}");
    }
}
