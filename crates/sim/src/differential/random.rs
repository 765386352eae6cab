//! Randomness that is a function of a seed, and digests, on every machine and in every version.

/// SplitMix64: small, and good enough to pick operations.
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    #[expect(clippy::should_implement_trait, reason = "it has no end")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.0)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u32) -> u32 {
        (self.next() % u64::from(end)) as u32
    }

    /// A number in `[from, end)`.
    pub fn between(&mut self, from: u32, end: u32) -> u32 {
        from + self.below(end - from)
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u32) -> bool {
        self.below(n) == 0
    }

    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u32) as usize]
    }
}

fn mixed(mut number: u64) -> u64 {
    number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// A hash of all that it was given, in order. Fast, and safe only from accidents.
#[derive(Clone, Copy, Default)]
pub struct Digest(u64);

impl Digest {
    pub fn number(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    /// Adds the bytes, and where they end.
    pub fn bytes(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.number(u64::from_le_bytes(*word)));
        rest.iter().for_each(|byte| self.number(u64::from(*byte)));
        self.number(bytes.len() as u64);
    }

    pub fn value(self) -> u64 {
        mixed(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Digest;

    fn digest(parts: &[&[u8]]) -> u64 {
        let mut digest = Digest::default();
        parts.iter().for_each(|part| digest.bytes(part));
        digest.value()
    }

    #[test]
    fn every_byte_and_border_counts() {
        let whole: &[u8] = b"0123456789";
        assert_eq!(digest(&[whole]), digest(&[whole]));
        assert_ne!(digest(&[whole]), digest(&[&whole[..9]]));
        assert_ne!(digest(&[b"ab", b"c"]), digest(&[b"a", b"bc"]));
        assert_ne!(digest(&[b"", b"a"]), digest(&[b"a", b""]));
        for at in 0..whole.len() {
            let mut other = whole.to_vec();
            other[at] ^= 1;
            assert_ne!(digest(&[whole]), digest(&[&other]));
        }
    }
}
