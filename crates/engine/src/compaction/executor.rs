//! The executor seam: where a job runs. It decides the place, never what is done: every executor
//! ends in [`merge::run`](crate::compaction::merge::run).

use std::sync::Arc;

use crate::base::comparator::InternalOrder;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::compaction::job::{Job, Output};
use crate::compaction::merge;
use crate::format::filename::FileNumber;
use crate::format::table::TableSettings;
use crate::store::TableStore;
use crate::store::table_cache::TableCache;

/// What a job needs besides itself.
pub(crate) struct JobContext<'a> {
    pub(crate) order: &'a InternalOrder,
    pub(crate) cache: &'a Arc<TableCache>,
    pub(crate) store: &'a Arc<dyn TableStore>,
    pub(crate) bottom_table: &'a TableSettings,
    pub(crate) upper_table: &'a TableSettings,
    pub(crate) new_number: &'a (dyn Fn() -> FileNumber + Sync),
    pub(crate) cancelled: &'a AtomicBool,
}

impl JobContext<'_> {
    /// How a job's tables are laid out.
    pub(crate) fn table_settings(&self, job: &Job) -> &TableSettings {
        if job.below.is_empty() { self.bottom_table } else { self.upper_table }
    }

    /// Called every so many entries.
    pub(crate) fn check_cancelled(&self) -> Result<()> {
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
    fn execute(&self, job: &Job, context: &JobContext<'_>) -> Result<Output>;
}

/// Runs a job on the calling thread.
pub(crate) struct LocalExecutor;

impl CompactionExecutor for LocalExecutor {
    fn execute(&self, job: &Job, context: &JobContext<'_>) -> Result<Output> {
        merge::run(job, context)
    }
}
