//! The client on a clock that stands still unless all sleep: minutes of trouble pass in no time, the same way each run.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use siltstone_cloud::{Call, Condition, Failure, Part, Purpose, Tag};
use tokio::time::Instant;

use super::pages::Wanted;
use super::{Backend, Client, Deletes};
use crate::location::Secrets;
use crate::meter::{Prices, Verb};
use crate::options::{Hedge, Marks, Options};
use crate::slow::{BrownOut, FaultKind, Faults, Profile, SlowStore};
use crate::trouble::Class;

const TOOL: Call = Call { purpose: Purpose::Tool, within: Duration::from_secs(600) };

/// A client over a slow store, and that store.
fn client(
    options: Options,
    profile: Profile,
    faults: Faults,
    seed: u64,
) -> (Client, Arc<SlowStore>) {
    let store = Arc::new(SlowStore::new(Arc::new(InMemory::new()), profile, faults, seed));
    let objects = Arc::clone(&store) as Arc<dyn ObjectStore>;
    let backend =
        Backend { objects, pages: None, parts: None, sorted: false, deletes: Deletes::OneByOne };
    let options = Options { seed: Some(seed), ..options };
    (Client::new(backend, "root", options, Secrets::default()), store)
}

fn body(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

/// Runs on one thread, with a clock that jumps to the next timer when nobody has work.
fn simulate<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    runtime.block_on(work)
}

#[test]
fn lost_answers_neither_lose_nor_double_a_commit() {
    // Each put's answer is lost as often as not: still every create that should win wins, and says so.
    let faults = Faults { lost: 0.5, ..Faults::default() };
    simulate(async {
        for seed in 0..40 {
            let (client, store) =
                client(Options::default(), Profile::EXPRESS, faults.clone(), seed);
            let tag = client.put("v/1", body("mine"), Condition::Absent, TOOL).await;
            let tag = tag.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            let second = client.put("v/1", body("theirs"), Condition::Absent, TOOL).await;
            // Whether it was refused at once, or after a lost answer, it has not been done.
            let failure = second.map(|_| ()).unwrap_err().failure;
            assert!(matches!(failure, Failure::Refused | Failure::Unsure), "seed {seed}");
            let replaced = client.put("v/1", body("next"), Condition::Tagged(tag), TOOL).await;
            replaced.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            let got = client.get("v/1", Part::Whole, TOOL).await.unwrap();
            assert_eq!(got.body, "next", "seed {seed}");
            assert!(store.faults(FaultKind::SlowDown) == 0);
        }
    });
}

#[test]
fn racing_updates_through_lost_answers_are_counted_once_each() {
    // Four clients add to one counter, each only after its last put was resolved. What they know to be done, and what may
    // have been done, must bracket what the counter shows.
    simulate(async {
        for seed in 0..12 {
            let faults = Faults { lost: 0.2, slow_down: 0.1, ..Faults::default() };
            let store = Arc::new(InMemory::new());
            let clients = (0..4).map(|at| {
                let (inner, seed) = (Arc::clone(&store) as Arc<dyn ObjectStore>, seed * 10 + at);
                let slow = SlowStore::new(inner, Profile::S3_STANDARD, faults.clone(), seed);
                let backend = Backend {
                    objects: Arc::new(slow),
                    pages: None,
                    parts: None,
                    sorted: false,
                    deletes: Deletes::OneByOne,
                };
                let options = Options { seed: Some(seed), ..Options::default() };
                Client::new(backend, "root", options, Secrets::default())
            });
            let clients: Vec<_> = clients.collect();
            clients[0].put("counter", body("0 start"), Condition::Always, TOOL).await.unwrap();
            let adders = clients.iter().enumerate().map(|(at, client)| add(client, at));
            let outcomes = futures_util::future::join_all(adders).await;
            let done: u64 = outcomes.iter().map(|(done, _)| done).sum();
            let unsure: u64 = outcomes.iter().map(|(_, unsure)| unsure).sum();
            let shown = clients[0].get("counter", Part::Whole, TOOL).await.unwrap().body;
            let shown = number(&shown);
            assert!(
                done > 0 && done <= shown && shown <= done + unsure,
                "seed {seed}: {shown} of {outcomes:?}"
            );
        }
    });
}

fn number(body: &Bytes) -> u64 {
    let text = std::str::from_utf8(body).unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

/// Adds to the counter ten times; how many are known to be done, and how many may be.
async fn add(client: &Client, who: usize) -> (u64, u64) {
    let (mut done, mut unsure) = (0, 0);
    for turn in 0..10 {
        let got = client.get("counter", Part::Whole, TOOL).await.unwrap();
        let next = body(&format!("{} by {who} in turn {turn}", number(&got.body) + 1));
        match client.put("counter", next, Condition::Tagged(got.tag), TOOL).await {
            Ok(_) => done += 1,
            Err(error) if error.failure == Failure::Unsure => unsure += 1,
            Err(error) => assert_eq!(error.failure, Failure::Refused, "{error}"),
        }
    }
    (done, unsure)
}

#[test]
fn without_marks_a_lost_answer_is_unsure_and_never_a_lost_race() {
    let faults = Faults { lost: 1.0, ..Faults::default() };
    simulate(async {
        let options = Options { marks: Marks::None, ..Options::default() };
        let (client, _) = client(options, Profile::EXPRESS, faults, 1);
        let put = client.put("v/1", body("mine"), Condition::Absent, TOOL).await;
        assert_eq!(put.unwrap_err().failure, Failure::Unsure);
    });
}

#[test]
fn a_refusal_without_doubt_is_a_refusal() {
    simulate(async {
        let (client, store) = client(Options::default(), Profile::ZERO, Faults::default(), 1);
        client.put("a", body("1"), Condition::Always, TOOL).await.unwrap();
        for when in [Condition::Absent, Condition::Tagged(Tag("\"99\"".to_owned()))] {
            let put = client.put("a", body("2"), when, TOOL).await;
            assert_eq!(put.unwrap_err().failure, Failure::Refused);
        }
        assert_eq!(store.requests(), 3, "one attempt each");
    });
}

#[test]
fn throttled_puts_were_not_done_and_say_so() {
    let faults = Faults { slow_down: 1.0, ..Faults::default() };
    simulate(async {
        let (client, _) = client(Options::default(), Profile::EXPRESS, faults, 1);
        let call = Call { within: Duration::from_secs(5), ..TOOL };
        let begun = Instant::now();
        for when in [Condition::Always, Condition::Absent] {
            let put = client.put("a", body("1"), when, call).await;
            assert_eq!(put.unwrap_err().failure, Failure::Unavailable);
        }
        let failed = client.get("a", Part::Whole, call).await.unwrap_err();
        assert_eq!(failed.failure, Failure::Unavailable);
        assert!(begun.elapsed() <= Duration::from_secs(15), "{:?}", begun.elapsed());
        let seen = client.meter.snapshot(Prices::STANDARD);
        let tool = seen.of(Purpose::Tool);
        assert_eq!(tool.failed(Class::Throttled), tool.requests());
        assert!(tool.retries > 10, "{tool:?}");
    });
}

#[test]
fn hangs_end_with_the_call_and_leave_writes_unsure() {
    let faults = Faults { hangs: 1.0, ..Faults::default() };
    simulate(async {
        let (client, _) = client(Options::default(), Profile::EXPRESS, faults, 1);
        let call = Call { within: Duration::from_secs(4), ..TOOL };
        let all = Wanted { prefix: "", after: "", names_max: 1000 };
        for (failure, outcome) in [
            (Failure::Unsure, client.put("a", body("1"), Condition::Always, call).await.err()),
            (Failure::Unsure, client.delete(&["a".to_owned()], call).await.err()),
            (Failure::Unavailable, client.get("a", Part::Tail(5), call).await.err()),
            (Failure::Unavailable, client.head("a", call).await.err()),
            (Failure::Unavailable, client.list(all, call).await.err()),
        ] {
            let error = outcome.unwrap();
            assert_eq!(error.failure, failure, "{error}");
        }
    });
    // The same again, with the clock: no call takes longer than it may.
    let faults = Faults { hangs: 1.0, ..Faults::default() };
    simulate(async {
        let (client, _) = client(Options::default(), Profile::EXPRESS, faults, 2);
        let begun = Instant::now();
        let call = Call { within: Duration::from_millis(700), ..TOOL };
        assert!(client.get("a", Part::Whole, call).await.is_err());
        assert!(begun.elapsed() <= call.within, "{:?}", begun.elapsed());
    });
}

#[test]
fn a_full_gate_is_no_doubt() {
    simulate(async {
        let options = Options { requests_max: 1, ..Options::default() };
        let faults = Faults { hangs: 1.0, ..Faults::default() };
        let (client, _) = client(options, Profile::EXPRESS, faults, 1);
        let hanging = Call { within: Duration::from_secs(9), ..TOOL };
        let waiting = Call { within: Duration::from_secs(1), ..TOOL };
        let (first, second) = tokio::join!(
            client.get("a", Part::Whole, hanging),
            client.put("b", body("1"), Condition::Always, waiting),
        );
        assert!(first.is_err());
        let error = second.unwrap_err();
        assert_eq!(error.failure, Failure::Unavailable, "it never went out: {error}");
    });
}

#[test]
fn calls_outlast_a_brown_out_that_is_shorter_than_they_are() {
    let brown_out =
        BrownOut { from: Duration::ZERO, until: Duration::from_secs(8), failing: 0.9, slower: 3.0 };
    let faults = Faults { brown_outs: vec![brown_out], ..Faults::default() };
    simulate(async {
        for seed in 0..20 {
            let (client, _) =
                client(Options::default(), Profile::S3_STANDARD, faults.clone(), seed);
            let call = Call { within: Duration::from_secs(60), ..TOOL };
            let put = client.put("a", body("1"), Condition::Always, call).await;
            put.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
    });
}

#[test]
fn uploads_in_parts_survive_faults_and_come_back_whole() {
    let faults = Faults { slow_down: 0.05, lost: 0.02, ..Faults::default() };
    simulate(async {
        for seed in 0..5 {
            let options =
                Options { single_put_bytes: 1 << 20, part_bytes: 300_000, ..Options::default() };
            let (client, _) = client(options, Profile::S3_STANDARD, faults.clone(), seed);
            let large: Bytes =
                (0..2_000_000u32).map(|at| (at >> 3) as u8).collect::<Vec<_>>().into();
            let put = client.put("big", large.clone(), Condition::Always, TOOL).await;
            let tag = put.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            let got = client.get("big", Part::Whole, TOOL).await.unwrap();
            assert!(got.body == large && got.tag == tag, "seed {seed}");
        }
    });
}

#[test]
fn the_same_seed_brings_the_same_run_and_another_seed_another() {
    let run = |seed| {
        simulate(async move {
            let faults = Faults { slow_down: 0.2, lost: 0.1, hangs: 0.05, ..Faults::default() };
            let (client, store) = client(Options::default(), Profile::S3_STANDARD, faults, seed);
            let begun = Instant::now();
            for at in 0..60 {
                let name = format!("{}", at % 7);
                let _ = client.put(&name, body("x"), Condition::Absent, TOOL).await;
                let _ = client.get(&name, Part::Whole, TOOL).await;
            }
            (
                begun.elapsed(),
                store.trace(),
                store.requests(),
                client.meter.snapshot(Prices::STANDARD),
            )
        })
    };
    assert_eq!(run(3), run(3));
    let (one, other) = (run(3), run(4));
    assert!(one.0 != other.0 && one.1 != other.1);
}

/// What reads one after another took, and cost.
#[derive(Debug)]
struct Reads {
    p50: Duration,
    p99: Duration,
    p999: Duration,
    gets_per_hundred: f64,
}

fn reads(hedge: Hedge, faults: Faults, seed: u64) -> Reads {
    simulate(async move {
        let options = Options { hedge, ..Options::default() };
        let (client, _) = client(options, Profile::S3_STANDARD, faults, seed);
        client.put("a", Bytes::from(vec![7; 4096]), Condition::Always, TOOL).await.unwrap();
        let mut times = Vec::new();
        for _ in 0..20_000 {
            let begun = Instant::now();
            let call = Call { within: Duration::from_secs(5), ..TOOL };
            let _ = client.get("a", Part::Range { offset: 0, len: 4096 }, call).await;
            times.push(begun.elapsed());
        }
        times.sort();
        let at = |permille: usize| times[times.len() * permille / 1000];
        let seen = client.meter.snapshot(Prices::STANDARD);
        let gets = seen.of(Purpose::Tool).verb(Verb::Get).requests;
        Reads { p50: at(500), p99: at(990), p999: at(999), gets_per_hundred: gets as f64 / 200.0 }
    })
}

#[test]
fn hedges_cut_the_tail_and_cost_no_more_than_their_budget() {
    let off = Hedge { budget_percent: 0, ..Hedge::default() };
    // Calm, and with one request of 500 that is never answered.
    for (name, hangs) in [("calm", 0.0), ("hangs", 0.002)] {
        let faults = Faults { hangs, ..Faults::default() };
        let (without, with) =
            (reads(off.clone(), faults.clone(), 1), reads(Hedge::default(), faults, 1));
        println!("{name}, without: {without:?}\n{name}, with:    {with:?}");
        assert!(with.p999 < without.p999.mul_f64(0.9), "{name}: {with:?} after {without:?}");
        assert!(with.p99 <= without.p99 && with.p50 <= without.p50, "{name}");
        let extra = with.gets_per_hundred - without.gets_per_hundred;
        assert!(extra > 0.5 && extra <= 3.1, "{name}: {extra} of 100 reads were hedged");
    }
}

#[test]
fn no_hedges_in_a_brown_out() {
    let brown_out = BrownOut {
        from: Duration::ZERO,
        until: Duration::from_secs(86_400),
        failing: 0.3,
        slower: 2.0,
    };
    let faults =
        Faults { brown_outs: vec![brown_out], hang: Duration::from_secs(1), ..Faults::default() };
    simulate(async move {
        let (client, _) = client(Options::default(), Profile::S3_STANDARD, faults, 1);
        client.put("a", body("1"), Condition::Always, TOOL).await.unwrap();
        for _ in 0..2_000 {
            let _ = client.get("a", Part::Whole, TOOL).await;
        }
        let seen = client.meter.snapshot(Prices::STANDARD);
        let used = seen.of(Purpose::Tool);
        // Chance lets a calm stretch through now and then.
        assert!(used.hedges * 1000 < used.requests(), "{} of {}", used.hedges, used.requests());
    });
}

#[test]
fn names_that_cannot_be_are_refused_before_anything_is_sent() {
    simulate(async {
        let (client, store) = client(Options::default(), Profile::ZERO, Faults::default(), 1);
        let long = "x".repeat(1021);
        for name in ["", "/", "/a", "a/", "a//b", "..", "a/../b", ".", "a/./b", long.as_str()] {
            let outcomes = [
                client.get(name, Part::Whole, TOOL).await.map(|_| ()),
                client.head(name, TOOL).await.map(|_| ()),
                client.put(name, Bytes::new(), Condition::Always, TOOL).await.map(|_| ()),
                client.delete(&[name.to_owned()], TOOL).await,
            ];
            for outcome in outcomes {
                assert_eq!(outcome.unwrap_err().failure, Failure::Wrong, "{name:?}");
            }
        }
        assert_eq!(store.requests(), 0);
        let widest = "x".repeat(1019);
        client.put(&widest, Bytes::new(), Condition::Absent, TOOL).await.unwrap();
    });
}

#[test]
fn what_is_too_large_is_not_read_whole() {
    simulate(async {
        let options = Options { whole_bytes_max: 10, ..Options::default() };
        let (client, _) = client(options, Profile::ZERO, Faults::default(), 1);
        client.put("a", body("0123456789a"), Condition::Always, TOOL).await.unwrap();
        let error = client.get("a", Part::Whole, TOOL).await.unwrap_err();
        assert!(error.failure == Failure::Wrong && error.message.contains("ranges"), "{error}");
        assert_eq!(client.get("a", Part::Tail(3), TOOL).await.unwrap().body, "89a");
    });
}

#[test]
fn a_call_has_its_time_once_however_many_requests_it_takes() {
    simulate(async {
        // Seventy bunches of some 28 ms each; the call has time for a few.
        let (client, _) = client(Options::default(), Profile::S3_STANDARD, Faults::default(), 1);
        let names: Vec<String> = (0..7_000).map(|at| at.to_string()).collect();
        let call = Call { within: Duration::from_millis(500), ..TOOL };
        let begun = Instant::now();
        let error = client.delete(&names, call).await.unwrap_err();
        assert_eq!(error.failure, Failure::Unsure, "{error}");
        assert!(begun.elapsed() <= call.within + Duration::from_millis(2), "{:?}", begun.elapsed());
    });
}
