//! The world that a broker, its workers and its clients live in: time, a network that delays, loses and repeats, and
//! processes that stop, pause and start again. One thread, one seed, one trace.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use siltstone_remote::machine::{
    Broker, BrokerAction, BrokerEvent, Client, ClientAction, ClientEvent, ClientMessage,
    ClientReply, SessionId, Worker, WorkerAction, WorkerEvent, WorkerMessage, WorkerOrder,
};
use siltstone_remote::{
    Assignment, AttemptId, BrokerConfig, BytewiseOrder, Capabilities, ClientConfig, Costs,
    Finished, JobFailure, JobId, JobResult, ObjectName, Outcome, OutputTable, Patience, Policy,
    Priority, Request, Scope, Submission, WorkerConfig, WorkerId,
};

use crate::dice::Dice;
use crate::forge::forge;
use crate::tally::{Fault, Tally};
use crate::toy::{self, Entry, Store};

const WORKERS: usize = 8;
const CLIENTS: usize = 3;
const SLOTS: u32 = 2;
/// A runner looks so often whether it has been heard.
const WAIT: Duration = Duration::from_millis(20);
/// Of attempts, in thousandths.
const FAULTS: u64 = 300;
/// Several times as long as any run takes.
const HORIZON: Duration = Duration::from_secs(3_600);
/// A machine that wants to be woken at once, so often in one moment, never sleeps.
const WAKES_MAX: u32 = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Peer {
    Worker(usize),
    Client(usize),
}

#[derive(Clone, Debug)]
enum Event {
    /// Arrives at the broker.
    AtBroker(SessionId, BrokerEvent),
    AtWorker(SessionId, WorkerOrder),
    AtClient(SessionId, ClientReply),
    /// A peer notices that its session has ended.
    Noticed(Peer, SessionId),
    /// A peer could not connect.
    NoAnswer(Peer),
    /// A runner gets on.
    Step(usize, u64, AttemptId),
    /// A worker's process starts again.
    Revive(usize),
    /// The broker's process starts again.
    BrokerUp,
    BrokerDown,
    Submit(usize),
}

struct Process {
    machine: Option<Worker>,
    /// Of this start.
    incarnation: u64,
    session: Option<SessionId>,
    paused_until: Duration,
    /// The network is gone.
    cut_until: Duration,
    tasks: BTreeMap<AttemptId, Task>,
}

/// A runner at work.
struct Task {
    assignment: Assignment,
    outputs: Vec<Vec<Entry>>,
    done: Vec<OutputTable>,
    /// So many of these the broker has heard of.
    heard: usize,
    step: Duration,
    stopped: bool,
    fault: Option<Fault>,
}

struct Submitter {
    machine: Client,
    session: Option<SessionId>,
    db: String,
    policy: Policy,
    to_submit: u64,
}

struct Session {
    peer: Peer,
    /// Nothing goes through any more, whatever the ends believe.
    broken: bool,
    /// Order is kept in each direction.
    last_in: Duration,
    last_out: Duration,
}

/// A job, as whoever submitted it sees it.
struct Wanted {
    submission: Submission,
    submitted: Duration,
    moved: Duration,
    outcome: Option<Outcome>,
}

pub(crate) struct World {
    dice: Dice,
    now: Duration,
    queue: BTreeMap<(Duration, u64), Event>,
    sequence: u64,
    broker: Option<Broker>,
    term: u32,
    seed: u64,
    workers: Vec<Process>,
    clients: Vec<Submitter>,
    sessions: BTreeMap<SessionId, Session>,
    sessions_made: u64,
    store: Store,
    wanted: BTreeMap<JobId, Wanted>,
    faulted: BTreeSet<JobId>,
    pub(crate) tally: Tally,
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

impl World {
    /// `jobs` for each client. With `fallback`, jobs may come home; without, they must not.
    pub(crate) fn new(seed: u64, jobs: u64, fallback: bool) -> Self {
        let policy = if fallback {
            Policy::PreferRemote(Patience { wait: ms(20_000), failures: 2 })
        } else {
            Policy::RemoteOnly
        };
        let clients = (0..CLIENTS).map(|number| Submitter {
            machine: Client::new(ClientConfig::new(seed * 100 + number as u64)),
            session: None,
            db: format!("db{number}"),
            policy,
            to_submit: jobs,
        });
        let workers = (0..WORKERS).map(|_| Process {
            machine: None,
            incarnation: 0,
            session: None,
            paused_until: Duration::ZERO,
            cut_until: Duration::ZERO,
            tasks: BTreeMap::new(),
        });
        let mut world = World {
            dice: Dice::new(seed),
            now: Duration::ZERO,
            queue: BTreeMap::new(),
            sequence: 0,
            broker: None,
            term: 0,
            seed,
            workers: workers.collect(),
            clients: clients.collect(),
            sessions: BTreeMap::new(),
            sessions_made: 0,
            store: Store::default(),
            wanted: BTreeMap::new(),
            faulted: BTreeSet::new(),
            tally: Tally::default(),
        };
        world.at(Duration::ZERO, Event::BrokerUp);
        (0..WORKERS).for_each(|worker| world.at(Duration::ZERO, Event::Revive(worker)));
        (0..CLIENTS).for_each(|client| world.at(ms(100), Event::Submit(client)));
        world
    }

    /// To the end: every job has an outcome.
    pub(crate) fn run(mut self) -> Tally {
        let mut wakes = (Duration::ZERO, 0);
        while self.is_busy() {
            let (at, peer) = self.first_wake();
            let queued = self.queue.first_key_value().map(|((at, _), _)| *at);
            if queued.is_none_or(|queued| at < queued) {
                self.now = self.now.max(at);
                wakes = if wakes.0 == self.now { (wakes.0, wakes.1 + 1) } else { (self.now, 0) };
                assert!(wakes.1 < WAKES_MAX, "{peer:?} does not sleep, seed {}", self.seed);
                self.tick(peer);
            } else if let Some(((at, _), event)) = self.queue.pop_first() {
                self.now = self.now.max(at);
                self.tally.trace(at, &event);
                self.happen(event);
            }
            self.look_for_stuck_jobs();
            assert!(self.now < HORIZON, "some job never ends, seed {}", self.seed);
        }
        if let Some(broker) = &self.broker {
            self.tally.add_refusals(&broker.stats());
        }
        self.tally.faulted = self.faulted.len() as u64;
        self.tally.simulated = self.now;
        self.tally
    }

    fn is_busy(&self) -> bool {
        self.clients.iter().any(|client| client.to_submit > 0)
            || self.wanted.values().any(|wanted| wanted.outcome.is_none())
    }

    fn at(&mut self, at: Duration, event: Event) {
        self.sequence += 1;
        self.queue.insert((at.max(self.now), self.sequence), event);
    }

    /// The machine that wants to be woken first; `None` is the broker.
    fn first_wake(&self) -> (Duration, Option<Peer>) {
        let broker = self.broker.as_ref().and_then(Broker::next_wake);
        let workers = self.workers.iter().enumerate().filter_map(|(number, process)| {
            let wake = process.machine.as_ref()?.next_wake();
            Some((wake.max(process.paused_until), Some(Peer::Worker(number))))
        });
        let clients = self.clients.iter().enumerate().filter_map(|(number, client)| {
            Some((client.machine.next_wake()?, Some(Peer::Client(number))))
        });
        let all = broker.map(|wake| (wake, None)).into_iter().chain(workers).chain(clients);
        all.min().unwrap_or((Duration::MAX, None))
    }

    fn tick(&mut self, peer: Option<Peer>) {
        match peer {
            None => self.tell_broker(BrokerEvent::Tick),
            Some(Peer::Worker(worker)) => self.tell_worker(worker, WorkerEvent::Tick),
            Some(Peer::Client(client)) => self.tell_client(client, ClientEvent::Tick),
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::AtBroker(session, event) => {
                if self.is_open(session) {
                    if let BrokerEvent::WorkerSaid(_, WorkerMessage::Progress(id, _)) = &event {
                        self.touch(id.job);
                    }
                    self.tell_broker(event);
                }
            }
            Event::AtWorker(session, order) => self.arrive_at_worker(session, order),
            Event::AtClient(session, reply) => {
                let Some(Peer::Client(client)) = self.peer_of(session) else { return };
                if self.clients[client].session == Some(session) {
                    self.note_reply(&reply);
                    self.tell_client(client, ClientEvent::Replied(reply));
                }
            }
            Event::Noticed(peer, session) => self.notice(peer, session),
            Event::NoAnswer(Peer::Worker(worker)) => self.tell_worker(worker, WorkerEvent::Lost),
            Event::NoAnswer(Peer::Client(client)) => self.tell_client(client, ClientEvent::Lost),
            Event::Step(worker, incarnation, id) => self.step(worker, incarnation, id),
            Event::Revive(worker) => self.revive(worker),
            Event::BrokerUp => self.broker_up(),
            Event::BrokerDown => self.broker_down(),
            Event::Submit(client) => self.submit(client),
        }
    }

    // ---- The broker ----

    fn broker_up(&mut self) {
        self.term += 1;
        let config = BrokerConfig::new(self.term, self.seed + u64::from(self.term));
        self.broker = Some(Broker::new(config));
        let life = self.dice.between(20_000, 120_000);
        self.at(self.now + ms(life), Event::BrokerDown);
    }

    fn broker_down(&mut self) {
        if let Some(broker) = self.broker.take() {
            self.tally.count(Fault::BrokerRestart);
            self.tally.add_refusals(&broker.stats());
        }
        for job in self.wanted.iter().filter(|(_, wanted)| wanted.outcome.is_none()) {
            self.faulted.insert(*job.0);
        }
        for session in self.sessions.keys().copied().collect::<Vec<_>>() {
            self.break_session(session);
        }
        let down = self.dice.between(100, 8_000);
        self.at(self.now + ms(down), Event::BrokerUp);
    }

    fn tell_broker(&mut self, event: BrokerEvent) {
        let Some(broker) = &mut self.broker else { return };
        for action in broker.handle(self.now, event) {
            match action {
                BrokerAction::Order(session, order) => {
                    if let WorkerOrder::Assign(assignment) = &order {
                        self.tally.attempts += 1;
                        self.touch(assignment.spec.job);
                    }
                    self.send_out(session, Event::AtWorker(session, order));
                }
                BrokerAction::Reply(session, reply) => {
                    self.send_out(session, Event::AtClient(session, reply));
                }
                BrokerAction::Close(session, _) => self.break_session(session),
            }
        }
    }

    // ---- The network ----

    fn delay(&mut self) -> Duration {
        // Mostly a millisecond, sometimes a tenth of a second.
        if self.dice.is_lucky(20) {
            ms(self.dice.between(20, 200))
        } else {
            ms(self.dice.between(0, 2))
        }
    }

    fn peer_of(&self, session: SessionId) -> Option<Peer> {
        self.sessions.get(&session).map(|session| session.peer)
    }

    fn is_open(&self, session: SessionId) -> bool {
        self.sessions.get(&session).is_some_and(|session| !session.broken)
    }

    fn is_cut(&self, peer: Peer) -> bool {
        matches!(peer, Peer::Worker(worker) if self.workers[worker].cut_until > self.now)
    }

    /// From the broker to a peer.
    fn send_out(&mut self, session: SessionId, event: Event) {
        let delay = self.delay();
        let now = self.now;
        let Some(open) = self.sessions.get_mut(&session).filter(|session| !session.broken) else {
            return;
        };
        open.last_out = open.last_out.max(now + delay);
        let (at, peer) = (open.last_out, open.peer);
        if self.is_cut(peer) {
            self.break_session(session);
        } else {
            self.at(at, event);
        }
    }

    /// From a peer to the broker.
    fn send_in(&mut self, session: SessionId, event: BrokerEvent, extra: Duration) {
        let delay = self.delay() + extra;
        let now = self.now;
        let Some(open) = self.sessions.get_mut(&session).filter(|session| !session.broken) else {
            return;
        };
        open.last_in = open.last_in.max(now + delay);
        let (at, peer) = (open.last_in, open.peer);
        if self.is_cut(peer) {
            self.break_session(session);
        } else {
            self.at(at, Event::AtBroker(session, event));
        }
    }

    /// Nothing goes through from now on; each end notices some time, or by silence.
    fn break_session(&mut self, session: SessionId) {
        let Some(open) = self.sessions.get_mut(&session).filter(|session| !session.broken) else {
            return;
        };
        open.broken = true;
        let peer = open.peer;
        let (soon, late) = (self.dice.between(1, 500), self.dice.between(1_000, 40_000));
        let notices = if self.dice.is_lucky(700) { soon } else { late };
        self.at(self.now + ms(notices), Event::Noticed(peer, session));
        // The broker's end: it may be a broker that was started since, which ignores what it does not know.
        let notices = if self.dice.is_lucky(500) { soon } else { late };
        let event = BrokerEvent::Closed(session);
        self.sequence += 1;
        let at = (self.now + ms(notices), self.sequence);
        self.sessions_made += 1;
        let messenger = SessionId(self.sessions_made);
        let (last_in, last_out) = (Duration::ZERO, Duration::ZERO);
        self.sessions.insert(messenger, Session { peer, broken: false, last_in, last_out });
        self.queue.insert(at, Event::AtBroker(messenger, event));
    }

    fn notice(&mut self, peer: Peer, session: SessionId) {
        match peer {
            Peer::Worker(worker) if self.workers[worker].session == Some(session) => {
                if self.is_asleep(worker) {
                    let until = self.workers[worker].paused_until;
                    self.at(until, Event::Noticed(peer, session));
                    return;
                }
                self.workers[worker].session = None;
                self.tell_worker(worker, WorkerEvent::Lost);
            }
            Peer::Client(client) if self.clients[client].session == Some(session) => {
                self.clients[client].session = None;
                self.tell_client(client, ClientEvent::Lost);
            }
            _ => {}
        }
    }

    fn open(
        &mut self,
        peer: Peer,
        event: impl FnOnce(SessionId) -> BrokerEvent,
    ) -> Option<SessionId> {
        if self.broker.is_none() || self.is_cut(peer) {
            let wait = self.dice.between(10, 2_000);
            self.at(self.now + ms(wait), Event::NoAnswer(peer));
            return None;
        }
        self.sessions_made += 1;
        let session = SessionId(self.sessions_made);
        let (last_in, last_out) = (self.now, self.now);
        self.sessions.insert(session, Session { peer, broken: false, last_in, last_out });
        self.send_in(session, event(session), Duration::ZERO);
        Some(session)
    }

    // ---- Workers ----

    fn revive(&mut self, number: usize) {
        // Two processes have the same name: an operator's mistake that must do no harm.
        let name = format!("worker-{}", number.min(WORKERS - 2));
        let process = &mut self.workers[number];
        process.incarnation += 1;
        process.tasks.clear();
        process.session = None;
        let capabilities = Capabilities {
            comparators: vec![toy::layout().comparator],
            filters: Vec::new(),
            zstd: false,
            formats: vec![0],
            features: Vec::new(),
        };
        let seed = self.seed * 1_000 + number as u64 * 100 + process.incarnation;
        let config = WorkerConfig::new(WorkerId::new(&name).unwrap(), SLOTS, capabilities, seed);
        process.machine = Some(Worker::new(config));
    }

    fn is_asleep(&self, worker: usize) -> bool {
        self.workers[worker].paused_until > self.now
    }

    fn arrive_at_worker(&mut self, session: SessionId, order: WorkerOrder) {
        let Some(Peer::Worker(worker)) = self.peer_of(session) else { return };
        if self.workers[worker].session != Some(session) {
            return;
        }
        if self.is_asleep(worker) {
            let until = self.workers[worker].paused_until;
            self.at(until, Event::AtWorker(session, order));
            return;
        }
        self.tell_worker(worker, WorkerEvent::Ordered(order));
    }

    fn tell_worker(&mut self, number: usize, event: WorkerEvent) {
        let Some(machine) = &mut self.workers[number].machine else { return };
        let actions = machine.handle(self.now, event);
        assert!(machine.running() <= SLOTS as usize, "W2, seed {}", self.seed);
        for action in actions {
            match action {
                WorkerAction::Connect(hello) => {
                    let opened = |session| BrokerEvent::WorkerOpened(session, hello, Scope::All);
                    let session = self.open(Peer::Worker(number), opened);
                    self.workers[number].session = session;
                }
                WorkerAction::Send(message) => self.send_from_worker(number, message),
                WorkerAction::HangUp => {
                    if let Some(session) = self.workers[number].session.take() {
                        self.break_session(session);
                    }
                }
                WorkerAction::Start(assignment) => self.start(number, assignment),
                WorkerAction::Stop(id) => {
                    if let Some(task) = self.workers[number].tasks.get_mut(&id) {
                        task.stopped = true;
                    }
                }
                WorkerAction::Heard(id, outputs) => {
                    if let Some(task) = self.workers[number].tasks.get_mut(&id) {
                        task.heard = outputs;
                    }
                }
                WorkerAction::Leave => unreachable!("nobody sends workers home here"),
            }
        }
    }

    fn send_from_worker(&mut self, number: usize, message: WorkerMessage) {
        let Some(session) = self.workers[number].session else { return };
        let said = |message| BrokerEvent::WorkerSaid(session, message);
        let WorkerMessage::Done(id, finished) = &message else {
            self.send_in(session, said(message), Duration::ZERO);
            return;
        };
        let fault = self.workers[number].tasks.get_mut(id).and_then(|task| task.fault.take());
        match fault {
            Some(Fault::AnswerLost) => self.break_session(session),
            Some(Fault::AnswerLate) => {
                let late = ms(self.dice.between(5_000, 30_000));
                self.send_in(session, said(message), late);
            }
            Some(Fault::AnswerTwice) => {
                self.send_in(session, said(message.clone()), Duration::ZERO);
                self.send_in(session, said(message), Duration::ZERO);
            }
            Some(Fault::Forged) => {
                let (id, mut finished) = (*id, finished.clone());
                let spec = self.wanted[&id.job].submission.spec.clone();
                if forge(&mut self.dice, &mut finished, &spec) {
                    self.tally.forged += 1;
                }
                self.send_in(session, said(WorkerMessage::Done(id, finished)), Duration::ZERO);
            }
            _ => self.send_in(session, said(message), Duration::ZERO),
        }
    }

    fn start(&mut self, number: usize, assignment: Assignment) {
        let id = assignment.id();
        let fault = self.dice.is_lucky(FAULTS).then(|| Fault::of_attempt(&mut self.dice));
        if let Some(fault) = fault {
            self.tally.count(fault);
            self.faulted.insert(id.job);
        }
        let slow = if fault == Some(Fault::Slow) { 30 } else { 1 };
        let step = ms(self.dice.between(50, 500) * slow);
        let outputs = toy::merge(&assignment.spec, &self.store);
        let done = assignment.resumed.clone();
        let (heard, stopped) = (done.len(), false);
        let task = Task { assignment, outputs, done, heard, step, stopped, fault };
        let process = &mut self.workers[number];
        process.tasks.insert(id, task);
        let incarnation = process.incarnation;
        self.at(self.now + step, Event::Step(number, incarnation, id));
    }

    /// A runner finishes an output, or the job.
    fn step(&mut self, number: usize, incarnation: u64, id: AttemptId) {
        let process = &mut self.workers[number];
        if process.machine.is_none() || process.incarnation != incarnation {
            return;
        }
        if process.paused_until > self.now {
            let until = process.paused_until;
            self.at(until, Event::Step(number, incarnation, id));
            return;
        }
        let Some(task) = process.tasks.get_mut(&id) else { return };
        if task.stopped {
            process.tasks.remove(&id);
            let failure = JobFailure::new(siltstone_remote::FailureCode::Cancelled, "stopped");
            self.tell_worker(number, WorkerEvent::Ended(id, Err(failure)));
            return;
        }
        if task.heard < task.done.len() {
            // As `RunContext::finished` does.
            self.at(self.now + WAIT, Event::Step(number, incarnation, id));
            return;
        }
        if let Some(fault) = task.fault.filter(|fault| fault.is_of_process()) {
            task.fault = None;
            if self.strike(number, fault, id) {
                return;
            }
        }
        self.get_on(number, id);
    }

    fn get_on(&mut self, number: usize, id: AttemptId) {
        let Some(task) = self.workers[number].tasks.get_mut(&id) else { return };
        let ordinal = task.done.len();
        if let Some(entries) = task.outputs.get(ordinal) {
            let spec = &task.assignment.spec;
            let name = ObjectName::output(&spec.place, id.attempt, ordinal);
            let output = toy::output(name.clone(), entries);
            assert!(
                self.store.put(&name, Arc::new(entries.clone())),
                "{name} was written twice, seed {}",
                self.seed
            );
            task.done.push(output.clone());
            self.tell_worker(number, WorkerEvent::Advanced(id, vec![output], Costs::default()));
        } else {
            let result = JobResult { outputs: task.done.clone(), costs: Costs::default() };
            self.tell_worker(number, WorkerEvent::Ended(id, Ok(result)));
            self.workers[number].tasks.remove(&id);
            return;
        }
        let process = &self.workers[number];
        if let Some(task) = process.tasks.get(&id) {
            let (step, incarnation) = (task.step, process.incarnation);
            self.at(self.now + step, Event::Step(number, incarnation, id));
        }
    }

    /// True if the step must not be taken now.
    fn strike(&mut self, number: usize, fault: Fault, id: AttemptId) -> bool {
        let process = &mut self.workers[number];
        for job in process.tasks.keys().map(|id| id.job) {
            self.faulted.insert(job);
        }
        match fault {
            Fault::Killed => {
                process.machine = None;
                process.tasks.clear();
                if let Some(session) = process.session.take() {
                    self.break_session(session);
                }
                let down = self.dice.between(500, 10_000);
                self.at(self.now + ms(down), Event::Revive(number));
                true
            }
            Fault::Paused => {
                let pause = self.dice.between(16_000, 50_000);
                process.paused_until = self.now + ms(pause);
                let (until, incarnation) = (process.paused_until, process.incarnation);
                self.at(until, Event::Step(number, incarnation, id));
                true
            }
            Fault::CutOff => {
                let cut = self.dice.between(1_000, 40_000);
                self.workers[number].cut_until = self.now + ms(cut);
                if let Some(session) = self.workers[number].session {
                    self.break_session(session);
                }
                false
            }
            _ => false,
        }
    }

    // ---- Clients ----

    fn submit(&mut self, number: usize) {
        let client = &mut self.clients[number];
        if client.to_submit == 0 {
            return;
        }
        client.to_submit -= 1;
        self.tally.jobs += 1;
        let spec = toy::job(&mut self.dice, &mut self.store, self.tally.jobs, &client.db);
        let job = spec.job;
        let pressure = self.dice.roll(3) as u32;
        let submission = Submission {
            spec: Arc::new(spec),
            priority: Priority { level0_pressure: pressure, score: self.dice.roll(5) as u32 },
            attempts_max: 0,
            storage: None,
            begun: false,
        };
        let (submitted, moved, outcome) = (self.now, self.now, None);
        let wanted = Wanted { submission: submission.clone(), submitted, moved, outcome };
        self.wanted.insert(job, wanted);
        let policy = client.policy;
        let request = Request { submission, policy, order: Arc::new(BytewiseOrder) };
        self.tell_client(number, ClientEvent::Request(request));
        let pause = self.dice.between(2_500, 5_500);
        self.at(self.now + ms(pause), Event::Submit(number));
        if self.dice.is_lucky(5)
            && let Some(session) = self.clients[number].session
        {
            self.tally.count(Fault::ClientCutOff);
            self.break_session(session);
        }
    }

    fn tell_client(&mut self, number: usize, event: ClientEvent) {
        for action in self.clients[number].machine.handle(self.now, event) {
            match action {
                ClientAction::Connect => {
                    let opened = |session| BrokerEvent::ClientOpened(session, Scope::All);
                    let session = self.open(Peer::Client(number), opened);
                    self.clients[number].session = session;
                }
                ClientAction::Send(message) => {
                    if let Some(session) = self.clients[number].session {
                        if let ClientMessage::Reject(_) = message {
                            self.tally.rejected += 1;
                        }
                        let event = BrokerEvent::ClientSaid(session, message);
                        self.send_in(session, event, Duration::ZERO);
                    }
                }
                ClientAction::HangUp => {
                    if let Some(session) = self.clients[number].session.take() {
                        self.break_session(session);
                    }
                }
                ClientAction::Begun(_) => {}
                ClientAction::Complete(job, outcome) => self.complete(job, outcome),
            }
        }
    }

    fn note_reply(&mut self, reply: &ClientReply) {
        match reply {
            ClientReply::Started(id, _) | ClientReply::Retrying(id, _) => self.touch(id.job),
            _ => {}
        }
    }

    fn touch(&mut self, job: JobId) {
        if let Some(wanted) = self.wanted.get_mut(&job) {
            wanted.moved = self.now;
        }
    }

    fn complete(&mut self, job: JobId, outcome: Outcome) {
        let wanted = self.wanted.get_mut(&job).expect("only what was asked for is completed");
        let took = self.now - wanted.submitted;
        self.tally.slowest = self.tally.slowest.max(took);
        if wanted.outcome.is_some() {
            self.tally.completed_twice += 1;
        }
        let spec = wanted.submission.spec.clone();
        match &outcome {
            Outcome::Done(completion) => {
                self.tally.done += 1;
                if !self.is_right(&spec, &completion.finished) {
                    self.tally.bad_installs += 1;
                }
            }
            Outcome::RunHere(reason) => *self.tally.home.entry(*reason).or_default() += 1,
            Outcome::Failed(failure) => panic!("{job} failed: {failure}, seed {}", self.seed),
            Outcome::Cancelled => unreachable!("nobody cancels"),
        }
        self.wanted.get_mut(&job).expect("seen above").outcome = Some(outcome);
    }

    /// What is installed is what the database would have made itself, entry by entry, and lies in the store as told.
    fn is_right(&self, spec: &siltstone_remote::JobSpec, finished: &Finished) -> bool {
        let expected = toy::merge(spec, &self.store);
        let outputs = &finished.result.outputs;
        let is_as_expected = |(output, entries): (&OutputTable, &Vec<Entry>)| {
            self.store.get(&output.name).is_some_and(|stored| **stored == *entries)
                && *output == toy::output(output.name.clone(), entries)
        };
        outputs.len() == expected.len() && outputs.iter().zip(&expected).all(is_as_expected)
    }

    fn look_for_stuck_jobs(&mut self) {
        let limit = Duration::from_secs(60);
        for wanted in self.wanted.values().filter(|wanted| wanted.outcome.is_none()) {
            let still = self.now.saturating_sub(wanted.moved);
            self.tally.longest_still = self.tally.longest_still.max(still);
            self.tally.stuck += u64::from(still > limit);
        }
    }
}
