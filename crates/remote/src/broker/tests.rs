//! What a broker decides, case by case; the simulation has them all at once.

use std::sync::Arc;
use std::time::Duration;

use super::config::BrokerConfig;
use super::event::{BrokerAction, BrokerEvent, CloseReason, SessionId};
use super::report::JobState;
use super::state::Broker;
use crate::job::failure::{FailureCode, JobFailure};
use crate::job::id::{Attempt, JobId};
use crate::job::name::DbId;
use crate::job::result::{Costs, OutputTable, Progress};
use crate::job::spec::JobSpec;
use crate::message::{
    Assignment, AttemptId, ClientMessage, ClientReply, Held, Hello, Priority, Refused, Submission,
    WorkerMessage, WorkerOrder,
};
use crate::security::authority::Scope;
use crate::testing::{
    attempt_id, capabilities, finished, hello, key, output, outputs, submission, submission_of,
};
use crate::validate::Rule;

const CLIENT: SessionId = SessionId(1);
const LEASE: Duration = Duration::from_secs(15);

/// A broker with one client, and what it last wanted done.
struct Bench {
    broker: Broker,
    now: Duration,
    actions: Vec<BrokerAction>,
}

impl Bench {
    fn new() -> Self {
        Self::of(BrokerConfig::new(1, 7))
    }

    fn of(config: BrokerConfig) -> Self {
        let now = Duration::from_secs(100);
        let mut bench = Bench { broker: Broker::new(config), now, actions: Vec::new() };
        bench.tell(BrokerEvent::ClientOpened(CLIENT, Scope::All));
        bench
    }

    fn tell(&mut self, event: BrokerEvent) {
        self.actions = self.broker.handle(self.now, event);
    }

    fn open(&mut self, session: u64, hello: Hello) {
        self.tell(BrokerEvent::WorkerOpened(SessionId(session), hello, Scope::All));
    }

    fn worker(&mut self, session: u64, message: WorkerMessage) {
        self.tell(BrokerEvent::WorkerSaid(SessionId(session), message));
    }

    fn client(&mut self, message: ClientMessage) {
        self.tell(BrokerEvent::ClientSaid(CLIENT, message));
    }

    fn submit(&mut self, submission: Submission) {
        self.client(ClientMessage::Submit(submission));
    }

    /// Time passes, in steps as timers ask for, while these workers and the client send heartbeats.
    fn pass(&mut self, time: Duration, alive: &[u64]) {
        let until = self.now + time;
        while self.now < until {
            self.now = (self.now + Duration::from_secs(1)).min(until);
            let mut all = Vec::new();
            for session in alive {
                let held = self.held(*session);
                self.worker(*session, WorkerMessage::Heartbeat(held));
                all.append(&mut self.actions);
            }
            self.client(ClientMessage::Heartbeat);
            all.append(&mut self.actions);
            self.tell(BrokerEvent::Tick);
            all.append(&mut self.actions);
            self.actions = all.into_iter().filter(|action| !is_pulse(action)).collect();
            if !self.actions.is_empty() {
                return;
            }
        }
    }

    fn held(&self, session: u64) -> Vec<AttemptId> {
        let key = &self.broker.workers[&SessionId(session)].key;
        self.broker.assigned.get(key).into_iter().flatten().copied().collect()
    }

    fn assigned(&self) -> Vec<(u64, &Assignment)> {
        let assigned = self.actions.iter().filter_map(|action| match action {
            BrokerAction::Order(session, WorkerOrder::Assign(a)) => Some((session.0, a)),
            _ => None,
        });
        assigned.collect()
    }

    /// The one assignment.
    fn taken(&self) -> (u64, AttemptId) {
        let assigned = self.assigned();
        assert_eq!(assigned.len(), 1, "{:?}", self.actions);
        (assigned[0].0, assigned[0].1.id())
    }

    fn jobs_taken(&self) -> Vec<u128> {
        self.assigned().iter().map(|(_, assignment)| assignment.spec.job.to_u128()).collect()
    }

    fn ordered(&self, session: u64, order: &WorkerOrder) -> bool {
        self.actions.contains(&BrokerAction::Order(SessionId(session), order.clone()))
    }

    fn replied(&self, reply: &ClientReply) -> bool {
        self.actions.contains(&BrokerAction::Reply(CLIENT, reply.clone()))
    }

    fn state(&self, job: u128) -> Option<JobState> {
        let job = JobId::from_u128(job);
        let list = self.broker.list(None, None, 100);
        list.into_iter().find(|view| view.job == job).map(|view| view.state)
    }
}

fn is_pulse(action: &BrokerAction) -> bool {
    matches!(
        action,
        BrokerAction::Order(_, WorkerOrder::Pulse) | BrokerAction::Reply(_, ClientReply::Pulse)
    )
}

fn failed(code: FailureCode) -> JobFailure {
    JobFailure::new(code, "as told")
}

#[test]
fn a_job_is_pushed_done_settled_told_and_collected() {
    let mut bench = Bench::new();
    bench.open(10, hello("w", 1));
    bench.submit(submission(5));
    let (session, id) = bench.taken();
    assert_eq!((session, id), (10, attempt_id(5, Attempt::new(1, 1))));
    bench.worker(10, WorkerMessage::Done(id, finished(id)));
    assert!(bench.ordered(10, &WorkerOrder::Settled(id)));
    let completion = crate::message::Completion { id, finished: finished(id) };
    assert!(bench.replied(&ClientReply::Done(completion.clone())));
    // Told twice, settled twice; submitted again, told again.
    bench.worker(10, WorkerMessage::Done(id, finished(id)));
    assert_eq!(bench.actions, [BrokerAction::Order(SessionId(10), WorkerOrder::Settled(id))]);
    bench.submit(submission(5));
    assert_eq!(bench.actions, [BrokerAction::Reply(CLIENT, ClientReply::Done(completion))]);
    bench.client(ClientMessage::Collected(id.job));
    assert_eq!(bench.state(5), None);
    assert_eq!(bench.broker.stats().done, 1);
}

#[test]
fn urgent_jobs_come_first_then_high_scores_then_old_ones() {
    let mut bench = Bench::new();
    for (job, level0_pressure, score) in [(1, 0, 5), (2, 0, 9), (3, 7, 0), (4, 0, 9)] {
        let priority = Priority { level0_pressure, score };
        bench.submit(Submission { priority, ..submission(job) });
    }
    bench.open(10, hello("w", 4));
    assert_eq!(bench.jobs_taken(), [3, 2, 4, 1]);
}

#[test]
fn a_job_submitted_again_may_become_urgent() {
    let mut bench = Bench::new();
    bench.submit(submission(1));
    bench.submit(submission(2));
    let priority = Priority { level0_pressure: 1, score: 0 };
    bench.submit(Submission { priority, ..submission(2) });
    bench.open(10, hello("w", 2));
    assert_eq!(bench.jobs_taken(), [2, 1]);
}

#[test]
fn databases_share_the_slots() {
    let mut bench = Bench::new();
    let urgent = Priority { level0_pressure: 9, score: 9 };
    for job in 1..=6 {
        bench.submit(Submission { priority: urgent, ..submission_of(job, "loud") });
    }
    bench.submit(submission_of(7, "quiet"));
    bench.submit(submission_of(8, "quiet"));
    bench.open(10, hello("w", 4));
    assert_eq!(bench.jobs_taken(), [1, 7, 2, 8]);
}

#[test]
fn no_worker_gets_more_than_its_slots_hold() {
    let mut bench = Bench::new();
    (1..=5).for_each(|job| bench.submit(submission(job)));
    bench.open(10, hello("w", 2));
    let ids: Vec<AttemptId> = bench.assigned().iter().map(|(_, a)| a.id()).collect();
    assert_eq!(ids.len(), 2);
    bench.worker(10, WorkerMessage::Heartbeat(ids.clone()));
    assert!(bench.assigned().is_empty());
    // A cancelled job takes its slot until the worker has stopped.
    bench.client(ClientMessage::Cancel(ids[0].job));
    assert!(bench.ordered(10, &WorkerOrder::Cancel(ids[0])) && bench.assigned().is_empty());
    bench.worker(10, WorkerMessage::Failed(ids[0], failed(FailureCode::Cancelled)));
    assert_eq!(bench.jobs_taken(), [3]);
}

#[test]
fn who_cannot_or_may_not_is_not_asked() {
    let mut bench = Bench::new();
    let mut needing = |job, change: fn(&mut JobSpec)| {
        let mut spec = (*submission(job).spec).clone();
        change(&mut spec);
        bench.submit(Submission { spec: Arc::new(spec), ..submission(job) });
    };
    needing(1, |spec| spec.layout.comparator = "other".into());
    needing(2, |spec| spec.layout.filter = Some(("other".into(), 1)));
    needing(3, |spec| spec.layout.compression = crate::job::spec::Compression::Zstd(3));
    needing(4, |spec| spec.layout.format = 9);
    needing(5, |spec| spec.features = vec!["time travel".into()]);
    needing(6, |_| {});
    bench.open(10, hello("w", 10));
    assert_eq!(bench.jobs_taken(), [6], "the others do not stand in its way");
    bench.submit(submission_of(7, "secret"));
    let scope = Scope::one(DbId::new("db").unwrap());
    let mut bench = Bench::new();
    bench.submit(submission_of(7, "secret"));
    bench.tell(BrokerEvent::WorkerOpened(SessionId(10), hello("w", 9), scope));
    assert!(bench.assigned().is_empty());
}

#[test]
fn heartbeats_keep_a_lease_and_silence_ends_it() {
    let mut bench = Bench::new();
    bench.open(10, hello("w", 1));
    bench.submit(submission(5));
    let (_, first) = bench.taken();
    bench.pass(LEASE * 4, &[10]);
    assert_eq!(bench.state(5), Some(JobState::Running), "heartbeats renew it");
    let told =
        Progress { before: 0, outputs: vec![output(first, 0, "c", "h")], costs: Costs::default() };
    bench.worker(10, WorkerMessage::Progress(first, told.clone()));
    bench.open(11, hello("x", 1));
    bench.pass(LEASE, &[11]);
    // The other one goes on behind what the first has told.
    let [(11, second)] = bench.assigned()[..] else { panic!("{:?}", bench.actions) };
    assert_eq!(second.resumed, told.outputs);
    assert!(second.id() > first);
    let second = second.id();
    // The first one comes too late, whatever it says.
    let late = finished(first);
    bench.open(12, hello("w", 1));
    bench.worker(12, WorkerMessage::Done(first, late));
    assert!(bench.ordered(12, &WorkerOrder::LeaseLost(first)));
    assert_eq!((bench.broker.stats().stale_results, bench.state(5)), (1, Some(JobState::Running)));
    // The second one's result begins with what it was given.
    let mut whole = finished(second);
    (whole.resumed, whole.result.outputs[0]) = (1, told.outputs[0].clone());
    bench.worker(11, WorkerMessage::Done(second, whole));
    assert_eq!(bench.state(5), Some(JobState::Done));
}

#[test]
fn nobody_speaks_for_another_workers_attempt() {
    let mut bench = Bench::new();
    bench.open(10, hello("w", 1));
    bench.submit(submission(5));
    let (_, id) = bench.taken();
    bench.open(11, hello("x", 0x1));
    bench.worker(11, WorkerMessage::Done(id, finished(id)));
    assert_eq!(bench.state(5), Some(JobState::Running));
    bench.worker(11, WorkerMessage::Failed(id, failed(FailureCode::Internal)));
    assert_eq!(bench.state(5), Some(JobState::Running));
    // Nor does one of the same name.
    bench.open(12, Hello { incarnation: 2, ..hello("w", 1) });
    bench.worker(12, WorkerMessage::Done(id, finished(id)));
    assert_eq!(bench.state(5), Some(JobState::Running));
}

#[test]
fn a_worker_that_is_quiet_gets_nothing_new() {
    let mut bench = Bench::new();
    bench.open(10, hello("w", 1));
    bench.now += Duration::from_secs(11);
    bench.submit(submission(5));
    assert!(bench.assigned().is_empty());
    bench.worker(10, WorkerMessage::Heartbeat(Vec::new()));
    assert_eq!(bench.jobs_taken(), [5]);
}

#[test]
fn failures_that_may_pass_are_tried_again_elsewhere_first() {
    let mut bench = Bench::new();
    bench.open(10, hello("w", 2));
    bench.open(11, hello("x", 1));
    bench.submit(submission(5));
    let (session, id) = bench.taken();
    assert_eq!(session, 10, "it has more free slots");
    let failure = failed(FailureCode::Storage);
    bench.worker(10, WorkerMessage::Failed(id, failure.clone()));
    assert!(bench.replied(&ClientReply::Retrying(id, failure)) && bench.assigned().is_empty());
    assert_eq!(bench.state(5), Some(JobState::Resting));
    bench.pass(Duration::from_secs(1), &[10, 11]);
    assert_eq!(bench.taken().0, 11);
}

#[test]
fn enough_failures_are_final_and_some_are_at_once() {
    let mut bench = Bench::new();
    bench.open(10, hello("w", 1));
    bench.submit(Submission { attempts_max: 2, ..submission(5) });
    for code in [FailureCode::Busy, FailureCode::Draining, FailureCode::Storage, FailureCode::Quota]
    {
        let (_, id) = bench.taken();
        bench.worker(10, WorkerMessage::Failed(id, failed(code)));
        if bench.assigned().is_empty() {
            bench.pass(Duration::from_secs(10), &[10]);
        }
    }
    assert_eq!(bench.state(5), Some(JobState::Failed), "two that count");
    for code in [FailureCode::InputMissing, FailureCode::InputDamaged, FailureCode::Fenced] {
        let mut bench = Bench::new();
        bench.open(10, hello("w", 1));
        bench.submit(submission(5));
        let (_, id) = bench.taken();
        bench.worker(10, WorkerMessage::Failed(id, failed(code)));
        assert!(bench.replied(&ClientReply::Failed(id.job, failed(code))), "{code:?}");
    }
}

#[test]
fn results_that_cannot_be_are_refused_counted_and_not_built_on() {
    let mut bench = Bench::new();
    bench.open(10, hello("w", 1));
    bench.submit(submission(5));
    let (_, id) = bench.taken();
    let told = Progress { before: 0, outputs: outputs(id), costs: Costs::default() };
    bench.worker(10, WorkerMessage::Progress(id, told));
    let mut forged = finished(id);
    forged.result.outputs[1].entries = u64::MAX;
    bench.worker(10, WorkerMessage::Done(id, forged));
    assert!(bench.ordered(10, &WorkerOrder::LeaseLost(id)));
    assert_eq!(bench.broker.stats().refusals[&Rule::Entries], 1);
    bench.pass(Duration::from_secs(10), &[10]);
    assert!(bench.assigned()[0].1.resumed.is_empty(), "its progress may be a lie, too");
    // Progress is looked at likewise.
    let (_, id) = bench.taken();
    let stray = output(attempt_id(6, id.attempt), 0, "c", "h");
    let told = Progress { before: 0, outputs: vec![stray], costs: Costs::default() };
    bench.worker(10, WorkerMessage::Progress(id, told));
    assert_eq!(bench.broker.stats().refusals[&Rule::Name], 1);
}

#[test]
fn progress_takes_no_memory_without_bound() {
    let large = |change: fn(&mut OutputTable)| {
        let mut bench = Bench::new();
        bench.open(10, hello("w", 1));
        bench.submit(submission(5));
        let (_, id) = bench.taken();
        for before in 0..100 {
            let mut next = output(id, before, "c", "d");
            change(&mut next);
            let told = Progress { before, outputs: vec![next], costs: Costs::default() };
            bench.worker(10, WorkerMessage::Progress(id, told));
            if bench.ordered(10, &WorkerOrder::LeaseLost(id)) {
                return before;
            }
        }
        panic!("all was kept");
    };
    assert_eq!(large(|output| output.index = Some(vec![0; 1 << 20])), 4);
    assert_eq!(large(|output| output.largest = key(&"c".repeat((1 << 20) - 8), 20)), 7);
}

#[test]
fn a_client_may_refuse_a_result() {
    let mut bench = Bench::new();
    bench.open(10, hello("w", 1));
    bench.submit(submission(5));
    let (_, id) = bench.taken();
    bench.worker(10, WorkerMessage::Done(id, finished(id)));
    let other = AttemptId { attempt: Attempt::new(1, 99), ..id };
    bench.client(ClientMessage::Reject(other));
    assert_eq!(bench.state(5), Some(JobState::Done));
    bench.client(ClientMessage::Reject(id));
    bench.pass(Duration::from_secs(10), &[10]);
    assert!(bench.taken().1 > id);
    assert_eq!((bench.broker.stats().done, bench.broker.stats().rejected), (0, 1));
}

#[test]
fn what_must_not_be_submitted_is_refused() {
    let refused = |bench: &mut Bench, submission: Submission, why| {
        let job = submission.spec.job;
        bench.submit(submission);
        assert!(bench.replied(&ClientReply::Refused(job, why)), "{why:?}: {:?}", bench.actions);
    };
    let mut bench = Bench::of(BrokerConfig { jobs_max: 2, ..BrokerConfig::new(1, 7) });
    bench.submit(submission(1));
    refused(&mut bench, submission_of(1, "other"), Refused::Taken);
    let empty = JobSpec { inputs: Vec::new(), ..(*submission(2).spec).clone() };
    refused(&mut bench, Submission { spec: Arc::new(empty), ..submission(2) }, Refused::BadSpec);
    bench.submit(submission(2));
    refused(&mut bench, submission(3), Refused::Full);
    bench.submit(submission_of(4, "other"));
    assert!(bench.replied(&ClientReply::Queued(JobId::from_u128(4))), "others have room");
    let scope = Scope::one(DbId::new("other").unwrap());
    bench.tell(BrokerEvent::ClientOpened(SessionId(2), scope));
    let submit = ClientMessage::Submit(submission(9));
    bench.tell(BrokerEvent::ClientSaid(SessionId(2), submit));
    let denied = ClientReply::Refused(JobId::from_u128(9), Refused::Denied);
    assert_eq!(bench.actions, [BrokerAction::Reply(SessionId(2), denied)]);
    // Nor does it touch the jobs of others.
    for message in [
        ClientMessage::Cancel(JobId::from_u128(1)),
        ClientMessage::Collected(JobId::from_u128(1)),
        ClientMessage::Reject(attempt_id(1, Attempt::new(1, 1))),
    ] {
        bench.tell(BrokerEvent::ClientSaid(SessionId(2), message));
        assert_eq!(bench.state(1), Some(JobState::Waiting));
    }
}

fn of_epoch(job: u128, epoch: u64) -> Submission {
    let spec = JobSpec { epoch, ..(*submission(job).spec).clone() };
    Submission { spec: Arc::new(spec), ..submission(job) }
}

fn is_fenced(bench: &Bench) -> bool {
    matches!(
        &bench.actions[..],
        [BrokerAction::Reply(CLIENT, ClientReply::Failed(_, failure))] if failure.code == FailureCode::Fenced
    )
}

#[test]
fn a_newer_opening_of_the_database_fences_the_older_ones() {
    let mut bench = Bench::new();
    bench.open(10, hello("w", 1));
    bench.submit(of_epoch(1, 3));
    let (_, id) = bench.taken();
    bench.submit(of_epoch(2, 4));
    for late in [of_epoch(3, 3), of_epoch(1, 3)] {
        bench.submit(late);
        assert!(is_fenced(&bench), "{:?}", bench.actions);
    }
    // It is told no more, and can take nothing away.
    bench.worker(10, WorkerMessage::Done(id, finished(id)));
    let told =
        |action: &BrokerAction| matches!(action, BrokerAction::Reply(_, ClientReply::Done(_)));
    assert!(!bench.actions.iter().any(told));
    bench.client(ClientMessage::Collected(id.job));
    assert_eq!(bench.state(1), Some(JobState::Done), "for whoever goes on with it");
}

#[test]
fn a_newer_opening_goes_on_with_jobs_of_the_older_one() {
    let mut bench = Bench::new();
    bench.open(10, hello("w", 1));
    bench.submit(of_epoch(1, 3));
    let (_, id) = bench.taken();
    bench.submit(of_epoch(2, 3));
    bench.submit(of_epoch(1, 4));
    let started = ClientReply::Started(id, bench.broker.workers[&SessionId(10)].key.worker.clone());
    assert!(bench.replied(&started), "{:?}", bench.actions);
    bench.worker(10, WorkerMessage::Done(id, finished(id)));
    assert_eq!(bench.state(1), Some(JobState::Done));
    // Nobody has come for the other.
    let patience = bench.broker.config.client_patience;
    assert!(bench.state(2).is_some());
    bench.pass(patience, &[10]);
    assert_eq!(bench.state(2), None);
    // One under its id that is another is refused, whoever asks for it.
    let other = JobSpec { snapshots: vec![1, 2, 3], ..(*of_epoch(1, 5).spec).clone() };
    bench.submit(Submission { spec: Arc::new(other), ..submission(1) });
    assert!(bench.replied(&ClientReply::Refused(id.job, Refused::Taken)));
}

#[test]
fn a_broker_that_has_forgotten_goes_on_with_what_workers_hold() {
    let id = attempt_id(5, Attempt::new(1, 9));
    let held = Held { id, outputs: vec![output(id, 0, "c", "h")], resumed: 0 };
    let mut bench = Bench::of(BrokerConfig::new(2, 7));
    bench.open(10, Hello { held: vec![held.clone()], ..hello("w", 1) });
    bench.worker(10, WorkerMessage::Heartbeat(vec![id]));
    assert!(!bench.ordered(10, &WorkerOrder::LeaseLost(id)), "somebody may come for it");
    bench.submit(submission(5));
    let started = ClientReply::Started(id, bench.broker.workers[&SessionId(10)].key.worker.clone());
    assert!(bench.replied(&started) && bench.assigned().is_empty());
    bench.worker(10, WorkerMessage::Done(id, finished(id)));
    assert_eq!((bench.state(5), bench.broker.stats().adopted), (Some(JobState::Done), 1));

    // A result that came before the job.
    let mut bench = Bench::of(BrokerConfig::new(2, 7));
    bench.open(10, Hello { held: vec![held.clone()], ..hello("w", 1) });
    bench.worker(10, WorkerMessage::Done(id, finished(id)));
    assert!(!bench.ordered(10, &WorkerOrder::Settled(id)), "nobody has it yet");
    bench.submit(submission(5));
    assert!(bench.ordered(10, &WorkerOrder::Settled(id)));
    assert_eq!(bench.state(5), Some(JobState::Done));

    // Nobody comes.
    let mut bench = Bench::of(BrokerConfig::new(2, 7));
    bench.open(10, Hello { held: vec![held], ..hello("w", 1) });
    for _ in 0..70 {
        bench.now += Duration::from_secs(1);
        bench.worker(10, WorkerMessage::Heartbeat(vec![id]));
        if bench.ordered(10, &WorkerOrder::LeaseLost(id)) {
            return;
        }
    }
    panic!("a claim is not kept for ever");
}

/// Else a worker that wakes up late would make the rest of a job that is over.
#[test]
fn a_job_that_is_over_is_not_claimed() {
    let mut bench = Bench::new();
    bench.open(10, hello("w", 1));
    bench.submit(submission(5));
    let (_, id) = bench.taken();
    bench.worker(10, WorkerMessage::Done(id, finished(id)));
    bench.client(ClientMessage::Collected(id.job));
    let held = Held { id, outputs: vec![output(id, 0, "c", "h")], resumed: 0 };
    bench.open(11, Hello { held: vec![held], ..hello("w", 1) });
    assert!(bench.ordered(11, &WorkerOrder::LeaseLost(id)));
}

/// Else workers were full of what nobody asks for any more.
#[test]
fn a_result_that_waits_for_its_job_takes_no_slot() {
    let id = attempt_id(5, Attempt::new(1, 9));
    let held = Held { id, outputs: vec![output(id, 0, "c", "h")], resumed: 0 };
    let mut bench = Bench::of(BrokerConfig::new(2, 7));
    bench.open(10, Hello { held: vec![held], ..hello("w", 1) });
    bench.submit(submission(6));
    assert!(bench.assigned().is_empty(), "the slot is taken");
    bench.worker(10, WorkerMessage::Heartbeat(vec![id]));
    assert!(bench.assigned().is_empty());
    bench.client(ClientMessage::Cancel(submission(6).spec.job));
    bench.worker(10, WorkerMessage::Done(id, finished(id)));
    bench.worker(10, WorkerMessage::Heartbeat(vec![id]));
    bench.submit(submission(7));
    assert_eq!(bench.jobs_taken(), [7]);
}

#[test]
fn of_two_claims_the_newer_attempt_is_adopted() {
    let (old, new) = (attempt_id(5, Attempt::new(1, 2)), attempt_id(5, Attempt::new(1, 3)));
    let held = |id| vec![Held { id, outputs: Vec::new(), resumed: 0 }];
    let mut bench = Bench::of(BrokerConfig::new(2, 7));
    bench.open(10, Hello { held: held(new), ..hello("w", 1) });
    bench.open(11, Hello { held: held(old), ..hello("x", 1) });
    bench.submit(submission(5));
    assert!(bench.ordered(11, &WorkerOrder::LeaseLost(old)));
    assert!(!bench.ordered(10, &WorkerOrder::LeaseLost(new)));
}

#[test]
fn a_job_that_waits_again_goes_to_who_has_it_already() {
    let id = attempt_id(5, Attempt::new(1, 9));
    let held = Held { id, outputs: vec![output(id, 0, "c", "h")], resumed: 0 };
    let mut bench = Bench::of(BrokerConfig::new(2, 7));
    bench.submit(submission(5));
    bench.open(10, Hello { held: vec![held.clone()], ..hello("w", 1) });
    assert!(!bench.ordered(10, &WorkerOrder::LeaseLost(id)) && bench.assigned().is_empty());
    bench.worker(10, WorkerMessage::Done(id, finished(id)));
    assert_eq!((bench.state(5), bench.broker.stats().adopted), (Some(JobState::Done), 1));

    // Somebody has begun with it, and told of an output.
    let mut bench = Bench::of(BrokerConfig::new(2, 7));
    bench.open(11, hello("x", 1));
    bench.submit(submission(5));
    let (_, newer) = bench.taken();
    let outputs = vec![output(newer, 0, "c", "h")];
    let told = Progress { before: 0, outputs, costs: Costs::default() };
    bench.worker(11, WorkerMessage::Progress(newer, told));
    bench.open(10, Hello { held: vec![held], ..hello("w", 1) });
    assert!(bench.ordered(10, &WorkerOrder::LeaseLost(id)));
}

#[test]
fn a_broker_that_has_just_started_waits_for_who_has_begun() {
    let id = attempt_id(5, Attempt::new(1, 9));
    let held = Held { id, outputs: vec![output(id, 0, "c", "h")], resumed: 0 };
    let begun = |job| Submission { begun: true, ..submission(job) };
    let mut bench = Bench::of(BrokerConfig::new(2, 7));
    bench.open(11, hello("idle", 2));
    bench.submit(begun(5));
    assert!(bench.assigned().is_empty() && bench.replied(&ClientReply::Queued(id.job)));
    bench.submit(submission(6));
    assert_eq!(bench.jobs_taken(), [6], "others do not wait");
    bench.open(10, Hello { held: vec![held], ..hello("w", 1) });
    assert_eq!((bench.state(5), bench.broker.stats().adopted), (Some(JobState::Running), 1));

    // Nobody comes.
    let mut bench = Bench::of(BrokerConfig::new(2, 7));
    bench.open(11, hello("idle", 2));
    bench.submit(begun(5));
    let heartbeat = bench.broker.config.heartbeat;
    bench.pass(2 * heartbeat - Duration::from_secs(1), &[11]);
    assert!(bench.assigned().is_empty());
    bench.pass(Duration::from_secs(1), &[11]);
    assert_eq!(bench.jobs_taken(), [5]);
    // By now all would have come.
    bench.submit(begun(7));
    assert_eq!(bench.jobs_taken(), [7]);
}

/// Its database closed right after it had the result, and is open again.
#[test]
fn a_job_that_has_ended_here_is_not_waited_for() {
    let begun = |job| Submission { begun: true, ..submission(job) };
    let mut bench = Bench::of(BrokerConfig::new(2, 7));
    bench.open(11, hello("idle", 1));
    bench.submit(submission(5));
    let (_, id) = bench.taken();
    bench.worker(11, WorkerMessage::Done(id, finished(id)));
    bench.client(ClientMessage::Collected(id.job));
    assert_eq!(bench.state(5), None);
    bench.submit(begun(5));
    assert_eq!(bench.jobs_taken(), [5]);
    bench.submit(begun(6));
    assert!(bench.assigned().is_empty(), "this one may be with somebody");
}

#[test]
fn claims_that_cannot_be_are_not_adopted() {
    let id = attempt_id(5, Attempt::new(1, 2));
    let elsewhere = output(attempt_id(6, id.attempt), 0, "c", "h");
    let newer = output(attempt_id(5, Attempt::new(1, 3)), 0, "c", "h");
    for (outputs, resumed) in [(vec![elsewhere], 0), (vec![newer], 1), (Vec::new(), 1)] {
        let held = vec![Held { id, outputs, resumed }];
        let mut bench = Bench::of(BrokerConfig::new(2, 7));
        bench.open(10, Hello { held, ..hello("w", 2) });
        bench.submit(submission(5));
        assert!(bench.ordered(10, &WorkerOrder::LeaseLost(id)));
        assert_eq!(bench.taken().1.attempt, Attempt::new(2, 1), "no number is given twice");
    }
}

#[test]
fn a_worker_that_comes_back_takes_its_jobs_back_or_has_lost_them() {
    let mut bench = Bench::new();
    bench.open(10, hello("w", 2));
    bench.submit(submission(1));
    let (_, kept) = bench.taken();
    bench.submit(submission(2));
    let (_, lost) = bench.taken();
    bench.tell(BrokerEvent::Closed(SessionId(10)));
    assert_eq!(bench.state(1), Some(JobState::Running), "it may come back");
    let held = vec![Held { id: kept, outputs: vec![output(kept, 0, "c", "h")], resumed: 0 }];
    bench.open(11, Hello { held, ..hello("w", 2) });
    assert_eq!(bench.state(1), Some(JobState::Running));
    assert_eq!(bench.broker.list(None, None, 1)[0].outputs, 1, "progress that was lost on the way");
    let again = bench.broker.list(None, None, 2)[1].clone();
    assert!(again.failures == 1 && again.attempt.is_none_or(|(attempt, _)| attempt > lost.attempt));
}

#[test]
fn a_second_session_of_one_worker_ends_the_first() {
    let mut bench = Bench::new();
    bench.open(10, hello("w", 1));
    bench.open(11, hello("w", 1));
    let closed = BrokerAction::Close(SessionId(10), CloseReason::Replaced);
    assert!(bench.actions.contains(&closed));
    bench.open(12, Hello { incarnation: 2, ..hello("w", 1) });
    assert!(!bench.actions.iter().any(|action| matches!(action, BrokerAction::Close(..))));
    assert_eq!(bench.broker.stats().workers, 2);
}

#[test]
fn strange_hellos_are_turned_away() {
    let labels = vec!["x".to_owned(); 65];
    let known = crate::message::Capabilities { features: labels, ..capabilities() };
    for (hello, reason) in [
        (Hello { protocol: 2, ..hello("w", 1) }, CloseReason::Protocol),
        (Hello { protocol: 0, ..hello("w", 1) }, CloseReason::Protocol),
        (hello("w", 0), CloseReason::BadHello),
        (hello("w", 1_025), CloseReason::BadHello),
        (Hello { capabilities: known, ..hello("w", 1) }, CloseReason::BadHello),
    ] {
        let mut bench = Bench::new();
        bench.open(10, hello);
        assert_eq!(bench.actions, [BrokerAction::Close(SessionId(10), reason)]);
        assert_eq!(bench.broker.stats().workers, 0);
    }
}

#[test]
fn who_leaves_or_is_sent_home_gets_nothing_new() {
    let mut bench = Bench::new();
    bench.open(10, hello("w", 2));
    bench.worker(10, WorkerMessage::Leaving);
    bench.submit(submission(5));
    assert!(bench.assigned().is_empty());
    bench.open(11, hello("x", 1));
    assert_eq!(bench.jobs_taken(), [5]);
    bench.tell(BrokerEvent::Drain(hello("x", 1).worker));
    assert!(bench.ordered(11, &WorkerOrder::Drain));
}

#[test]
fn jobs_whose_client_does_not_come_back_end() {
    let mut bench = Bench::new();
    bench.open(10, hello("w", 1));
    bench.submit(submission(5));
    let (_, id) = bench.taken();
    bench.tell(BrokerEvent::Closed(CLIENT));
    bench.pass(Duration::from_secs(59), &[10]);
    assert_eq!(bench.state(5), Some(JobState::Running));
    bench.pass(Duration::from_secs(2), &[10]);
    assert!(bench.ordered(10, &WorkerOrder::Cancel(id)));
    assert_eq!(bench.state(5), None);
}

#[test]
fn an_administrator_may_end_a_job() {
    let mut bench = Bench::new();
    bench.open(10, hello("w", 1));
    bench.submit(submission(5));
    let (_, id) = bench.taken();
    bench.tell(BrokerEvent::Cancel(id.job));
    assert!(bench.ordered(10, &WorkerOrder::Cancel(id)));
    assert_eq!(bench.state(5), Some(JobState::Failed));
    assert_eq!(bench.broker.stats().values()["failures.cancelled"], 1);
}

#[test]
fn silent_sessions_are_ended() {
    let mut bench = Bench::new();
    bench.open(10, hello("w", 1));
    bench.now += LEASE;
    bench.tell(BrokerEvent::Tick);
    let silent = |session| BrokerAction::Close(session, CloseReason::Silent);
    assert!(bench.actions.contains(&silent(SessionId(10))));
    assert!(bench.actions.contains(&silent(CLIENT)));
    assert_eq!(bench.broker.next_wake(), None, "nothing is left to wait for");
}
