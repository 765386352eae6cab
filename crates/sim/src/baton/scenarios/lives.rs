//! Lives in which nothing fails.

use shuttle::thread;
use siltstone::{ErrorKind, ReadOptions};

use super::*;

/// Group commit: more writers than leaders, some with a sync, nothing else going on.
pub(super) fn commit(stage: &Stage) {
    let ledger = ledger(3, 0);
    let db = stage.open_with(|options| options.write_buffer_size = 64 << 10).unwrap();
    thread::scope(|scope| {
        start_writers(scope, (stage, &db), &ledger, (3, 3, 2));
        scope.spawn(|| get_now(&db, &ledger, 1));
    });
    assert_eq!(ledger.read(&mut db.iter().unwrap()), [3, 3, 3]);
    count(&stage.tally.groups, u64::from(db.metrics().wal_syncs < ledger.synced()));
    close_and_look_again(stage, db, &ledger);
}

/// Memtables and logs are switched, and flushed, under readers.
pub(super) fn switch(stage: &Stage) {
    let ledger = ledger(2, 60);
    let db = stage.open().unwrap();
    thread::scope(|scope| {
        start_writers(scope, (stage, &db), &ledger, (2, 5, 4));
        scope.spawn(|| {
            let mut seen = vec![0; 2];
            (0..2).for_each(|_| look(stage, &db, &ledger, &mut seen));
        });
        scope.spawn(|| (0..4).for_each(|at| get_now(&db, &ledger, at % 2)));
    });
    close_and_look_again(stage, db, &ledger);
}

/// Flushes and compactions rewrite and remove what snapshots and iterators still read.
pub(super) fn compact(stage: &Stage) {
    let ledger = ledger(2, 90);
    let db = stage
        .open_with(|options| {
            options.compaction_lanes = 1 + stage.roll(2) as usize;
            options.seek_compaction = stage.roll(2) == 0;
        })
        .unwrap();
    thread::scope(|scope| {
        start_writers(scope, (stage, &db), &ledger, (2, 7, 8));
        scope.spawn(|| keep_reading(stage, &db, &ledger));
        scope.spawn(|| match stage.roll(4) {
            0 => db.flush().unwrap(),
            1 => db.wait_for_background().unwrap(),
            _ => db.compact_range(None, None).unwrap(),
        });
    });
    close_and_look_again(stage, db, &ledger);
}

/// A snapshot and an iterator held for long show the same to the end.
fn keep_reading(stage: &Stage, db: &Db, ledger: &Ledger) {
    let options = ReadOptions { snapshot: Some(db.snapshot()), ..ReadOptions::default() };
    let mut old = db.iter_with(&options).unwrap();
    let mut seen = vec![0; 2];
    look(stage, db, ledger, &mut seen);
    let first = ledger.read(&mut old);
    look(stage, db, ledger, &mut seen);
    assert_eq!(ledger.read(&mut old), first, "an iterator shows one moment");
    let again = ledger.read(&mut db.iter_with(&options).unwrap());
    assert_eq!(again, first, "a snapshot is one moment");
}

/// Closing while others write, read and wait.
pub(super) fn close(stage: &Stage) {
    let ledger = ledger(2, 60);
    let db = stage.open().unwrap();
    let until_closed = |writer| {
        let ended = write(stage, &db, (&ledger, writer), 8, 3);
        assert!(ended.is_ok_and_closed(), "writers are told that it is closed");
    };
    thread::scope(|scope| {
        scope.spawn(|| until_closed(0));
        scope.spawn(|| until_closed(1));
        scope.spawn(|| {
            let mut iter = db.iter().unwrap();
            let before = ledger.read(&mut iter);
            assert_eq!(ledger.read(&mut iter), before, "closed or not");
            assert!(db.wait_for_background().is_ok_and_closed());
        });
        let closer = db.clone();
        scope.spawn(move || {
            (0..stage.roll(6)).for_each(|_| thread::yield_now());
            closer.close().unwrap();
        });
    });
    close_and_look_again(stage, db, &ledger);
}

trait OkOrClosed {
    fn is_ok_and_closed(&self) -> bool;
}

impl OkOrClosed for siltstone::Result<()> {
    /// True unless it failed otherwise than by the database's being closed.
    fn is_ok_and_closed(&self) -> bool {
        self.as_ref().err().is_none_or(|error| error.kind() == ErrorKind::Closed)
    }
}

/// A checkpoint taken beside writers holds all that was acknowledged when it began.
pub(super) fn checkpoint(stage: &Stage) {
    const COPY: &str = "/copy";
    let ledger = ledger(2, 60);
    let db = stage.open().unwrap();
    let least = thread::scope(|scope| {
        start_writers(scope, (stage, &db), &ledger, (2, 5, 4));
        let copier = scope.spawn(|| {
            let acknowledged = ledger.acknowledged();
            db.checkpoint(COPY).unwrap();
            acknowledged
        });
        copier.join().unwrap()
    });
    look_again(stage, COPY, &ledger, &least);
    close_and_look_again(stage, db, &ledger);
}
