//! The broker's state machine: events in, actions out, time given. Synchronous, without threads, clocks and sockets, so
//! that a run can be replayed. Called by the broker's service, and by simulations.
//!
//! **Invariants.**
//! - B1. A job has one current attempt at most; only what its worker says about that attempt counts.
//! - B2. No attempt's number is given twice, not even by a broker that was started again with a higher term.
//! - B3. A job that was submitted ends in one outcome, which its client is told until it has collected it; it may change
//!   only if the client rejects it.
//! - B4. A lease is measured on this machine's clock only, from when a message of the worker arrived here.
//! - B5. A worker has no more jobs than slots, of what it said itself and what it was given since.
//!
//! **Drawing.** Phases of a job:
//!
//! ```text
//!  submit --> Waiting --assign--> Running --done--> Done --collected--> (gone)
//!               ^  ^                |  \
//!               |  +---- rested ----+   +--final--> Failed --collected--> (gone)
//!           Resting <--- failed, lease over
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::broker::adopt::Claim;
use crate::broker::config::BrokerConfig;
use crate::broker::event::{BrokerAction, BrokerEvent, CloseReason, SessionId};
use crate::broker::job::{Database, Job, Phase, WorkerKey};
use crate::broker::report::BrokerStats;
use crate::broker::workers::WorkerSession;
use crate::dice::Dice;
use crate::job::failure::{FailureCode, JobFailure};
use crate::job::id::{Attempt, JobId};
use crate::job::name::DbId;
use crate::message::{AttemptId, ClientReply, WorkerOrder};
use crate::security::authority::Scope;

/// A broker.
#[derive(Debug)]
pub struct Broker {
    pub(super) config: BrokerConfig,
    pub(super) dice: Dice,
    pub(super) now: Duration,
    /// Since when it hears; `None` until it does.
    born: Option<Duration>,
    /// Attempts made in this term.
    pub(super) attempts: u32,
    pub(super) sequence: u64,
    pub(super) jobs: BTreeMap<JobId, Job>,
    /// Jobs that were here and have gone, while workers of the broker before it may come back.
    gone: BTreeSet<JobId>,
    pub(super) databases: BTreeMap<DbId, Database>,
    pub(super) workers: BTreeMap<SessionId, WorkerSession>,
    pub(super) clients: BTreeMap<SessionId, ClientSession>,
    /// Current attempts by worker, whether it is connected or not.
    pub(super) assigned: BTreeMap<WorkerKey, BTreeSet<AttemptId>>,
    pub(super) claims: BTreeMap<JobId, Vec<Claim>>,
    pub(super) timers: BTreeSet<(Duration, Timer)>,
    pub(super) actions: Vec<BrokerAction>,
    pub(super) stats: BrokerStats,
}

#[derive(Debug)]
pub(super) struct ClientSession {
    pub(super) scope: Scope,
    pub(super) last_heard: Duration,
}

/// What there is to look at when its time has come. Each is set once, and set again when it comes too early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    Lease(AttemptId),
    Rest(JobId),
    Keep(JobId),
    Claim(JobId),
    Silence(SessionId),
}

impl Broker {
    /// One that knows nothing yet.
    pub fn new(config: BrokerConfig) -> Self {
        Broker {
            config,
            dice: Dice::new(config.seed),
            now: Duration::ZERO,
            born: None,
            attempts: 0,
            sequence: 0,
            jobs: BTreeMap::new(),
            gone: BTreeSet::new(),
            databases: BTreeMap::new(),
            workers: BTreeMap::new(),
            clients: BTreeMap::new(),
            assigned: BTreeMap::new(),
            claims: BTreeMap::new(),
            timers: BTreeSet::new(),
            actions: Vec::new(),
            stats: BrokerStats::default(),
        }
    }

    /// Takes note of something, at a moment of a monotonic clock, and tells what is to be done, in order.
    pub fn handle(&mut self, now: Duration, event: BrokerEvent) -> Vec<BrokerAction> {
        self.now = self.now.max(now);
        self.born.get_or_insert(self.now);
        // What came before its time was over is heard first: a heartbeat may renew what would end now.
        match event {
            BrokerEvent::WorkerOpened(session, hello, scope) => {
                self.open_worker(session, hello, scope);
            }
            BrokerEvent::WorkerSaid(session, message) => self.hear_worker(session, message),
            BrokerEvent::ClientOpened(session, scope) => self.open_client(session, scope),
            BrokerEvent::ClientSaid(session, message) => self.hear_client(session, message),
            BrokerEvent::Closed(session) => self.close(session),
            BrokerEvent::Cancel(job) => {
                let failure = JobFailure::new(FailureCode::Cancelled, "an administrator ended it");
                self.withdraw(job, failure);
            }
            BrokerEvent::Drain(worker) => self.drain(&worker),
            BrokerEvent::Tick => {}
        }
        self.run_timers();
        self.dispatch();
        std::mem::take(&mut self.actions)
    }

    /// Until when workers of the broker before it may not have come back yet, if that is to come: they try again each few
    /// seconds.
    fn all_back_at(&self) -> Option<Duration> {
        let at = self.born? + 2 * self.config.heartbeat;
        (self.now < at).then_some(at)
    }

    /// Until when a job that somebody has begun waits for him. One that was here is not waited for: whoever had begun has ended.
    pub(super) fn is_back_at(&self, id: JobId) -> Option<Duration> {
        self.all_back_at().filter(|_| !self.gone.contains(&id))
    }

    /// When to come again with a [`Tick`](BrokerEvent::Tick) if nothing happens before.
    pub fn next_wake(&self) -> Option<Duration> {
        self.timers.first().map(|(at, _)| *at)
    }

    fn run_timers(&mut self) {
        while let Some((at, timer)) = self.timers.first().copied()
            && at <= self.now
        {
            self.timers.pop_first();
            let again = match timer {
                Timer::Lease(id) => self.lease_is_over(id),
                Timer::Rest(job) => self.rest_is_over(job),
                Timer::Keep(job) => self.keeping_is_over(job),
                Timer::Claim(job) => self.claims_are_over(job),
                Timer::Silence(session) => self.is_silent(session),
            };
            if let Some(at) = again {
                self.timers.insert((at, timer));
            }
        }
    }

    /// The one place where a job changes its phase: what is counted by phase stays true.
    pub(super) fn set_phase(&mut self, id: JobId, phase: Phase) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let database = self.databases.entry(job.db().clone()).or_default();
        match &job.phase {
            Phase::Waiting => {
                database.waiting.remove(&job.rank());
            }
            Phase::Running(running) => {
                database.running -= 1;
                let attempt = AttemptId { job: id, attempt: running.attempt };
                if let Some(assigned) = self.assigned.get_mut(&running.key) {
                    assigned.remove(&attempt);
                    if assigned.is_empty() {
                        self.assigned.remove(&running.key);
                    }
                }
            }
            Phase::Resting(_) | Phase::Done(_) | Phase::Failed(_) => {}
        }
        match &phase {
            Phase::Waiting => {
                database.waiting.insert(job.rank());
            }
            Phase::Running(running) => {
                database.running += 1;
                let attempt = AttemptId { job: id, attempt: running.attempt };
                self.assigned.entry(running.key.clone()).or_default().insert(attempt);
                self.timers.insert((running.lease_until, Timer::Lease(attempt)));
            }
            Phase::Resting(until) => {
                self.timers.insert((*until, Timer::Rest(id)));
            }
            Phase::Done(_) | Phase::Failed(_) => {
                let until = self.now + self.config.retention;
                job.keep_until = Some(until);
                self.timers.insert((until, Timer::Keep(id)));
            }
        }
        job.phase = phase;
    }

    pub(super) fn forget(&mut self, id: JobId) {
        // Takes it out of whatever counts it.
        self.set_phase(id, Phase::Resting(self.now));
        self.timers.remove(&(self.now, Timer::Rest(id)));
        if let Some(job) = self.jobs.remove(&id)
            && let Some(database) = self.databases.get_mut(job.db())
        {
            database.jobs.remove(&id);
        }
        match self.all_back_at() {
            Some(_) => drop(self.gone.insert(id)),
            None => self.gone.clear(),
        }
    }

    pub(super) fn order(&mut self, session: SessionId, order: WorkerOrder) {
        self.actions.push(BrokerAction::Order(session, order));
    }

    /// To a worker's process, if it is connected.
    pub(super) fn order_key(&mut self, key: &WorkerKey, order: WorkerOrder) {
        if let Some(session) = self.session_of(key) {
            self.order(session, order);
        }
    }

    /// To whoever waits for a job, if anybody is there.
    pub(super) fn tell(&mut self, job: JobId, reply: ClientReply) {
        if let Some(client) = self.jobs.get(&job).and_then(|job| job.client) {
            self.actions.push(BrokerAction::Reply(client, reply));
        }
    }

    pub(super) fn next_attempt(&mut self) -> Attempt {
        self.attempts += 1;
        Attempt::new(self.config.term, self.attempts)
    }

    fn rest_is_over(&mut self, id: JobId) -> Option<Duration> {
        match self.jobs.get(&id)?.phase {
            Phase::Resting(until) if until > self.now => Some(until),
            Phase::Resting(_) => {
                self.set_phase(id, Phase::Waiting);
                None
            }
            _ => None,
        }
    }

    fn keeping_is_over(&mut self, id: JobId) -> Option<Duration> {
        let until = self.jobs.get(&id)?.keep_until?;
        if until > self.now {
            return Some(until);
        }
        self.cancel_attempt(id);
        self.forget(id);
        None
    }

    fn is_silent(&mut self, session: SessionId) -> Option<Duration> {
        let worker = self.workers.get(&session).map(|worker| worker.last_heard);
        let client = self.clients.get(&session).map(|client| client.last_heard);
        let until = worker.or(client)? + self.config.lease;
        if until > self.now {
            return Some(until);
        }
        self.hang_up(session, CloseReason::Silent);
        None
    }
}
