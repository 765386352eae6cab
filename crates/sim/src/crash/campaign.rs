//! Many seeds on two threads, and the figures of all.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use clap::Args;
use siltstone::Site;

use super::explore::{Explorer, Place, Plan, Tally};
use super::mutant::Mutant;
use super::script::{Flavour, play};
use crate::report::{Goal, Report};

/// Crashes at every call that changes the disk
#[derive(Args, Clone, Debug)]
pub struct CrashArgs {
    /// The first seed
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Workloads to run, one seed each
    #[arg(long, default_value_t = 72)]
    pub workloads: u64,
    /// Power cuts at each call
    #[arg(long, default_value_t = 12)]
    pub cuts: usize,
    /// Look at one place alone, as a failure names it: 812.3/17.0
    #[arg(long)]
    pub at: Option<Place>,
    /// Leave out a sync, as `ground mutants` names it
    #[arg(long)]
    pub mutant: Option<Mutant>,
    /// Stop at the first violation
    #[arg(long)]
    pub first: bool,
}

/// Syncs left out one by one, to see each found
#[derive(Args, Clone, Debug)]
pub struct MutantArgs {
    /// The first seed
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Workloads to try on each mutant
    #[arg(long, default_value_t = 36)]
    pub workloads: u64,
    /// Only this mutant
    #[arg(long)]
    pub only: Option<Mutant>,
}

/// Each named site is crashed before and after at least so often in a whole campaign.
const CRASHES_PER_SITE: u64 = 10;
/// Workloads of a whole campaign.
const WHOLE: u64 = 72;
/// A trace is compared for one of so many seeds.
const REPLAYED: u64 = 20;

fn plan(seed: u64, cuts: usize) -> Plan {
    // Long keys make costly images.
    let (cuts, nest) = if Flavour::of(seed) == Flavour::LongKeys { (4, 40) } else { (cuts, 16) };
    Plan { cuts, stride: 1, nest, levels: 3, first_only: false }
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

/// The campaign `ground crash`.
pub fn crash(args: &CrashArgs) -> Report {
    let mutant = args.mutant;
    let mut report = Report::new("crash");
    if let Some(place) = &args.at {
        let run = play(args.seed, mutant);
        let found = Explorer::new(args.seed, mutant, plan(args.seed, args.cuts)).visit(&run, place);
        println!("{}", found.as_ref().map_or("all is well".into(), ToString::to_string));
        report.figure("violations", u64::from(found.is_some()), Goal::AtMost(0));
        return report;
    }
    let total = Mutex::new(Tally::default());
    let changed = AtomicU64::new(0);
    for_seeds(args.seed, args.workloads, |seed| {
        let run = play(seed, mutant);
        if seed.is_multiple_of(REPLAYED) && play(seed, mutant).trace_hash != run.trace_hash {
            changed.fetch_add(1, Relaxed);
        }
        let plan = Plan { first_only: args.first, ..plan(seed, args.cuts) };
        let mut explorer = Explorer::new(seed, mutant, plan);
        explorer.explore(&run);
        let mut total = lock(&total);
        total.add(explorer.tally);
        !args.first || total.violations.is_empty()
    });
    let total = total.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    println!("seeds {} to {}", args.seed, args.seed + args.workloads - 1);
    print_violations(&total);
    fill(&mut report, args, &total);
    report.figure("seeds whose trace changed", changed.into_inner(), Goal::AtMost(0));
    report
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn print_violations(total: &Tally) {
    for (seed, place, violation) in total.violations.iter().take(100) {
        println!("seed {seed} at {place}: {violation}");
        println!("  again: cargo run -p siltstone-sim -- crash --seed {seed} --at {place}");
    }
}

/// Sites that no workload reaches, with the reason.
const OUT_OF_REACH: [(Site, &str); 0] = [];

fn fill(report: &mut Report, args: &CrashArgs, total: &Tally) {
    let whole = args.workloads >= WHOLE;
    let goal = |goal: Goal| if whole { goal } else { Goal::None };
    let rare: Vec<_> = Site::ALL
        .iter()
        .filter(|site| !OUT_OF_REACH.iter().any(|(out, _)| out == *site))
        .map(|site| (site, total.sites.get(site).copied().unwrap_or_default()))
        .filter(|(_, (before, after))| *before.min(after) < CRASHES_PER_SITE)
        .collect();
    for (site, (before, after)) in &rare {
        println!("rare: {} ({before} crashes before, {after} after)", site.name());
    }
    report
        .figure("crash points", total.points, goal(Goal::AtLeast(10_000)))
        .figure("crash points in recoveries", total.nested_points, Goal::None)
        .figure("images", total.images.len() as u64, goal(Goal::AtLeast(100_000)))
        .figure("recoveries checked", total.surveys, Goal::None)
        .figure("of these in recoveries", total.levels[1], Goal::None)
        .figure("of these in recoveries of recoveries", total.levels[2], Goal::None)
        .figure("violations", total.violations.len() as u64, Goal::AtMost(0))
        .figure(
            "sites crashed less than 10 times before or after",
            rare.len() as u64,
            goal(Goal::AtMost(0)),
        );
}

/// The campaign `ground mutants`.
pub fn mutants(args: &MutantArgs) -> Report {
    let mutants = args.only.map_or_else(Mutant::all, |only| vec![only]);
    let missed = Mutex::new(Vec::new());
    for_seeds(0, mutants.len() as u64, |index| {
        let mutant = mutants[index as usize];
        match find(mutant, args) {
            Some(found) => println!("found {mutant}: {found}"),
            None => lock(&missed).push(mutant),
        }
        true
    });
    let missed = missed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    missed.iter().for_each(|mutant| println!("MISSED {mutant}"));
    let mut report = Report::new("mutants");
    report.figure("mutants", mutants.len() as u64, Goal::None).figure(
        "missed",
        missed.len() as u64,
        Goal::AtMost(0),
    );
    report
}

fn find(mutant: Mutant, args: &MutantArgs) -> Option<String> {
    for seed in args.seed..args.seed + args.workloads {
        let run = play(seed, Some(mutant));
        if !run.journal.iter().any(|entry| entry.site == mutant.site) {
            continue;
        }
        let plan = Plan { first_only: true, ..plan(seed, 6) };
        let mut explorer = Explorer::new(seed, Some(mutant), plan);
        explorer.explore(&run);
        if let Some((seed, place, violation)) = explorer.tally.violations.first() {
            let text: String = violation.to_string().chars().take(90).collect();
            return Some(format!("seed {seed} at {place}: {text}"));
        }
    }
    None
}
