//! Where keys and values come from: LevelDB's generators, number for number, so that two programs
//! with the same flags do the same operations; and a better one for the workloads that LevelDB lacks.

/// 2^31 - 1, a prime.
const MODULUS: u64 = 0x7fff_ffff;
const MULTIPLIER: u64 = 16_807;

/// The Lehmer generator that LevelDB's benchmark draws keys from.
#[derive(Clone, Debug)]
pub(crate) struct Lehmer(u64);

impl Lehmer {
    /// Every seed but the multiples of the modulus gives a full period; for those two, LevelDB's
    /// generator would stand still, and this one starts at 1.
    pub(crate) fn new(seed: u32) -> Self {
        let seed = u64::from(seed) & MODULUS;
        Lehmer(if seed == 0 || seed == MODULUS { 1 } else { seed })
    }

    #[inline]
    pub(crate) fn next(&mut self) -> u32 {
        self.0 = self.0 * MULTIPLIER % MODULUS;
        self.0 as u32
    }

    /// A number below `limit`; 0 for the limits 0 and 1.
    #[inline]
    pub(crate) fn below(&mut self, limit: u32) -> u32 {
        self.next() % limit.max(1)
    }
}

/// SplitMix64: all 64 bits are good, where Lehmer's 31 would leave steps in a distribution's tail.
#[derive(Clone, Debug)]
pub(crate) struct SplitMix(u64);

impl SplitMix {
    pub(crate) fn new(seed: u64) -> Self {
        SplitMix(seed)
    }

    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`, which is not 0. The bias is below 2^-32 for what benchmarks ask.
    #[inline]
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    /// A number in [0, 1).
    #[inline]
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// LevelDB makes this much and uses it again and again: more than any compressor's window.
const VALUE_POOL_BYTES: usize = 1 << 20;
const PIECE_BYTES: usize = 100;
const VALUE_SEED: u32 = 301;

/// Bytes that values are cut from: pieces that each compress to about the wanted share. Made once
/// and shared by all threads, so that making them is not measured.
pub(crate) struct ValuePool(Vec<u8>);

impl ValuePool {
    /// `value_bytes_max` is the longest value that will be cut.
    pub(crate) fn new(compression_ratio: f64, value_bytes_max: usize) -> Self {
        let mut random = Lehmer::new(VALUE_SEED);
        let unique = ((PIECE_BYTES as f64 * compression_ratio) as usize).max(1);
        let len = VALUE_POOL_BYTES.max(value_bytes_max + 1);
        let mut bytes = Vec::with_capacity(len + PIECE_BYTES);
        let mut piece = vec![0; unique];
        while bytes.len() < len {
            piece.fill_with(|| b' ' + random.below(95) as u8);
            bytes.extend(piece.iter().cycle().take(PIECE_BYTES));
        }
        ValuePool(bytes)
    }

    /// A reader that begins at the first byte, as each of LevelDB's threads does.
    pub(crate) fn values(&self) -> Values<'_> {
        Values { pool: &self.0, at: 0 }
    }
}

/// Cuts one value after the other.
pub(crate) struct Values<'a> {
    pool: &'a [u8],
    at: usize,
}

impl<'a> Values<'a> {
    #[inline]
    pub(crate) fn next(&mut self, len: usize) -> &'a [u8] {
        if self.at + len > self.pool.len() {
            self.at = 0;
        }
        let value = &self.pool[self.at..self.at + len];
        self.at += len;
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lehmer_is_the_minimal_standard_generator() {
        // Park and Miller's own check: the 10,000th number from seed 1.
        let mut random = Lehmer::new(1);
        let last = (0..10_000).map(|_| random.next()).last();
        assert_eq!(last, Some(1_043_618_065));
        // Seeds for which LevelDB's generator would stand still.
        for seed in [0, 0x7fff_ffff, 0x8000_0000] {
            let mut random = Lehmer::new(seed);
            assert_ne!(random.next(), random.next());
        }
        assert_eq!(Lehmer::new(7).below(0), 0);
    }

    #[test]
    fn units_fill_their_range_evenly() {
        let mut random = SplitMix::new(1);
        let mut buckets = [0u32; 10];
        for _ in 0..100_000 {
            buckets[(random.unit() * 10.0) as usize] += 1;
            assert!(random.below(7) < 7);
        }
        assert!(buckets.iter().all(|&count| (9_500..10_500).contains(&count)), "{buckets:?}");
    }

    #[test]
    fn values_compress_as_asked() {
        for (ratio, low, high) in [(0.25, 0.2, 0.4), (0.5, 0.45, 0.65), (1.0, 0.8, 1.01)] {
            let pool = ValuePool::new(ratio, 100);
            let mut values = pool.values();
            let block: Vec<u8> = (0..40).flat_map(|_| values.next(100).to_vec()).collect();
            let len = snap::raw::Encoder::new().compress_vec(&block).unwrap().len();
            let share = len as f64 / block.len() as f64;
            assert!((low..high).contains(&share), "ratio {ratio}: {share}");
        }
    }

    #[test]
    fn values_begin_anew_when_the_pool_is_used_up() {
        let pool = ValuePool::new(0.5, 3 << 20);
        let mut values = pool.values();
        let first = values.next(3 << 20).as_ptr();
        assert_eq!(first, values.next(3 << 20).as_ptr());
        assert_eq!(values.next(0).len(), 0);
    }
}
