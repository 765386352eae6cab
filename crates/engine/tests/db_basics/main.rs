//! A database as its users see it: reads, scans, snapshots, compaction, space, opening. Retells
//! LevelDB's `db_test`, `autocompact_test` and the tests of its issues 178, 200 and 320.
//!
//! Of `db_test`, these are elsewhere: what fails (`NoSpace`, `NonWritableFileSystem`,
//! `WriteSyncError`, `ManifestWriteError`, `LogCloseError`) in `faults`; what recovers (`Recover`,
//! `RecoveryWithEmptyLog`, `RecoverDuringMemtableCompaction`, `RecoverWithLargeLog`,
//! `MissingSSTFile`, `StillReadSST`) in `recovery`; `Randomized` in the model test.
//!
//! Left out: `Fflush_Issue474`, which is about buffers of C's standard library; and `DestroyEmptyDir`
//! and `DestroyOpenDB`, which are in `care`.
#![expect(clippy::disallowed_methods, reason = "tests start threads as they please")]
#![expect(clippy::unwrap_used, reason = "cases are functions that the tests call")]

mod compaction;
mod iterators;
mod lanes;
mod opening;
mod panics;
mod reads;
mod snapshots;
mod space;
mod sst_logs;
#[path = "../support/mod.rs"]
mod support;
mod table_store;
mod threads;

use siltstone::Db;

/// Tables per level, deepest filled level last, as LevelDB's tests write it: `"0,0,1"`.
fn files_per_level(db: &Db) -> String {
    let count = |level: usize| {
        let property = db.property(&format!("leveldb.num-files-at-level{level}"));
        property.expect("there are seven levels").parse::<usize>().expect("a number")
    };
    let counts: Vec<usize> = (0..7).map(count).collect();
    let filled = counts.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
    counts[..filled].iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

fn work_off(db: &Db) {
    while db.run_background_step().unwrap() {}
}
