//! The bodies over their kept corpora, and over random changes of them.

use siltstone_fuzz::plain;

use super::BODIES;

/// Checks one body. The number of random inputs is what takes about a second.
fn check(name: &str, runs: u64) {
    let (_, body) = BODIES.iter().find(|(body, _)| *body == name).unwrap();
    plain::check(name, *body, runs);
}

macro_rules! targets {
    ($($name:ident: $runs:literal,)+) => {
        $(#[test]
        fn $name() {
            check(stringify!($name), $runs);
        })+

        #[test]
        fn every_body_is_tested() {
            let tested = [$(stringify!($name)),+];
            assert!(BODIES.iter().map(|(name, _)| *name).eq(tested));
        }
    };
}

targets! {
    batch: 100_000,
    block: 20_000,
    decompress: 20_000,
    edit: 100_000,
    filter: 100_000,
    footer: 200_000,
    manifest: 20_000,
    names: 200_000,
    order: 100_000,
    record: 20_000,
    table: 10_000,
}
