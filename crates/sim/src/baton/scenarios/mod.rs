//! What is put through many schedules: short lives of a database, each with a handful of threads
//! beside its lanes. All of them write by a [`Ledger`] and so know exactly what may be found.

mod faults;
mod lives;

use std::sync::Arc;

use shuttle::thread;
use siltstone::{Db, ReadOptions};

use super::ledger::{Counts, Ledger, at_most};
use super::stage::{DIR, Stage, count};

pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) run: fn(&Stage),
}

pub(super) const ALL: [Scenario; 9] = [
    Scenario { name: "commit", run: lives::commit },
    Scenario { name: "switch", run: lives::switch },
    Scenario { name: "compact", run: lives::compact },
    Scenario { name: "close", run: lives::close },
    Scenario { name: "checkpoint", run: lives::checkpoint },
    Scenario { name: "full", run: faults::full },
    Scenario { name: "broken", run: faults::broken },
    Scenario { name: "storm", run: faults::storm },
    Scenario { name: "power", run: faults::power },
];

/// One writer's work: so many writes, one in `sync_one_in` synced. Ends at the first failure.
fn write(
    stage: &Stage,
    db: &Db,
    (ledger, writer): (&Ledger, usize),
    writes: usize,
    sync_one_in: u64,
) -> siltstone::Result<()> {
    for _ in 0..writes {
        ledger.write(db, writer, stage.roll(sync_one_in) == 0)?;
    }
    Ok(())
}

/// Reads the whole database as of one moment: no acknowledged write may be missing, no write half
/// there, and time must not run backwards for the reader, who last saw `seen`.
fn look(stage: &Stage, db: &Db, ledger: &Ledger, seen: &mut Counts) {
    let acknowledged = ledger.acknowledged();
    let snapshot = (stage.roll(2) == 0).then(|| db.snapshot());
    let options = ReadOptions { snapshot, ..ReadOptions::default() };
    let mut iter = db.iter_with(&options).unwrap();
    let begun = ledger.begun();
    let counts = ledger.read(&mut iter);
    assert!(at_most(&acknowledged, &counts), "{counts:?} lacks some of {acknowledged:?}");
    assert!(at_most(seen, &counts), "{counts:?} is older than {seen:?}");
    assert!(at_most(&counts, &begun), "{counts:?} is more than {begun:?}");
    if options.snapshot.is_some() {
        for (writer, count) in counts.iter().enumerate() {
            let got = db.get_with(format!("{writer}/a"), &options).unwrap();
            let got = got.map_or(0, |value| ledger.number(&value));
            assert_eq!(got, *count, "a get of the snapshot, writer {writer}");
        }
        assert_eq!(ledger.read(&mut db.iter_with(&options).unwrap()), counts, "the same again");
    }
    *seen = counts;
    count(&stage.tally.snapshots, 1);
}

/// One key as it is now, without a snapshot.
fn get_now(db: &Db, ledger: &Ledger, writer: usize) {
    let acknowledged = ledger.acknowledged()[writer];
    let got = db.get(format!("{writer}/a")).unwrap();
    let got = got.map_or(0, |value| ledger.number(&value));
    let begun = ledger.begun()[writer];
    assert!((acknowledged..=begun).contains(&got), "{got} not in {acknowledged}..={begun}");
}

/// Closes the database, opens it again, and finds every acknowledged write.
fn close_and_look_again(stage: &Stage, db: Db, ledger: &Ledger) {
    stage.note_metrics(&db.metrics());
    // What ended writing was told to the writers.
    let _ = db.close();
    look_again(stage, DIR, ledger, &ledger.acknowledged());
}

fn look_again(stage: &Stage, dir: &str, ledger: &Ledger, least: &Counts) {
    let db = stage.reopen(dir);
    let counts = ledger.read(&mut db.iter().unwrap());
    let begun = ledger.begun();
    assert!(at_most(least, &counts), "{counts:?} lacks some of {least:?}");
    assert!(at_most(&counts, &begun), "{counts:?} is more than {begun:?}");
}

/// A ledger of so many writers, whose values are this much longer than their number.
fn ledger(writers: usize, padding: usize) -> Arc<Ledger> {
    Arc::new(Ledger::new(writers, padding))
}

/// Starts one thread for each writer; all end before the scope does.
fn start_writers<'scope, 'env>(
    scope: &'scope thread::Scope<'scope, 'env>,
    (stage, db): (&'env Stage, &'env Db),
    ledger: &'env Ledger,
    (writers, writes, sync_one_in): (usize, usize, u64),
) {
    for writer in 0..writers {
        scope.spawn(move || write(stage, db, (ledger, writer), writes, sync_one_in).unwrap());
    }
}
