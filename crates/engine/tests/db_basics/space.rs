//! Space on disk: what is deleted gives it back, and nothing grows without reason.

use siltstone::{Compression, Db, WriteBatch, WriteOptions};

use crate::support::{World, contents};
use crate::work_off;

const KEYS: usize = 2_000;

fn open(world: &World) -> Db {
    world.open_with(|options| {
        options.compression = Compression::None;
        options.max_file_size = 64 << 10;
        options.level1_bytes = 256 << 10;
    })
}

fn key(number: usize) -> String {
    format!("{number:06}")
}

fn fill(db: &Db) {
    for number in 0..KEYS {
        db.put(key(number), "v".repeat(1_000)).unwrap();
        db.run_background_step().unwrap();
    }
    db.flush().unwrap();
    db.wait_for_background().unwrap();
    work_off(db);
}

fn delete_all(db: &Db) {
    for number in 0..KEYS {
        db.delete(key(number)).unwrap();
    }
}

/// Without anybody's asking: tables full of deletions are compacted for their own sake.
#[test]
fn deleting_everything_gives_the_space_back() {
    let world = World::new();
    let db = open(&world);
    fill(&db);
    assert!(world.folder.data_bytes() > 1_800_000);
    delete_all(&db);
    db.flush().unwrap();
    db.wait_for_background().unwrap();
    work_off(&db);
    assert!(contents(&db).is_empty());
    assert!(world.folder.data_bytes() < 200_000, "{} bytes are left", world.folder.data_bytes());
}

#[test]
fn compacting_after_deleting_everything_leaves_nothing() {
    for reopen in [false, true] {
        let world = World::new();
        let mut db = open(&world);
        fill(&db);
        delete_all(&db);
        if reopen {
            drop(db);
            db = open(&world);
        }
        db.compact_range(None, None).unwrap();
        work_off(&db);
        assert_eq!(db.levels().len(), 0, "{:?}", db.levels());
        assert!(world.folder.data_bytes() < 1_000, "{} bytes", world.folder.data_bytes());
    }
}

/// Deletions that a snapshot kept alive go once it is gone, also when the database was reopened in
/// between and what its tables hold is no longer in memory.
#[test]
fn deletions_that_outlived_a_snapshot_go_later() {
    for reopen in [false, true] {
        let world = World::new();
        let mut db = open(&world);
        fill(&db);
        let snapshot = db.snapshot();
        delete_all(&db);
        db.compact_range(None, None).unwrap();
        assert!(world.folder.data_bytes() > 1_800_000);
        drop(snapshot);
        if reopen {
            drop(db);
            db = open(&world);
        }
        db.compact_range(None, None).unwrap();
        work_off(&db);
        assert_eq!(db.levels().len(), 0, "reopened: {reopen}, {:?}", db.levels());
    }
}

/// A queue: keys are added at one end and removed at the other, for ever.
#[test]
fn a_queue_does_not_grow() {
    let world = World::new();
    let db = open(&world);
    let mut largest = 0;
    for number in 0..12_000 {
        db.put(key(number), "v".repeat(300)).unwrap();
        if number >= 200 {
            db.delete(key(number - 200)).unwrap();
        }
        db.run_background_step().unwrap();
        largest = largest.max(world.folder.data_bytes());
    }
    assert!(largest < 1_500_000, "{largest} bytes for 60,000 bytes of live data");
    assert_eq!(contents(&db).len(), 200);
}

/// An empty batch says nothing, and takes no room in the log (goleveldb and LevelDB issue 911).
#[test]
fn empty_batches_do_not_grow_the_log() {
    let world = World::new();
    let db = world.open();
    db.put("a", "1").unwrap();
    let log = world.folder.wals().remove(0);
    let before = world.folder.len(&log);
    for sync in [false, true] {
        for _ in 0..1_000 {
            db.write(&WriteBatch::new(), WriteOptions { sync }).unwrap();
        }
    }
    assert_eq!(world.folder.len(&log), before);
    assert_eq!(db.snapshot().seqno().0, 1);
}

/// LevelDB's `FilesDeletedAfterCompaction`.
#[test]
fn files_that_nothing_needs_are_removed() {
    let world = World::new();
    let db = world.open();
    db.put("foo", "v2").unwrap();
    db.compact_range(None, None).unwrap();
    work_off(&db);
    let before = world.folder.names().len();
    for _ in 0..20 {
        db.put("foo", "v2").unwrap();
        db.compact_range(None, None).unwrap();
    }
    work_off(&db);
    assert_eq!(world.folder.names().len(), before, "{:?}", world.folder.names());
}

/// A file that a scan reads stays until the scan is over, and goes then.
#[test]
fn files_go_when_their_last_reader_does() {
    let world = World::new();
    let db = world.open();
    db.put("foo", "v1").unwrap();
    db.flush().unwrap();
    let mut iter = db.iter().unwrap();
    let old = world.folder.tables();
    db.put("foo", "v2").unwrap();
    db.compact_range(None, None).unwrap();
    work_off(&db);
    assert!(world.folder.tables().contains(&old[0]));
    iter.seek_to_first().unwrap();
    assert_eq!(iter.value(), b"v1");
    drop(iter);
    work_off(&db);
    assert!(!world.folder.tables().contains(&old[0]));
}
