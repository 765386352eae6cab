//! What becomes of attempts: progress, results, failures, and leases that are over.

use std::time::Duration;

use crate::broker::job::{Phase, Running, WorkerKey};
use crate::broker::state::Broker;
use crate::job::failure::{FailureCode, JobFailure};
use crate::job::id::JobId;
use crate::job::result::Progress;
use crate::message::{AttemptId, ClientReply, Completion, Finished, WorkerOrder};
use crate::validate::{Rule, Violation, check_new, check_shape, fit};

impl Broker {
    pub(super) fn hear_progress(&mut self, key: &WorkerKey, id: AttemptId, progress: Progress) {
        if !self.renew(key, id) {
            if !self.progress_of_claim(key, id, &progress) {
                self.order_key(key, WorkerOrder::LeaseLost(id));
            }
            return;
        }
        let Some(job) = self.jobs.get_mut(&id.job) else { return };
        // Told twice, after a connection was lost; or with a gap, which a reconnection's list fills.
        if progress.before != job.recorded.len() {
            return;
        }
        let spec = &job.submission.spec;
        let all = || job.recorded.iter().chain(&progress.outputs);
        let fits = match fit(all()) {
            true => Ok(()),
            false => Err(Violation { rule: Rule::Count, output: all().count() }),
        };
        let checked = check_new(spec, id.attempt, progress.before, &progress.outputs);
        match checked.and(fits) {
            Ok(()) => job.recorded.extend(progress.outputs),
            Err(violation) => {
                self.keep_slot(key, id);
                self.refuse(id, violation);
            }
        }
    }

    pub(super) fn hear_done(&mut self, key: &WorkerKey, id: AttemptId, finished: Finished) {
        if let Some(running) = self.current(key, id) {
            let job = &self.jobs[&id.job];
            let given = job.recorded.get(..running.resumed).unwrap_or_default();
            match check_shape(&job.submission.spec, id.attempt, given, &finished) {
                Ok(()) => self.finish(key, id, finished),
                Err(violation) => self.refuse(id, violation),
            }
            return;
        }
        let is_told_again = match self.jobs.get(&id.job).map(|job| &job.phase) {
            Some(Phase::Done(done)) => done.id == id,
            _ => false,
        };
        if is_told_again {
            self.order_key(key, WorkerOrder::Settled(id));
        } else if !self.result_of_claim(key, id, finished) {
            self.stats.stale_results += 1;
            self.order_key(key, WorkerOrder::LeaseLost(id));
        }
    }

    fn finish(&mut self, key: &WorkerKey, id: AttemptId, finished: Finished) {
        let completion = Completion { id, finished };
        self.order_key(key, WorkerOrder::Settled(id));
        self.tell(id.job, ClientReply::Done(completion.clone()));
        self.set_phase(id.job, Phase::Done(completion));
        self.stats.done += 1;
    }

    pub(super) fn hear_failed(&mut self, key: &WorkerKey, id: AttemptId, failure: JobFailure) {
        if self.current(key, id).is_some() {
            self.fail_attempt(id, failure);
        } else {
            self.drop_claim(key, id);
        }
    }

    pub(super) fn current(&self, key: &WorkerKey, id: AttemptId) -> Option<Running> {
        let running = self.jobs.get(&id.job)?.running()?;
        (running.attempt == id.attempt && running.key == *key).then(|| running.clone())
    }

    /// Nothing that the attempt has told is believed any more; what it was given, is.
    fn refuse(&mut self, id: AttemptId, violation: Violation) {
        self.stats.count_refusal(violation.rule);
        if let Some(job) = self.jobs.get_mut(&id.job)
            && let Some(given) = job.running().map(|running| running.resumed)
        {
            job.recorded.truncate(given);
        }
        let failure = JobFailure::new(FailureCode::BadResult, violation.to_string());
        if let Some(key) = self.key_of(id) {
            self.order_key(&key, WorkerOrder::LeaseLost(id));
        }
        self.fail_attempt(id, failure);
    }

    pub(super) fn key_of(&self, id: AttemptId) -> Option<WorkerKey> {
        let running = self.jobs.get(&id.job)?.running()?;
        (running.attempt == id.attempt).then(|| running.key.clone())
    }

    /// The current attempt has failed: the job rests, or has failed itself.
    pub(super) fn fail_attempt(&mut self, id: AttemptId, failure: JobFailure) {
        let Some(job) = self.jobs.get_mut(&id.job) else { return };
        job.failures += u32::from(failure.code.counts());
        if let Phase::Running(running) = &job.phase {
            job.avoid = Some(running.key.worker.clone());
        }
        let (failures, most) = (job.failures, job.submission.attempts_max);
        self.stats.count_failure(failure.code);
        if !failure.code.is_retryable() || (most > 0 && failures >= most) {
            self.fail_job(id.job, failure);
            return;
        }
        self.tell(id.job, ClientReply::Retrying(id, failure.clone()));
        let until = self.now + self.rest_after(failure.code, failures);
        self.set_phase(id.job, Phase::Resting(until));
    }

    /// A lease took long enough to run out. Others wait for the cause to go away.
    fn rest_after(&mut self, code: FailureCode, failures: u32) -> Duration {
        match code {
            FailureCode::LeaseExpired | FailureCode::Draining => Duration::ZERO,
            _ => self.config.retry.wait(failures.max(1), &mut self.dice),
        }
    }

    pub(super) fn fail_job(&mut self, id: JobId, failure: JobFailure) {
        self.tell(id, ClientReply::Failed(id, failure.clone()));
        self.set_phase(id, Phase::Failed(failure));
        self.stats.failed += 1;
    }

    /// Tells the worker, if one has it.
    pub(super) fn cancel_attempt(&mut self, id: JobId) {
        let running = self.jobs.get(&id).and_then(|job| job.running()).cloned();
        if let Some(running) = running {
            let attempt = AttemptId { job: id, attempt: running.attempt };
            self.keep_slot(&running.key, attempt);
            self.order_key(&running.key, WorkerOrder::Cancel(attempt));
        }
    }

    /// Ends a job that nobody wants any more; its client, if it has not asked for that itself, is told why.
    pub(super) fn withdraw(&mut self, id: JobId, failure: JobFailure) {
        if self.jobs.get(&id).is_some_and(|job| !job.is_over()) {
            self.cancel_attempt(id);
            self.stats.count_failure(failure.code);
            self.fail_job(id, failure);
        }
    }

    pub(super) fn lease_is_over(&mut self, id: AttemptId) -> Option<Duration> {
        let running = self.jobs.get(&id.job)?.running()?;
        if running.attempt != id.attempt {
            return None;
        }
        if running.lease_until > self.now {
            return Some(running.lease_until);
        }
        let key = running.key.clone();
        self.keep_slot(&key, id);
        self.order_key(&key, WorkerOrder::LeaseLost(id));
        let message = format!("worker {} was not heard of", key.worker);
        self.fail_attempt(id, JobFailure::new(FailureCode::LeaseExpired, message));
        None
    }
}
