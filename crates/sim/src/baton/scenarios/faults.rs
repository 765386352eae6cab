//! Lives in which calls fail or the power does.

use shuttle::thread;
use siltstone::{Error, ErrorKind, Result, Site};

use super::*;
use crate::{Fault, World};

/// Calls that a writer or the background depends on.
const SITES: [Site; 11] = [
    Site::WalAppend,
    Site::WalAppend,
    Site::WalCreate,
    Site::WalSync,
    Site::WalSyncOlder,
    Site::TableCreate,
    Site::TableAppend,
    Site::TableSync,
    Site::TableDirSync,
    Site::ManifestAppend,
    Site::ManifestSync,
];

fn site(stage: &Stage) -> Site {
    SITES[stage.roll(SITES.len() as u64) as usize]
}

/// The disk is full for a while. Writers try again until it is not, and go on without a reopen.
pub(super) fn full(stage: &Stage) {
    let ledger = ledger(2, 60);
    let db = stage.open().unwrap();
    let (site, first, failures) = (site(stage), 1 + stage.roll(5), 1 + stage.roll(3));
    (0..failures).for_each(|more| stage.faults.fail_nth(site, first + more, Fault::NoSpace));
    let persist = |writer| {
        for _ in 0..5 {
            persist(stage, &db, &ledger, writer);
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| persist(0));
        scope.spawn(|| persist(1));
        scope.spawn(|| look(stage, &db, &ledger, &mut vec![0; 2]));
    });
    count(&stage.tally.faults, stage.faults.fired());
    stage.faults.heal();
    assert_eq!(ledger.read(&mut db.iter().unwrap()), [5, 5]);
    close_and_look_again(stage, db, &ledger);
}

fn persist(stage: &Stage, db: &Db, ledger: &Ledger, writer: usize) {
    const TRIES_MAX: usize = 1000;
    for _ in 0..TRIES_MAX {
        match ledger.write(db, writer, stage.roll(3) == 0) {
            Ok(()) => return,
            Err(error) => assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}"),
        }
        thread::yield_now();
    }
    panic!("the disk has room again, and writes still fail");
}

/// A call fails with an I/O error; writing may end, for all at once, reading does not, and a reopen finds
/// all that was acknowledged.
pub(super) fn broken(stage: &Stage) {
    let ledger = ledger(2, 60);
    let db = stage.open().unwrap();
    let fault = if stage.roll(2) == 0 { Fault::Io } else { Fault::DoneUntold };
    stage.faults.fail_nth(site(stage), 1 + stage.roll(5), fault);
    let attempt = |writer| heed(&db, write(stage, &db, (&ledger, writer), 6, 3));
    thread::scope(|scope| {
        scope.spawn(|| attempt(0));
        scope.spawn(|| attempt(1));
        scope.spawn(|| heed(&db, ask_for_work(stage, &db, 0)));
        scope.spawn(|| {
            let mut seen = vec![0; 2];
            (0..2).for_each(|_| look(stage, &db, &ledger, &mut seen));
        });
    });
    count(&stage.tally.faults, stage.faults.fired());
    stage.faults.heal();
    close_and_look_again(stage, db, &ledger);
}

/// Everything at once: calls fail, callers ask for work and wait for it, and perhaps somebody closes.
/// Whatever they are told, all of them come back, and a reopen finds what was acknowledged.
pub(super) fn storm(stage: &Stage) {
    let ledger = ledger(2, 60);
    let db = stage.open().unwrap();
    for _ in 0..stage.roll(4) {
        let fault = [Fault::NoSpace, Fault::NoSpace, Fault::Full(9), Fault::Io];
        let fault = fault[stage.roll(4) as usize];
        stage.faults.fail_nth(site(stage), 1 + stage.roll(8), fault);
    }
    let attempt = |writer| heed(&db, write(stage, &db, (&ledger, writer), 6, 3));
    let closer = (stage.roll(2) == 0).then(|| db.clone());
    thread::scope(|scope| {
        scope.spawn(|| attempt(0));
        scope.spawn(|| attempt(1));
        for at in 0..2 {
            let db = &db;
            scope.spawn(move || heed(db, ask_for_work(stage, db, at)));
        }
        if let Some(db) = closer {
            scope.spawn(move || {
                (0..stage.roll(10)).for_each(|_| thread::yield_now());
                drop(db.close());
            });
        }
    });
    count(&stage.tally.faults, stage.faults.fired());
    stage.faults.heal();
    close_and_look_again(stage, db, &ledger);
}

fn ask_for_work(stage: &Stage, db: &Db, at: u64) -> Result<()> {
    match stage.roll(4) {
        0 => db.flush(),
        1 => db.compact_range(None, None),
        2 => db.wait_for_background(),
        _ => db.checkpoint(format!("/copy{at}")),
    }
}

/// Whoever was told that writing has ended finds that it has.
fn heed(db: &Db, told: Result<()>) {
    let ended = |told: &Result<()>| {
        let kind = told.as_ref().err().map(Error::kind);
        matches!(kind, Some(ErrorKind::ReadOnly | ErrorKind::Closed))
    };
    if ended(&told) {
        let put = db.put("refused", "");
        assert!(ended(&put), "a write after {told:?}: {put:?}");
    }
}

/// The power is cut at any call, while writers, lanes and perhaps a compaction are under way.
pub(super) fn power(stage: &Stage) {
    let ledger = ledger(3, 60);
    let db = stage.open().unwrap();
    stage.camera.cut_after(1 + stage.roll(90), &ledger);
    thread::scope(|scope| {
        start_writers(scope, (stage, &db), &ledger, (3, 4, 3));
        if stage.roll(3) == 0 {
            scope.spawn(|| db.compact_range(None, None).unwrap());
        }
    });
    stage.note_metrics(&db.metrics());
    drop(db);
    let picture = stage.camera.take();
    count(&stage.tally.power_cuts, 1);
    let found = World::with_files(&picture.files).open();
    let counts = picture.ledger.read(&mut found.iter().unwrap());
    picture.ledger.check_after_power_cut(&counts);
}
