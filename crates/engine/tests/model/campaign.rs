//! Many runs: which sets with which seeds, on how many threads, and what a failure tells.

use std::env::var;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use crate::operation::{Generator, Operation};
use crate::option_sets::{OptionSet, SETS};
use crate::random::{Random, fresh_seed};
use crate::reference::Flaw;
use crate::run::{Mismatch, Tally, run};
use crate::shrink::shrink;

/// Operations of one run: enough to fill several levels.
const RUN_LEN: usize = 12_000;
/// Operations of all runs, unless `SILTSTONE_MODEL_OPS` says otherwise.
const OPERATIONS: u64 = 1_050_000;
/// Seeds that every campaign begins with; the others are fresh.
const FIXED_SEEDS: u64 = 2;
/// With lanes, a list that fails may pass by luck: it gets so many chances to fail.
const CHANCES: usize = 4;

/// One run to be done.
#[derive(Clone, Copy)]
pub(crate) struct Job {
    pub(crate) set: &'static OptionSet,
    pub(crate) seed: u64,
    pub(crate) len: usize,
    pub(crate) flaw: Flaw,
}

/// A failing run, shrunk.
pub(crate) struct Failure {
    job: Job,
    first: String,
    last: String,
    /// Indices of the operations left.
    pub(crate) kept: Vec<usize>,
    pub(crate) operations: Vec<Operation>,
}

impl Job {
    fn operations(&self) -> Vec<Operation> {
        Generator::new(self.seed, self.set.keys).list(self.len)
    }

    /// Runs the job, or the part of it that is kept; a failure comes back shrunk.
    pub(crate) fn run(&self, kept: Option<&[usize]>) -> Result<Tally, Box<Failure>> {
        let operations = self.operations();
        let list = match kept {
            Some(kept) => select(&operations, kept),
            None => operations.clone(),
        };
        match self.attempt(&list) {
            Ok(tally) => Ok(tally),
            Err((_, Mismatch(first))) if kept.is_some() => {
                let kept = kept.unwrap_or_default().to_vec();
                let last = first.clone();
                Err(Box::new(Failure { job: *self, first, last, kept, operations: list }))
            }
            Err((at, Mismatch(first))) => Err(Box::new(self.shrink(&operations, at, first))),
        }
    }

    fn shrink(&self, operations: &[Operation], at: usize, first: String) -> Failure {
        let mut last = first.clone();
        let chances = if self.set.is_deterministic() { 1 } else { CHANCES };
        let kept = shrink((at + 1).min(operations.len()), |kept| {
            let list = select(operations, kept);
            (0..chances).any(|_| match self.attempt(&list) {
                Ok(_) => false,
                Err((_, Mismatch(told))) => {
                    last = told;
                    true
                }
            })
        });
        Failure { job: *self, first, last, operations: select(operations, &kept), kept }
    }

    /// A panic is a failure, too.
    fn attempt(&self, list: &[Operation]) -> Result<Tally, (usize, Mismatch)> {
        let ran = catch_unwind(AssertUnwindSafe(|| run(self.set, self.flaw, list)));
        ran.unwrap_or_else(|panic| {
            let told = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied());
            Err((list.len(), Mismatch(format!("panic: {}", told.unwrap_or("of unknown cause")))))
        })
    }
}

fn select(operations: &[Operation], kept: &[usize]) -> Vec<Operation> {
    kept.iter().filter_map(|index| operations.get(*index)).cloned().collect()
}

impl Failure {
    pub(crate) fn report(&self) -> String {
        let Job { set, seed, len, .. } = self.job;
        let kept: Vec<String> = self.kept.iter().map(ToString::to_string).collect();
        let replay =
            format!("SILTSTONE_SEED={seed} SILTSTONE_SET={} SILTSTONE_RUN_LEN={len}", set.name);
        let command = "cargo test -p siltstone --test model -- --nocapture agrees";
        let mut text = format!(
            "set {} with seed {seed}: {}\nshrunk to {} of {len} operations: {}\n",
            set.name,
            self.first,
            kept.len(),
            self.last
        );
        for (index, operation) in self.kept.iter().zip(&self.operations) {
            let _ = writeln!(text, "{index:6}  {operation:?}");
        }
        let _ = writeln!(text, "the whole run:   {replay} {command}");
        let _ =
            writeln!(text, "the shrunk list: {replay} SILTSTONE_KEEP={} {command}", kept.join(","));
        if !set.is_deterministic() {
            text.push_str("Lanes depend on the machine's timing: it may take several tries.\n");
        }
        text
    }
}

/// What the environment asks for.
struct Wanted {
    set: Option<String>,
    seed: Option<u64>,
    len: usize,
    operations: u64,
    kept: Option<Vec<usize>>,
}

impl Wanted {
    fn read() -> Self {
        let number = |name: &str| -> Option<u64> {
            let text = var(name).ok()?;
            Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
        };
        let indices = |text: String| -> Vec<usize> {
            text.split(',')
                .map(|index| index.parse().expect("SILTSTONE_KEEP lists indices"))
                .collect()
        };
        Wanted {
            set: var("SILTSTONE_SET").ok(),
            seed: number("SILTSTONE_SEED"),
            len: number("SILTSTONE_RUN_LEN").map_or(RUN_LEN, |len| len as usize),
            operations: number("SILTSTONE_MODEL_OPS").unwrap_or(OPERATIONS),
            kept: var("SILTSTONE_KEEP").ok().map(indices),
        }
    }

    /// Every set with the fixed seeds and fresh ones; or with the one seed asked for.
    fn jobs(&self, fresh: u64) -> Vec<Job> {
        let sets: Vec<&'static OptionSet> = SETS
            .iter()
            .filter(|set| self.set.as_deref().is_none_or(|name| name == set.name))
            .collect();
        assert!(!sets.is_empty(), "no option set has the name {:?}", self.set);
        let rounds = self.operations.div_ceil((sets.len() * self.len) as u64).max(1);
        let mut others = Random::new(fresh);
        let seeds: Vec<u64> = match self.seed {
            Some(seed) => vec![seed],
            // The last round is always a fresh one.
            None => (1..=rounds)
                .map(
                    |round| {
                        if round <= FIXED_SEEDS && round < rounds { round } else { others.next() }
                    },
                )
                .collect(),
        };
        let jobs = seeds.iter().flat_map(|seed| {
            sets.iter().map(|set| Job { set, seed: *seed, len: self.len, flaw: Flaw::None })
        });
        jobs.collect()
    }
}

/// Runs all jobs, and returns what they did together.
///
/// # Panics
///
/// With the report of the first failing run.
pub(crate) fn run_all() -> Tally {
    let wanted = Wanted::read();
    let fresh = fresh_seed();
    let jobs = wanted.jobs(fresh);
    println!("model: {} runs, fresh seeds from {fresh}", jobs.len());
    let threads = std::thread::available_parallelism().map_or(2, |threads| threads.get().min(8));
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (total, report) = (Mutex::new(Tally::default()), Mutex::new(None));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(job) = jobs.get(next.fetch_add(1, Relaxed)) {
                    if failed.load(Relaxed) {
                        return;
                    }
                    match job.run(wanted.kept.as_deref()) {
                        Ok(tally) => total.lock().unwrap().add(&tally),
                        Err(failure) => {
                            failed.store(true, Relaxed);
                            report.lock().unwrap().get_or_insert(failure.report());
                        }
                    }
                }
            });
        }
    });
    if let Some(report) = report.into_inner().unwrap() {
        panic!("{report}");
    }
    let total = total.into_inner().unwrap();
    if wanted.seed.is_none() {
        assert!(total.operations >= wanted.operations, "{total:?}");
    }
    total
}
