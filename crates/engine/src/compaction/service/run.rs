//! Running a job anywhere: the one merge loop, over inputs that a [`Workplace`] opens, into tables that it takes. Workers
//! call it; so may whoever wants to see whether a worker's tables are right.

use std::collections::HashMap;
use std::sync::Arc;

use crate::base::comparator::{Comparator, InternalOrder, UserOrder};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::key::{parse, user_key};
use crate::base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::compaction::executor::JobContext;
use crate::compaction::job::{Job, Output};
use crate::compaction::merge;
use crate::compaction::service::spec::{FilterLayout, JobInput, JobSpec, JobTable, TableLayout};
use crate::env::fs::{RandomAccessFile, WritableFile};
use crate::format::filename::FileNumber;
use crate::format::table::filter::{BloomFilter, Filter, FilterPolicy};
use crate::format::table::{ReadSettings, TableSettings};
use crate::store::TableStore;
use crate::store::block_cache::BlockCache;
use crate::store::table_cache::TableCache;

/// Inputs that are kept open; iterators hold more if they need them.
const OPEN_TABLES_MAX: usize = 64;
/// A filter of more bits for a key is somebody's mistake, and would take the memory of one.
const FILTER_BITS_MAX: u32 = 1_000;

/// Where a job runs: what it reads from and writes to.
pub trait Workplace: Send + Sync {
    /// Opens an input. One that is not there is [`ErrorKind::NotFound`].
    fn open(&self, input: &JobInput) -> Result<Arc<dyn RandomAccessFile>>;

    /// Makes the job's table number `ordinal`, those of earlier attempts counted. It is synced before it is
    /// [`finished`](JobWatch::finished); one that is closed without a sync is of no use.
    fn create(&self, ordinal: usize) -> Result<Box<dyn WritableFile>>;
}

/// Who looks on while a job runs.
pub trait JobWatch: Sync {
    /// A table's bytes are durable. After an error the job has failed.
    fn finished(&self, ordinal: usize, table: JobTable) -> Result<()>;

    /// Asked every so many entries; false stops the job.
    fn goes_on(&self) -> bool {
        true
    }
}

/// What a worker knows beyond the built-in order and filter.
#[derive(Clone, Default)]
pub struct JobTools {
    /// Orders, by their names.
    pub comparators: Vec<Arc<dyn Comparator>>,
    /// Filter policies, by their names.
    pub filters: Vec<Arc<dyn FilterPolicy>>,
}

/// Where an earlier attempt has come to.
#[derive(Clone, Copy, Debug)]
pub struct Resume<'a> {
    /// How many tables it has finished.
    pub tables: usize,
    /// The last entry of the last of them, an internal key.
    pub largest: &'a [u8],
}

/// What a run has cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobCosts {
    /// Bytes of the tables that it made.
    pub bytes_written: u64,
    /// Entries that it left out, from where it began.
    pub entries_dropped: u64,
}

/// Runs a job on this thread, from its beginning or behind what an earlier attempt has finished. The tables that it makes
/// have the same bytes wherever and however often it runs.
///
/// # Errors
///
/// [`ErrorKind::InvalidArgument`] for a spec that makes no sense, [`ErrorKind::Incompatible`] for one that needs what `tools`
/// or this build lack, [`ErrorKind::Closed`] if `watch` does not go on; else what reading and writing came to. Tables
/// that were finished by then are good.
pub fn run_job(
    spec: &JobSpec,
    tools: &JobTools,
    place: &Arc<dyn Workplace>,
    watch: &dyn JobWatch,
    resume: Option<Resume<'_>>,
) -> Result<JobCosts> {
    let order = InternalOrder::new(tools.order(&spec.layout)?);
    let settings = tools.settings(&spec.layout, &order)?;
    let job = spec.job(&order)?;
    if resume.is_some_and(|resume| parse(resume.largest).is_none()) {
        return Err(Error::invalid_argument("nothing ends with what is no entry's key"));
    }
    let made = AtomicU64::new(resume.map_or(0, |resume| resume.tables as u64));
    let cancelled = AtomicBool::new(false);
    let store = Bench::store(spec, place);
    let read = ReadSettings { order: order.clone(), filter: None, check_places: true };
    let blocks = Arc::new(BlockCache::new(0));
    let open_tables = spec.inputs.len().min(OPEN_TABLES_MAX);
    let context = JobContext {
        order: &order,
        cache: &Arc::new(TableCache::new(Arc::clone(&store), read, blocks, open_tables)),
        store: &store,
        bottom_table: &settings,
        upper_table: &settings,
        new_number: &|| FileNumber(made.fetch_add(1, Ordering::Relaxed)),
        tells_numbers: false,
        cancelled: &cancelled,
        threads: 1,
        make_way: &|| {
            if !watch.goes_on() {
                cancelled.store(true, Ordering::Relaxed);
            }
        },
        hotness: None,
        call_for_help: &|| {},
        finished: &|built| {
            let ordinal = usize::try_from(built.number.0).expect("counted by a usize");
            watch.finished(ordinal, JobTable::of(built))
        },
    };
    let merged = run(&job, &context, resume);
    let output = merged.map_err(|error| match cancelled.load(Ordering::Relaxed) {
        true => Error::new(ErrorKind::Closed, "the job was cancelled"),
        false => error,
    })?;
    Ok(JobCosts { bytes_written: output.bytes_written, entries_dropped: output.entries_dropped })
}

fn run(job: &Job, context: &JobContext<'_>, resume: Option<Resume<'_>>) -> Result<Output> {
    context.check_in()?;
    match resume {
        Some(resume) => merge::run_behind(job, context, user_key(resume.largest)),
        None => merge::run_part(job, context, &job.part),
    }
}

impl JobTools {
    fn order(&self, layout: &TableLayout) -> Result<UserOrder> {
        if layout.comparator == UserOrder::Bytewise.name() {
            return Ok(UserOrder::Bytewise);
        }
        let known = self.comparators.iter().find(|known| known.name() == layout.comparator);
        known.map(|known| UserOrder::Custom(Arc::clone(known))).ok_or_else(|| lacks("comparator"))
    }

    fn settings(&self, layout: &TableLayout, order: &InternalOrder) -> Result<TableSettings> {
        layout.compression.check()?;
        let size = |bytes: u64| {
            usize::try_from(bytes).map_err(|_| Error::invalid_argument("more than there is memory"))
        };
        Ok(TableSettings {
            order: order.clone(),
            block_bytes: size(layout.block_bytes)?,
            restart_interval: size(layout.restart_interval)?,
            compression: layout.compression,
            filter: layout.filter.as_ref().map(|filter| self.filter(filter)).transpose()?,
        })
    }

    fn filter(&self, layout: &FilterLayout) -> Result<Filter> {
        let FilterLayout { name, bits_per_key } = layout;
        let known = self.filters.iter().find(|known| known.name() == name);
        if let Some(known) = known.filter(|known| known.built_in().is_none()) {
            return Ok(Filter::Custom(Arc::clone(known)));
        }
        let bloom = BloomFilter::new(*bits_per_key as usize).named(name.as_bytes());
        let bloom = bloom.filter(|_| *bits_per_key <= FILTER_BITS_MAX);
        bloom.map(Filter::Bloom).ok_or_else(|| lacks("filter policy"))
    }
}

fn lacks(what: &str) -> Error {
    Error::new(ErrorKind::Incompatible, format!("a {what} that is not known here"))
}

/// A workplace as the merge knows it: what it opens are inputs, by their numbers; what it creates are the job's tables, by
/// their place among them.
struct Bench {
    inputs: HashMap<FileNumber, JobInput>,
    place: Arc<dyn Workplace>,
}

impl Bench {
    fn store(spec: &JobSpec, place: &Arc<dyn Workplace>) -> Arc<dyn TableStore> {
        let inputs = spec.inputs.iter().map(|input| (input.number, input.clone())).collect();
        Arc::new(Bench { inputs, place: Arc::clone(place) })
    }
}

impl TableStore for Bench {
    fn create(&self, number: FileNumber) -> Result<Box<dyn WritableFile>> {
        self.place.create(usize::try_from(number.0).expect("counted by a usize"))
    }

    fn open(&self, number: FileNumber) -> Result<Arc<dyn RandomAccessFile>> {
        let lost = || Error::new(ErrorKind::NotFound, format!("{number} is no input"));
        self.place.open(self.inputs.get(&number).ok_or_else(lost)?)
    }

    /// What is finished is for the next attempt, whatever becomes of this one.
    fn remove(&self, _number: FileNumber) -> Result<()> {
        Ok(())
    }

    fn list(&self) -> Result<Vec<FileNumber>> {
        Ok(self.inputs.keys().copied().collect())
    }

    fn sync_names(&self) -> Result<()> {
        Ok(())
    }
}
