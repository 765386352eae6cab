//! The executor seam: where a job runs. It decides the place, never what is done: every executor
//! ends in the merge loop of [`merge`](crate::compaction::merge).

use std::sync::Arc;

use crate::base::comparator::InternalOrder;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::base::sync::{Mutex, Rank};
use crate::compaction::hot_map::KeyHash;
use crate::compaction::job::{Job, Output};
use crate::compaction::share::Share;
use crate::compaction::{merge, parts};
use crate::format::filename::FileNumber;
use crate::format::table::TableSettings;
use crate::format::table::builder::TableSummary;
use crate::store::TableStore;
use crate::store::table_cache::TableCache;

/// Tells how hot keys are on average, in thousandths.
pub(crate) type Hotness<'a> = dyn Fn(&[KeyHash]) -> u64 + Sync + 'a;

/// What a job needs besides itself.
pub(crate) struct JobContext<'a> {
    pub(crate) order: &'a InternalOrder,
    pub(crate) cache: &'a Arc<TableCache>,
    pub(crate) store: &'a Arc<dyn TableStore>,
    pub(crate) bottom_table: &'a TableSettings,
    pub(crate) upper_table: &'a TableSettings,
    pub(crate) new_number: &'a (dyn Fn() -> FileNumber + Sync),
    /// Whether tables say which number they were written under. Not where others write tables, who do not know it: bytes
    /// must not depend on who ran the job.
    pub(crate) tells_numbers: bool,
    pub(crate) cancelled: &'a AtomicBool,
    /// How many threads may merge a job side by side.
    pub(crate) threads: usize,
    /// On a lane, again and again: makes way for those who come first.
    pub(crate) make_way: &'a (dyn Fn() + Sync),
    /// Asked for each table; `None` if nobody wants to know.
    pub(crate) hotness: Option<&'a Hotness<'a>>,
    /// Wakes lanes that [help](CompactionExecutor::help).
    pub(crate) call_for_help: &'a (dyn Fn() + Sync),
    /// Told of each table whose bytes are durable; an error fails the job.
    pub(crate) finished: &'a (dyn Fn(&TableSummary) -> Result<()> + Sync),
}

impl JobContext<'_> {
    /// How a job's tables are laid out.
    pub(crate) fn table_settings(&self, job: &Job) -> &TableSettings {
        if job.below.is_empty() { self.bottom_table } else { self.upper_table }
    }

    /// Called every so many entries.
    pub(crate) fn check_in(&self) -> Result<()> {
        (self.make_way)();
        // Pairs with nothing: a job that sees the flag late only works a little longer.
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Closed, "the database is closing"));
        }
        Ok(())
    }
}

/// Runs jobs. Called on a compaction lane, which it may block for as long as it takes.
pub(crate) trait CompactionExecutor: Send + Sync {
    /// Outputs are durable, names included, when this returns. After an error nothing of the job
    /// counts, and what it made are orphans for the next sweep.
    fn execute(&self, job: &Arc<Job>, context: &JobContext<'_>) -> Result<Output>;

    /// Called on lanes with nothing better to do: takes a part in a job that runs elsewhere. False if there is none to be
    /// had. Whether it fails is that job's affair.
    fn help(&self, _context: &JobContext<'_>) -> bool {
        false
    }
}

/// Runs a job on the calling thread, and large ones also on lanes that happen to be free.
pub(crate) struct LocalExecutor {
    /// Jobs with parts to be had.
    shares: Mutex<Vec<Arc<Share>>>,
}

impl LocalExecutor {
    pub(crate) fn new() -> Self {
        LocalExecutor { shares: Mutex::new(Rank::Leaf, Vec::new()) }
    }

    fn offer(&self, share: &Arc<Share>) -> Offer<'_> {
        self.shares.lock().push(Arc::clone(share));
        Offer { executor: self, share: Arc::clone(share) }
    }
}

impl CompactionExecutor for LocalExecutor {
    fn execute(&self, job: &Arc<Job>, context: &JobContext<'_>) -> Result<Output> {
        let parts = parts::split(job, context, context.threads)?;
        if parts.len() == 1 {
            return merge::run(job, context);
        }
        let share = Arc::new(Share::new(Arc::clone(job), parts));
        let offer = self.offer(&share);
        (context.call_for_help)();
        while share.work(context) {}
        drop(offer);
        share.outcome(context)
    }

    fn help(&self, context: &JobContext<'_>) -> bool {
        // The first ones may have no parts left, only some that are not ended yet.
        let shares = self.shares.lock().clone();
        shares.iter().any(|share| share.work(context))
    }
}

/// A share that helpers find, while this lives.
struct Offer<'a> {
    executor: &'a LocalExecutor,
    share: Arc<Share>,
}

impl Drop for Offer<'_> {
    fn drop(&mut self) {
        self.executor.shares.lock().retain(|share| !Arc::ptr_eq(share, &self.share));
    }
}
