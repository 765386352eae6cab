//! Many worlds, and the figures of all.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use clap::Args;

pub use super::cheat::Mutant;
use super::life::{Outcome, live};
use crate::report::{Goal, Report};

/// Databases in a bucket, in bad weather
#[derive(Args, Clone, Debug)]
pub struct CloudArgs {
    /// The first seed
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Worlds, one seed each
    #[arg(long, default_value_t = WHOLE)]
    pub worlds: u64,
    /// Switch off a rule, as `ground cloud-mutants` names it
    #[arg(long)]
    pub mutant: Option<Mutant>,
}

/// Rules of the cloud switched off one by one, to see each noticed
#[derive(Args, Clone, Debug)]
pub struct CloudMutantArgs {
    /// The first seed
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Worlds to try on each mutant
    #[arg(long, default_value_t = 200)]
    pub worlds: u64,
    /// Only this mutant
    #[arg(long)]
    pub only: Option<Mutant>,
}

/// Worlds of a whole campaign.
const WHOLE: u64 = 1500;
/// A trace is compared for one of so many seeds.
const REPEATED: u64 = 20;

#[derive(Default)]
struct Total {
    sum: Outcome,
    worlds: u64,
    with_two_writers: u64,
    with_takeovers: u64,
    with_long_stalls: u64,
    repeated: u64,
    differed: u64,
    failed: Vec<(u64, String)>,
}

impl Total {
    fn add(&mut self, seed: u64, outcome: Outcome) {
        let sum = &mut self.sum;
        self.worlds += 1;
        self.with_two_writers += u64::from(outcome.writers > 1);
        self.with_takeovers += u64::from(outcome.takeovers > 0);
        self.with_long_stalls += u64::from(outcome.tally.long_stalls > 0);
        sum.simulated += outcome.simulated;
        sum.takeovers += outcome.takeovers;
        sum.rewound += outcome.rewound;
        sum.gaps_filled += outcome.gaps_filled;
        sum.acknowledged += outcome.acknowledged;
        sum.tally.calls += outcome.tally.calls;
        sum.tally.puts += outcome.tally.puts;
        sum.tally.faults += outcome.tally.faults;
        sum.tally.lost_answers += outcome.tally.lost_answers;
        sum.tally.late += outcome.tally.late;
        sum.tally.long_stalls += outcome.tally.long_stalls;
        self.failed.extend(outcome.violations.into_iter().map(|violation| (seed, violation)));
    }
}

/// Runs `work` for seeds, on two threads, until it returns false.
fn for_seeds(first: u64, count: u64, work: impl Fn(u64) -> bool + Sync) {
    let next = AtomicU64::new(first);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Relaxed);
                    if seed >= first + count || !work(seed) {
                        return;
                    }
                }
            });
        }
    });
}

/// The campaign `ground cloud`.
pub fn cloud(args: &CloudArgs) -> Report {
    let total = Mutex::new(Total::default());
    for_seeds(args.seed, args.worlds, |seed| {
        let outcome = live(seed, args.mutant);
        let again = seed.is_multiple_of(REPEATED).then(|| live(seed, args.mutant).trace);
        let mut total = total.lock().unwrap();
        total.repeated += u64::from(again.is_some());
        total.differed += u64::from(again.is_some_and(|trace| trace != outcome.trace));
        total.add(seed, outcome);
        true
    });
    let total = total.into_inner().unwrap();
    println!("seeds {} to {}", args.seed, args.seed + args.worlds - 1);
    for (seed, violation) in total.failed.iter().take(40) {
        println!("seed {seed}: {violation}");
        println!("  again: cargo run -p siltstone-sim -- cloud --seed {seed} --worlds 1");
    }
    figures(args, &total)
}

fn figures(args: &CloudArgs, total: &Total) -> Report {
    let whole = args.worlds >= WHOLE;
    let at_least = |least: u64| if whole { Goal::AtLeast(least) } else { Goal::None };
    let (sum, tally) = (&total.sum, &total.sum.tally);
    let share = |part: u64, of: u64| part * 1000 / of.max(1);
    let mut report = Report::new("cloud");
    report
        .figure("worlds", total.worlds, at_least(500))
        .figure("simulated hours", sum.simulated.as_secs() / 3600, at_least(24))
        .figure("calls", tally.calls, Goal::None)
        .figure("faults injected", tally.faults, at_least(1_000_000))
        .figure("answers lost, of 1000 puts", share(tally.lost_answers, tally.puts), at_least(50))
        .figure("calls that took effect late", tally.late, Goal::None)
        .figure("stalls longer than collectors wait", tally.long_stalls, Goal::None)
        .figure(
            "worlds with such, of 1000",
            share(total.with_long_stalls, total.worlds),
            at_least(200),
        )
        .figure(
            "worlds with two writers, of 1000",
            share(total.with_two_writers, total.worlds),
            at_least(200),
        )
        .figure(
            "worlds with takeovers, of 1000",
            share(total.with_takeovers, total.worlds),
            at_least(200),
        )
        .figure("takeovers", sum.takeovers, Goal::None)
        .figure("databases set back", sum.rewound, Goal::None)
        .figure("records put into gaps", sum.gaps_filled, at_least(1))
        .figure("commits acknowledged", sum.acknowledged, Goal::None)
        .figure("violations", total.failed.len() as u64, Goal::AtMost(0))
        .figure("worlds lived again", total.repeated, Goal::None)
        .figure("of these, not the same", total.differed, Goal::AtMost(0));
    report
}

/// The campaign `ground cloud-mutants`.
pub fn mutants(args: &CloudMutantArgs) -> Report {
    let mutants = args.only.map_or_else(|| Mutant::ALL.to_vec(), |only| vec![only]);
    let missed = AtomicU64::new(0);
    for_seeds(0, mutants.len() as u64, |index| {
        let mutant = mutants[index as usize];
        let found = (args.seed..args.seed + args.worlds).find_map(|seed| {
            let violation = live(seed, Some(mutant)).violations.into_iter().next()?;
            Some(format!("seed {seed}: {violation}"))
        });
        match found {
            Some(found) => println!("noticed {mutant}: {found}"),
            None => {
                missed.fetch_add(1, Relaxed);
                println!("MISSED {mutant}");
            }
        }
        true
    });
    let mut report = Report::new("cloud-mutants");
    report.figure("mutants", mutants.len() as u64, Goal::None).figure(
        "missed",
        missed.into_inner(),
        Goal::AtMost(0),
    );
    report
}
