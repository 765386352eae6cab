//! Read-only opens: no lock, no trace, beside a live writer.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use siltstone::{Background, Db, Env, ErrorKind, Options};

use crate::support::{TempDir, World, contents, put_all, scan};

#[test]
fn a_read_only_open_shows_everything_and_calls_nothing_that_writes() {
    let world = World::new();
    let db = world.open();
    put_all(&db, &[("table", "1")]);
    db.flush().unwrap();
    put_all(&db, &[("log", "2")]);
    let before = world.folder.files();
    world.faults.take_trace();

    let reader = world.open_read_only().unwrap();
    assert_eq!(contents(&reader), contents(&db));
    put_all(&db, &[("later", "3")]);
    assert_eq!(reader.get("later").unwrap(), None, "the state of the moment");
    world.faults.take_trace();
    for refused in
        [reader.put("x", "1"), reader.delete("x"), reader.flush(), reader.compact_range(None, None)]
    {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::ReadOnly);
    }
    assert_eq!(world.open_read_only().unwrap().get("later").unwrap(), Some(b"3".to_vec()));
    reader.close().unwrap();
    drop(db.snapshot());
    assert_eq!(world.faults.take_trace(), [], "no call that changes anything");
    let after = world.folder.files();
    assert_eq!(after.len(), before.len());
}

/// On the system's files: also times of change and access to the lock stay as they are.
#[test]
fn a_read_only_open_leaves_no_trace_on_disk() {
    let temp = TempDir::new("read-only");
    let options = || Options { create_if_missing: true, ..Default::default() };
    let db = Db::open(temp.path(), options()).unwrap();
    db.put("a", "1").unwrap();
    db.flush().unwrap();
    db.put("b", "2").unwrap();
    db.wait_for_background().unwrap();
    let look = || {
        let entries = std::fs::read_dir(temp.path()).unwrap().map(|entry| entry.unwrap());
        let mut found: Vec<_> = entries
            .map(|entry| {
                let metadata = entry.metadata().unwrap();
                (entry.file_name(), metadata.modified().unwrap(), metadata.len())
            })
            .collect();
        found.sort();
        (found, std::fs::metadata(temp.path()).unwrap().modified().unwrap())
    };
    drop(db);
    let before = look();
    let reader = Db::open_read_only(temp.path(), options()).unwrap();
    assert_eq!(contents(&reader).len(), 2);
    let writer = Db::open(temp.path(), options());
    assert!(writer.is_ok(), "no lock is held");
    drop(writer);
    let beside = look();
    drop(reader);
    assert_eq!(look(), beside);
    assert_ne!(before, beside, "the writer's traces are seen");
    let before = look();
    drop(Db::open_read_only(temp.path(), options()).unwrap());
    assert_eq!(look(), before);
}

#[test]
fn a_read_only_open_of_nothing_makes_nothing() {
    let world = World::new();
    let error = world.open_read_only().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "as with a usual open: {error}");
    assert!(error.to_string().contains("does not exist"), "{error}");
    assert_eq!(world.faults.take_trace(), []);
}

/// A writer that flushes, compacts and removes as fast as it can.
#[test]
fn a_read_only_open_beside_a_busy_writer() {
    let env = Env::memory();
    let options = || Options {
        create_if_missing: true,
        env: env.clone(),
        write_buffer_size: 4 << 10,
        max_file_size: 4 << 10,
        unclamped: true,
        info_log: false,
        background: Background::Lanes,
        ..Default::default()
    };
    let db = Db::open("db", options()).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            // Each round writes all keys with one value, in order: a prefix of the writes shows at
            // most two values, the newer one first.
            for round in 0..200 {
                for key in 0..50 {
                    db.put(format!("{key:02}"), format!("{round:04}-{}", "x".repeat(100))).unwrap();
                }
            }
            done.store(true, Relaxed);
        });
        let mut looks = 0;
        while !done.load(Relaxed) || looks == 0 {
            let reader = match Db::open_read_only("db", options()) {
                Ok(reader) => reader,
                // It is allowed to be too slow, and to say so.
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
                    assert!(error.to_string().contains("try again"), "{error}");
                    continue;
                }
            };
            looks += 1;
            let pairs = scan(&mut reader.iter().unwrap()).unwrap();
            let rounds: Vec<&str> = pairs.iter().map(|(_, value)| &value[..4]).collect();
            assert!(rounds.is_sorted_by(|a, b| a >= b), "{rounds:?}");
            if let (Some(first), Some(last)) = (rounds.first(), rounds.last()) {
                let number = |text: &str| text.parse::<u32>().unwrap();
                assert!(number(first) <= number(last) + 1, "{rounds:?}");
            }
        }
        writer.join().unwrap();
    });
}
