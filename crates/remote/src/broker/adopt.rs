//! Jobs that workers hold and this broker does not know: it was started again, and has forgotten them. They are kept as
//! claims until somebody submits the job again, and go on then as if nothing had happened.

use std::time::Duration;

use crate::broker::event::SessionId;
use crate::broker::job::{Job, Phase, Running, WorkerKey};
use crate::broker::state::{Broker, Timer};
use crate::job::id::{Attempt, JobId};
use crate::job::result::Progress;
use crate::message::{AttemptId, ClientReply, Finished, Held, WorkerOrder};
use crate::validate::{check_adopted, check_shape, fit};

#[derive(Debug)]
pub(super) struct Claim {
    key: WorkerKey,
    held: Held,
    finished: Option<Finished>,
    until: Duration,
}

impl Broker {
    /// What a worker says that it holds when it opens a session.
    pub(super) fn take_back(&mut self, session: SessionId, key: &WorkerKey, held: Held) {
        let id = held.id;
        if self.renew(key, id) {
            self.catch_up(id, held);
            return;
        }
        match self.jobs.get(&id.job).map(|job| &job.phase) {
            None if self.may_be_forgotten(id) => self.claim(key, held),
            Some(Phase::Waiting | Phase::Resting(_)) if self.is_untouched(id) => {
                self.claim(key, held);
                self.adopt(id.job);
            }
            // It will tell the result again, and be told that it has arrived.
            Some(Phase::Done(done)) if done.id == id => {}
            _ => self.order(session, WorkerOrder::LeaseLost(id)),
        }
    }

    /// What an earlier broker has given. Of its own attempts it has forgotten none: such a job is over.
    fn may_be_forgotten(&self, id: AttemptId) -> bool {
        id.attempt < Attempt::new(self.config.term, 0)
    }

    /// The client was faster to come back than the worker, and nobody else has begun.
    fn is_untouched(&self, id: AttemptId) -> bool {
        let job = self.jobs.get(&id.job);
        let nobody_has = |job: &Job| job.recorded.is_empty() && job.failures == 0;
        self.may_be_forgotten(id) && job.is_some_and(nobody_has)
    }

    /// Progress that was lost with a connection.
    fn catch_up(&mut self, id: AttemptId, mut held: Held) {
        let Some(job) = self.jobs.get_mut(&id.job) else { return };
        let known = job.recorded.len();
        if held.outputs.len() > known && held.outputs[..known] == job.recorded[..] {
            let outputs = held.outputs.split_off(known);
            if let Some(key) = self.key_of(id) {
                let progress = Progress { before: known, outputs, costs: Default::default() };
                self.hear_progress(&key, id, progress);
            }
        }
    }

    fn claim(&mut self, key: &WorkerKey, held: Held) {
        let id = held.id;
        let until = self.now + self.config.claim_patience;
        let claims = self.claims.entry(id.job).or_default();
        claims.retain(|claim| !(claim.held.id == id && claim.key == *key));
        claims.push(Claim { key: key.clone(), held, finished: None, until });
        self.timers.insert((until, Timer::Claim(id.job)));
    }

    fn find_claim(&mut self, key: &WorkerKey, id: AttemptId) -> Option<&mut Claim> {
        let claims = self.claims.get_mut(&id.job)?;
        claims.iter_mut().find(|claim| claim.key == *key && claim.held.id == id)
    }

    /// A claim does not live longer by heartbeats: only a submission saves it. True if there is one.
    pub(super) fn renew_claim(&mut self, key: &WorkerKey, id: AttemptId) -> bool {
        self.find_claim(key, id).is_some()
    }

    pub(super) fn progress_of_claim(
        &mut self,
        key: &WorkerKey,
        id: AttemptId,
        progress: &Progress,
    ) -> bool {
        let Some(claim) = self.find_claim(key, id) else { return false };
        let known = &claim.held.outputs;
        if progress.before == known.len() && fit(known.iter().chain(&progress.outputs)) {
            claim.held.outputs.extend(progress.outputs.iter().cloned());
        }
        true
    }

    pub(super) fn result_of_claim(
        &mut self,
        key: &WorkerKey,
        id: AttemptId,
        finished: Finished,
    ) -> bool {
        let Some(claim) = self.find_claim(key, id) else { return false };
        claim.finished = Some(finished);
        true
    }

    /// True for a claim that has its result.
    pub(super) fn has_result_of(&self, key: &WorkerKey, id: AttemptId) -> bool {
        let claims = self.claims.get(&id.job);
        claims
            .into_iter()
            .flatten()
            .any(|claim| claim.key == *key && claim.held.id == id && claim.finished.is_some())
    }

    pub(super) fn drop_claim(&mut self, key: &WorkerKey, id: AttemptId) {
        if let Some(claims) = self.claims.get_mut(&id.job) {
            claims.retain(|claim| !(claim.key == *key && claim.held.id == id));
            if claims.is_empty() {
                self.claims.remove(&id.job);
            }
        }
    }

    pub(super) fn claims_are_over(&mut self, job: JobId) -> Option<Duration> {
        let claims = self.claims.remove(&job)?;
        let (over, kept): (Vec<_>, Vec<_>) =
            claims.into_iter().partition(|claim| claim.until <= self.now);
        for claim in over {
            self.order_key(&claim.key, WorkerOrder::LeaseLost(claim.held.id));
        }
        let next = kept.iter().map(|claim| claim.until).min();
        if !kept.is_empty() {
            self.claims.insert(job, kept);
        }
        next
    }

    /// Goes on with the newest attempt that a worker claims; the others have lost theirs. False if there is none.
    pub(super) fn adopt(&mut self, id: JobId) -> bool {
        let mut claims = self.claims.remove(&id).unwrap_or_default();
        claims.sort_by_key(|claim| claim.held.id.attempt);
        let mut adopted = false;
        while let Some(claim) = claims.pop() {
            if !adopted && self.is_believable(&claim) {
                self.go_on_with(claim);
                adopted = true;
            } else {
                self.order_key(&claim.key, WorkerOrder::LeaseLost(claim.held.id));
            }
        }
        adopted
    }

    fn is_believable(&self, claim: &Claim) -> bool {
        let Some(job) = self.jobs.get(&claim.held.id.job) else { return false };
        let session = self.session_of(&claim.key).and_then(|session| self.workers.get(&session));
        let (spec, held) = (&job.submission.spec, &claim.held);
        session.is_some_and(|worker| worker.scope.holds(&spec.db))
            && check_adopted(spec, held.id.attempt, held.resumed, &held.outputs).is_ok()
            && claim.finished.as_ref().is_none_or(|finished| {
                let given = held.outputs.get(..held.resumed).unwrap_or_default();
                check_shape(spec, held.id.attempt, given, finished).is_ok()
            })
    }

    fn go_on_with(&mut self, claim: Claim) {
        let Claim { key, held, finished, .. } = claim;
        let Some(job) = self.jobs.get_mut(&held.id.job) else { return };
        job.recorded = held.outputs;
        let running = Running {
            attempt: held.id.attempt,
            key: key.clone(),
            resumed: held.resumed,
            lease_until: self.now + self.config.lease,
        };
        self.stats.adopted += 1;
        self.set_phase(held.id.job, Phase::Running(running));
        self.tell(held.id.job, ClientReply::Started(held.id, key.worker.clone()));
        if let Some(finished) = finished {
            self.hear_done(&key, held.id, finished);
        }
    }
}
