//! Ways to compact beside each other on real files: what updates cost in bytes and time, and what is paid for it in reads
//! and space.
//!
//! Sizes are scaled down together, so that a few hundred megabytes fill three levels: what counts is how a level is to the
//! next one, and to level 0.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use siltstone::{Area, Compaction, Db, Env, Error, Level0Limits, Metrics, Options};

use super::disk::slow_disk;
use crate::popularity::Law;
use crate::random::SplitMix;
use crate::updates::Updates;
use crate::work::pace::Pace;

/// What one database is put through.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where it is made, and removed.
    pub folder: PathBuf,
    /// Which records are updated.
    pub law: Law,
    /// Records, loaded in random order.
    pub records: u32,
    /// Updates of them, which are what is counted.
    pub updates: u64,
    /// Updates in a second, begun when it is their time; `None` for one after the other.
    pub updates_per_second: Option<u64>,
    /// Bytes of a value, none of which can be compressed.
    pub value_bytes: usize,
    /// What the disk writes in a second; `None` for the one there is.
    pub disk_bytes_per_second: Option<u64>,
    /// Whether reads may have logs merged for their sake ([`Options::scan_compaction`]).
    pub reads_merge: bool,
    /// Gets, and a twentieth as many scans, once the database is at rest.
    pub reads: u64,
    /// Where random numbers begin.
    pub seed: u64,
}

/// A way to compact, with the room that its levels have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// The policy.
    pub compaction: Compaction,
    /// How large levels are.
    pub levels: Levels,
}

/// How large levels are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Levels {
    /// A hundredth of what they usually are, or so: each ten times as large as the one before it.
    Small,
    /// They grow by half as much, from a level 1 four times as large: as much space as logs take, spent otherwise.
    Roomy,
    /// As the engine has them, and LevelDB: of 10, 100 and 1,000 MiB, with all the engine's defaults.
    Usual,
}

impl Way {
    /// All that are compared. The first is what the others are measured by.
    pub const ALL: [Way; 5] = [
        Way { compaction: Compaction::Leveled, levels: Levels::Small },
        Way { compaction: Compaction::Leveled, levels: Levels::Roomy },
        Way { compaction: Compaction::Cursor, levels: Levels::Small },
        Way { compaction: Compaction::Sliced, levels: Levels::Small },
        Way { compaction: Compaction::L2sm, levels: Levels::Small },
    ];

    /// What tables call it.
    pub fn name(self) -> &'static str {
        match self.levels {
            Levels::Roomy => "leveled, roomy",
            Levels::Small | Levels::Usual => self.compaction.name(),
        }
    }
}

/// What came of it. Bytes are of the updates, without the load.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Of users.
    pub user_bytes: u64,
    /// Into level 0.
    pub flushed_bytes: u64,
    /// By merges, until there was nothing more to do.
    pub merged_bytes: u64,
    /// By merges, with what SST logs still held.
    pub merged_bytes_drained: u64,
    /// Compactions that only moved tables.
    pub moves: u64,
    /// By the merge that wrote most, the load included.
    pub largest_merge_bytes: u64,
    /// Of all updates, by the clock.
    pub updates_took: Duration,
    /// Of puts.
    pub p99: Duration,
    /// Of puts.
    pub p999: Duration,
    /// Of puts.
    pub longest: Duration,
    /// Of a get of any record, at rest.
    pub get: Duration,
    /// Of a scan of a hundred records.
    pub scan: Duration,
    /// Tables over a key, on average: what a get may have to ask.
    pub tables_over_key: f64,
    /// Sources that a scan merges, memory aside.
    pub scan_sources: usize,
    /// Bytes of files for each byte of them once all is merged.
    pub space: f64,
    /// Bytes of levels 1 to 3, and of the logs beside them.
    pub levels: [(u64, u64); 3],
}

/// Bytes of entries in a memtable: of three levels as of millions of records, scaled down.
const WRITE_BUFFER_BYTES: usize = 512 << 10;
const TABLE_BYTES: usize = 128 << 10;
const LEVEL1_BYTES: u64 = 1280 << 10;
const GROWTH: u64 = 10;
/// LevelDB's: with ours, which let bursts gather in level 0, all ways write less, and differ less.
const LEVEL0: Level0Limits = Level0Limits { compact: 4, slow_down: 8, stop: 12 };
/// A minute: no put takes longer.
const LONGEST_NANOS: u64 = 60_000_000_000;
const SCANNED: usize = 100;
const READS_PER_SCAN: u64 = 20;
const KEYS_ASKED: usize = 10_000;

/// Loads a database, updates it, reads it and removes it.
///
/// # Errors
///
/// `InvalidArgument` if the folder is there: nothing of it is touched. Else whatever the database meets.
pub fn run(plan: &Plan, way: Way) -> Result<Outcome, Error> {
    in_own_folder(plan, || run_there(plan, way))
}

pub(super) fn in_own_folder(
    plan: &Plan,
    run: impl FnOnce() -> Result<Outcome, Error>,
) -> Result<Outcome, Error> {
    if plan.folder.exists() {
        let message = format!("{} is there already; give another folder", plan.folder.display());
        return Err(Error::invalid_argument(message));
    }
    let outcome = run();
    // What is left of it is nobody's, whatever came of it; and what failed first is to be told.
    let _ = fs::remove_dir_all(&plan.folder);
    outcome
}

fn run_there(plan: &Plan, way: Way) -> Result<Outcome, Error> {
    let env = plan.disk_bytes_per_second.map_or_else(Env::posix, slow_disk);
    let db =
        Db::open(&plan.folder, Options { env, scan_compaction: plan.reads_merge, ..options(way) })?;
    let mut values = Values::new(plan);
    load(plan, &mut values, |key, value| db.put(key, value))?;
    db.flush()?;
    db.wait_for_background()?;

    let before = db.metrics();
    let mut outcome = update(plan, &mut values, |key, value| db.put(key, value))?;
    db.flush()?;
    db.wait_for_background()?;
    outcome.count(&before, &db.metrics());
    outcome.levels = levels(&db);
    outcome.scan_sources = db.levels().iter().map(|part| part.sources).sum();
    outcome.tables_over_key = tables_over_key(&db, plan);
    let stored = table_bytes(&db);
    (outcome.get, outcome.scan) = (gets(&db, plan)?, scans(&db, plan)?);
    db.drain_logs()?;
    outcome.merged_bytes_drained =
        db.metrics().compaction_bytes_written - before.compaction_bytes_written;
    db.compact_range(None, None)?;
    outcome.space = stored as f64 / table_bytes(&db) as f64;
    db.close()?;
    Ok(outcome)
}

fn options(way: Way) -> Options {
    let usual =
        Options { create_if_missing: true, compaction: way.compaction, ..Options::default() };
    if way.levels == Levels::Usual {
        return usual;
    }
    let is_roomy = way.levels == Levels::Roomy;
    Options {
        write_buffer_size: WRITE_BUFFER_BYTES,
        max_file_size: TABLE_BYTES,
        level1_bytes: if is_roomy { 4 * LEVEL1_BYTES } else { LEVEL1_BYTES },
        level_growth: if is_roomy { GROWTH / 2 } else { GROWTH },
        level0: LEVEL0,
        max_open_files: 20_000,
        unclamped: true,
        ..usual
    }
}

pub(super) fn load(
    plan: &Plan,
    values: &mut Values,
    mut put: impl FnMut(&[u8], &[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut records = Updates::load(plan.records, plan.seed).into_iter();
    records.try_for_each(|record| put(&key(u64::from(record)), values.next()))
}

pub(super) fn update(
    plan: &Plan,
    values: &mut Values,
    mut put: impl FnMut(&[u8], &[u8]) -> Result<(), Error>,
) -> Result<Outcome, Error> {
    let mut updates = Updates::new(plan.law, u64::from(plan.records), plan.seed);
    let bounds = Histogram::<u64>::new_with_bounds(1, LONGEST_NANOS, 3);
    let mut times = bounds.expect("three digits, and the bounds are in order");
    let mut pace = plan.updates_per_second.map(|rate| Pace::new(rate as f64, 0, 1));
    let start = Instant::now();
    for _ in 0..plan.updates {
        let (key, value) = (key(updates.next_record()), values.next());
        let begin = pace.as_mut().map_or_else(Instant::now, |pace| pace.wait(1));
        put(&key, value)?;
        times.saturating_record(nanos(begin.elapsed()));
    }
    let updates_took = start.elapsed();
    let at = |quantile| Duration::from_nanos(times.value_at_quantile(quantile));
    Ok(Outcome {
        updates_took,
        p99: at(0.99),
        p999: at(0.999),
        longest: Duration::from_nanos(times.max()),
        ..Outcome::default()
    })
}

impl Outcome {
    fn count(&mut self, before: &Metrics, after: &Metrics) {
        self.user_bytes = after.bytes_written - before.bytes_written;
        self.flushed_bytes = after.flush_bytes - before.flush_bytes;
        self.merged_bytes = after.compaction_bytes_written - before.compaction_bytes_written;
        self.moves = after.moves - before.moves;
        self.largest_merge_bytes = after.compaction_bytes_largest;
    }
}

fn gets(db: &Db, plan: &Plan) -> Result<Duration, Error> {
    let mut random = SplitMix::new(plan.seed ^ 1);
    median_of_three(|| {
        let start = Instant::now();
        for _ in 0..plan.reads {
            let found = db.get(key(random.below(u64::from(plan.records))))?;
            if found.is_none() {
                return Err(Error::corruption("a record that was loaded is not found"));
            }
        }
        Ok(start.elapsed() / u32::try_from(plan.reads.max(1)).unwrap_or(u32::MAX))
    })
}

fn scans(db: &Db, plan: &Plan) -> Result<Duration, Error> {
    let mut random = SplitMix::new(plan.seed ^ 2);
    let scans = (plan.reads / READS_PER_SCAN).max(1);
    median_of_three(|| {
        let start = Instant::now();
        for _ in 0..scans {
            let mut iter = db.iter()?;
            iter.seek(key(random.below(u64::from(plan.records))))?;
            for _ in 0..SCANNED {
                if !iter.valid() {
                    break;
                }
                std::hint::black_box(iter.value());
                iter.next()?;
            }
        }
        Ok(start.elapsed() / u32::try_from(scans).unwrap_or(u32::MAX))
    })
}

/// Of passes behind a first one, during which lanes look into tables that nobody has read yet.
fn median_of_three(mut pass: impl FnMut() -> Result<Duration, Error>) -> Result<Duration, Error> {
    pass()?;
    let mut times = [pass()?, pass()?, pass()?];
    times.sort();
    Ok(times[1])
}

fn levels(db: &Db) -> [(u64, u64); 3] {
    let mut bytes = [(0, 0); 3];
    for part in db.levels() {
        let level = usize::from(part.level.number());
        let Some(of_level) = level.checked_sub(1).and_then(|at| bytes.get_mut(at)) else {
            continue;
        };
        match part.area {
            Area::Tree => of_level.0 = part.bytes(),
            Area::SstLog => of_level.1 = part.bytes(),
        }
    }
    bytes
}

fn tables_over_key(db: &Db, plan: &Plan) -> f64 {
    let mut random = SplitMix::new(plan.seed ^ 4);
    let mut tables = || db.tables_over(key(random.below(u64::from(plan.records))));
    let asked: usize = (0..KEYS_ASKED).map(|_| tables()).sum();
    asked as f64 / KEYS_ASKED as f64
}

fn table_bytes(db: &Db) -> u64 {
    db.levels().iter().map(siltstone::LevelInfo::bytes).sum()
}

fn key(record: u64) -> [u8; 16] {
    let mut key = *b"0000000000000000";
    let mut rest = record;
    for digit in key.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Bytes without a pattern, each time from another place.
pub(super) struct Values {
    bytes: Vec<u8>,
    len: usize,
    at: usize,
}

const VALUES_BYTES: usize = 1 << 20;

impl Values {
    pub(super) fn new(plan: &Plan) -> Self {
        let mut random = SplitMix::new(plan.seed ^ 3);
        let words = (VALUES_BYTES + plan.value_bytes) / 8 + 1;
        let bytes = (0..words).flat_map(|_| random.next().to_le_bytes()).collect();
        Values { bytes, len: plan.value_bytes, at: 0 }
    }

    fn next(&mut self) -> &[u8] {
        self.at = (self.at + 31) % VALUES_BYTES;
        &self.bytes[self.at..self.at + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is merged is compared in `compaction/simulation.rs`: here are two levels only.
    #[test]
    fn each_way_is_measured() {
        let folder = std::env::temp_dir().join(format!("siltstone-l2sm-{}", std::process::id()));
        let plan = Plan {
            folder,
            law: Law::Zipfian,
            records: 60_000,
            updates: 150_000,
            updates_per_second: None,
            value_bytes: 100,
            disk_bytes_per_second: Some(200 << 20),
            reads_merge: true,
            reads: 500,
            seed: 42,
        };
        let [control, sliced] = [Way::ALL[0], Way::ALL[3]].map(|way| run(&plan, way).unwrap());
        assert_eq!(control.user_bytes, sliced.user_bytes);
        assert!(control.merged_bytes > 0 && sliced.merged_bytes > 0, "{sliced:?} {control:?}");
        assert_eq!(control.levels.map(|(_, log)| log), [0; 3]);
        assert!(sliced.moves > 0 && sliced.levels[0].1 > 0, "{sliced:?}");
        assert!(sliced.merged_bytes_drained > sliced.merged_bytes);
        assert!(!plan.folder.exists());
        fs::create_dir(&plan.folder).unwrap();
        assert!(run(&plan, Way::ALL[0]).is_err() && plan.folder.exists());
        fs::remove_dir(&plan.folder).unwrap();
        assert!(control.space > 1.0 && sliced.space > 1.0);
        assert!(control.scan_sources >= 2 && sliced.scan_sources >= 3, "{sliced:?} {control:?}");
        assert!(sliced.tables_over_key > 1.0, "{sliced:?}");
        assert!(sliced.largest_merge_bytes > 0);
    }
}
