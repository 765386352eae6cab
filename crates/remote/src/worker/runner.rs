//! The seam to what runs jobs. The worker's service calls it, one thread for each job.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
///             context.finished(table.clone(), Costs::default());
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

/// What a runner has besides the spec.
pub struct RunContext {
    assignment: Assignment,
    cancelled: Arc<AtomicBool>,
    report: Box<Report>,
}

impl RunContext {
    /// For an attempt. `report` is told of what it finishes, and must not block for long.
    pub fn new(
        assignment: Assignment,
        cancelled: Arc<AtomicBool>,
        report: impl Fn(AttemptId, Vec<OutputTable>, Costs) + Send + Sync + 'static,
    ) -> Self {
        RunContext { assignment, cancelled, report: Box::new(report) }
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
        // Pairs with nothing: who sees it late only works a little longer.
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(JobFailure::new(FailureCode::Cancelled, "the job is not wanted any more"));
        }
        Ok(())
    }

    /// Reports a finished output: should this worker fail, the next one goes on behind it.
    pub fn finished(&self, output: OutputTable, costs: Costs) {
        (self.report)(self.id(), vec![output], costs);
    }
}
