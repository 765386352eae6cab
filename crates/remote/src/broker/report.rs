//! What a broker says about itself: counters, and lists for administrators.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::broker::clients::age;
use crate::broker::job::Phase;
use crate::broker::state::Broker;
use crate::job::failure::FailureCode;
use crate::job::id::{Attempt, JobId};
use crate::job::name::{DbId, WorkerId};
use crate::message::Priority;
use crate::validate::Rule;

/// Counters since the start, and what there is now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BrokerStats {
    /// Jobs submitted for the first time.
    pub submitted: u64,
    /// Attempts given to workers.
    pub attempts: u64,
    /// Jobs finished.
    pub done: u64,
    /// Jobs failed for good.
    pub failed: u64,
    /// Jobs that their clients cancelled.
    pub cancelled: u64,
    /// Running jobs taken over from a broker that was here before.
    pub adopted: u64,
    /// Results of attempts that were not current any more.
    pub stale_results: u64,
    /// Results that clients have refused.
    pub rejected: u64,
    /// Failed attempts by cause.
    pub failures: BTreeMap<FailureCode, u64>,
    /// Results that the broker has refused, by the rule that they broke.
    pub refusals: BTreeMap<Rule, u64>,
    /// Jobs that wait for a worker now, resting ones included.
    pub waiting: u64,
    /// Jobs that run now.
    pub running: u64,
    /// Workers connected now.
    pub workers: u64,
    /// Slots of theirs.
    pub slots: u64,
    /// Versions announced.
    pub announced: u64,
    /// Replicas that watch now.
    pub watchers: u64,
}

impl BrokerStats {
    /// All of them by name, as metrics call them.
    pub fn values(&self) -> BTreeMap<String, u64> {
        let plain = [
            ("submitted", self.submitted),
            ("attempts", self.attempts),
            ("done", self.done),
            ("failed", self.failed),
            ("cancelled", self.cancelled),
            ("adopted", self.adopted),
            ("stale-results", self.stale_results),
            ("rejected", self.rejected),
            ("waiting", self.waiting),
            ("running", self.running),
            ("workers", self.workers),
            ("slots", self.slots),
            ("announced", self.announced),
            ("watchers", self.watchers),
        ];
        let plain = plain.map(|(name, value)| (name.to_owned(), value));
        let failures = self.failures.iter();
        let failures = failures.map(|(code, count)| (format!("failures.{}", code.name()), *count));
        let refusals = self.refusals.iter();
        let refusals = refusals.map(|(rule, count)| (format!("refusals.{}", rule.name()), *count));
        plain.into_iter().chain(failures).chain(refusals).collect()
    }

    pub(super) fn count_failure(&mut self, code: FailureCode) {
        *self.failures.entry(code).or_default() += 1;
    }

    pub(super) fn count_refusal(&mut self, rule: Rule) {
        *self.refusals.entry(rule).or_default() += 1;
    }
}

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JobState {
    /// It waits for a worker.
    Waiting,
    /// It rests after a failed attempt.
    Resting,
    /// A worker has it.
    Running,
    /// It is finished, and not collected yet.
    Done,
    /// It has failed, and its client does not know yet.
    Failed,
}

/// A job, for people and tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobView {
    /// Its number.
    pub job: JobId,
    /// Whose it is.
    pub db: DbId,
    /// Where it stands.
    pub state: JobState,
    /// How soon it should run.
    pub priority: Priority,
    /// For how long it has been known here.
    pub age: Duration,
    /// Failed attempts that count.
    pub failures: u32,
    /// The current attempt and its worker.
    pub attempt: Option<(Attempt, WorkerId)>,
    /// Bytes of its inputs.
    pub input_bytes: u64,
    /// Outputs finished so far.
    pub outputs: u64,
}

impl Broker {
    /// Its counters.
    pub fn stats(&self) -> BrokerStats {
        let count =
            |is: fn(&Phase) -> bool| self.jobs.values().filter(|job| is(&job.phase)).count() as u64;
        BrokerStats {
            waiting: count(|phase| matches!(phase, Phase::Waiting | Phase::Resting(_))),
            running: count(|phase| matches!(phase, Phase::Running(_))),
            workers: self.workers.len() as u64,
            slots: self.workers.values().map(|worker| u64::from(worker.hello.slots)).sum(),
            ..self.stats.clone()
        }
    }

    /// Up to `most` jobs with ids behind `after`, by id; in `db` only, if one is named.
    pub fn list(&self, db: Option<&DbId>, after: Option<JobId>, most: usize) -> Vec<JobView> {
        let from = after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        let jobs = self.jobs.range((from, std::ops::Bound::Unbounded));
        let wanted = jobs.filter(|(_, job)| db.is_none_or(|db| job.db() == db));
        let viewed = wanted.map(|(id, job)| JobView {
            job: *id,
            db: job.db().clone(),
            state: match job.phase {
                Phase::Waiting => JobState::Waiting,
                Phase::Resting(_) => JobState::Resting,
                Phase::Running(_) => JobState::Running,
                Phase::Done(_) => JobState::Done,
                Phase::Failed(_) => JobState::Failed,
            },
            priority: job.submission.priority,
            age: age(job, self.now),
            failures: job.failures,
            attempt: job.running().map(|running| (running.attempt, running.key.worker.clone())),
            input_bytes: job.submission.spec.input_bytes(),
            outputs: job.recorded.len() as u64,
        });
        viewed.take(most).collect()
    }

    /// Whose a job is.
    pub fn db_of(&self, job: JobId) -> Option<&DbId> {
        self.jobs.get(&job).map(|job| job.db())
    }
}
