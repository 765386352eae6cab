//! Counts what a sweep did and found.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clap::ValueEnum;
use siltstone::Site;

use super::case::{Case, Mode, Outcome};
use super::promise::Promise;
use crate::Report;
use crate::fs::fault::{Fault, NAMED, Op};
use crate::report::Goal;

/// Breaches told in full; more are only counted.
const TOLD_MAX: u64 = 20;

#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) cases: u64,
    /// Cases whose fault did strike.
    struck: u64,
    faults: BTreeMap<Fault, u64>,
    modes: BTreeMap<Mode, u64>,
    sites: BTreeSet<Site>,
    ops: BTreeSet<Op>,
    breaches: BTreeMap<Promise, u64>,
}

impl Tally {
    pub(crate) fn note(&mut self, case: &Case<'_>, outcome: &Outcome) {
        self.cases += 1;
        if !outcome.fired.is_empty() {
            self.struck += 1;
            *self.modes.entry(case.mode).or_default() += 1;
        }
        for fired in &outcome.fired {
            *self.faults.entry(fired.fault).or_default() += 1;
            self.sites.extend(fired.site);
            self.ops.insert(fired.op);
        }
        if let Err(broken) = &outcome.checked {
            if self.breaches.values().sum::<u64>() < TOLD_MAX {
                eprintln!("FAILED: {}: {}\n  replay: {case}", broken.promise.breach(), broken.how);
            }
            *self.breaches.entry(broken.promise).or_default() += 1;
        }
    }

    /// The figures. `whole` has the goals of a whole sweep; a part of one must only find nothing.
    pub(crate) fn report(&self, elapsed: Duration, whole: bool) -> Report {
        let goal = |goal| if whole { goal } else { Goal::None };
        let mut report = Report::new("faults");
        report.figure("cases with an injected fault", self.struck, goal(Goal::AtLeast(20_000)));
        report.figure("faults injected in all", self.faults.values().sum(), Goal::None);
        for (mode, count) in &self.modes {
            let name = mode.to_possible_value().map(|value| value.get_name().to_owned());
            report.figure(&format!("cases, {}", name.unwrap_or_default()), *count, Goal::None);
        }
        for (name, fault) in NAMED {
            let count = self.faults.get(&fault).copied().unwrap_or(0);
            report.figure(&format!("faults, {name}"), count, goal(Goal::AtLeast(100)));
        }
        for promise in Promise::ALL {
            let count = self.breaches.get(&promise).copied().unwrap_or(0);
            report.figure(promise.breach(), count, Goal::AtMost(0));
        }
        report.figure("kinds of calls failed", self.ops.len() as u64, Goal::None);
        report.figure("sites failed", self.sites.len() as u64, Goal::None);
        let missed: Vec<Site> =
            Site::ALL.iter().copied().filter(|site| !self.sites.contains(site)).collect();
        if whole && !missed.is_empty() {
            let names: Vec<&str> = missed.iter().map(|site| site.name()).collect();
            eprintln!("sites that no fault struck: {}", names.join(", "));
        }
        report.figure("sites never failed", missed.len() as u64, goal(Goal::AtMost(0)));
        report.figure("seconds", elapsed.as_secs(), Goal::None);
        report
    }
}
