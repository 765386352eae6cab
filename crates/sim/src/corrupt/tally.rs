//! Counts outcomes, and tells of those that must not be.

use std::collections::BTreeMap;
use std::time::Duration;

use super::damage::Case;
use super::judge::Outcome;
use super::specimen::{Kind, Specimen};
use crate::Report;
use crate::report::Goal;

/// What a full run must have tried.
const CASES_MIN: u64 = 200_000;
const DECIDED_MIN: u64 = 5_000;
/// Failures told of one by one.
const TOLD_MAX: usize = 40;

#[derive(Default)]
pub(super) struct Tally {
    cases: u64,
    file_set: u64,
    by_kind: BTreeMap<Kind, u64>,
    wrong: u64,
    panics: u64,
    placeless: u64,
    overlooked: u64,
    tails: u64,
    damages: u64,
    foreign: u64,
    failures: Vec<String>,
}

impl Tally {
    /// `outcome` is `None` for a panic.
    pub(super) fn add(&mut self, specimen: &Specimen, case: &Case, outcome: Option<Outcome>) {
        self.cases += 1;
        *self.by_kind.entry(Kind::of(case.file_name(specimen))).or_default() += 1;
        self.file_set += u64::from(case.damage.is_of_file_set());
        let Some(outcome) = outcome else {
            self.panics += 1;
            return self.failures.push(format!("{}\n    panic", case.name(specimen)));
        };
        self.wrong += u64::from(!outcome.wrong.is_empty());
        self.placeless += u64::from(!outcome.placeless.is_empty());
        self.overlooked += u64::from(!outcome.overlooked.is_empty());
        self.tails += u64::from(outcome.tail);
        self.damages += u64::from(outcome.damage);
        self.foreign += u64::from(outcome.foreign);
        if !outcome.is_clean() {
            let lists = [outcome.wrong, outcome.placeless, outcome.overlooked];
            let told: Vec<String> = lists.into_iter().flatten().take(3).collect();
            self.failures.push(format!("{}\n    {}", case.name(specimen), told.join("\n    ")));
        }
    }

    pub(super) fn and(mut self, other: Tally) -> Self {
        self.cases += other.cases;
        self.file_set += other.file_set;
        for (kind, cases) in other.by_kind {
            *self.by_kind.entry(kind).or_default() += cases;
        }
        self.wrong += other.wrong;
        self.panics += other.panics;
        self.placeless += other.placeless;
        self.overlooked += other.overlooked;
        self.tails += other.tails;
        self.damages += other.damages;
        self.foreign += other.foreign;
        self.failures.extend(other.failures);
        self
    }

    pub(super) fn print_failures(&self, seed: u64) {
        for failure in self.failures.iter().take(TOLD_MAX) {
            let name = failure.lines().next().unwrap_or_default();
            println!("FAILED {failure}");
            println!(
                "    cargo run -p siltstone-sim --bin ground -- corrupt --seed {seed} --case '{name}'"
            );
        }
        if self.failures.len() > TOLD_MAX {
            println!("and {} more", self.failures.len() - TOLD_MAX);
        }
    }

    /// A part of the sweep has no least numbers of cases to reach.
    pub(super) fn report(&self, elapsed: Duration, is_full: bool) -> Report {
        let least = |cases| if is_full { Goal::AtLeast(cases) } else { Goal::AtLeast(1) };
        let none = Goal::AtMost(0);
        let mut report = Report::new("corrupt");
        report.figure("cases", self.cases, least(CASES_MIN));
        for kind in Kind::ALL {
            let cases = self.by_kind.get(&kind).copied().unwrap_or_default();
            report.figure(&format!("of a {}", kind.text()), cases, Goal::None);
        }
        report
            .figure("of the set of files", self.file_set, Goal::None)
            .figure("silently wrong or missing answers", self.wrong, none)
            .figure("panics", self.panics, none)
            .figure("errors without file or offset", self.placeless, none)
            .figure("damage that verify overlooked", self.overlooked, none)
            .figure("tails and damage told apart", self.tails + self.damages, least(DECIDED_MIN))
            .figure("of them tails", self.tails, Goal::None)
            .figure("of them damage", self.damages, Goal::None)
            .figure("files of a twin that nothing can tell", self.foreign, Goal::None)
            .figure("seconds", elapsed.as_secs(), Goal::None);
        report
    }
}
