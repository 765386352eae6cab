//! The worker's state machine: events in, actions out, time given.
//!
//! **Invariants.**
//! - W1. What is finished is kept until the broker says that it has arrived, or that nobody wants it.
//! - W2. No more runners than slots, those that are stopping included.
//! - W3. Each attempt that was assigned ends in one `Done`, settled, or one `Failed`, told if anybody listens; or the
//!   next hello does not list it any more.
//! - W4. Of an output it is said that the broker has heard of it once the broker has answered a heartbeat that was sent
//!   behind the output's report, in the same session.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::dice::Dice;
use crate::job::failure::{FailureCode, JobFailure};
use crate::job::result::{Costs, JobResult, OutputTable, Progress, leave_sidecars};
use crate::message::{
    Assignment, AttemptId, Finished, Held, Hello, PROTOCOL, WorkerMessage, WorkerOrder,
};
use crate::worker::event::{WorkerAction, WorkerConfig, WorkerEvent};

/// Until a broker has said what it wants.
const FIRST_PATIENCE: Duration = Duration::from_secs(15);

/// A worker.
#[derive(Debug)]
pub struct Worker {
    config: WorkerConfig,
    dice: Dice,
    now: Duration,
    link: Link,
    /// Connections in a row that came to nothing.
    failures: u32,
    last_heard: Duration,
    lease: Duration,
    heartbeat: Duration,
    held: BTreeMap<AttemptId, Holding>,
    /// Heartbeats of this session that are not answered yet: what each attempt had told before.
    beats: VecDeque<Vec<(AttemptId, usize)>>,
    draining: Option<Duration>,
    actions: Vec<WorkerAction>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Down { retry_at: Duration },
    Opening { until: Duration },
    Up { beat_at: Duration },
}

#[derive(Debug)]
struct Holding {
    outputs: Vec<OutputTable>,
    resumed: usize,
    /// Outputs that the session's broker was told of, and those of which it is known to have heard.
    told: usize,
    heard: usize,
    costs: Costs,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    Running,
    Stopping(FailureCode),
    Finished(JobResult),
}

impl Worker {
    /// One that holds nothing yet and connects at its first tick.
    pub fn new(config: WorkerConfig) -> Self {
        Worker {
            dice: Dice::new(config.seed),
            config,
            now: Duration::ZERO,
            link: Link::Down { retry_at: Duration::ZERO },
            failures: 0,
            last_heard: Duration::ZERO,
            lease: FIRST_PATIENCE,
            heartbeat: FIRST_PATIENCE,
            held: BTreeMap::new(),
            beats: VecDeque::new(),
            draining: None,
            actions: Vec::new(),
        }
    }

    /// Takes note of something, at a moment of a monotonic clock, and tells what is to be done, in order.
    pub fn handle(&mut self, now: Duration, event: WorkerEvent) -> Vec<WorkerAction> {
        self.now = self.now.max(now);
        match event {
            WorkerEvent::Ordered(order) => self.obey(order),
            WorkerEvent::Lost => self.lose_link(),
            WorkerEvent::Replaced => self.give_way(),
            WorkerEvent::Advanced(id, outputs, costs) => self.advance(id, outputs, costs),
            WorkerEvent::Ended(id, outcome) => self.end(id, outcome),
            WorkerEvent::Drain => self.drain(),
            WorkerEvent::Tick => {}
        }
        self.look_at_clock();
        if self.draining.is_some() && self.held.is_empty() {
            self.actions.push(WorkerAction::Leave);
        }
        std::mem::take(&mut self.actions)
    }

    /// When to come again with a [`Tick`](WorkerEvent::Tick) if nothing happens before.
    pub fn next_wake(&self) -> Duration {
        let link = match self.link {
            Link::Down { retry_at } => retry_at,
            Link::Opening { until } => until,
            Link::Up { beat_at } => beat_at.min(self.last_heard + self.lease),
        };
        let given_up = self.given_up_at().unwrap_or(link);
        link.min(given_up).min(self.draining.unwrap_or(link))
    }

    /// Attempts that run, those that are stopping included.
    pub fn running(&self) -> usize {
        let is_running = |held: &&Holding| !matches!(held.phase, Phase::Finished(_));
        self.held.values().filter(is_running).count()
    }

    fn obey(&mut self, order: WorkerOrder) {
        self.last_heard = self.now;
        match order {
            WorkerOrder::Welcome { lease, heartbeat } => self.open(lease, heartbeat),
            WorkerOrder::Pulse => self.hear_pulse(),
            WorkerOrder::Assign(assignment) => self.take(assignment),
            WorkerOrder::Cancel(id) | WorkerOrder::LeaseLost(id) => {
                self.let_go(id, FailureCode::Cancelled);
            }
            WorkerOrder::Settled(id) => {
                if matches!(self.held.get(&id), Some(Holding { phase: Phase::Finished(_), .. })) {
                    self.held.remove(&id);
                }
            }
            WorkerOrder::Drain => self.drain(),
        }
    }

    fn open(&mut self, lease: Duration, heartbeat: Duration) {
        if !matches!(self.link, Link::Opening { .. }) {
            return;
        }
        self.failures = 0;
        // A broker that asks for less than this would only be busy with heartbeats.
        (self.lease, self.heartbeat) =
            (lease.max(heartbeat), heartbeat.max(Duration::from_millis(1)));
        self.link = Link::Up { beat_at: self.now + self.heartbeat };
        let finished = self.held.iter().filter_map(|(id, held)| Some((*id, held.finished()?)));
        for (id, finished) in finished.collect::<Vec<_>>() {
            self.send(WorkerMessage::Done(id, finished));
        }
        if self.draining.is_some() {
            self.send(WorkerMessage::Leaving);
        }
        self.beats.clear();
        let running = self.held.iter().filter(|(_, held)| matches!(held.phase, Phase::Running));
        let running: Vec<AttemptId> = running.map(|(id, _)| *id).collect();
        running.iter().for_each(|id| self.tell_progress(*id));
        if !running.is_empty() {
            self.beat();
        }
    }

    fn take(&mut self, assignment: Assignment) {
        let id = assignment.id();
        if self.held.contains_key(&id) {
            return;
        }
        let refused = if self.draining.is_some() {
            Some((FailureCode::Draining, "the worker is about to go"))
        } else if self.running() >= self.config.slots as usize {
            Some((FailureCode::Busy, "all slots are taken"))
        } else if !self.config.capabilities.suffice_for(&assignment.spec) {
            Some((FailureCode::Unsupported, "the worker does not know all that the job needs"))
        } else {
            None
        };
        if let Some((code, message)) = refused {
            self.send(WorkerMessage::Failed(id, JobFailure::new(code, message)));
            return;
        }
        let outputs = assignment.resumed.clone();
        let (resumed, costs) = (outputs.len(), Costs::default());
        let (told, heard) = (resumed, resumed);
        let holding = Holding { outputs, resumed, told, heard, costs, phase: Phase::Running };
        self.held.insert(id, holding);
        self.actions.push(WorkerAction::Start(assignment));
    }

    fn let_go(&mut self, id: AttemptId, code: FailureCode) {
        let Some(held) = self.held.get_mut(&id) else { return };
        match held.phase {
            Phase::Running => {
                held.phase = Phase::Stopping(code);
                self.actions.push(WorkerAction::Stop(id));
            }
            Phase::Stopping(_) => {}
            Phase::Finished(_) => {
                self.held.remove(&id);
            }
        }
    }

    fn advance(&mut self, id: AttemptId, outputs: Vec<OutputTable>, costs: Costs) {
        let Some(held) = self.held.get_mut(&id) else { return };
        if matches!(held.phase, Phase::Running) {
            held.outputs.extend(outputs);
            leave_sidecars(&mut held.outputs);
            held.costs = costs;
            if matches!(self.link, Link::Up { .. }) {
                self.tell_progress(id);
                self.beat();
            }
        }
    }

    /// Tells what this session's broker was not told yet.
    fn tell_progress(&mut self, id: AttemptId) {
        let Some(held) = self.held.get_mut(&id) else { return };
        let before = std::mem::replace(&mut held.told, held.outputs.len());
        let outputs = held.outputs.get(before..).unwrap_or_default().to_vec();
        if !outputs.is_empty() {
            let progress = Progress { before, outputs, costs: held.costs };
            self.send(WorkerMessage::Progress(id, progress));
        }
    }

    /// Is answered, when all that was sent before has arrived.
    fn beat(&mut self) {
        self.link = Link::Up { beat_at: self.now + self.heartbeat };
        self.beats.push_back(self.held.iter().map(|(id, held)| (*id, held.told)).collect());
        self.send(WorkerMessage::Heartbeat(self.held.keys().copied().collect()));
    }

    fn hear_pulse(&mut self) {
        for (id, told) in self.beats.pop_front().unwrap_or_default() {
            let Some(held) = self.held.get_mut(&id) else { continue };
            if matches!(held.phase, Phase::Running) && held.heard < told {
                held.heard = told;
                self.actions.push(WorkerAction::Heard(id, told));
            }
        }
    }

    fn end(&mut self, id: AttemptId, outcome: Result<JobResult, JobFailure>) {
        let Some(held) = self.held.get_mut(&id) else { return };
        let failure = match (&held.phase, outcome) {
            (Phase::Running, Ok(mut result)) => {
                leave_sidecars(&mut result.outputs);
                held.phase = Phase::Finished(result);
                let finished = held.finished();
                if let Some(finished) = finished {
                    self.send(WorkerMessage::Done(id, finished));
                }
                return;
            }
            (Phase::Running, Err(failure)) => failure,
            (Phase::Stopping(code), _) => JobFailure::new(*code, "stopped"),
            (Phase::Finished(_), _) => return,
        };
        self.held.remove(&id);
        self.send(WorkerMessage::Failed(id, failure));
    }

    fn drain(&mut self) {
        if self.draining.is_none() {
            self.draining = Some(self.now + self.config.drain_patience);
            self.send(WorkerMessage::Leaving);
        }
    }

    fn send(&mut self, message: WorkerMessage) {
        if matches!(self.link, Link::Up { .. }) {
            self.actions.push(WorkerAction::Send(message));
        }
    }

    fn lose_link(&mut self) {
        self.failures = self.failures.saturating_add(1);
        let wait = self.config.reconnect.wait(self.failures, &mut self.dice);
        self.link = Link::Down { retry_at: self.now + wait };
    }

    /// To a copy of this process: two that both say they are the same throw each other out without end. What it holds is the
    /// other's, unless the broker says otherwise to its next hello.
    fn give_way(&mut self) {
        // The copy has the same dice. That it stands where this one does at the same moment is unlikely, and would be told again.
        let moment = self.now.as_nanos() as u64;
        self.config.incarnation = Dice::new(self.dice.next() ^ moment).next();
        self.lose_link();
    }

    fn look_at_clock(&mut self) {
        if self.link_is_silent() {
            self.actions.push(WorkerAction::HangUp);
            self.lose_link();
        }
        if self.given_up_at().is_some_and(|at| at <= self.now) {
            self.let_all_go(FailureCode::Cancelled);
        }
        if self.draining.is_some_and(|until| until <= self.now) {
            // Once more after the same time, for results that nobody has settled: then they go, too.
            self.draining = Some(self.now + self.config.drain_patience.max(self.lease));
            self.let_all_go(FailureCode::Draining);
        }
        match self.link {
            Link::Down { retry_at } if retry_at <= self.now => self.connect(),
            Link::Up { beat_at } if beat_at <= self.now => self.beat(),
            _ => {}
        }
    }

    /// Heartbeats are answered: who does not answer them for the length of a lease is not there.
    fn link_is_silent(&self) -> bool {
        match self.link {
            Link::Down { .. } => false,
            Link::Opening { until } => until <= self.now,
            Link::Up { .. } => self.last_heard + self.lease <= self.now,
        }
    }

    /// When jobs go for lack of a broker.
    fn given_up_at(&self) -> Option<Duration> {
        let is_cut_off = !matches!(self.link, Link::Up { .. }) && self.has_anything_to_lose();
        is_cut_off.then(|| self.last_heard + self.config.cut_off_max)
    }

    fn has_anything_to_lose(&self) -> bool {
        self.held.values().any(|held| !matches!(held.phase, Phase::Stopping(_)))
    }

    fn let_all_go(&mut self, code: FailureCode) {
        for id in self.held.keys().copied().collect::<Vec<_>>() {
            self.let_go(id, code);
        }
    }

    fn connect(&mut self) {
        self.link = Link::Opening { until: self.now + self.lease };
        let is_held = |held: &Holding| !matches!(held.phase, Phase::Stopping(_));
        self.held.values_mut().for_each(|held| held.told = held.outputs.len());
        let held = self.held.iter().filter(|(_, held)| is_held(held));
        let held = held.map(|(id, held)| Held {
            id: *id,
            outputs: held.outputs.clone(),
            resumed: held.resumed,
        });
        let config = &self.config;
        self.actions.push(WorkerAction::Connect(Hello {
            worker: config.worker.clone(),
            incarnation: config.incarnation,
            protocol: PROTOCOL,
            slots: config.slots,
            memory_bytes: config.memory_bytes,
            disk_bytes: config.disk_bytes,
            zone: config.zone.clone(),
            capabilities: config.capabilities.clone(),
            held: held.collect(),
        }));
    }
}

impl Holding {
    fn finished(&self) -> Option<Finished> {
        match &self.phase {
            Phase::Finished(result) => {
                Some(Finished { resumed: self.resumed, result: result.clone() })
            }
            _ => None,
        }
    }
}
