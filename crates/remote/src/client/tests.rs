//! What a client decides, case by case.

use std::sync::Arc;
use std::time::Duration;

use super::event::{ClientAction, ClientConfig, ClientEvent, Outcome, Request};
use super::fallback::{HomeReason, Policy};
use super::state::Client;
use crate::job::failure::{FailureCode, JobFailure};
use crate::job::id::{Attempt, JobId};
use crate::job::key::BytewiseOrder;
use crate::job::name::WorkerId;
use crate::message::{AttemptId, ClientMessage, ClientReply, Completion, Refused};
use crate::testing::{attempt_id, finished, submission};

const BEAT: Duration = Duration::from_secs(5);

struct Bench {
    client: Client,
    now: Duration,
    actions: Vec<ClientAction>,
}

impl Bench {
    /// With one job, submitted over an open connection.
    fn new(policy: Policy) -> Self {
        let client = Client::new(ClientConfig::new(7));
        let now = Duration::from_secs(50);
        let mut bench = Bench { client, now, actions: Vec::new() };
        assert_eq!(bench.client.next_wake(), None, "it connects when there is something to do");
        bench.request(5, policy);
        assert_eq!(bench.actions, [ClientAction::Connect]);
        bench.reply(ClientReply::Welcome { heartbeat: BEAT });
        assert_eq!(bench.submitted(), [5]);
        bench
    }

    fn tell(&mut self, event: ClientEvent) {
        self.actions = self.client.handle(self.now, event);
    }

    fn reply(&mut self, reply: ClientReply) {
        self.tell(ClientEvent::Replied(reply));
    }

    fn request(&mut self, job: u128, policy: Policy) {
        let order = Arc::new(BytewiseOrder);
        let request = Request { submission: submission(job), policy, order };
        self.tell(ClientEvent::Request(request));
    }

    fn submitted(&self) -> Vec<u128> {
        let submitted = self.actions.iter().filter_map(|action| match action {
            ClientAction::Send(ClientMessage::Submit(submission)) => {
                Some(submission.spec.job.to_u128())
            }
            _ => None,
        });
        submitted.collect()
    }

    fn outcomes(&self) -> Vec<&Outcome> {
        let outcomes = self.actions.iter().filter_map(|action| match action {
            ClientAction::Complete(_, outcome) => Some(outcome),
            _ => None,
        });
        outcomes.collect()
    }

    fn sent(&self, message: &ClientMessage) -> bool {
        self.actions.contains(&ClientAction::Send(message.clone()))
    }

    /// Heartbeats are answered.
    fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            self.now = (self.now + Duration::from_secs(1)).min(until);
            self.reply(ClientReply::Pulse);
            if !self.outcomes().is_empty() {
                return;
            }
        }
    }
}

fn id(count: u32) -> AttemptId {
    attempt_id(5, Attempt::new(1, count))
}

fn done(id: AttemptId) -> ClientReply {
    ClientReply::Done(Completion { id, finished: finished(id) })
}

fn started(id: AttemptId) -> ClientReply {
    ClientReply::Started(id, WorkerId::new("w").unwrap())
}

fn retrying(count: u32, code: FailureCode) -> ClientReply {
    ClientReply::Retrying(id(count), JobFailure::new(code, "as told"))
}

#[test]
fn a_result_is_handed_on_once_and_collected_as_often_as_it_comes() {
    let mut bench = Bench::new(Policy::RemoteOnly);
    bench.reply(done(id(1)));
    assert!(matches!(bench.outcomes()[..], [Outcome::Done(_)]));
    assert!(bench.sent(&ClientMessage::Collected(id(1).job)));
    bench.reply(done(id(1)));
    assert!(bench.outcomes().is_empty() && bench.sent(&ClientMessage::Collected(id(1).job)));
}

#[test]
fn whatever_the_connection_does_the_job_is_submitted_again() {
    let mut bench = Bench::new(Policy::RemoteOnly);
    for _ in 0..5 {
        bench.tell(ClientEvent::Lost);
        bench.now = bench.client.next_wake().unwrap();
        bench.tell(ClientEvent::Tick);
        assert_eq!(bench.actions, [ClientAction::Connect]);
        bench.reply(ClientReply::Welcome { heartbeat: BEAT });
        assert_eq!(bench.submitted(), [5]);
    }
    // A broker that does not answer is left.
    bench.now += BEAT * 3;
    bench.tell(ClientEvent::Tick);
    assert!(bench.actions.contains(&ClientAction::HangUp));
}

#[test]
fn a_broker_is_told_which_jobs_have_begun() {
    let mut bench = Bench::new(Policy::RemoteOnly);
    let mut told_again = |replies: &[ClientReply]| {
        replies.iter().for_each(|reply| bench.reply(reply.clone()));
        bench.tell(ClientEvent::Lost);
        bench.now = bench.client.next_wake().unwrap();
        bench.tell(ClientEvent::Tick);
        bench.reply(ClientReply::Welcome { heartbeat: BEAT });
        let begun = bench.actions.iter().find_map(|action| match action {
            ClientAction::Send(ClientMessage::Submit(submission)) => Some(submission.begun),
            _ => None,
        });
        begun.expect("it is submitted again")
    };
    assert!(!told_again(&[]));
    assert!(told_again(&[started(id(1))]));
    assert!(!told_again(&[started(id(2)), retrying(2, FailureCode::Storage)]));
    // So is whoever asked.
    bench.actions.clear();
    bench.reply(started(id(3)));
    assert!(bench.actions.contains(&ClientAction::Begun(id(3).job)));
}

#[test]
fn a_job_is_not_submitted_twice_at_once() {
    let mut bench = Bench::new(Policy::RemoteOnly);
    bench.request(5, Policy::RemoteOnly);
    assert!(bench.actions.is_empty());
    assert_eq!(bench.client.pending(), 1);
}

#[test]
fn results_that_cannot_be_are_rejected_and_waited_for_again() {
    let mut bench = Bench::new(Policy::RemoteOnly);
    let mut forged = finished(id(1));
    forged.result.outputs.swap(0, 1);
    bench.reply(ClientReply::Done(Completion { id: id(1), finished: forged }));
    assert!(bench.outcomes().is_empty() && bench.sent(&ClientMessage::Reject(id(1))));
    let mut overlapping = finished(id(2));
    overlapping.result.outputs[0].largest = overlapping.result.outputs[1].smallest.clone();
    bench.reply(ClientReply::Done(Completion { id: id(2), finished: overlapping }));
    assert!(bench.sent(&ClientMessage::Reject(id(2))), "what only the order of keys tells");
    bench.reply(done(id(3)));
    assert!(matches!(bench.outcomes()[..], [Outcome::Done(_)]));
}

#[test]
fn a_job_that_nobody_takes_comes_home() {
    let mut bench = Bench::new(Policy::default());
    bench.pass(Duration::from_secs(9));
    assert_eq!(bench.client.pending(), 1);
    bench.pass(Duration::from_secs(1));
    assert_eq!(bench.outcomes(), [&Outcome::RunHere(HomeReason::Waited)]);
    assert!(bench.sent(&ClientMessage::Cancel(id(1).job)));
    bench.reply(done(id(1)));
    assert!(bench.outcomes().is_empty(), "it is run at home by now");
}

#[test]
fn a_job_that_runs_is_waited_for_as_long_as_it_takes() {
    let mut bench = Bench::new(Policy::default());
    bench.reply(started(id(1)));
    bench.pass(Duration::from_secs(3_600));
    assert_eq!(bench.client.pending(), 1);
    // Without a connection nobody knows whether it runs.
    bench.tell(ClientEvent::Lost);
    bench.now += Duration::from_secs(10);
    bench.tell(ClientEvent::Tick);
    assert_eq!(bench.outcomes(), [&Outcome::RunHere(HomeReason::Waited)]);
}

#[test]
fn two_failures_bring_a_job_home_if_it_may() {
    let mut bench = Bench::new(Policy::default());
    bench.reply(retrying(1, FailureCode::Busy));
    bench.reply(retrying(2, FailureCode::Draining));
    bench.reply(retrying(3, FailureCode::LeaseExpired));
    assert_eq!(bench.client.pending(), 1, "one that counts");
    bench.reply(started(id(4)));
    bench.reply(retrying(4, FailureCode::Storage));
    assert_eq!(bench.outcomes(), [&Outcome::RunHere(HomeReason::Failures)]);
    let mut bench = Bench::new(Policy::RemoteOnly);
    (1..9).for_each(|count| bench.reply(retrying(count, FailureCode::Storage)));
    assert_eq!(bench.client.pending(), 1);
}

#[test]
fn final_failures_are_told_or_mended_at_home() {
    let failed = |code| ClientReply::Failed(id(1).job, JobFailure::new(code, "as told"));
    for (policy, code, home) in [
        (Policy::RemoteOnly, FailureCode::Storage, false),
        (Policy::default(), FailureCode::Storage, true),
        (Policy::default(), FailureCode::InputMissing, false),
        (Policy::default(), FailureCode::Fenced, false),
    ] {
        let mut bench = Bench::new(policy);
        bench.reply(failed(code));
        assert!(bench.sent(&ClientMessage::Collected(id(1).job)));
        let is_home = matches!(bench.outcomes()[..], [Outcome::RunHere(HomeReason::Failures)]);
        assert_eq!(is_home, home, "{code:?}");
    }
}

#[test]
fn a_full_broker_is_asked_again_or_done_without() {
    let refused = |why| ClientReply::Refused(id(1).job, why);
    let mut bench = Bench::new(Policy::RemoteOnly);
    bench.reply(refused(Refused::Full));
    bench.now = bench.client.next_wake().unwrap();
    bench.tell(ClientEvent::Tick);
    assert_eq!(bench.submitted(), [5]);
    for why in [Refused::Denied, Refused::Taken, Refused::BadSpec] {
        let mut bench = Bench::new(Policy::RemoteOnly);
        bench.reply(refused(why));
        assert!(matches!(bench.outcomes()[..], [Outcome::Failed(_)]), "{why:?}");
    }
    let mut bench = Bench::new(Policy::default());
    bench.reply(refused(Refused::Full));
    assert_eq!(bench.outcomes(), [&Outcome::RunHere(HomeReason::Refused)]);
}

#[test]
fn what_is_cancelled_is_over_at_once() {
    let mut bench = Bench::new(Policy::RemoteOnly);
    let job = JobId::from_u128(5);
    bench.tell(ClientEvent::Cancel(job));
    assert_eq!(bench.outcomes(), [&Outcome::Cancelled]);
    assert!(bench.sent(&ClientMessage::Cancel(job)));
    bench.tell(ClientEvent::Cancel(job));
    assert!(bench.actions.is_empty());
}

#[test]
fn a_job_that_is_left_is_over_here_and_nobody_says_so_to_the_broker() {
    let mut bench = Bench::new(Policy::RemoteOnly);
    let job = JobId::from_u128(5);
    bench.tell(ClientEvent::Leave(job));
    assert_eq!(bench.actions, [ClientAction::Complete(job, Outcome::Cancelled)]);
    bench.reply(done(id(1)));
    assert!(bench.actions.is_empty(), "the result is kept for whoever comes back");
    bench.request(5, Policy::RemoteOnly);
    assert_eq!(bench.submitted(), [5]);
    bench.reply(done(id(1)));
    assert!(matches!(bench.outcomes()[..], [Outcome::Done(_)]));
    assert!(bench.sent(&ClientMessage::Collected(job)));
}

#[test]
fn small_jobs_stay_at_home() {
    let mut bench = Bench::new(Policy::RemoteOnly);
    let patience = super::fallback::Patience::USUAL;
    bench.request(6, Policy::LocalFirst { bytes_min: 1 << 20, level_min: 3, patience });
    assert_eq!(bench.outcomes(), [&Outcome::RunHere(HomeReason::Small)]);
    assert!(bench.submitted().is_empty());
}
