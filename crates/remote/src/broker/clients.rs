//! Clients: what they submit, cancel, collect and reject.

use std::time::Duration;

use crate::broker::event::{BrokerAction, SessionId};
use crate::broker::job::{Job, Phase};
use crate::broker::state::{Broker, ClientSession, Timer};
use crate::job::failure::{FailureCode, JobFailure};
use crate::job::id::JobId;
use crate::message::{AttemptId, ClientMessage, ClientReply, Refused, Submission};
use crate::security::authority::Scope;

impl Broker {
    pub(super) fn open_client(&mut self, session: SessionId, scope: Scope) {
        self.clients.insert(session, ClientSession { scope, last_heard: self.now });
        self.timers.insert((self.now + self.config.lease, Timer::Silence(session)));
        let heartbeat = self.config.heartbeat;
        self.reply(session, ClientReply::Welcome { heartbeat });
    }

    pub(super) fn hear_client(&mut self, session: SessionId, message: ClientMessage) {
        let Some(client) = self.clients.get_mut(&session) else { return };
        client.last_heard = self.now;
        match message {
            ClientMessage::Heartbeat => self.reply(session, ClientReply::Pulse),
            ClientMessage::Submit(submission) => self.submit(session, submission),
            ClientMessage::Cancel(job) => {
                if self.may_touch(session, job) {
                    self.cancel_attempt(job);
                    self.stats.cancelled += 1;
                    self.forget(job);
                }
            }
            ClientMessage::Collected(job) => {
                // Not by an older opening of the database, which is told that it is over for it.
                let is_its = |known: &Job| known.client == Some(session) && known.is_over();
                if self.may_touch(session, job) && self.jobs.get(&job).is_some_and(is_its) {
                    self.forget(job);
                }
            }
            ClientMessage::Reject(id) => self.reject(session, id),
        }
    }

    fn reply(&mut self, session: SessionId, reply: ClientReply) {
        self.actions.push(BrokerAction::Reply(session, reply));
    }

    fn may_touch(&self, session: SessionId, job: JobId) -> bool {
        let (client, job) = (self.clients.get(&session), self.jobs.get(&job));
        client.zip(job).is_some_and(|(client, job)| client.scope.holds(job.db()))
    }

    fn submit(&mut self, session: SessionId, submission: Submission) {
        let (id, db) = (submission.spec.job, submission.spec.db.clone());
        let refused = |refused| ClientReply::Refused(id, refused);
        if !self.clients[&session].scope.holds(&db) {
            self.reply(session, refused(Refused::Denied));
            return;
        }
        let known = self.jobs.get(&id).map(|job| &job.submission.spec);
        let is_known = known.is_some();
        if known.is_some_and(|known| !known.is_same_work(&submission.spec)) {
            self.reply(session, refused(Refused::Taken));
            return;
        }
        if !is_known && submission.spec.check().is_err() {
            self.reply(session, refused(Refused::BadSpec));
            return;
        }
        if !self.is_newest(&submission) {
            let failure =
                JobFailure::new(FailureCode::Fenced, "a newer opening has submitted jobs");
            self.reply(session, ClientReply::Failed(id, failure));
            return;
        }
        if is_known {
            self.submit_again(session, submission);
            return;
        }
        let database = self.databases.entry(db).or_default();
        if database.jobs.len() >= self.config.jobs_max {
            self.reply(session, refused(Refused::Full));
            return;
        }
        database.jobs.insert(id);
        self.insert(session, submission);
    }

    fn insert(&mut self, session: SessionId, submission: Submission) {
        let id = submission.spec.job;
        self.sequence += 1;
        self.stats.submitted += 1;
        let job = Job {
            submission,
            client: Some(session),
            sequence: self.sequence,
            submitted: self.now,
            phase: Phase::Resting(self.now),
            failures: 0,
            recorded: Vec::new(),
            avoid: None,
            keep_until: None,
        };
        self.jobs.insert(id, job);
        if self.adopt(id) {
            return;
        }
        let begun = self.jobs.get(&id).is_some_and(|job| job.submission.begun);
        let phase = match self.is_back_at(id).filter(|_| begun) {
            Some(at) => Phase::Resting(at),
            None => Phase::Waiting,
        };
        self.set_phase(id, phase);
        self.tell(id, ClientReply::Queued(id));
    }

    /// The same job once more: its client has lost its connection, or its memory.
    fn submit_again(&mut self, session: SessionId, submission: Submission) {
        let id = submission.spec.job;
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.client = Some(session);
        if !job.is_over() {
            job.keep_until = None;
        }
        let is_waiting = matches!(job.phase, Phase::Waiting);
        if is_waiting {
            // The priority is a part of its place in the queue.
            self.set_phase(id, Phase::Resting(self.now));
            self.timers.remove(&(self.now, Timer::Rest(id)));
        }
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.submission = submission;
        let reply = match &job.phase {
            Phase::Waiting | Phase::Resting(_) => ClientReply::Queued(id),
            Phase::Running(running) => {
                let id = AttemptId { job: id, attempt: running.attempt };
                ClientReply::Started(id, running.key.worker.clone())
            }
            Phase::Done(completion) => ClientReply::Done(completion.clone()),
            Phase::Failed(failure) => ClientReply::Failed(id, failure.clone()),
        };
        if is_waiting {
            self.set_phase(id, Phase::Waiting);
        }
        self.reply(session, reply);
    }

    /// False if a newer opening of the database is known. Jobs of older ones have lost their client: it is gone, or will find
    /// out that it is not the owner any more. The newer one goes on with some of them, perhaps.
    fn is_newest(&mut self, submission: &Submission) -> bool {
        let epoch = submission.spec.epoch;
        let database = self.databases.entry(submission.spec.db.clone()).or_default();
        if epoch < database.epoch {
            return false;
        }
        if epoch > database.epoch {
            database.epoch = epoch;
            let older = database.jobs.clone();
            self.leave_jobs(older);
        }
        true
    }

    /// The client does not believe a result. Nobody knows which attempt's outputs are to blame: all are dropped.
    fn reject(&mut self, session: SessionId, id: AttemptId) {
        if !self.may_touch(session, id.job) {
            return;
        }
        let Some(job) = self.jobs.get_mut(&id.job) else { return };
        let is_it = matches!(&job.phase, Phase::Done(done) if done.id == id);
        if is_it {
            job.recorded.clear();
            job.keep_until = None;
            self.stats.done -= 1;
            self.stats.rejected += 1;
            let failure = JobFailure::new(FailureCode::BadResult, "the client has refused it");
            self.fail_attempt(id, failure);
        }
    }

    pub(super) fn leave_jobs_of(&mut self, session: SessionId) {
        let theirs = self.jobs.iter().filter(|(_, job)| job.client == Some(session));
        let theirs: Vec<JobId> = theirs.map(|(id, _)| *id).collect();
        self.leave_jobs(theirs);
    }

    /// Nobody waits for them any more. They go on for a while: somebody may submit them again.
    fn leave_jobs(&mut self, jobs: impl IntoIterator<Item = JobId>) {
        let until = self.now + self.config.client_patience;
        for id in jobs {
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            job.client = None;
            if !job.is_over() && job.keep_until.is_none() {
                job.keep_until = Some(until);
                self.timers.insert((until, Timer::Keep(id)));
            }
        }
    }
}

/// For how long a job has been known.
pub(super) fn age(job: &Job, now: Duration) -> Duration {
    now.saturating_sub(job.submitted)
}
