//! Many runs: which sets with which seeds, on how many threads, and what they found together.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use super::Args;
use super::failure::{Claim, Failure, Job};
use super::option_sets::{OptionSet, SETS};
use super::order::Order;
use super::reference::Flaw;
use super::run::{Outcome, Tally};

/// Of the runs that are functions of their seed, every so many-th is done twice.
const REPEATED_ONE_IN: usize = 20;

/// What all runs did together.
#[derive(Default)]
pub struct Campaign {
    pub runs: u64,
    pub tally: Tally,
    /// Runs done twice, which did the same.
    pub repeated: u64,
    /// Runs whose answers were compared with those of another set.
    pub compared: u64,
    pub failure: Option<Box<Failure>>,
    answers: BTreeMap<Likeness, (Job, u64)>,
}

/// What two runs must share to have the same answers.
type Likeness = (u64, usize, u32, Order);

impl Campaign {
    /// Every set with each seed, as often as it takes to do so many operations.
    pub fn jobs(args: &Args) -> Vec<Job> {
        let named = |name: &str| -> &'static OptionSet {
            let found = SETS.iter().find(|set| set.name == name);
            found.unwrap_or_else(|| panic!("no option set has the name {name}"))
        };
        let sets: Vec<_> = match &args.set {
            Some(name) => vec![named(name)],
            None => SETS.iter().collect(),
        };
        let rounds = args.operations.div_ceil((sets.len() * args.len) as u64).max(1);
        let mut jobs = Vec::new();
        let mut by_seed_alone = 0;
        for seed in (0..rounds).map(|round| args.seed.wrapping_add(round)) {
            for set in &sets {
                by_seed_alone += usize::from(set.is_deterministic());
                let repeats = set.is_deterministic() && by_seed_alone % REPEATED_ONE_IN == 1;
                let claim = match &args.same_as {
                    Some(name) => Claim::SameAs(named(name)),
                    None if args.repeat || repeats => Claim::Repeats,
                    None => Claim::Agrees,
                };
                jobs.push(Job { set, seed, len: args.len, claim, flaw: Flaw::None });
            }
        }
        jobs
    }

    /// Runs jobs up to the first failure.
    pub fn run(jobs: &[Job], threads: usize, kept: Option<&[usize]>) -> Campaign {
        let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        let campaign = Mutex::new(Campaign::default());
        let work = || {
            while let Some(job) = jobs.get(next.fetch_add(1, Relaxed)) {
                if failed.load(Relaxed) {
                    return;
                }
                let ran = job.run(kept).and_then(|outcome| {
                    let other = campaign.lock().unwrap().add(job, outcome);
                    // Shrinking is the long part, and needs no lock.
                    other.map_or(Ok(()), |other| other.run(kept).map(drop))
                });
                if let Err(failure) = ran {
                    failed.store(true, Relaxed);
                    campaign.lock().unwrap().failure.get_or_insert(failure);
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(work);
            }
        });
        campaign.into_inner().unwrap()
    }

    /// Takes in a run. If its answers are not those of a like run, returns the job to claim they are.
    fn add(&mut self, job: &Job, outcome: Outcome) -> Option<Job> {
        self.runs += 1;
        self.tally.add(&outcome.tally);
        self.repeated += u64::from(matches!(job.claim, Claim::Repeats));
        let likeness = (job.seed, job.len, job.set.keys, job.set.order);
        let mut first = true;
        let (like, answers) = self.answers.entry(likeness).or_insert_with(|| {
            first = false;
            (*job, outcome.answers)
        });
        self.compared += u64::from(first);
        (*answers != outcome.answers).then_some(Job { claim: Claim::SameAs(like.set), ..*job })
    }
}
