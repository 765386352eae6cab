//! Saves what a damaged database holds into a new one. The damaged one is only read, or (`in_place`)
//! kept aside.
//!
//! All that can be read, tables and logs, goes through one merge by internal key: of each user key
//! the newest entry wins, and a deletion deletes, whatever level, file or number it came from. The
//! result is one row of disjoint tables in the deepest level.
//!
//! ```text
//! tables, block by block ---> chains of disjoint tables ---+
//!                                                          +--> merge --> tables of level 6
//! logs, batch by batch -----> memtables, temporary tables -+
//! ```

mod in_place;
mod log;
mod report;
mod salvage;
mod scan;
mod spill;
mod survey;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) use in_place::KEPT_PREFIX;
pub use in_place::repair_in_place;
pub use report::{LostRange, RepairPlan, RepairReport, SalvagedLog, SalvagedTable, TableState};

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::iter::InternalIterator;
use crate::base::key::SEQNO_MAX;
use crate::base::merging::MergingIter;
use crate::base::slot::{Level, Slot};
use crate::base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::compaction::cut::CutRule;
use crate::compaction::executor::JobContext;
use crate::compaction::job::{Job, Output};
use crate::compaction::merge;
use crate::compaction::parts::Part;
use crate::db::care::fresh::{Content, Fresh};
use crate::db::open::files::Files;
use crate::db::options::Options;
use crate::db::settings::{self, Settings};
use crate::env::fs::{FileLock, FileSystem};
use crate::env::site::Site;
use crate::format::filename::{FileName, FileNumber};
use crate::store::TableStore;
use crate::store::block_cache::BlockCache;
use crate::store::local::LocalStore;
use crate::store::table_cache::TableCache;
use crate::version::builder::{self, Change};
use crate::version::graveyard::Graveyard;
use crate::version::table_meta::TableMeta;
use crate::version::{Version, check};
use spill::Spill;
use survey::Survey;

/// The number of the first file of the new database.
const FIRST_FILE: u64 = 2;

/// How a repair is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RepairOptions {
    /// Also use tables that the manifest does not name. They may hold what a lost edit had added,
    /// and old entries that were deleted since. Default: false.
    pub use_orphans: bool,
}

/// Looks at what [`repair`] would save and what is lost, and writes nothing. Reads everything once.
///
/// # Errors
///
/// As [`repair`].
pub fn plan_repair(path: impl AsRef<Path>, options: &Options) -> Result<RepairPlan> {
    let damaged = Damaged::open(path.as_ref(), options)?;
    Survey::take(&damaged, &RepairOptions::default()).map(|survey| survey.plan)
}

/// Saves what the database in the folder `path` holds into a new one in the folder `out_path`, which
/// must not exist or be empty. The damaged database is never changed; it is locked meanwhile.
///
/// Tables are read block by block and logs record by record, around what is damaged. Of each key the
/// newest entry that can be read wins, so no older value hides a newer one and what was deleted
/// stays deleted, unless the entry that said so is itself lost, or there is no manifest: both are
/// in the report. Reads everything twice, in bounded memory. All is durable when this returns.
///
/// # Errors
///
/// `Locked` if the database is open; `InvalidArgument` if there is none, or `out_path` is taken;
/// `Incompatible` for another comparator's; otherwise what kept the new one from being written. After
/// an error there is no database at `out_path`.
pub fn repair(
    path: impl AsRef<Path>,
    out_path: impl AsRef<Path>,
    options: &Options,
) -> Result<RepairReport> {
    repair_with(path, out_path, options, &RepairOptions::default())
}

/// As [`repair`], with options.
///
/// # Errors
///
/// As [`repair`].
pub fn repair_with(
    path: impl AsRef<Path>,
    out_path: impl AsRef<Path>,
    options: &Options,
    how: &RepairOptions,
) -> Result<RepairReport> {
    let damaged = Damaged::open(path.as_ref(), options)?;
    let out = out_path.as_ref();
    let fresh = Fresh::begin(&damaged.fs, out, Site::RepairDirCreate)?;
    let survey = Survey::take(&damaged, how);
    let saved = survey.and_then(|survey| save(&damaged, survey, &fresh, out));
    match saved {
        Ok(report) => Ok(report),
        Err(error) => Err(fresh.abandon(error)),
    }
}

/// The database to be saved, locked.
struct Damaged {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    settings: Settings,
    _lock: Box<dyn FileLock>,
}

impl Damaged {
    fn open(dir: &Path, options: &Options) -> Result<Self> {
        let options = settings::clamp(options.clone());
        let settings = Settings::resolve(&options)?;
        let fs = Arc::clone(&options.env.file_system);
        // No lock file for a folder that is someone else's.
        Files::check_any(&*fs, dir)?;
        let lock = fs.lock(&FileName::Lock.in_dir(dir), Site::LockCreate)?;
        Ok(Damaged { fs, dir: dir.to_owned(), settings, _lock: lock })
    }
}

fn save(damaged: &Damaged, survey: Survey, fresh: &Fresh, out: &Path) -> Result<RepairReport> {
    let next_file = AtomicU64::new(FIRST_FILE);
    let new_number = || FileNumber(next_file.fetch_add(1, Ordering::Relaxed));
    let saved = save_tables(damaged, survey, out, &new_number)?;
    fresh.name(&Content {
        version: &saved.version,
        comparator: damaged.settings.order.user.name(),
        last_seqno: saved.report.last_seqno,
        next_file: new_number(),
    })?;
    Ok(saved.report)
}

/// What was saved, in tables that no manifest names yet.
struct Saved {
    version: Version,
    report: RepairReport,
}

/// Writes what can be read as tables in the folder `out`.
fn save_tables(
    damaged: &Damaged,
    survey: Survey,
    out: &Path,
    new_number: &(dyn Fn() -> FileNumber + Sync),
) -> Result<Saved> {
    let output = merge_all(damaged, &survey, out, new_number)?;
    let graveyard = Arc::new(Graveyard::new());
    let (mut entries_kept, mut bytes) = (0, 0);
    let mut change = Change::default();
    for built in &output.tables {
        entries_kept += built.properties.entries;
        bytes += built.bytes;
        let meta = TableMeta::written(built, &graveyard);
        change.added.push((Slot::tree(Level::LAST), Arc::new(meta)));
    }
    let order = &damaged.settings.order;
    let version = builder::apply(order, &Version::default(), change)?;
    check::check(order, &version)?;
    let report = RepairReport {
        tables: output.tables.len() as u64,
        bytes,
        entries_kept,
        entries_dropped: output.entries_dropped,
        last_seqno: survey.last_seqno,
        found: survey.plan,
        kept: None,
    };
    Ok(Saved { version, report })
}

/// Brings all sources together and writes the tables.
fn merge_all(
    damaged: &Damaged,
    survey: &Survey,
    out: &Path,
    new_number: &(dyn Fn() -> FileNumber + Sync),
) -> Result<Output> {
    let Damaged { fs, settings, .. } = damaged;
    let mut spill = Spill::new(fs, out, settings, new_number);
    for (path, entries) in &survey.logs {
        // What is lost was told by the survey.
        let read = log::read(fs.open(path)?, &mut Vec::new(), &mut |update| spill.add(&update))?;
        check_same(path, read.entries, *entries)?;
    }
    let (logs, spilled) = spill.finish()?;
    let mut sources: Vec<Box<dyn InternalIterator>> = Vec::new();
    sources.extend(logs.into_iter().map(|log| Box::new(log) as _));
    let chains = salvage::chains(fs, &settings.order, survey.sources.clone());
    sources.extend(chains.into_iter().map(|chain| Box::new(chain) as _));

    let store: Arc<dyn TableStore> = Arc::new(LocalStore::new(Arc::clone(fs), out));
    let blocks = Arc::new(BlockCache::new(0));
    let context = JobContext {
        order: &settings.order,
        cache: &Arc::new(TableCache::new(store.clone(), settings.read.clone(), blocks, 1)),
        store: &store,
        bottom_table: &settings.bottom_table,
        upper_table: &settings.upper_table,
        new_number,
        tells_numbers: true,
        cancelled: &AtomicBool::new(false),
        threads: 1,
        make_way: &|| {},
        hotness: None,
        call_for_help: &|| {},
        finished: &|_| Ok(()),
    };
    let mut input = MergingIter::new(settings.order.clone(), sources);
    let output = merge::run_over(&job(settings), &context, &mut input)?;
    drop(input);
    for path in spilled {
        fs.remove_file(&path, Site::TempRemove)?;
    }
    Ok(output)
}

/// A disk that gives other answers than a moment ago must not pass for lost entries.
fn check_same(path: &Path, read: u64, before: u64) -> Result<()> {
    if read == before {
        return Ok(());
    }
    let message = format!("read {read} entries, {before} a moment ago");
    Err(Error::new(ErrorKind::Io, message).in_file(path))
}

/// A job with nothing beside it: no snapshot, no deeper level, so only the newest value of each key
/// stays.
fn job(settings: &Settings) -> Job {
    Job {
        id: 0,
        inputs: Vec::new(),
        part: Part::all(),
        to: Slot::tree(Level::LAST),
        snapshots: vec![SEQNO_MAX],
        below: Vec::new(),
        cut: CutRule {
            table_bytes: settings.job.table_bytes,
            grandparent_bytes: u64::MAX,
            grandparents: Vec::new(),
        },
    }
}
