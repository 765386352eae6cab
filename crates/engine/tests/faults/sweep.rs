//! A slice of the fault sweep: any call may fail. All of it is `ground faults`.

use siltstone_sim::faults::{Args, run};

#[test]
fn any_call_may_fail() {
    let report = run(&Args { every: 43, chances: 300, ..Args::default() });
    assert!(report.passed(), "{}", report.lines());
    assert!(report.value("cases with an injected fault") > 500, "{}", report.lines());
}
