//! One case of the sweep: a workload, the call that fails in it, how, and for how long.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use clap::ValueEnum;

use super::afterwards;
use super::promise::{Broken, Checked, Promise};
use super::user::User;
use super::workloads::Workload;
use crate::Dice;
use crate::fs::fault::{Fault, Fired, NAMED};

/// For how long calls fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Mode {
    /// The one call.
    Once,
    /// It and all after it that the fault suits, until the disk is healed.
    Forever,
    /// It, and another one soon after.
    Twice,
    /// Any call, in any way, by chance. The number of the call stands for the throw of the dice.
    Chance,
}

#[derive(Clone, Copy)]
pub(crate) struct Case<'a> {
    pub(crate) seed: u64,
    pub(crate) workload: &'a Workload,
    pub(crate) call: u64,
    /// The first one's way to fail; none if chance decides.
    pub(crate) fault: Option<(&'static str, Fault)>,
    pub(crate) mode: Mode,
}

/// The command that runs this case alone.
impl fmt::Display for Case<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { seed, workload, call, fault, mode } = self;
        write!(f, "cargo run -p siltstone-sim --bin ground -- faults --seed {seed}")?;
        write!(f, " --workload {} --call {call}", workload.name)?;
        if let Some((name, _)) = fault {
            write!(f, " --fault {name}")?;
        }
        let mode = mode.to_possible_value();
        write!(f, " --mode {}", mode.as_ref().map_or("", |value| value.get_name()))
    }
}

/// What came of a case.
pub(crate) struct Outcome {
    /// The faults that struck, without those that belong to the workload.
    pub(crate) fired: Vec<Fired>,
    pub(crate) checked: Checked,
}

/// Calls after which a run that makes `calls` without faults is taken to go round in circles.
fn limit(calls: u64) -> u64 {
    10_000 + 100 * calls
}

impl Case<'_> {
    /// Runs the workload, which makes `calls` calls if nothing fails, and checks all promises.
    pub(crate) fn run(&self, calls: u64) -> Outcome {
        let mut fired = Vec::new();
        let ran = catch_unwind(AssertUnwindSafe(|| self.run_within(calls, &mut fired)));
        let checked = ran.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
            let circles = text.contains("round in circles");
            if circles { Promise::NoHang } else { Promise::NoPanic }.broken(text)
        });
        Outcome { fired, checked }
    }

    fn run_within(&self, calls: u64, fired: &mut Vec<Fired>) -> Checked {
        let mut user = prepared(self.workload)?;
        user.faults.limit_calls(limit(calls));
        self.set_rules(&user);
        let ran = (self.workload.run)(&mut user);
        let checked = ran.and_then(|()| afterwards::check(&mut user));
        *fired = user.faults.all_fired();
        // Faults that belong to the workload have no part in the count.
        fired.retain(|fired| !fired.by_place);
        checked
    }

    fn set_rules(&self, user: &User) {
        let faults = &user.faults;
        let mut dice = Dice::new(mix(self.seed, self.call));
        let Some((_, fault)) = self.fault else {
            if self.mode == Mode::Once {
                return; // No fault at all.
            }
            faults
                .fail_by_chance(mix(self.seed, self.call), [4, 12, 40, 120][dice.roll(4) as usize]);
            return;
        };
        match self.mode {
            Mode::Once | Mode::Chance => faults.fail_call(self.call, fault),
            Mode::Forever => faults.fail_calls_from(self.call, fault),
            Mode::Twice => {
                faults.fail_call(self.call, fault);
                let again = NAMED[dice.roll(NAMED.len() as u64) as usize].1;
                faults.fail_call(self.call + 1 + dice.roll(30), again);
            }
        }
    }
}

/// A user at the point from which on calls may fail.
pub(crate) fn prepared(workload: &Workload) -> Checked<User> {
    let mut user = User::new(workload.tune);
    let faults = user.faults.clone();
    let ready = faults.aside(|| (workload.prepare)(&mut user));
    ready.map_err(|broken| Broken { how: format!("preparing: {}", broken.how), ..broken })?;
    Ok(user)
}

/// Chance that depends on both, and is no zero.
pub(crate) fn mix(seed: u64, call: u64) -> u64 {
    let mixed =
        (seed ^ call.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ (mixed >> 29)) | 1
}
