//! Chance that is the same in every run.

pub struct Dice(u64);

impl Dice {
    /// Any seed but zero.
    pub fn new(seed: u64) -> Self {
        Dice(seed)
    }

    /// A number below `sides`.
    pub fn roll(&mut self, sides: u64) -> u64 {
        // Marsaglia's xorshift; its upper bits are the better ones.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) % sides
    }
}
