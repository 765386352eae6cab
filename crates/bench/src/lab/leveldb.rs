//! LevelDB in the same experiment as [`l2sm`](super::l2sm): its bytes, and the time of its updates.

use std::thread;
use std::time::{Duration, Instant};

use siltstone::{Error, ErrorKind};
use siltstone_leveldb::{Db, LevelDb, Options};

use super::l2sm::{Outcome, Plan, Values, in_own_folder, load, update};

/// LevelDB does not say when it is done; it is when nothing has changed for so long.
const REST: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Its report counts these.
const MEBIBYTE: f64 = 1_048_576.0;

/// As [`l2sm::run`](super::l2sm::run), with LevelDB's library and its defaults. What flushes and merges wrote counts as
/// merged together, for it tells them together. Reads and space are not measured.
///
/// # Errors
///
/// `Incompatible` if the library is not installed; else as there.
pub fn run(plan: &Plan) -> Result<Outcome, Error> {
    let library = LevelDb::load().ok_or_else(|| {
        Error::new(ErrorKind::Incompatible, "libleveldb.so is not installed; install libleveldb1d")
    })?;
    in_own_folder(plan, || {
        let options = Options { create_if_missing: true, ..Options::default() };
        let db = library.open(&plan.folder, &options).map_err(told)?;
        let mut values = Values::new(plan);
        let put = |key: &[u8], value: &[u8]| db.put(key, value).map_err(told);
        load(plan, &mut values, put)?;
        let before = rested(&db)?;
        let mut outcome = update(plan, &mut values, put)?;
        outcome.merged_bytes = (rested(&db)? - before) as u64;
        outcome.merged_bytes_drained = outcome.merged_bytes;
        outcome.user_bytes = plan.updates * (16 + plan.value_bytes as u64);
        Ok(outcome)
    })
}

fn told(error: siltstone_leveldb::Error) -> Error {
    Error::new(ErrorKind::Io, format!("LevelDB: {error}"))
}

/// Waits until nothing happens any more, and returns all that was written to tables, as the report has it.
fn rested(db: &Db) -> Result<f64, Error> {
    let report = || {
        let report = db.property("leveldb.stats");
        report.ok_or_else(|| Error::new(ErrorKind::Incompatible, "LevelDB tells no statistics"))
    };
    let (mut last, mut since) = (report()?, Instant::now());
    while since.elapsed() < REST {
        thread::sleep(LOOK_EVERY);
        let now = report()?;
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    Ok(written(&last))
}

/// A line for each level: its number, files, size, seconds, and megabytes read and written.
fn written(report: &str) -> f64 {
    let of_level = |line: &str| {
        let fields: Vec<f64> =
            line.split_whitespace().map_while(|field| field.parse().ok()).collect();
        (fields.len() == 6).then(|| fields[5])
    };
    MEBIBYTE * report.lines().filter_map(of_level).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Law;

    #[test]
    fn what_the_report_says_is_added_up() {
        let report = "                               Compactions\n\
            Level  Files Size(MB) Time(sec) Read(MB) Write(MB)\n\
            --------------------------------------------------\n  \
            0        1        1         0        0        25\n  \
            2       12       21         1       40        38\n";
        assert_eq!(written(report), 63.0 * MEBIBYTE);
        assert_eq!(written(""), 0.0);
    }

    #[test]
    fn leveldb_is_measured() {
        if LevelDb::load_or_skip().is_none() {
            return;
        }
        let folder =
            std::env::temp_dir().join(format!("siltstone-lab-leveldb-{}", std::process::id()));
        let plan = Plan {
            folder,
            law: Law::Zipfian,
            records: 20_000,
            updates: 40_000,
            updates_per_second: None,
            value_bytes: 1000,
            disk_bytes_per_second: None,
            reads_merge: true,
            reads: 0,
            seed: 42,
        };
        let outcome = run(&plan).unwrap();
        assert!(outcome.merged_bytes > plan.updates * 500, "{outcome:?}");
        assert!(!plan.folder.exists());
    }
}
