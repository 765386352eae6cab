//! The client's state machine: events in, actions out, time given.
//!
//! **Invariants.**
//! - C1. Each request is completed once.
//! - C2. Whatever the connection does, a job that is not over is submitted again, under the same id, when there is one.
//! - C3. No result is handed on that breaks a rule of [`validate`](crate::machine::check_shape).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::client::event::{ClientAction, ClientConfig, ClientEvent, Outcome, Request};
use crate::client::fallback::{HomeReason, Situation};
use crate::dice::Dice;
use crate::job::failure::{FailureCode, JobFailure};
use crate::job::id::JobId;
use crate::message::{ClientMessage, ClientReply, Completion, Refused};
use crate::validate::{Violation, check_adopted, check_order};

/// Until a broker has said what it wants.
const FIRST_HEARTBEAT: Duration = Duration::from_secs(5);
/// A connection is dead after so many heartbeats without an answer.
const SILENT_BEATS: u32 = 3;
/// A job that was refused for now is submitted again after this.
const REFUSED_REST: Duration = Duration::from_secs(1);

/// A client.
#[derive(Debug)]
pub struct Client {
    config: ClientConfig,
    dice: Dice,
    now: Duration,
    link: Link,
    failures: u32,
    last_heard: Duration,
    heartbeat: Duration,
    pending: BTreeMap<JobId, Pending>,
    /// Nobody here wants to know how they end, and nobody says so to the broker. Until the connection ends: from then on
    /// it knows.
    left: BTreeSet<JobId>,
    actions: Vec<ClientAction>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Down { retry_at: Duration },
    Opening { until: Duration },
    Up { beat_at: Duration },
}

#[derive(Debug)]
struct Pending {
    request: Request,
    /// Since when no worker is known to have it.
    waiting_since: Option<Duration>,
    failures: u32,
    /// When to submit it again, after it was refused for now.
    resubmit_at: Option<Duration>,
}

impl Client {
    /// One without any requests, that connects when there is one.
    pub fn new(config: ClientConfig) -> Self {
        Client {
            config,
            dice: Dice::new(config.seed),
            now: Duration::ZERO,
            link: Link::Down { retry_at: Duration::ZERO },
            failures: 0,
            last_heard: Duration::ZERO,
            heartbeat: FIRST_HEARTBEAT,
            pending: BTreeMap::new(),
            left: BTreeSet::new(),
            actions: Vec::new(),
        }
    }

    /// Takes note of something, at a moment of a monotonic clock, and tells what is to be done, in order.
    pub fn handle(&mut self, now: Duration, event: ClientEvent) -> Vec<ClientAction> {
        self.now = self.now.max(now);
        match event {
            ClientEvent::Request(request) => self.request(request),
            ClientEvent::Cancel(job) => {
                if self.pending.contains_key(&job) {
                    self.send(ClientMessage::Cancel(job));
                    self.complete(job, Outcome::Cancelled);
                }
            }
            ClientEvent::Leave(job) => {
                if self.pending.contains_key(&job) {
                    self.left.insert(job);
                    self.complete(job, Outcome::Cancelled);
                }
            }
            ClientEvent::Replied(reply) => self.hear(reply),
            ClientEvent::Lost => self.lose_link(),
            ClientEvent::Tick => {}
        }
        self.look_at_clock();
        std::mem::take(&mut self.actions)
    }

    /// When to come again with a [`Tick`](ClientEvent::Tick) if nothing happens before; `None` while it has nothing to
    /// do.
    pub fn next_wake(&self) -> Option<Duration> {
        let silent = self.last_heard + self.heartbeat * SILENT_BEATS;
        let link = match self.link {
            Link::Down { .. } if self.pending.is_empty() => None,
            Link::Down { retry_at } => Some(retry_at),
            Link::Opening { until } => Some(until),
            Link::Up { beat_at } => Some(beat_at.min(silent)),
        };
        let jobs = self.pending.values().filter_map(|pending| {
            let patience = pending.request.policy.patience().zip(pending.waiting_since);
            let home = patience.map(|(patience, since)| since.saturating_add(patience.wait));
            [home, pending.resubmit_at].into_iter().flatten().min()
        });
        jobs.chain(link).min()
    }

    /// Requests that are not over.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    fn request(&mut self, request: Request) {
        let job = request.submission.spec.job;
        if self.pending.contains_key(&job) {
            return;
        }
        if let Some(reason) = request.policy.at_start(&request.submission.spec) {
            self.actions.push(ClientAction::Complete(job, Outcome::RunHere(reason)));
            return;
        }
        self.left.remove(&job);
        self.send(ClientMessage::Submit(request.submission.clone()));
        let waiting_since = Some(self.now);
        let pending = Pending { request, waiting_since, failures: 0, resubmit_at: None };
        self.pending.insert(job, pending);
    }

    fn hear(&mut self, reply: ClientReply) {
        self.last_heard = self.now;
        match reply {
            ClientReply::Welcome { heartbeat } => self.open(heartbeat),
            ClientReply::Pulse | ClientReply::Queued(_) => {}
            ClientReply::Started(id, _) => {
                if let Some(pending) = self.pending.get_mut(&id.job) {
                    pending.waiting_since = None;
                    pending.request.submission.begun = true;
                    self.actions.push(ClientAction::Begun(id.job));
                }
            }
            ClientReply::Retrying(id, failure) => self.note_failure(id.job, failure.code),
            ClientReply::Done(completion) => self.hear_done(completion),
            ClientReply::Failed(job, failure) => self.hear_failed(job, failure),
            ClientReply::Refused(job, refused) => self.hear_refused(job, refused),
        }
    }

    fn open(&mut self, heartbeat: Duration) {
        if !matches!(self.link, Link::Opening { .. }) {
            return;
        }
        self.failures = 0;
        self.heartbeat = heartbeat.max(Duration::from_millis(1));
        self.link = Link::Up { beat_at: self.now + self.heartbeat };
        let again = self.pending.values().map(|pending| pending.request.submission.clone());
        for submission in again.collect::<Vec<_>>() {
            self.send(ClientMessage::Submit(submission));
        }
    }

    fn note_failure(&mut self, job: JobId, code: FailureCode) {
        let now = self.now;
        if let Some(pending) = self.pending.get_mut(&job) {
            pending.failures += u32::from(code.counts());
            pending.request.submission.begun = false;
            pending.waiting_since.get_or_insert(now);
        }
        self.reconsider(job);
    }

    fn hear_done(&mut self, completion: Completion) {
        let id = completion.id;
        let Some(pending) = self.pending.get(&id.job) else {
            // Completed already, and the answer was lost.
            return self.collect(id.job);
        };
        if check(&pending.request, &completion).is_ok() {
            self.collect(id.job);
            self.complete(id.job, Outcome::Done(completion));
        } else {
            self.send(ClientMessage::Reject(id));
            self.note_failure(id.job, FailureCode::BadResult);
        }
    }

    /// The broker may forget it.
    fn collect(&mut self, job: JobId) {
        if !self.left.contains(&job) {
            self.send(ClientMessage::Collected(job));
        }
    }

    fn hear_failed(&mut self, job: JobId, failure: JobFailure) {
        self.collect(job);
        let Some(pending) = self.pending.get(&job) else { return };
        let may_come_home = pending.request.policy.patience().is_some();
        let outcome = if may_come_home && failure.code.is_retryable() {
            Outcome::RunHere(HomeReason::Failures)
        } else {
            Outcome::Failed(failure)
        };
        self.complete(job, outcome);
    }

    fn hear_refused(&mut self, job: JobId, refused: Refused) {
        let rest = self.now + REFUSED_REST;
        let Some(pending) = self.pending.get_mut(&job) else { return };
        let situation = Situation { refused: true, ..Situation::default() };
        if let Some(reason) = pending.request.policy.on_the_way(situation) {
            self.complete(job, Outcome::RunHere(reason));
        } else if refused == Refused::Full {
            pending.resubmit_at = Some(rest);
        } else {
            let failure = JobFailure::new(FailureCode::Unsupported, refused.why());
            self.complete(job, Outcome::Failed(failure));
        }
    }

    /// Whether a job has waited or failed for long enough.
    fn reconsider(&mut self, job: JobId) {
        let Some(pending) = self.pending.get(&job) else { return };
        let waited =
            pending.waiting_since.map_or(Duration::ZERO, |since| self.now.saturating_sub(since));
        let situation = Situation { waited, failures: pending.failures, refused: false };
        if let Some(reason) = pending.request.policy.on_the_way(situation) {
            self.send(ClientMessage::Cancel(job));
            self.complete(job, Outcome::RunHere(reason));
        }
    }

    fn complete(&mut self, job: JobId, outcome: Outcome) {
        if self.pending.remove(&job).is_some() {
            self.actions.push(ClientAction::Complete(job, outcome));
        }
    }

    fn send(&mut self, message: ClientMessage) {
        if matches!(self.link, Link::Up { .. }) {
            self.actions.push(ClientAction::Send(message));
        }
    }

    fn lose_link(&mut self) {
        self.left.clear();
        self.failures = self.failures.saturating_add(1);
        let wait = self.config.reconnect.wait(self.failures, &mut self.dice);
        self.link = Link::Down { retry_at: self.now + wait };
        // They may go on running, but who knows.
        for pending in self.pending.values_mut() {
            pending.waiting_since.get_or_insert(self.now);
        }
    }

    fn look_at_clock(&mut self) {
        let is_silent = match self.link {
            Link::Down { .. } => false,
            Link::Opening { until } => until <= self.now,
            Link::Up { .. } => self.last_heard + self.heartbeat * SILENT_BEATS <= self.now,
        };
        if is_silent {
            self.actions.push(ClientAction::HangUp);
            self.lose_link();
        }
        for job in self.pending.keys().copied().collect::<Vec<_>>() {
            self.reconsider(job);
            self.resubmit(job);
        }
        match self.link {
            Link::Down { retry_at } if retry_at <= self.now && !self.pending.is_empty() => {
                self.link = Link::Opening { until: self.now + self.heartbeat * SILENT_BEATS };
                self.actions.push(ClientAction::Connect);
            }
            Link::Up { beat_at } if beat_at <= self.now => {
                self.link = Link::Up { beat_at: self.now + self.heartbeat };
                self.send(ClientMessage::Heartbeat);
            }
            _ => {}
        }
    }

    fn resubmit(&mut self, job: JobId) {
        let Some(pending) = self.pending.get_mut(&job) else { return };
        if pending.resubmit_at.is_some_and(|at| at <= self.now) {
            pending.resubmit_at = None;
            let submission = pending.request.submission.clone();
            self.send(ClientMessage::Submit(submission));
        }
    }
}

/// The broker has checked the shape; nothing of a worker's is taken on another's word.
fn check(request: &Request, completion: &Completion) -> Result<(), Violation> {
    let (spec, finished) = (&request.submission.spec, &completion.finished);
    let outputs = &finished.result.outputs;
    check_adopted(spec, completion.id.attempt, finished.resumed, outputs)?;
    check_order(spec, outputs, &*request.order)
}

impl Refused {
    fn why(self) -> &'static str {
        match self {
            Refused::Full => "too many jobs of the database wait",
            Refused::Denied => {
                "the client may not submit for this database; its certificate or token is for others"
            }
            Refused::Taken => "another job has this id; ids must be used once",
            Refused::BadSpec => "the spec makes no sense",
        }
    }
}
