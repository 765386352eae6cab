//! A slice of each campaign, so that `cargo test` notices most of what the whole would. The whole is run
//! by `cargo xtask ground`.

use siltstone_sim::cloud::campaign::{self as clouds, CloudArgs, CloudMutantArgs};
use siltstone_sim::crash::campaign::{CrashArgs, MutantArgs, crash, mutants};

#[test]
fn crashes() {
    let args =
        CrashArgs { seed: 1001, workloads: 9, cuts: 1, at: None, mutant: None, first: false };
    let report = crash(&args);
    assert!(report.passed(), "{}", report.lines());
}

/// A harness that lets these pass would prove nothing.
#[test]
fn syncs_that_are_left_out_are_noticed() {
    for mutant in ["wal.sync:left-out", "table.sync:left-out", "current.dir.sync:left-out"] {
        let args = MutantArgs { seed: 1, workloads: 9, only: Some(mutant.parse().unwrap()) };
        assert!(mutants(&args).passed(), "{mutant} was not noticed");
    }
}

#[test]
fn databases_in_bad_weather() {
    let report = clouds::cloud(&CloudArgs { seed: 20, worlds: 41, mutant: None });
    assert!(report.passed(), "{}", report.lines());
    assert!(report.value("worlds lived again") >= 3, "{}", report.lines());
}

#[test]
fn rules_of_the_cloud_that_are_switched_off_are_noticed() {
    let report = clouds::mutants(&CloudMutantArgs { seed: 1, worlds: 60, only: None });
    assert!(report.passed(), "{}", report.lines());
}
