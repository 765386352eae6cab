//! Remote compaction against the world: thousands of jobs with workers that die, pause, lie and come back, a network that
//! loses and repeats, and a broker that forgets. Everything by seed; a failure names it.
#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

mod dice;
mod forge;
mod tally;
mod toy;
mod world;

use std::sync::Arc;

use siltstone_remote::machine::{check_order, check_shape};
use siltstone_remote::{
    Attempt, AttemptId, BytewiseOrder, Costs, Finished, JobResult, JobSpec, ObjectName,
};

use dice::Dice;
use tally::Tally;
use world::World;

const SEEDS: u64 = 24;
const JOBS_OF_CLIENT: u64 = 140;

fn run(seed: u64, fallback: bool) -> Tally {
    let tally = World::new(seed, JOBS_OF_CLIENT, fallback).run();
    assert_eq!(tally.bad_installs, 0, "seed {seed}: a result that is not the local one");
    assert_eq!(tally.completed_twice, 0, "seed {seed}");
    assert_eq!(tally.stuck, 0, "seed {seed}: {:?} without a move", tally.longest_still);
    tally
}

#[test]
fn whatever_happens_jobs_end_once_and_right() {
    let mut sums = [Tally::default(), Tally::default()];
    for seed in 1..=SEEDS {
        let fallback = seed % 2 == 0;
        sums[usize::from(fallback)].add(&run(seed, fallback));
    }
    for (sum, fallback) in sums.iter().zip(["off", "on"]) {
        println!("fallback {fallback}: {sum:#?}");
    }
    let [off, on] = &sums;
    assert!(off.jobs + on.jobs >= 10_000);
    assert!((off.faulted + on.faulted) * 10 >= (off.jobs + on.jobs) * 3, "30 % faulted");
    assert_eq!(off.done, off.jobs, "without fallback all is done elsewhere");
    assert!(off.home.is_empty());
    assert_eq!(on.done + on.home.values().sum::<u64>(), on.jobs);
    assert!(on.home.values().sum::<u64>() > 0, "some come home");
    assert_eq!(off.faults.len(), 10, "every kind of fault");
    assert!(off.forged >= 30 && off.refused + off.rejected >= 30);
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in [3, 4] {
        let run = |seed| World::new(seed, 40, seed % 2 == 0).run();
        assert_eq!(run(seed), run(seed), "seed {seed}");
        assert_ne!(run(seed).trace, run(seed + 2).trace);
    }
}

/// A job with at least five outputs, its attempt, and its honest result, of which two outputs are of an earlier attempt.
fn honest(seed: u64) -> (Arc<JobSpec>, AttemptId, Finished) {
    let mut dice = Dice::new(seed);
    loop {
        let mut store = toy::Store::default();
        let spec = toy::job(&mut dice, &mut store, 1, "db");
        let tables = toy::merge(&spec, &store);
        if tables.len() < 5 {
            continue;
        }
        let (earlier, later) = (Attempt::new(1, 4), Attempt::new(1, 6));
        let outputs = tables.iter().enumerate().map(|(ordinal, entries)| {
            let attempt = if ordinal < 2 { earlier } else { later };
            toy::output(ObjectName::output(&spec.place, attempt, ordinal), entries)
        });
        let result = JobResult { outputs: outputs.collect(), costs: Costs::default() };
        let id = AttemptId { job: spec.job, attempt: later };
        return (Arc::new(spec), id, Finished { resumed: 2, result });
    }
}

#[test]
fn every_forged_result_is_refused() {
    let mut refused = 0;
    for seed in 1..=20 {
        let (spec, id, honest) = honest(seed);
        let recorded = honest.result.outputs[..2].to_vec();
        let judge = |finished: &Finished| {
            check_shape(&spec, id.attempt, &recorded, finished)
                .and_then(|()| check_order(&spec, &finished.result.outputs, &BytewiseOrder))
        };
        assert_eq!(judge(&honest), Ok(()), "seed {seed}");
        for (name, damage) in forge::DAMAGES {
            let mut forged = honest.clone();
            assert!(damage(&mut forged, &spec), "{name}");
            assert!(judge(&forged).is_err(), "seed {seed}: {name} was let through");
            refused += 1;
        }
    }
    println!("{refused} forged results of {} kinds, all refused", forge::DAMAGES.len());
    assert!(forge::DAMAGES.len() >= 30);
}
