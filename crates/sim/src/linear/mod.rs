//! Campaign `linear`: real threads on a real database, with its lanes, on few keys; and a checker
//! that says whether what they were told could have come from one thing after another.
//!
//! What the callers do follows from the seed. When they do it does not: threads are the system's
//! here, so a failure comes with its history, and running the seed again may need many rounds.

mod checker;
mod history;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use siltstone::{Db, Env, Level0Limits, Options, Site};

use crate::fs::watch::{WatchFs, Watcher};
use crate::report::Goal;
use crate::{Dice, Fault, FaultFs, Report};
use history::{Caller, GROUPS, KEYS, Op, Recorder};

#[derive(clap::Args)]
pub struct Args {
    /// Histories to record and check
    #[arg(long, default_value_t = 200)]
    histories: u64,
    /// The seed of the first history; the others' follow it
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

const THREADS: usize = 8;
const OPERATIONS: usize = 400;
/// One history in so many has faults.
const FAULTS_IN: u64 = 4;
const DIR: &str = "/db";

#[derive(Default)]
struct Tally {
    operations: u64,
    overlapping: u64,
    unknown: u64,
    flushes: u64,
    bad: u64,
}

/// Runs the campaign.
pub fn run(args: &Args) -> Report {
    println!("seed {}", args.seed);
    let mut tally = Tally::default();
    for seed in args.seed..args.seed + args.histories {
        if !run_one(seed, &mut tally) {
            tally.bad += 1;
            eprintln!(
                "repeat: cargo run -p siltstone-sim --bin ground -- linear --histories 1 --seed {seed}"
            );
        }
    }
    let mut report = Report::new("linear");
    report
        .figure("histories", args.histories, Goal::AtLeast(args.histories))
        .figure("not linearizable", tally.bad, Goal::AtMost(0))
        .figure("operations", tally.operations, Goal::AtLeast(2_500 * args.histories))
        .figure("that overlapped others", tally.overlapping, Goal::AtLeast(25 * args.histories))
        .figure("of unknown outcome", tally.unknown, Goal::AtLeast(args.histories / FAULTS_IN))
        .figure("flushes", tally.flushes, Goal::AtLeast(args.histories));
    report
}

/// Records one history and checks it.
fn run_one(seed: u64, tally: &mut Tally) -> bool {
    let groups = record(seed, tally);
    let mut well = true;
    for (group, ops) in groups.iter().enumerate() {
        tally.operations += ops.len() as u64;
        tally.overlapping += overlapping(ops);
        tally.unknown += ops.iter().filter(|op| op.answered.is_none()).count() as u64;
        if !checker::linearizable(ops) {
            eprintln!("seed {seed}, group {group} is not linearizable:");
            ops.iter().for_each(|op| eprintln!("  {op:?}"));
            well = false;
        }
    }
    well
}

/// Lets the threads loose, reopens the database at the end, and reads it all.
fn record(seed: u64, tally: &mut Tally) -> Vec<Vec<Op>> {
    let mut dice = Dice::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut env = Env::memory();
    env.file_system = WatchFs::new(env.file_system, Arc::new(Restless::default()));
    let (env, faults) = FaultFs::over(env);
    let options = options(env);
    let db = Db::open(DIR, options.clone()).unwrap();
    if seed.is_multiple_of(FAULTS_IN) {
        set_faults(&faults, &mut dice);
    }
    let recorder = Recorder::new();
    let mut done = let_loose(&db, &recorder, &mut dice);
    tally.flushes += db.metrics().flushes;
    faults.heal();
    let _ = db.close(); // After a fault it tells of it.
    let db = Db::open(DIR, options).unwrap();
    let mut reader = Caller::new(&db, &recorder, THREADS, 1);
    let all: Vec<usize> = (0..KEYS).collect();
    (0..GROUPS).for_each(|group| reader.read(group, &all));
    done.append(&mut reader.done);
    let mut groups = vec![Vec::new(); GROUPS];
    done.into_iter().for_each(|(group, op)| groups[group].push(op));
    groups.iter_mut().for_each(|ops| ops.sort_by_key(|op| op.call));
    groups
}

/// What each thread does follows from `dice`.
fn let_loose(db: &Db, recorder: &Recorder, dice: &mut Dice) -> Vec<(usize, Op)> {
    std::thread::scope(|scope| {
        let start = |thread| {
            let mut caller = Caller::new(db, recorder, thread, dice.roll(u64::MAX));
            scope.spawn(move || {
                (0..OPERATIONS).for_each(|_| caller.act());
                caller.done
            })
        };
        let threads: Vec<_> = (0..THREADS).map(start).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

/// A full disk now and then, after which writing goes on; or an error that ends it.
fn set_faults(faults: &FaultFs, dice: &mut Dice) {
    const FULL: [Site; 4] = [Site::WalAppend, Site::WalSync, Site::WalCreate, Site::TableAppend];
    FULL.iter().for_each(|site| faults.fail_nth(*site, 1 + dice.roll(40), Fault::NoSpace));
    faults.fail_nth(Site::WalAppend, 3 + dice.roll(200), Fault::Full(7));
    if dice.roll(2) == 0 {
        faults.fail_nth(Site::WalSync, 10 + dice.roll(30), Fault::Io);
    }
}

fn options(env: Env) -> Options {
    Options {
        create_if_missing: true,
        env,
        info_log: false,
        unclamped: true,
        write_buffer_size: 6 << 10,
        max_file_size: 4 << 10,
        block_size: 512,
        level0: Level0Limits { compact: 2, slow_down: 6, stop: 8 },
        level1_bytes: 8 << 10,
        ..Options::default()
    }
}

/// Gives way to other threads at every other call of the file system: on few processors, threads
/// would hardly meet otherwise.
#[derive(Default)]
struct Restless(AtomicU64);

impl Watcher for Restless {
    fn done(&self, _: Site, _: &std::path::Path, _: &[u8]) {
        if self.0.fetch_add(1, Relaxed).is_multiple_of(2) {
            std::thread::yield_now();
        }
    }
}

/// Operations that were called before an earlier one was answered.
fn overlapping(ops: &[Op]) -> u64 {
    let mut last = 0;
    let mut count = 0;
    for op in ops {
        count += u64::from(op.call < last);
        last = last.max(op.answered.unwrap_or(op.call));
    }
    count
}

#[cfg(test)]
mod tests {
    use super::history::Action;
    use super::*;

    #[test]
    fn a_few_histories_are_linearizable() {
        let mut tally = Tally::default();
        assert!((0..5).all(|seed| run_one(seed, &mut tally)));
        assert!(tally.unknown > 0 && tally.overlapping > 0 && tally.flushes > 0);
    }

    /// The checker sees one wrong answer among hundreds of right ones.
    #[test]
    fn a_recorded_history_with_one_answer_changed_is_not() {
        let mut groups = record(1, &mut Tally::default());
        let ops = &mut groups[0];
        let reads = ops.iter_mut().filter_map(|op| match &mut op.action {
            Action::Read(found) => Some(found),
            Action::Write(_) => None,
        });
        let changed = reads.flatten().nth(40).expect("there are more reads");
        changed.1 = 1_000_000; // Written by no one.
        assert!(!checker::linearizable(ops));
    }
}
