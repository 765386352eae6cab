//! Workers' sessions: opening, closing, and what each has in its hands.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::broker::event::{BrokerAction, CloseReason, SessionId};
use crate::broker::job::{Phase, WorkerKey};
use crate::broker::state::{Broker, Timer};
use crate::job::failure::{FailureCode, JobFailure};
use crate::job::limits::{HELD_MAX, LABELS_MAX, SLOTS_MAX};
use crate::job::name::WorkerId;
use crate::message::{AttemptId, Hello, PROTOCOL, WorkerMessage, WorkerOrder};
use crate::security::authority::Scope;

#[derive(Debug)]
pub(super) struct WorkerSession {
    pub(super) key: WorkerKey,
    /// Without what it held at first.
    pub(super) hello: Hello,
    pub(super) scope: Scope,
    pub(super) last_heard: Duration,
    /// What it listed last, minus what it has ended since.
    pub(super) listed: BTreeSet<AttemptId>,
    pub(super) leaving: bool,
}

impl Broker {
    pub(super) fn open_worker(&mut self, session: SessionId, mut hello: Hello, scope: Scope) {
        if let Some(reason) = fault(&hello) {
            self.actions.push(BrokerAction::Close(session, reason));
            return;
        }
        let key = WorkerKey { worker: hello.worker.clone(), incarnation: hello.incarnation };
        if let Some(older) = self.session_of(&key) {
            self.hang_up(older, CloseReason::Replaced);
        }
        let held = std::mem::take(&mut hello.held);
        let (last_heard, leaving) = (self.now, false);
        let listed = held.iter().map(|held| held.id).collect();
        let opened = WorkerSession { key: key.clone(), hello, scope, last_heard, listed, leaving };
        self.workers.insert(session, opened);
        self.timers.insert((self.now + self.config.lease, Timer::Silence(session)));
        let (lease, heartbeat) = (self.config.lease, self.config.heartbeat);
        self.order(session, WorkerOrder::Welcome { lease, heartbeat });
        self.miss(&key, &held.iter().map(|held| held.id).collect());
        for held in held {
            self.take_back(session, &key, held);
        }
    }

    /// What a worker should hold and does not: an assignment that was lost on the way, or a failure.
    fn miss(&mut self, key: &WorkerKey, held: &BTreeSet<AttemptId>) {
        let assigned = self.assigned.get(key).cloned().unwrap_or_default();
        for id in assigned.difference(held) {
            let message = "the worker came back without it";
            self.fail_attempt(*id, JobFailure::new(FailureCode::LeaseExpired, message));
        }
    }

    pub(super) fn hear_worker(&mut self, session: SessionId, message: WorkerMessage) {
        let Some(worker) = self.workers.get_mut(&session) else { return };
        worker.last_heard = self.now;
        let key = worker.key.clone();
        match message {
            WorkerMessage::Heartbeat(ids) => self.hear_heartbeat(session, &key, ids),
            WorkerMessage::Progress(id, progress) => self.hear_progress(&key, id, progress),
            WorkerMessage::Done(id, finished) => {
                self.put_down(session, id);
                self.hear_done(&key, id, finished);
            }
            WorkerMessage::Failed(id, failure) => {
                self.put_down(session, id);
                self.hear_failed(&key, id, failure);
            }
            WorkerMessage::Leaving => {
                if let Some(worker) = self.workers.get_mut(&session) {
                    worker.leaving = true;
                }
            }
        }
    }

    fn hear_heartbeat(&mut self, session: SessionId, key: &WorkerKey, ids: Vec<AttemptId>) {
        let ids: BTreeSet<AttemptId> = ids.into_iter().take(HELD_MAX).collect();
        for id in &ids {
            if !self.renew(key, *id) && !self.renew_claim(key, *id) {
                self.order(session, WorkerOrder::LeaseLost(*id));
            }
        }
        // A result that waits for whoever submits its job again takes no slot.
        let listed = ids.into_iter().filter(|id| !self.has_result_of(key, *id)).collect();
        if let Some(worker) = self.workers.get_mut(&session) {
            worker.listed = listed;
        }
        self.order(session, WorkerOrder::Pulse);
    }

    /// True if the attempt is the worker's.
    pub(super) fn renew(&mut self, key: &WorkerKey, id: AttemptId) -> bool {
        let until = self.now + self.config.lease;
        match self.jobs.get_mut(&id.job).map(|job| &mut job.phase) {
            Some(Phase::Running(running))
                if running.attempt == id.attempt && running.key == *key =>
            {
                running.lease_until = until;
                true
            }
            _ => false,
        }
    }

    /// An attempt that is not the worker's any more takes its slot until the worker says that it has stopped.
    pub(super) fn keep_slot(&mut self, key: &WorkerKey, id: AttemptId) {
        let session = self.session_of(key);
        if let Some(worker) = session.and_then(|session| self.workers.get_mut(&session)) {
            worker.listed.insert(id);
        }
    }

    fn put_down(&mut self, session: SessionId, id: AttemptId) {
        if let Some(worker) = self.workers.get_mut(&session) {
            worker.listed.remove(&id);
        }
    }

    pub(super) fn session_of(&self, key: &WorkerKey) -> Option<SessionId> {
        let mut sessions = self.workers.iter();
        sessions.find(|(_, worker)| worker.key == *key).map(|(session, _)| *session)
    }

    pub(super) fn free_slots(&self, worker: &WorkerSession) -> usize {
        let assigned = self.assigned.get(&worker.key);
        let only_listed =
            worker.listed.iter().filter(|id| !assigned.is_some_and(|all| all.contains(id)));
        let taken = assigned.map_or(0, BTreeSet::len) + only_listed.count();
        (worker.hello.slots as usize).saturating_sub(taken)
    }

    pub(super) fn drain(&mut self, worker: &WorkerId) {
        let sessions = self.workers.iter_mut().filter(|(_, open)| open.hello.worker == *worker);
        for (session, open) in sessions {
            open.leaving = true;
            self.actions.push(BrokerAction::Order(*session, WorkerOrder::Drain));
        }
    }

    pub(super) fn hang_up(&mut self, session: SessionId, reason: CloseReason) {
        self.actions.push(BrokerAction::Close(session, reason));
        self.close(session);
    }

    /// A worker's jobs stay its own until their leases are over: it may come back.
    pub(super) fn close(&mut self, session: SessionId) {
        self.workers.remove(&session);
        if self.clients.remove(&session).is_some() {
            self.leave_jobs_of(session);
        }
    }
}

fn fault(hello: &Hello) -> Option<CloseReason> {
    if hello.protocol != PROTOCOL {
        return Some(CloseReason::Protocol);
    }
    let known = &hello.capabilities;
    let labels =
        [known.comparators.len(), known.filters.len(), known.formats.len(), known.features.len()];
    let is_fine = (1..=SLOTS_MAX).contains(&hello.slots)
        && hello.held.len() <= HELD_MAX
        && labels.iter().all(|count| *count <= LABELS_MAX);
    (!is_fine).then_some(CloseReason::BadHello)
}
