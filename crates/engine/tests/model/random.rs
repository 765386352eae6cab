//! Randomness that is a function of a seed, on every machine and in every version.

use std::hash::{BuildHasher, RandomState};

/// SplitMix64: small, and good enough to pick operations.
#[derive(Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u32) -> u32 {
        (self.next() % u64::from(end)) as u32
    }

    /// A number in `[from, end)`.
    pub(crate) fn between(&mut self, from: u32, end: u32) -> u32 {
        from + self.below(end - from)
    }

    /// True once in `n` times.
    pub(crate) fn one_in(&mut self, n: u32) -> bool {
        self.below(n) == 0
    }
}

/// A seed that no earlier process had.
pub(crate) fn fresh_seed() -> u64 {
    RandomState::new().hash_one(std::process::id())
}
