//! Reproducible randomness for tests and measurements: what they did can be done again from the
//! seed that they print.

use std::env;
use std::hash::{BuildHasher, Hasher, RandomState};

/// A SplitMix64 generator: one addition and three mixing steps per number.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The generator of `seed`.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// The generator of the seed in `SILTSTONE_SEED`, else of a fresh one. Prints the seed, which a
    /// test shows when it fails.
    ///
    /// # Panics
    ///
    /// If the variable holds no decimal number.
    pub fn for_test() -> Rng {
        let seed = match env::var("SILTSTONE_SEED") {
            Ok(text) => text.parse().expect("SILTSTONE_SEED holds a decimal number"),
            // The keys of a new hasher are the standard library's only random numbers.
            Err(_) => RandomState::new().build_hasher().finish(),
        };
        println!("SILTSTONE_SEED={seed}");
        Rng::new(seed)
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`, which must not be zero. Its bias is far below what a test can see.
    pub fn below(&mut self, limit: usize) -> usize {
        ((u128::from(self.number()) * limit as u128) >> 64) as usize
    }

    /// True once in `times`, on average.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One of `choices`.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// `len` random bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.number() as u8).collect()
    }

    /// Puts `items` into random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}
