//! The bodies on the public API, over their kept corpora and over random changes of them.

use siltstone_fuzz::{Target, plain};

fn check(name: &str, runs: u64) {
    let body = Target::find(name).and_then(Target::body).expect("its body stands here");
    plain::check(name, body, runs);
}

#[test]
fn wal() {
    check("wal", 3_000);
}

#[test]
fn folder() {
    check("folder", 5_000);
}

#[test]
fn operations() {
    check("operations", 2_000);
}

#[test]
fn damage() {
    check("damage", 2_000);
}
