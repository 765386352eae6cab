//! A slice of the differential campaign: random operations on every option set against an ordered
//! map, and the sets against each other. The whole of it is `ground differential`.

use siltstone_sim::differential::{Args, run};

#[test]
fn the_database_agrees_with_the_model() {
    let report = run(&Args { operations: 60_000, len: 2000, ..Args::default() });
    assert!(report.passed(), "{}", report.lines());
}
