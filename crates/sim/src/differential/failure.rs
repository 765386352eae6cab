//! Jobs: a list to run and what to claim of it. One that fails is shrunk by itself and told with
//! the commands that repeat it.

use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::generator::Generator;
use super::operation::Operation;
use super::option_sets::OptionSet;
use super::reference::Flaw;
use super::run::judge::{Mismatch, expect};
use super::run::{Outcome, run};
use super::shrink::shrink;

/// With lanes, a list that fails may pass by luck: it gets so many chances to fail.
const CHANCES: usize = 4;

/// Of a list that could not be shrunk, so many operations are told: what failed must not drown in them.
const OPERATIONS_TOLD: usize = 20;

/// One run to be done.
#[derive(Clone, Copy)]
pub struct Job {
    pub set: &'static OptionSet,
    pub seed: u64,
    pub len: usize,
    pub claim: Claim,
    pub flaw: Flaw,
}

/// What must hold, besides that the database agrees with the model.
#[derive(Clone, Copy)]
pub enum Claim {
    Agrees,
    /// A second run does the very same, down to its calls to the disk.
    Repeats,
    /// On another set the answers are the same.
    SameAs(&'static OptionSet),
}

/// A failing run, shrunk.
pub struct Failure {
    job: Job,
    first: String,
    last: String,
    /// Indices of the operations left.
    pub kept: Vec<usize>,
    pub operations: Vec<Operation>,
}

impl Job {
    fn operations(&self) -> Vec<Operation> {
        Generator::new(self.seed, self.set.keys).list(self.len, |_| true)
    }

    /// Runs the job, or the part of it that is kept; a failure comes back shrunk.
    pub fn run(&self, kept: Option<&[usize]>) -> Result<Outcome, Box<Failure>> {
        let operations = self.operations();
        let list = match kept {
            Some(kept) => select(&operations, kept),
            None => operations.clone(),
        };
        match self.attempt(&list) {
            Ok(outcome) => Ok(outcome),
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
    fn attempt(&self, list: &[Operation]) -> Result<Outcome, (usize, Mismatch)> {
        let ran = catch_unwind(AssertUnwindSafe(|| self.check(list)));
        ran.unwrap_or_else(|panic| {
            let told = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied());
            Err((list.len(), Mismatch(format!("panic: {}", told.unwrap_or("of unknown cause")))))
        })
    }

    fn check(&self, list: &[Operation]) -> Result<Outcome, (usize, Mismatch)> {
        let run = |set| run(set, self.seed, self.flaw, list);
        let outcome = run(self.set)?;
        let held = match self.claim {
            Claim::Agrees => Ok(()),
            Claim::Repeats => {
                let again = run(self.set)?;
                expect(outcome.trace == again.trace, || "a second run did otherwise".to_owned())
            }
            Claim::SameAs(other) => {
                let others = run(other)?;
                let same = outcome.answers == others.answers;
                expect(same, || format!("other answers than on {}", other.name))
            }
        };
        held.map_err(|mismatch| (list.len(), mismatch))?;
        Ok(outcome)
    }
}

fn select(operations: &[Operation], kept: &[usize]) -> Vec<Operation> {
    kept.iter().filter_map(|index| operations.get(*index)).cloned().collect()
}

impl Failure {
    pub fn report(&self) -> String {
        let Job { set, seed, len, claim, .. } = self.job;
        let kept: Vec<String> = self.kept.iter().map(ToString::to_string).collect();
        let mut text = format!(
            "set {} with seed {seed}: {}\nshrunk to {} of {len} operations: {}\n",
            set.name,
            self.first,
            kept.len(),
            self.last
        );
        let before = kept.len().saturating_sub(OPERATIONS_TOLD);
        if before > 0 {
            let _ = writeln!(text, "(the last {OPERATIONS_TOLD} of them)");
        }
        for (index, operation) in self.kept.iter().zip(&self.operations).skip(before) {
            let _ = writeln!(text, "{index:6}  {operation:?}");
        }
        let claim = match claim {
            Claim::Agrees => String::new(),
            Claim::Repeats => " --repeat".to_owned(),
            Claim::SameAs(other) => format!(" --same-as {}", other.name),
        };
        let replay = format!(
            "cargo run -p siltstone-sim --bin ground -- differential --seed {seed} --set {} --len \
             {len} --operations {len}{claim}",
            set.name
        );
        let _ = writeln!(text, "the whole run:   {replay}");
        let _ = writeln!(text, "the shrunk list: {replay} --keep {}", kept.join(","));
        if !set.is_deterministic() {
            text.push_str("Lanes depend on the machine's timing: it may take several tries.\n");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::differential::kind::Kind;
    use crate::differential::option_sets::SETS;

    fn set(name: &str) -> &'static OptionSet {
        SETS.iter().find(|set| set.name == name).unwrap()
    }

    /// A wrong model must be noticed, and the failing list shrink to what shows the flaw.
    fn shrinks_to(flaw: Flaw, most: usize) -> Vec<Operation> {
        let job = Job { set: set("hand-tiny"), seed: 1, len: 3000, claim: Claim::Agrees, flaw };
        let failure = job.run(None).err().expect("the model is wrong");
        println!("{}", failure.report());
        assert!(failure.operations.len() <= most, "{}", failure.report());
        let again = job.run(Some(&failure.kept)).err().expect("the shrunk list fails, too");
        assert_eq!(again.kept, failure.kept);
        failure.operations
    }

    #[test]
    fn a_model_that_forgets_deletions_is_found_out() {
        let operations = shrinks_to(Flaw::ForgetsDeletions, 3);
        let deletes =
            |kind| matches!(kind, Kind::Delete | Kind::DeleteSync | Kind::WriteUnderIterator);
        assert!(operations.iter().any(|operation| deletes(operation.kind)));
    }

    #[test]
    fn a_model_whose_views_move_is_found_out() {
        shrinks_to(Flaw::ViewsMove, 4);
    }

    #[test]
    fn a_model_that_loses_the_last_write_at_reopen_is_found_out() {
        shrinks_to(Flaw::ReopenLosesTheLastWrite, 2);
    }

    /// Keys that fold together in one order are two in the other: the answers must differ.
    #[test]
    fn sets_that_answer_differently_are_found_out() {
        let claim = Claim::SameAs(set("hand-folded"));
        let job = Job { set: set("hand-tiny"), seed: 1, len: 1000, claim, flaw: Flaw::None };
        let failure = job.run(None).err().expect("the orders differ");
        assert!(failure.operations.len() <= 4, "{}", failure.report());
        assert!(failure.report().contains("--same-as hand-folded"));
    }
}
