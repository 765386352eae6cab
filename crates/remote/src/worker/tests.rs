//! What a worker decides, case by case.

use std::time::Duration;

use super::event::{WorkerAction, WorkerConfig, WorkerEvent};
use super::state::Worker;
use crate::job::failure::{FailureCode, JobFailure};
use crate::job::id::Attempt;
use crate::job::name::WorkerId;
use crate::job::result::{Costs, JobResult, OutputTable};
use crate::message::{Assignment, AttemptId, Hello, Priority, WorkerMessage, WorkerOrder};
use crate::testing::{attempt_id, capabilities, output, outputs, spec};

const LEASE: Duration = Duration::from_secs(15);
const BEAT: Duration = Duration::from_secs(5);

struct Bench {
    worker: Worker,
    now: Duration,
    actions: Vec<WorkerAction>,
}

impl Bench {
    fn new(slots: u32) -> Self {
        let name = WorkerId::new("w").unwrap();
        let worker = Worker::new(WorkerConfig::new(name, slots, capabilities(), 7));
        let mut bench = Bench { worker, now: Duration::from_secs(50), actions: Vec::new() };
        bench.tell(WorkerEvent::Tick);
        bench.welcome();
        bench
    }

    fn tell(&mut self, event: WorkerEvent) {
        self.actions = self.worker.handle(self.now, event);
    }

    fn order(&mut self, order: WorkerOrder) {
        self.tell(WorkerEvent::Ordered(order));
    }

    fn welcome(&mut self) {
        self.order(WorkerOrder::Welcome { lease: LEASE, heartbeat: BEAT });
    }

    fn assign(&mut self, job: u128) -> AttemptId {
        let attempt = Attempt::new(1, 1);
        let (spec, resumed) = (std::sync::Arc::new(spec(job)), Vec::new());
        let priority = Priority::default();
        let assignment = Assignment { attempt, spec, priority, resumed, storage: None };
        self.order(WorkerOrder::Assign(assignment));
        attempt_id(job, attempt)
    }

    fn end(&mut self, id: AttemptId) {
        let result = JobResult { outputs: outputs(id), costs: Costs::default() };
        self.tell(WorkerEvent::Ended(id, Ok(result)));
    }

    fn sent(&self) -> Vec<&WorkerMessage> {
        let sent = self.actions.iter().filter_map(|action| match action {
            WorkerAction::Send(message) => Some(message),
            _ => None,
        });
        sent.collect()
    }

    fn has_failed(&self, id: AttemptId, code: FailureCode) -> bool {
        matches!(self.sent()[..], [WorkerMessage::Failed(of, failure)] if *of == id && failure.code == code)
    }

    /// To the next hello.
    fn reconnect(&mut self) -> Hello {
        self.tell(WorkerEvent::Lost);
        self.now = self.worker.next_wake();
        self.tell(WorkerEvent::Tick);
        match &self.actions[..] {
            [WorkerAction::Connect(hello)] => hello.clone(),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn results_are_kept_until_they_are_settled() {
    let mut bench = Bench::new(1);
    let id = bench.assign(5);
    bench.end(id);
    assert!(matches!(bench.sent()[..], [WorkerMessage::Done(..)]));
    let hello = bench.reconnect();
    assert_eq!(hello.held.len(), 1);
    bench.welcome();
    assert!(matches!(bench.sent()[..], [WorkerMessage::Done(..)]), "told again");
    bench.order(WorkerOrder::Settled(id));
    assert!(bench.reconnect().held.is_empty());
}

#[test]
fn progress_is_told_and_kept_for_brokers_that_forget() {
    let mut bench = Bench::new(1);
    let id = bench.assign(5);
    for (ordinal, output) in outputs(id).into_iter().enumerate() {
        bench.tell(WorkerEvent::Advanced(id, vec![output], Costs::default()));
        assert!(
            matches!(bench.sent()[..], [WorkerMessage::Progress(_, told), WorkerMessage::Heartbeat(_)]
                if told.before == ordinal)
        );
    }
    assert_eq!(bench.reconnect().held[0].outputs, outputs(id));
}

/// Heard is what was told before a heartbeat that has been answered in this session.
#[test]
fn an_output_is_heard_of_once_a_heartbeat_behind_it_is_answered() {
    let mut bench = Bench::new(1);
    let id = bench.assign(5);
    let [first, second, third] =
        [("a", "b"), ("c", "d"), ("e", "f")].map(|(first, last)| output(id, 0, first, last));
    let advance =
        |output: &OutputTable| WorkerEvent::Advanced(id, vec![output.clone()], Costs::default());
    bench.now += BEAT;
    bench.tell(WorkerEvent::Tick);
    bench.tell(advance(&first));
    bench.order(WorkerOrder::Pulse);
    assert!(bench.actions.is_empty(), "the answer to what was sent before");
    bench.order(WorkerOrder::Pulse);
    assert_eq!(bench.actions, [WorkerAction::Heard(id, 1)]);
    bench.tell(advance(&second));
    assert_eq!(bench.reconnect().held[0].outputs.len(), 2);
    bench.tell(advance(&third));
    assert!(bench.actions.is_empty(), "there is no session");
    bench.welcome();
    let [WorkerMessage::Progress(_, told), WorkerMessage::Heartbeat(_)] = bench.sent()[..] else {
        panic!("{:?}", bench.actions)
    };
    assert_eq!((told.before, &told.outputs[..]), (2, std::slice::from_ref(&third)));
    bench.order(WorkerOrder::Pulse);
    assert_eq!(bench.actions, [WorkerAction::Heard(id, 3)]);
    bench.order(WorkerOrder::Pulse);
    assert!(bench.actions.is_empty(), "it knows that");
}

/// Else the runner would go on with a job that is somebody else's.
#[test]
fn who_has_lost_a_job_is_not_heard_of_any_more() {
    let mut bench = Bench::new(1);
    let id = bench.assign(5);
    let first = outputs(id)[0].clone();
    bench.tell(WorkerEvent::Advanced(id, vec![first], Costs::default()));
    bench.order(WorkerOrder::LeaseLost(id));
    bench.order(WorkerOrder::Pulse);
    assert!(bench.actions.is_empty(), "{:?}", bench.actions);
}

#[test]
fn indexes_and_filters_that_are_too_much_stay_behind() {
    let mut bench = Bench::new(1);
    let id = bench.assign(5);
    let large: Vec<OutputTable> = (0..6)
        .map(|ordinal| OutputTable {
            index: Some(vec![0; 1 << 20]),
            ..output(id, ordinal, "c", "d")
        })
        .collect();
    let mut told = Vec::new();
    for output in large.clone() {
        bench.tell(WorkerEvent::Advanced(id, vec![output], Costs::default()));
        let [WorkerMessage::Progress(_, progress), _] = bench.sent()[..] else { panic!() };
        told.extend(progress.outputs.clone());
    }
    let with_index = |outputs: &[OutputTable]| outputs.iter().filter(|o| o.index.is_some()).count();
    assert_eq!(with_index(&told), 4);
    let result = JobResult { outputs: large, costs: Costs::default() };
    bench.tell(WorkerEvent::Ended(id, Ok(result)));
    let [WorkerMessage::Done(_, finished)] = bench.sent()[..] else { panic!() };
    assert_eq!(finished.result.outputs, told, "the same ones in both");
}

#[test]
fn what_it_cannot_take_it_gives_back() {
    let mut bench = Bench::new(1);
    bench.assign(5);
    let second = bench.assign(6);
    assert!(bench.has_failed(second, FailureCode::Busy));
    let mut bench = Bench::new(1);
    let mut spec = spec(5);
    spec.layout.comparator = "other".into();
    let (spec, resumed) = (std::sync::Arc::new(spec), Vec::new());
    let (attempt, priority) = (Attempt::new(1, 1), Priority::default());
    bench.order(WorkerOrder::Assign(Assignment {
        attempt,
        spec,
        priority,
        resumed,
        storage: None,
    }));
    assert!(bench.has_failed(attempt_id(5, attempt), FailureCode::Unsupported));
}

#[test]
fn an_assignment_that_comes_twice_is_run_once() {
    let mut bench = Bench::new(2);
    let id = bench.assign(5);
    assert!(matches!(bench.actions[..], [WorkerAction::Start(_)]));
    bench.assign(5);
    assert!(bench.actions.is_empty());
    bench.end(id);
    bench.assign(5);
    assert!(bench.actions.is_empty(), "nor is it run again when it is finished");
}

#[test]
fn a_lost_job_takes_its_slot_until_the_runner_has_stopped() {
    for order in [WorkerOrder::Cancel, WorkerOrder::LeaseLost] {
        let mut bench = Bench::new(1);
        let id = bench.assign(5);
        bench.order(order(id));
        assert_eq!(bench.actions, [WorkerAction::Stop(id)]);
        let next = bench.assign(6);
        assert!(bench.has_failed(next, FailureCode::Busy));
        // A result that comes after all is nobody's.
        bench.end(id);
        assert!(bench.has_failed(id, FailureCode::Cancelled));
        assert_eq!(bench.worker.running(), 0);
    }
}

#[test]
fn heartbeats_list_what_is_held() {
    let mut bench = Bench::new(2);
    let (one, other) = (bench.assign(5), bench.assign(6));
    bench.end(one);
    bench.now += BEAT;
    bench.tell(WorkerEvent::Tick);
    assert_eq!(bench.sent(), [&WorkerMessage::Heartbeat(vec![one, other])]);
}

#[test]
fn a_broker_that_does_not_answer_is_left() {
    let mut bench = Bench::new(1);
    let id = bench.assign(5);
    bench.now += LEASE;
    bench.tell(WorkerEvent::Tick);
    assert!(bench.actions.contains(&WorkerAction::HangUp));
    bench.now = bench.worker.next_wake();
    bench.tell(WorkerEvent::Tick);
    let [WorkerAction::Connect(hello)] = &bench.actions[..] else { panic!("{:?}", bench.actions) };
    assert_eq!(hello.held[0].id, id, "its jobs run on");
    // Nor is a connection waited for that does not come about.
    bench.now += LEASE;
    bench.tell(WorkerEvent::Tick);
    assert!(bench.actions.contains(&WorkerAction::HangUp));
}

#[test]
fn of_two_that_are_the_same_one_becomes_another() {
    let mut benches = [Bench::new(2), Bench::new(2)];
    benches[1].now += Duration::from_micros(1);
    let hellos = benches.each_mut().map(|bench| {
        let id = bench.assign(5);
        let before = bench.reconnect();
        bench.welcome();
        bench.tell(WorkerEvent::Replaced);
        bench.now = bench.worker.next_wake();
        bench.tell(WorkerEvent::Tick);
        let [WorkerAction::Connect(hello)] = &bench.actions[..] else {
            panic!("{:?}", bench.actions)
        };
        assert_eq!((&hello.worker, hello.held[0].id), (&before.worker, id), "it asks for its jobs");
        assert_ne!(hello.incarnation, before.incarnation);
        hello.incarnation
    });
    assert_ne!(hellos[0], hellos[1], "even if both give way");
}

#[test]
fn jobs_are_given_up_when_nobody_is_there_for_long() {
    let mut bench = Bench::new(2);
    let (running, done) = (bench.assign(5), bench.assign(6));
    bench.end(done);
    bench.tell(WorkerEvent::Lost);
    bench.now += Duration::from_secs(60);
    bench.tell(WorkerEvent::Tick);
    assert!(bench.actions.contains(&WorkerAction::Stop(running)));
    let [.., WorkerAction::Connect(hello)] = &bench.actions[..] else {
        panic!("{:?}", bench.actions)
    };
    assert!(hello.held.is_empty());
}

#[test]
fn sent_home_it_ends_its_jobs_and_leaves() {
    let mut bench = Bench::new(2);
    let id = bench.assign(5);
    bench.order(WorkerOrder::Drain);
    assert_eq!(bench.sent(), [&WorkerMessage::Leaving]);
    let late = bench.assign(6);
    assert!(bench.has_failed(late, FailureCode::Draining));
    bench.end(id);
    assert!(!bench.actions.contains(&WorkerAction::Leave), "the result may not have arrived");
    bench.order(WorkerOrder::Settled(id));
    assert_eq!(bench.actions, [WorkerAction::Leave]);
}

#[test]
fn sent_home_it_does_not_wait_for_ever() {
    let mut bench = Bench::new(2);
    let id = bench.assign(5);
    bench.tell(WorkerEvent::Drain);
    for _ in 0..2 {
        bench.now += Duration::from_secs(10);
        bench.order(WorkerOrder::Pulse);
    }
    assert!(bench.actions.contains(&WorkerAction::Stop(id)));
    let failure = JobFailure::new(FailureCode::Cancelled, "stopped");
    bench.tell(WorkerEvent::Ended(id, Err(failure)));
    assert!(bench.has_failed(id, FailureCode::Draining), "so that another worker goes on");
    assert!(bench.actions.contains(&WorkerAction::Leave));
}

#[test]
fn without_any_broker_it_tries_ever_more_rarely() {
    let mut bench = Bench::new(1);
    let mut waits = Vec::new();
    for _ in 0..8 {
        let before = bench.now;
        bench.reconnect();
        waits.push(bench.now - before);
    }
    assert!(waits[0] <= Duration::from_millis(200));
    assert!(waits[7] >= Duration::from_millis(2_500) && waits[7] <= Duration::from_secs(5));
}
