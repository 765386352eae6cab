//! The fault sweep: SQLite's loop for a file system. Every workload is run once for every call that
//! it makes and every way in which that call may fail: once, from then on, twice; and then some with
//! faults by chance. After each run the disk is healed, and all promises are checked.
//!
//! ```text
//! workload without faults -> its calls: 1 open, 2 read, 3 append ...
//! for each call, each fault that suits it, each mode:
//!     workload with that fault -> reads right or refused -> heal
//!     -> crash, power cut, going on, closing, reopening: nothing lost, all sound, nothing left over
//! ```

mod afterwards;
mod case;
mod ledger;
mod promise;
mod reads;
mod tally;
mod user;
mod watch;
mod workloads;

use std::time::Instant;

pub use case::Mode;
use case::{Case, mix, prepared};
use tally::Tally;
use watch::Watch;
use workloads::Workload;

use crate::Report;
use crate::fs::fault::{Fault, NAMED, Op};

/// What to sweep. Without choices: everything.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Where chance begins
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Only this workload
    #[arg(long)]
    pub workload: Option<String>,
    /// Only this call of it
    #[arg(long)]
    pub call: Option<u64>,
    /// Only this fault: eio, enospc, torn-half ...
    #[arg(long)]
    pub fault: Option<String>,
    /// Only this mode
    #[arg(long)]
    pub mode: Option<Mode>,
    /// Runs with faults by chance, of each workload
    #[arg(long, default_value_t = 1200)]
    pub chances: u64,
    /// Of so many cases about one, as the seed has it
    #[arg(long, default_value_t = 1)]
    pub every: u64,
}

impl Default for Args {
    fn default() -> Self {
        Args {
            seed: 1,
            workload: None,
            call: None,
            fault: None,
            mode: None,
            chances: 300,
            every: 1,
        }
    }
}

impl Args {
    fn is_whole(&self) -> bool {
        self.every == 1
            && self.workload.is_none()
            && self.call.is_none()
            && self.fault.is_none()
            && self.mode.is_none()
    }

    fn wants(&self, case: &Case<'_>) -> bool {
        self.call.is_none_or(|call| call == case.call)
            && self.mode.is_none_or(|mode| mode == case.mode)
            && self.fault.as_deref().is_none_or(|name| case.fault.is_some_and(|it| it.0 == name))
    }
}

/// Sweeps, and tells what was found.
pub fn run(args: &Args) -> Report {
    let begun = Instant::now();
    let (mut tally, watch) = (Tally::default(), Watch::start());
    let mut number = 0;
    for workload in workloads::ALL {
        if args.workload.as_deref().is_some_and(|name| name != workload.name) {
            continue;
        }
        let calls = match calls_of(workload, args.seed, &watch, &mut tally) {
            Some(calls) => calls,
            None => continue,
        };
        for case in cases(args, workload, &calls).filter(|case| args.wants(case)) {
            number += 1;
            if (mix(args.seed, number) >> 8).is_multiple_of(args.every) {
                let outcome = watch.over(case.to_string(), || case.run(calls.len() as u64));
                tally.note(&case, &outcome);
            }
        }
    }
    tally.report(begun.elapsed(), args.is_whole())
}

/// The calls that a workload makes when nothing fails; none, and a breach, if it fails all the same.
fn calls_of(workload: &Workload, seed: u64, watch: &Watch, tally: &mut Tally) -> Option<Vec<Op>> {
    // No fault at all, but all the checks.
    let case = Case { seed, workload, call: 0, fault: None, mode: Mode::Once };
    let outcome = watch.over(case.to_string(), || case.run(0));
    let failed = outcome.checked.is_err();
    tally.note(&case, &outcome);
    if failed {
        return None;
    }
    let mut user = prepared(workload).ok()?;
    (workload.run)(&mut user).ok()?;
    Some(user.faults.all_calls().into_iter().map(|(op, _)| op).collect())
}

/// All cases of a workload that makes these calls.
fn cases<'a>(
    args: &Args,
    workload: &'a Workload,
    calls: &'a [Op],
) -> impl Iterator<Item = Case<'a>> {
    let seed = args.seed;
    let numbered = (1..).zip(calls);
    let single = numbered.flat_map(move |(call, op)| {
        let suiting = NAMED.into_iter().filter(|(_, fault)| fault.suits(*op));
        suiting.flat_map(move |fault| {
            let modes = [Mode::Once, Mode::Forever, Mode::Twice];
            modes.map(|mode| Case { seed, workload, call, fault: Some(fault), mode })
        })
    });
    let chances = (1..=args.chances).map(move |call| {
        let (fault, mode): (Option<(&'static str, Fault)>, _) = (None, Mode::Chance);
        Case { seed, workload, call, fault, mode }
    });
    single.chain(chances)
}
