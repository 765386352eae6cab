//! Several threads on one database, with lanes at work.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use siltstone::{Background, Db, WriteBatch, WriteOptions};

use crate::support::{World, contents};

fn open(world: &World) -> Db {
    world.open_with(|options| {
        options.background = Background::Lanes;
        options.write_buffer_size = 16 << 10;
        options.max_file_size = 16 << 10;
        options.level1_bytes = 64 << 10;
    })
}

/// LevelDB's `MultiThreaded`: each writer's counters only grow for every reader, while memtables
/// are flushed and tables compacted below them.
#[test]
fn readers_see_each_writers_progress_in_order() {
    const WRITERS: usize = 3;
    const WRITES: usize = 3_000;
    let world = World::new();
    let db = open(&world);
    let progress: Vec<AtomicUsize> = (0..WRITERS).map(|_| AtomicUsize::new(0)).collect();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (db, progress) = (&db, &progress[writer]);
                scope.spawn(move || {
                    for number in 1..=WRITES {
                        let key = format!("{:03}.{writer}", number % 100);
                        let value = format!("{number:06}.{}", "x".repeat(50));
                        db.put(key, value).unwrap();
                        progress.store(number, Ordering::Release);
                    }
                })
            })
            .collect();
        for reader in 0..2 {
            let (db, progress, done) = (&db, &progress, &done);
            scope.spawn(move || {
                let mut number = reader;
                while !done.load(Ordering::Relaxed) {
                    number += 7;
                    let (writer, slot) = (number % WRITERS, number % 100);
                    let written = progress[writer].load(Ordering::Acquire);
                    let found = db.get(format!("{slot:03}.{writer}")).unwrap();
                    let Some(found) = found else {
                        assert!(written < slot.max(1) || slot == 0 && written < 100, "it is there");
                        continue;
                    };
                    let found: usize = std::str::from_utf8(&found[..6]).unwrap().parse().unwrap();
                    assert!(found % 100 == slot, "the key's own values");
                    assert!(found + 100 > written, "{found} is older than what was acknowledged");
                }
            });
        }
        for writer in writers {
            writer.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(contents(&db).len(), WRITERS * 100);
    db.close().unwrap();
    assert_eq!(contents(&world.open()).len(), WRITERS * 100);
}

/// A batch is seen as a whole or not at all, by gets under a snapshot and by scans.
#[test]
fn batches_are_never_seen_in_part() {
    let world = World::new();
    let db = open(&world);
    let done = AtomicBool::new(false);
    let keys: Vec<String> = (0..20).map(|key| format!("{key:02}")).collect();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut batch = WriteBatch::new();
            for round in 0..1_500 {
                batch.clear();
                for key in &keys {
                    batch.put(key, format!("{round:05}"));
                }
                db.write(&batch, WriteOptions { sync: round % 100 == 0 }).unwrap();
            }
            done.store(true, Ordering::Relaxed);
        });
        let mut last = String::new();
        while !done.load(Ordering::Relaxed) {
            let snapshot = db.snapshot();
            let found = crate::support::contents_at(&db, Some(&snapshot));
            let Some(first) = found.values().next() else { continue };
            assert!(found.len() == keys.len() && found.values().all(|value| value == first));
            assert!(*first >= last, "time does not run backwards");
            last = first.clone();
        }
        writer.join().unwrap();
    });
}

/// Compactions asked for from several threads, beside writes and each other.
#[test]
fn compactions_by_several_threads() {
    let world = World::new();
    let db = open(&world);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let db = &db;
            scope.spawn(move || {
                for round in 0..10 {
                    for number in 0..100 {
                        let key = format!("{:03}", (number * 7 + thread * 13) % 300);
                        db.put(key, format!("{thread}-{round}").repeat(20)).unwrap();
                    }
                    match (thread + round) % 3 {
                        0 => db.compact_range(None, None).unwrap(),
                        1 => db.compact_range(Some(b"100"), Some(b"200")).unwrap(),
                        _ => db.flush().unwrap(),
                    }
                }
            });
        }
    });
    db.wait_for_background().unwrap();
    let found = contents(&db);
    db.close().unwrap();
    assert_eq!(contents(&world.open()), found);
}
