//! Times and faults, drawn as their profile says, on a clock that stands still unless all sleep.

use object_store::memory::InMemory;
use object_store::{ObjectStoreExt, PutMode};

use tokio::time::sleep;

use super::*;

fn store(profile: Profile, faults: Faults, seed: u64) -> SlowStore {
    SlowStore::new(Arc::new(InMemory::new()), profile, faults, seed)
}

fn simulate<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    runtime.block_on(work)
}

/// The time that each of `count` gets takes.
async fn gets(store: &SlowStore, count: usize) -> Vec<Duration> {
    let name = Path::from("a");
    store.put(&name, PutPayload::from_static(b"x")).await.unwrap();
    let mut times = Vec::new();
    for _ in 0..count {
        let begun = Instant::now();
        store.get(&name).await.unwrap().bytes().await.unwrap();
        times.push(begun.elapsed());
    }
    times
}

#[test]
fn times_are_those_of_the_profile() {
    for profile in [Profile::S3_STANDARD, Profile::EXPRESS] {
        let mut times =
            simulate(async { gets(&store(profile, Faults::default(), 1), 20_000).await });
        times.sort();
        for (at, wanted) in [(10_000, profile.get[0]), (19_800, profile.get[1])] {
            // Timers are late by up to a millisecond.
            let (low, high) = (wanted.mul_f64(0.95), wanted.mul_f64(1.05));
            let found = times[at];
            let high = high + Duration::from_millis(2);
            assert!(found >= low && found <= high, "{}: {found:?} for {wanted:?}", profile.name);
        }
    }
    let times = simulate(async { gets(&store(Profile::ZERO, Faults::default(), 1), 100).await });
    assert!(times.iter().all(Duration::is_zero));
}

#[test]
fn bytes_take_their_time_both_ways() {
    simulate(async {
        let store = store(Profile::S3_STANDARD, Faults::default(), 1);
        let begun = Instant::now();
        let large = PutPayload::from(vec![0; 90_000_000]);
        store.put(&Path::from("a"), large).await.unwrap();
        let put = begun.elapsed();
        store.get(&Path::from("a")).await.unwrap().bytes().await.unwrap();
        let get = begun.elapsed() - put;
        for time in [put, get] {
            assert!((1.0..1.3).contains(&time.as_secs_f64()), "a second's worth took {time:?}");
        }
    });
}

#[test]
fn the_same_seed_draws_the_same_whatever_runs_at_once() {
    let one_by_one = |seed| {
        simulate(
            async move { gets(&store(Profile::S3_STANDARD, Faults::default(), seed), 200).await },
        )
    };
    assert_eq!(one_by_one(1), one_by_one(1));
    assert_ne!(one_by_one(1), one_by_one(2));
    // All at once, they end in another order, and the draws are those of before.
    let trace = |at_once: bool| {
        simulate(async move {
            let store =
                store(Profile::S3_STANDARD, Faults { slow_down: 0.3, ..Faults::default() }, 9);
            let name = Path::from("a");
            let asks = (0..100).map(|_| store.get(&name));
            if at_once {
                futures_util::future::join_all(asks).await;
            } else {
                for ask in asks {
                    let _ = ask.await;
                }
            }
            (store.requests(), store.trace(), store.faults(FaultKind::SlowDown))
        })
    };
    assert_eq!(trace(true), trace(false));
}

#[test]
fn faults_have_their_effect_or_not_as_their_kind_says() {
    simulate(async {
        let name = Path::from("a");
        let body = || PutPayload::from_static(b"x");
        let refusing = store(Profile::ZERO, Faults { slow_down: 1.0, ..Faults::default() }, 1);
        assert!(refusing.put(&name, body()).await.is_err());
        assert_eq!(refusing.inner.list(None).count().await, 0, "503 has no effect");
        let losing = store(Profile::ZERO, Faults { lost: 1.0, ..Faults::default() }, 1);
        assert!(losing.put_opts(&name, body(), PutMode::Create.into()).await.is_err());
        assert_eq!(losing.inner.list(None).count().await, 1, "what is lost is the answer");
        // Of those that hang some were done, and some were not.
        let hanging = store(Profile::ZERO, Faults { hangs: 1.0, ..Faults::default() }, 1);
        let begun = Instant::now();
        for at in 0..40 {
            assert!(hanging.put(&Path::from(format!("{at}")), body()).await.is_err());
        }
        assert_eq!(begun.elapsed(), Duration::from_secs(40 * 30));
        let done = hanging.inner.list(None).count().await;
        assert!((8..32).contains(&done), "{done} of 40");
        assert_eq!(hanging.faults(FaultKind::Hang), 40);
    });
}

#[test]
fn brown_outs_begin_and_end() {
    simulate(async {
        let out = BrownOut {
            from: Duration::from_secs(10),
            until: Duration::from_secs(20),
            failing: 1.0,
            slower: 1.0,
        };
        let faults = Faults { brown_outs: vec![out], hang: Duration::ZERO, ..Faults::default() };
        let store = store(Profile::ZERO, faults, 1);
        let name = Path::from("a");
        store.put(&name, PutPayload::from_static(b"x")).await.unwrap();
        for (seconds, well) in [(0, true), (11, false), (8, false), (2, true)] {
            sleep(Duration::from_secs(seconds)).await;
            assert_eq!(
                store.get(&name).await.is_ok(),
                well,
                "after {:?}",
                store.shared.begun.elapsed()
            );
        }
    });
}

#[test]
fn a_list_takes_a_page_at_a_time_and_an_empty_one_is_a_request() {
    simulate(async {
        let store = store(Profile::S3_STANDARD, Faults::default(), 1);
        assert_eq!(store.list(None).count().await, 0);
        assert_eq!(store.requests(), 1);
        for at in 0..2_001 {
            store.inner.put(&Path::from(format!("{at:04}")), PutPayload::new()).await.unwrap();
        }
        assert_eq!(store.list(None).count().await, 2_001);
        assert_eq!(store.requests(), 4, "three pages");
    });
}
