//! The service seam: merges that run elsewhere. A user's [`CompactionService`] takes jobs, complete in themselves
//! ([`spec`]), and says once what became of each ([`completion`]); whoever runs one does so by the engine's own merge loop
//! ([`run`]).
//!
//! **Invariants.**
//! - E1: no lane waits for a job that runs elsewhere. It is an entry among the jobs in flight, and its end wakes a lane.
//! - E2: the bytes that a job makes are a function of its spec and its inputs: whoever runs it, from wherever an earlier
//!   attempt has come. So a result may be compared with another one's, and any attempt may go on with what one has made.
//! - E3: the database alone gives file numbers and changes versions. What comes back is checked as any output is
//!   ([`Job::accepts`](super::job::Job::accepts)), and a job whose result is of no use runs here.

pub(crate) mod completion;
pub(crate) mod run;
pub(crate) mod spec;

use crate::base::error::Result;
use crate::base::slot::Slot;
use crate::compaction::service::completion::Completion;
use crate::compaction::service::spec::{JobSpec, JobTable};
use crate::format::filename::FileNumber;

/// Runs merges for databases, elsewhere. Set as [`Options::compaction_service`](crate::Options::compaction_service).
///
/// Where the tables of such a database lie, both sides must be able to reach: see
/// [`TableStore`](crate::TableStore). Tables that its merges write do not say which number they have, wherever they are
/// written: bytes must not depend on that.
pub trait CompactionService: Send + Sync {
    /// Whether it would take a job like this; others run here. Called on lanes, under no lock; must not block.
    fn wants(&self, job: &JobSummary) -> bool;

    /// Takes a job, and returns at once. However it ends, `done` is told, on any thread, even before this returns. To drop
    /// `done` brings the job home.
    fn submit(&self, spec: JobSpec, summary: &JobSummary, done: Completion) -> Box<dyn Submitted>;

    /// Whether it tells when somebody begins with a job ([`Completion::beginning`]). Then no merge below level 0 is given away, nor begun
    /// here, while another one waits for somebody, for up to a second: what waits keeps its tables from all other merges, and of those of level 0 writers
    /// wait. Nor does any of level 0 or 1 leave that would be back too late for level 0, by how long jobs were away lately. Must not block. Default: it does not,
    /// and as many wait as it [wants](Self::wants).
    fn tells_beginnings(&self) -> bool {
        false
    }

    /// Whether the database may take a job back that is under way, when writers are held back, or would soon be, and it may be in their
    /// way: it is [cancelled](Submitted::cancel) then, and runs here. Default: it may.
    fn lets_go(&self) -> bool {
        true
    }

    /// Jobs that an earlier opening of the database has given away, and that may be under way still. Asked once, while the
    /// database opens. It goes on with those that it would begin just so, and drops the others. Default: none.
    fn left_behind(&self) -> Vec<Box<dyn LeftJob>> {
        Vec::new()
    }
}

/// A job that a service has. Dropped once its end was told, or nobody wants it any more.
pub trait Submitted: Send {
    /// Nobody wants it any more. It is not waited for; nothing of what it has made counts. Must not block.
    fn cancel(&self);

    /// The database closes, and whoever opens it next may [go on with it](CompactionService::left_behind). Must not block.
    /// Default: [`cancel`](Self::cancel).
    fn leave(&self) {
        self.cancel();
    }
}

/// A job of an earlier opening. Dropped if nobody goes on with it.
pub trait LeftJob: Send {
    /// As it was submitted, but for its number, which means nothing any more.
    fn spec(&self) -> &JobSpec;

    /// As [`submit`](CompactionService::submit), of what there is of it.
    fn go_on(self: Box<Self>, done: Completion) -> Box<dyn Submitted>;
}

/// What a service decides by.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct JobSummary {
    /// Where the first of its inputs are.
    pub from: Slot,
    /// Where its outputs go.
    pub to: Slot,
    /// Tables that it merges.
    pub tables: usize,
    /// About how many bytes of them.
    pub bytes: u64,
    /// How near level 0 is to stopping writers, in thousandths, if the job takes tables from there; else 0.
    pub level0_pressure: u32,
    /// Jobs of the database that are with the service now.
    pub away: usize,
    /// Whether a caller waits for it.
    pub is_awaited: bool,
}

/// How a job has ended.
pub enum JobOutcome {
    /// Its tables are durable where they are, and may be adopted.
    Done(Box<dyn FinishedJob>),
    /// It is to run here, for a reason that people will read.
    RunHere(String),
}

/// What a job has made elsewhere. Dropped when the database has it, or will never have it.
pub trait FinishedJob: Send {
    /// The tables, in the order of their keys. None at all is a result like any other.
    fn tables(&self) -> &[JobTable];

    /// Entries that were merged and are in no table.
    fn entries_dropped(&self) -> u64;

    /// Has the database's [store](crate::TableStore) know a table by this number from now on: opening the number opens it,
    /// and [`sync_names`](crate::TableStore::sync_names) makes that durable. The place to see whether the bytes are what the
    /// worker said. After an error, or if the table does not come to count after all, the number is removed from the
    /// store. Called on a lane, under no lock; may block.
    fn adopt(&self, nth: usize, number: FileNumber) -> Result<()>;
}
