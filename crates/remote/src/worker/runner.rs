//! The seam to what runs jobs. The worker's service calls it, one thread for each job.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::job::failure::{FailureCode, JobFailure};
use crate::job::name::ObjectName;
use crate::job::result::{Costs, JobResult, OutputTable};
use crate::job::spec::JobSpec;
use crate::message::{Assignment, AttemptId};
use crate::security::secret::Secret;

/// Runs jobs. What it makes depends on the spec alone: no clock, no chance, nothing of this machine. So any attempt makes
/// the same tables, and one can go on where another one stopped.
///
/// ```
/// use siltstone_remote::{Costs, JobFailure, JobResult, JobRunner, JobSpec, OutputTable, RunContext};
///
/// struct Merger;
///
/// impl JobRunner for Merger {
///     fn run(&self, spec: &JobSpec, context: &RunContext) -> Result<JobResult, JobFailure> {
///         let mut outputs = context.resumed().to_vec();
///         while let Some(table) = next_table(spec, outputs.last(), context)? {
///             context.finished(table.clone(), Costs::default())?;
///             outputs.push(table);
///         }
///         Ok(JobResult { outputs, costs: Costs::default() })
///     }
/// }
///
/// /// Merges what lies behind the last table, into an object called `context.output_name(..)`.
/// fn next_table(
///     spec: &JobSpec,
///     last: Option<&OutputTable>,
///     context: &RunContext,
/// ) -> Result<Option<OutputTable>, JobFailure> {
///     context.check()?;
///     # let _ = (spec, last);
///     Ok(None)
/// }
/// ```
pub trait JobRunner: Send + Sync {
    /// Runs a job to its end, on the calling thread, for as long as it takes. Outputs get their names from
    /// [`RunContext::output_name`], are durable before they are reported, and have the context's first outputs before
    /// them.
    ///
    /// # Errors
    ///
    /// [`JobFailure`]: its code decides whether another attempt is made. What was reported by then is kept for it.
    fn run(&self, spec: &JobSpec, context: &RunContext) -> Result<JobResult, JobFailure>;
}

/// Told of finished outputs.
pub(crate) type Report = dyn Fn(AttemptId, Vec<OutputTable>, Costs) + Send + Sync;

/// By what a worker holds one of its runners.
#[derive(Default)]
pub struct Leash {
    state: Mutex<Held>,
    changed: Condvar,
}

#[derive(Clone, Copy, Default)]
struct Held {
    is_cancelled: bool,
    /// Outputs of which the broker has heard.
    heard: usize,
}

impl Leash {
    fn lock(&self) -> MutexGuard<'_, Held> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The job is not wanted any more.
    pub fn cancel(&self) {
        self.lock().is_cancelled = true;
        self.changed.notify_all();
    }

    /// The broker has heard of so many outputs of the job, those of earlier attempts counted.
    pub fn heard(&self, outputs: usize) {
        let mut state = self.lock();
        state.heard = state.heard.max(outputs);
        self.changed.notify_all();
    }

    /// Waits until the broker has, or the job is not wanted any more.
    fn wait(&self, outputs: usize) {
        let is_early = |state: &mut Held| !state.is_cancelled && state.heard < outputs;
        drop(
            self.changed.wait_while(self.lock(), is_early).unwrap_or_else(PoisonError::into_inner),
        );
    }
}

/// What a runner has besides the spec.
pub struct RunContext {
    assignment: Assignment,
    leash: Arc<Leash>,
    finished: AtomicUsize,
    report: Box<Report>,
}

impl RunContext {
    /// For an attempt. `report` is told of what it finishes, and must not block for long.
    pub fn new(
        assignment: Assignment,
        leash: Arc<Leash>,
        report: impl Fn(AttemptId, Vec<OutputTable>, Costs) + Send + Sync + 'static,
    ) -> Self {
        let finished = AtomicUsize::new(assignment.resumed.len());
        RunContext { assignment, leash, finished, report: Box::new(report) }
    }

    /// Which attempt it is.
    pub fn id(&self) -> AttemptId {
        self.assignment.id()
    }

    /// What earlier attempts have finished, in order: the result begins with them, and the merge goes on behind the last
    /// one's last user key.
    pub fn resumed(&self) -> &[OutputTable] {
        &self.assignment.resumed
    }

    /// Credentials, if the submitter gave any.
    pub fn storage(&self) -> Option<&Secret> {
        self.assignment.storage.as_ref()
    }

    /// What the job's output number `ordinal` is called, the resumed ones counted.
    pub fn output_name(&self, ordinal: usize) -> ObjectName {
        let spec = &self.assignment.spec;
        ObjectName::output(&spec.place, self.assignment.attempt, ordinal)
    }

    /// To be called every few thousand entries.
    ///
    /// # Errors
    ///
    /// [`FailureCode::Cancelled`] if nobody wants the job any more: to be passed on.
    pub fn check(&self) -> Result<(), JobFailure> {
        if self.leash.lock().is_cancelled {
            return Err(JobFailure::new(FailureCode::Cancelled, "the job is not wanted any more"));
        }
        Ok(())
    }

    /// Reports a finished output, and waits until the broker has heard of it: should this worker fail, the next one goes on
    /// behind it. So no attempt makes more than one output in vain, whatever becomes of it. While the broker cannot be
    /// reached the job stands still.
    ///
    /// # Errors
    ///
    /// As of [`check`](Self::check).
    pub fn finished(&self, output: OutputTable, costs: Costs) -> Result<(), JobFailure> {
        // One thread runs a job.
        let finished = self.finished.fetch_add(1, Ordering::Relaxed) + 1;
        (self.report)(self.id(), vec![output], costs);
        self.leash.wait(finished);
        self.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{attempt_id, output, spec};
    use crate::{Attempt, Priority};

    fn finish(when_reported: fn(&Leash)) -> Result<(), JobFailure> {
        let (attempt, spec) = (Attempt::new(1, 1), Arc::new(spec(5)));
        let table = output(attempt_id(5, attempt), 1, "a", "b");
        let resumed = vec![table.clone()];
        let priority = Priority::default();
        let assignment = Assignment { attempt, spec, priority, resumed, storage: None };
        let leash = Arc::new(Leash::default());
        let held = Arc::clone(&leash);
        let context = RunContext::new(assignment, leash, move |_, _, _| {
            let held = Arc::clone(&held);
            std::thread::spawn(move || when_reported(&held));
        });
        context.finished(table, Costs::default())
    }

    #[test]
    fn a_runner_waits_until_its_output_is_heard_of_or_not_wanted() {
        finish(|leash| {
            leash.heard(1);
            leash.heard(2);
        })
        .unwrap();
        let failure = finish(|leash| {
            leash.heard(1);
            leash.cancel();
        });
        assert_eq!(failure.unwrap_err().code, FailureCode::Cancelled);
    }
}
