//! One job: on its way to the client, away, and back.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use siltstone::service::{Completion, FinishedJob, JobOutcome, JobSpec, JobTable, Submitted};
use siltstone::{Error, FileNumber, Result};
use siltstone_cloud::{JobId, Object};
use siltstone_remote::{
    HomeReason, JobFailure, KeyOrder, Outcome, OutputTable, Priority, RemoteClient, Request,
    Submission, Ticket,
};

use crate::convert;
use crate::fleet::Shared;

/// A job on its way, whose inputs may still be.
pub(crate) struct Leaving {
    pub(crate) client: RemoteClient,
    pub(crate) spec: JobSpec,
    pub(crate) priority: Priority,
    pub(crate) order: Arc<dyn KeyOrder + Send + Sync>,
    pub(crate) open: OpenJob,
    pub(crate) done: Completion,
}

impl Leaving {
    /// Gives the job to the client, unless nobody wants it any more.
    pub(crate) fn go(self, away: &Away) {
        let Leaving { client, spec, priority, order, open, done } = self;
        if away.is_over() {
            return;
        }
        let shared = Arc::clone(&open.shared);
        let remote = match shared.spec(&spec) {
            Ok(remote) => Arc::new(remote),
            Err(why) => return done.complete(JobOutcome::RunHere(why)),
        };
        if shared.tables.keep_job(spec.number.0, Bytes::from(remote.to_bytes())) {
            away.note_kept(&open);
        }
        Going { client, spec: remote, begun: false, priority, order, open, done }.go(away);
    }
}

/// A job as the client is given it.
pub(crate) struct Going {
    pub(crate) client: RemoteClient,
    pub(crate) spec: Arc<siltstone_remote::JobSpec>,
    /// A worker may have it already.
    pub(crate) begun: bool,
    pub(crate) priority: Priority,
    pub(crate) order: Arc<dyn KeyOrder + Send + Sync>,
    pub(crate) open: OpenJob,
    pub(crate) done: Completion,
}

impl Going {
    pub(crate) fn go(self, away: &Away) {
        let Going { client, spec, begun, priority, order, open, done } = self;
        let config = &open.shared.config;
        let (storage, policy) = (config.storage.clone(), config.policy);
        let submission = Submission { spec, priority, attempts_max: 0, storage, begun };
        let request = Request { submission, policy, order };
        let beginning = done.beginning();
        let on_begun = Box::new(move || beginning.tell());
        let on_done = Box::new(move |outcome| done.complete(open.end(outcome)));
        away.is_out(client.submit_watched(request, on_begun, on_done));
    }
}

/// A job that is given away, or is about to be; of one that never went there is nothing to cancel.
#[derive(Default)]
pub(crate) struct Away(Mutex<AwayState>);

#[derive(Default)]
struct AwayState {
    ticket: Option<Ticket>,
    /// Nobody here wants it any more: how the broker is told so.
    over: Option<fn(&Ticket)>,
    /// Whoever opens the database next will know of it, if its record gets to where that is kept.
    kept: Option<(Arc<Shared>, JobId)>,
}

impl Away {
    fn state(&self) -> MutexGuard<'_, AwayState> {
        // Nothing under the lock stops half way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn note_kept(&self, open: &OpenJob) {
        self.state().kept = Some((Arc::clone(&open.shared), open.job));
    }

    fn is_over(&self) -> bool {
        self.state().over.is_some()
    }

    fn is_out(&self, ticket: Ticket) {
        let mut state = self.state();
        if let Some(tell) = state.over {
            tell(&ticket);
        }
        state.ticket = Some(ticket);
    }

    fn end(&self, tell: fn(&Ticket)) {
        let mut state = self.state();
        if let Some(ticket) = &state.ticket {
            tell(ticket);
        }
        state.over = Some(tell);
    }
}

/// The database's hold on it.
#[derive(Default)]
pub(crate) struct AwayHandle(pub(crate) Arc<Away>);

impl Submitted for AwayHandle {
    fn cancel(&self) {
        self.0.end(Ticket::cancel);
    }

    fn leave(&self) {
        let kept = self.0.state().kept.clone();
        // Else a worker would go on for nobody.
        let is_kept = kept.is_some_and(|(shared, job)| shared.tables.is_kept(job));
        self.0.end(if is_kept { Ticket::leave } else { Ticket::cancel });
    }
}

/// Of a job whose tables the database may still come to name; dropped when it may not, or has.
pub(crate) struct OpenJob {
    shared: Arc<Shared>,
    job: JobId,
}

impl OpenJob {
    pub(crate) fn begin(shared: &Arc<Shared>, number: FileNumber) -> Self {
        let number = shared.tables.job_begins(number.0);
        OpenJob::left(shared, JobId { epoch: shared.config.epoch, number })
    }

    /// What it has in the bucket for the engine's number.
    pub(crate) fn number(&self) -> FileNumber {
        FileNumber(self.job.number)
    }

    /// Of one that is open already.
    pub(crate) fn left(shared: &Arc<Shared>, job: JobId) -> Self {
        OpenJob { shared: Arc::clone(shared), job }
    }

    fn end(self, outcome: Outcome) -> JobOutcome {
        match outcome {
            Outcome::Done(completion) => {
                let result = completion.finished.result;
                JobOutcome::Done(Box::new(Finished {
                    tables: result.outputs.iter().map(convert::table).collect(),
                    outputs: result.outputs,
                    entries_dropped: result.costs.entries_dropped,
                    ends: OnceLock::new(),
                    open: self,
                }))
            }
            Outcome::RunHere(reason) => JobOutcome::RunHere(why_home(reason).to_owned()),
            Outcome::Failed(failure) => JobOutcome::RunHere(why_failed(&failure)),
            Outcome::Cancelled => JobOutcome::RunHere("it was cancelled".to_owned()),
        }
    }
}

impl Drop for OpenJob {
    fn drop(&mut self) {
        self.shared.tables.job_ends(self.job);
    }
}

fn why_home(reason: HomeReason) -> &'static str {
    match reason {
        HomeReason::Small => "it is not worth the way",
        HomeReason::Waited => "no worker took it in time",
        HomeReason::Failures => "it failed too often elsewhere",
        HomeReason::Refused => "the broker does not take it",
    }
}

fn why_failed(failure: &JobFailure) -> String {
    format!("it failed elsewhere: {failure}")
}

struct Finished {
    outputs: Vec<OutputTable>,
    tables: Vec<JobTable>,
    entries_dropped: u64,
    /// What the bucket has of each, once it was asked.
    ends: OnceLock<Vec<Result<Object>>>,
    open: OpenJob,
}

impl FinishedJob for Finished {
    fn tables(&self) -> &[JobTable] {
        &self.tables
    }

    fn entries_dropped(&self) -> u64 {
        self.entries_dropped
    }

    fn adopt(&self, nth: usize, number: FileNumber) -> Result<()> {
        let (shared, output) = (&self.open.shared, &self.outputs[nth]);
        let ends = self.ends.get_or_init(|| shared.ends(&self.outputs));
        let end = ends[nth].as_ref().map_err(Error::clone)?;
        shared.check(output, end)?;
        shared.tables.adopt(number.0, output, &end.body)
    }
}
