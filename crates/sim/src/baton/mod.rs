//! Campaign `shuttle`: short lives of a database, run under many schedules of its threads.
//!
//! All locks, signals and atomics by which threads agree are Shuttle's here, so one thread runs at a
//! time, and a seed says which. A schedule is a function of its seed: every twentieth is run again,
//! and must make the same choices and the same calls of the file system. Only in builds with
//! `--cfg shuttle`: `cargo xtask shuttle`.

mod ledger;
mod scenarios;
mod scheduler;
mod stage;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use shuttle::{Config, FailurePersistence, MaxSteps, Runner};

use crate::Report;
use crate::report::Goal;
use scenarios::Scenario;
use scheduler::{Baton, REPEAT_EVERY, Trace};
use stage::{Stage, Tally};

#[derive(clap::Args)]
pub struct Args {
    /// Schedules, over all scenarios
    #[arg(long, default_value_t = 100_000)]
    schedules: u64,
    /// The seed of the first schedule; the others' follow it
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Only the scenario of this name
    #[arg(long)]
    only: Option<String>,
}

/// More steps than any scenario takes: who gets there goes round in circles.
const STEPS_MAX: usize = 200_000;
/// Frames of debug builds are large.
const STACK_BYTES: usize = 1 << 20;

/// Runs the campaign.
pub fn run(args: &Args) -> Report {
    let chosen =
        |scenario: &&Scenario| args.only.as_deref().is_none_or(|name| name == scenario.name);
    let chosen: Vec<&Scenario> = scenarios::ALL.iter().filter(chosen).collect();
    assert!(!chosen.is_empty(), "no scenario has that name");
    println!("seed {}", args.seed);
    let tally = Arc::new(Tally::default());
    let (mut failed, mut schedules, mut repeated, mut differed) = (0, 0, 0, 0);
    let each = args.schedules.div_ceil(chosen.len() as u64);
    for scenario in chosen {
        let trace = Arc::new(Trace::default());
        let begun = Instant::now();
        let well = explore(scenario, &trace, &tally, (args.seed, each));
        let of = |figure: &AtomicU64| figure.load(Relaxed);
        println!(
            "{:12} {} schedules, {} steps, {} ms",
            scenario.name,
            of(&trace.schedules),
            of(&trace.steps),
            begun.elapsed().as_millis()
        );
        schedules += of(&trace.schedules);
        repeated += of(&trace.repeated);
        differed += of(&trace.differed);
        if !well {
            failed += 1;
            break; // The thread that failed never ended: this one cannot go on from there.
        }
    }
    let mut report = Report::new("shuttle");
    report
        .figure("schedules", schedules, Goal::AtLeast(args.schedules))
        .figure("schedules that failed", failed, Goal::AtMost(0))
        .figure("schedules run again", repeated, Goal::AtLeast(args.schedules / REPEAT_EVERY))
        .figure("of these, not the same", differed, Goal::AtMost(0));
    tally_figures(&mut report, &tally, args);
    report
}

/// What happened on the way. Each must have happened often, or the schedules test little.
fn tally_figures(report: &mut Report, tally: &Tally, args: &Args) {
    let often = if args.only.is_none() { args.schedules / 100 } else { 0 };
    let figures = [
        ("snapshots read, sums exact", &tally.snapshots),
        ("databases opened again", &tally.reopened),
        ("power cuts", &tally.power_cuts),
        ("faults injected", &tally.faults),
        ("flushes", &tally.flushes),
        ("compactions", &tally.compactions),
        ("schedules in which writers shared a sync", &tally.groups),
        ("schedules in which writers waited for room", &tally.stalls),
    ];
    for (name, figure) in figures {
        report.figure(name, figure.load(Relaxed), Goal::AtLeast(often));
    }
}

/// Runs one scenario under the schedules of so many seeds; true if all went well.
fn explore(
    scenario: &'static Scenario,
    trace: &Arc<Trace>,
    tally: &Arc<Tally>,
    (seed, schedules): (u64, u64),
) -> bool {
    tell_how_to_repeat(scenario.name, Arc::clone(trace));
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.failure_persistence = FailurePersistence::None;
    config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
    config.silence_warnings = true;
    config.ungraceful_shutdown_config.immediately_return_on_panic = true;
    let runner = Runner::new(Baton::new(Arc::clone(trace), seed, schedules), config);
    let (trace, tally) = (Arc::clone(trace), Arc::clone(tally));
    let life = move || (scenario.run)(&Stage::new(Arc::clone(&trace), Arc::clone(&tally)));
    catch_unwind(AssertUnwindSafe(|| runner.run(life))).is_ok()
}

/// A panic is shown with the command that repeats its schedule: at once, for it may not come back to
/// us (a panic while unwinding ends the process).
fn tell_how_to_repeat(scenario: &'static str, trace: Arc<Trace>) {
    let _ = std::panic::take_hook();
    let show = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let seed = trace.seed();
        eprintln!("repeat: cargo xtask shuttle --only {scenario} --schedules 1 --seed {seed}");
        show(panic);
    }));
}
