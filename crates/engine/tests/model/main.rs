//! The whole database against an ordered map: random operations on many option sets.
//!
//! | variable | meaning |
//! |----------|---------|
//! | `SILTSTONE_MODEL_OPS` | operations of all runs together |
//! | `SILTSTONE_SET` | only this option set |
//! | `SILTSTONE_SEED` | only this seed |
//! | `SILTSTONE_RUN_LEN` | operations of one run |
//! | `SILTSTONE_KEEP` | of each run only the operations with these indices |
//!
//! A run is a function of its set, seed and length, but for the lanes' timing. A failing run is
//! shrunk, and reported with the commands that repeat it.
#![allow(clippy::disallowed_methods, reason = "tests start threads as they please")]
#![allow(clippy::unwrap_used, reason = "tests may")]

mod campaign;
mod operation;
mod option_sets;
mod order;
mod random;
mod reference;
mod run;
mod shrink;
#[path = "../support/mod.rs"]
mod support;

use std::io::Write;

use campaign::Job;
use operation::Operation;
use option_sets::SETS;
use reference::Flaw;

#[test]
fn the_database_agrees_with_the_model() {
    let total = campaign::run_all();
    // Past the harness, which keeps what passing tests print.
    let _ = writeln!(std::io::stderr(), "model: {total:?}");
    assert!(total.operations > 0);
}

/// A wrong model must be noticed, and the failing list shrink to what shows the flaw.
fn shrinks_to(flaw: Flaw, most: usize) -> Vec<Operation> {
    let set = SETS.iter().find(|set| set.name == "hand-tiny").unwrap();
    let job = Job { set, seed: 1, len: 3000, flaw };
    let failure = job.run(None).expect_err("the model is wrong");
    println!("{}", failure.report());
    assert!(failure.operations.len() <= most, "{}", failure.report());
    let again = job.run(Some(&failure.kept)).expect_err("the shrunk list fails, too");
    assert_eq!(again.kept, failure.kept);
    failure.operations
}

#[test]
fn a_model_that_forgets_deletions_is_found_out() {
    let operations = shrinks_to(Flaw::ForgetsDeletions, 3);
    assert!(operations.iter().any(|operation| matches!(operation, Operation::Delete { .. })));
}

#[test]
fn a_model_whose_views_move_is_found_out() {
    shrinks_to(Flaw::ViewsMove, 4);
}

#[test]
fn a_model_that_loses_the_last_write_at_reopen_is_found_out() {
    shrinks_to(Flaw::ReopenLosesTheLastWrite, 2);
}
