//! What a broker knows of a job and of a database.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

use crate::broker::event::SessionId;
use crate::job::failure::JobFailure;
use crate::job::id::{Attempt, JobId};
use crate::job::name::{DbId, WorkerId};
use crate::job::result::OutputTable;
use crate::message::{Completion, Priority, Submission};

/// A worker's process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WorkerKey {
    pub(super) worker: WorkerId,
    pub(super) incarnation: u64,
}

#[derive(Debug)]
pub(super) struct Job {
    pub(super) submission: Submission,
    /// Who wants to know; `None` while nobody is there.
    pub(super) client: Option<SessionId>,
    /// Its place among jobs of one priority.
    pub(super) sequence: u64,
    pub(super) submitted: Duration,
    pub(super) phase: Phase,
    pub(super) failures: u32,
    /// What attempts have told of, and the next one goes on behind.
    pub(super) recorded: Vec<OutputTable>,
    /// Who failed last: others go first.
    pub(super) avoid: Option<WorkerId>,
    /// When it goes, if nobody comes for it.
    pub(super) keep_until: Option<Duration>,
}

#[derive(Debug)]
pub(super) enum Phase {
    /// For a slot.
    Waiting,
    /// After a failure, or for who has it already.
    Resting(Duration),
    Running(Running),
    Done(Completion),
    Failed(JobFailure),
}

#[derive(Clone, Debug)]
pub(super) struct Running {
    pub(super) attempt: Attempt,
    pub(super) key: WorkerKey,
    /// How many outputs it was given.
    pub(super) resumed: usize,
    pub(super) lease_until: Duration,
}

impl Job {
    pub(super) fn db(&self) -> &DbId {
        &self.submission.spec.db
    }

    pub(super) fn running(&self) -> Option<&Running> {
        match &self.phase {
            Phase::Running(running) => Some(running),
            _ => None,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Done(_) | Phase::Failed(_))
    }

    pub(super) fn rank(&self) -> Rank {
        Rank {
            priority: Reverse(self.submission.priority),
            sequence: self.sequence,
            job: self.submission.spec.job,
        }
    }
}

/// The order in which a database's jobs wait: by priority, then by age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    pub(super) priority: Reverse<Priority>,
    pub(super) sequence: u64,
    pub(super) job: JobId,
}

#[derive(Debug, Default)]
pub(super) struct Database {
    /// The newest opening that has submitted anything.
    pub(super) epoch: u64,
    pub(super) waiting: BTreeSet<Rank>,
    pub(super) running: usize,
    /// All that the broker knows of it, finished ones included.
    pub(super) jobs: BTreeSet<JobId>,
}
