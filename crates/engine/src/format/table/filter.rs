//! Filters: a few bits per key that tell most absent keys without reading a block. Databases name
//! a policy in their options; tables record its name with what it made.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use crate::base::hash::hash;

/// Makes filters and asks them. The name goes into each table, and a filter is used only under the
/// same name: change the name when the encoding changes.
///
/// Called on many threads at once, on every read: it must not block, panic, or call the database.
pub trait FilterPolicy: Send + Sync {
    /// The name that tables record, such as `"my.filter"`.
    fn name(&self) -> &str;

    /// Appends to `out` a filter for these user keys (possibly with repetitions, in order).
    fn create_filter(&self, keys: &[&[u8]], out: &mut Vec<u8>);

    /// Must be true if `key` was among the keys of `filter`; should mostly be false otherwise. Of
    /// bytes that are no filter: true.
    fn may_match(&self, key: &[u8], filter: &[u8]) -> bool;

    /// The built-in policy says that it is; all others leave this as it is.
    fn built_in(&self) -> Option<BloomFilter> {
        None
    }
}

const HASH_SEED: u32 = 0xbc9f_1d34;
/// Probe counts above this are left to encodings of the future: always a match.
const PROBES_MAX: u8 = 30;

/// LevelDB's Bloom filter, bit for bit, under its name `leveldb.BuiltinBloomFilter2`. With 10 bits
/// per key about one absent key in a hundred passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BloomFilter {
    bits_per_key: usize,
    probes: u8,
}

impl BloomFilter {
    /// A filter of so many bits per key.
    pub fn new(bits_per_key: usize) -> Self {
        // Fewest false positives at bits * ln 2 probes; 0.69 is what LevelDB takes it for.
        let probes = (bits_per_key as f64 * 0.69) as usize;
        let probes = probes.clamp(1, usize::from(PROBES_MAX)) as u8;
        BloomFilter { bits_per_key, probes }
    }

    /// As it was made.
    pub(crate) fn bits_per_key(&self) -> usize {
        self.bits_per_key
    }

    /// What the filter keeps of a key. A table's builder collects these instead of the keys.
    #[inline]
    pub(crate) fn hash(key: &[u8]) -> u32 {
        hash(key, HASH_SEED)
    }

    pub(crate) fn create(&self, hashes: &[u32], out: &mut Vec<u8>) {
        // Short filters would have too many false positives.
        let bits = hashes.len().saturating_mul(self.bits_per_key).max(64);
        let bytes = bits.div_ceil(8);
        let start = out.len();
        out.resize(start + bytes, 0);
        let array = &mut out[start..];
        for &hash in hashes {
            for bit in probes(hash, self.probes, bytes) {
                array[bit / 8] |= 1 << (bit % 8);
            }
        }
        out.push(self.probes);
    }

    #[inline]
    pub(crate) fn may_match_hash(hash: u32, filter: &[u8]) -> bool {
        let Some((&count, array)) = filter.split_last() else { return false };
        BloomFilter::may_match_bits(hash, count, array)
    }

    /// The same of a filter taken apart: so many probes, and its bits.
    #[inline]
    pub(crate) fn may_match_bits(hash: u32, count: u8, array: &[u8]) -> bool {
        if array.is_empty() || count > PROBES_MAX {
            return !array.is_empty();
        }
        let is_set =
            |bit: usize| array.get(bit / 8).is_none_or(|byte| byte & (1 << (bit % 8)) != 0);
        probes(hash, count, array.len()).all(is_set)
    }
}

/// The bits of a key in an array of `bytes`: double hashing, one hash and a step derived from it.
#[inline]
fn probes(mut hash: u32, count: u8, bytes: usize) -> impl Iterator<Item = usize> {
    let step = hash.rotate_right(17);
    let bits = bytes * 8;
    let small = u32::try_from(bits).ok(); // Divides in half the time.
    (0..count).map(move |_| {
        let bit = match small {
            Some(bits) => (hash % bits) as usize,
            None => hash as usize % bits,
        };
        hash = hash.wrapping_add(step);
        bit
    })
}

impl FilterPolicy for BloomFilter {
    fn name(&self) -> &str {
        "leveldb.BuiltinBloomFilter2"
    }

    fn create_filter(&self, keys: &[&[u8]], out: &mut Vec<u8>) {
        let hashes: Vec<u32> = keys.iter().map(|key| BloomFilter::hash(key)).collect();
        self.create(&hashes, out);
    }

    fn may_match(&self, key: &[u8], filter: &[u8]) -> bool {
        BloomFilter::may_match_hash(BloomFilter::hash(key), filter)
    }

    fn built_in(&self) -> Option<BloomFilter> {
        Some(*self)
    }
}

/// The filter policy of a database: the built-in one inline, for it runs on every read.
#[derive(Clone)]
pub(crate) enum Filter {
    /// The built-in Bloom filter.
    Bloom(BloomFilter),
    /// A user's.
    Custom(Arc<dyn FilterPolicy>),
}

impl Filter {
    pub(crate) fn policy(&self) -> &dyn FilterPolicy {
        match self {
            Filter::Bloom(bloom) => bloom,
            Filter::Custom(policy) => &**policy,
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.policy().name()
    }

    #[inline]
    pub(crate) fn may_match(&self, key: &[u8], filter: &[u8]) -> bool {
        match self {
            Filter::Bloom(_) => BloomFilter::may_match_hash(BloomFilter::hash(key), filter),
            Filter::Custom(policy) => policy.may_match(key, filter),
        }
    }
}

/// A user key that one filter after the other is asked for. What the built-in policy keeps of it is worked out once, and only
/// if one asks.
pub(crate) struct FilterKey<'a> {
    pub(crate) user: &'a [u8],
    hash: Cell<Option<u32>>,
}

impl<'a> FilterKey<'a> {
    #[inline]
    pub(crate) fn new(user: &'a [u8]) -> Self {
        FilterKey { user, hash: Cell::new(None) }
    }

    #[inline]
    pub(crate) fn hash(&self) -> u32 {
        self.hash.get().unwrap_or_else(|| {
            let hash = BloomFilter::hash(self.user);
            self.hash.set(Some(hash));
            hash
        })
    }
}

impl From<BloomFilter> for Filter {
    fn from(bloom: BloomFilter) -> Self {
        Filter::Bloom(bloom)
    }
}

impl From<Arc<dyn FilterPolicy>> for Filter {
    fn from(policy: Arc<dyn FilterPolicy>) -> Self {
        match policy.built_in() {
            Some(bloom) => Filter::Bloom(bloom),
            None => Filter::Custom(policy),
        }
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Filter::Bloom(bloom) => bloom.fmt(f),
            Filter::Custom(policy) => f.write_str(policy.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter_of(keys: &[Vec<u8>]) -> Vec<u8> {
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let mut filter = Vec::new();
        BloomFilter::new(10).create_filter(&keys, &mut filter);
        filter
    }

    fn may_match(key: &[u8], filter: &[u8]) -> bool {
        BloomFilter::new(10).may_match(key, filter)
    }

    #[test]
    fn empty_filters_match_nothing() {
        assert!(!may_match(b"hello", &filter_of(&[])));
        assert!(!may_match(b"hello", b""));
        assert!(!may_match(b"hello", b"\x06"));
    }

    #[test]
    fn small() {
        let filter = filter_of(&[b"hello".to_vec(), b"world".to_vec()]);
        assert!(may_match(b"hello", &filter) && may_match(b"world", &filter));
        assert!(!may_match(b"x", &filter) && !may_match(b"foo", &filter));
    }

    /// LevelDB 1.23's own filter for the same keys: eight bytes, then the probe count.
    #[test]
    fn golden_bits() {
        let filter = filter_of(&[b"hello".to_vec(), b"world".to_vec()]);
        assert_eq!(filter, [0x11, 0x40, 0x00, 0x41, 0x44, 0x10, 0x40, 0x10, 6]);
    }

    #[test]
    fn probe_counts_of_the_future_always_match() {
        assert!(may_match(b"x", &[0, 0, 0, 0, 0, 0, 0, 0, 31]));
        assert!(!may_match(b"x", &[0, 0, 0, 0, 0, 0, 0, 0, 30]));
    }

    #[test]
    fn probe_counts_are_clamped() {
        for (bits, probes) in [(0, 1), (1, 1), (10, 6), (43, 29), (100, 30)] {
            assert_eq!(BloomFilter::new(bits).probes, probes);
        }
    }

    #[test]
    fn false_positives_stay_rare_at_every_length() {
        let lengths = (1..10).chain((10..100).step_by(10)).chain((100..1000).step_by(100));
        let (mut mediocre, mut good) = (0, 0);
        for length in lengths.chain((1000..=10_000).step_by(1000)) {
            let keys: Vec<Vec<u8>> = (0..length as u32).map(|n| n.to_le_bytes().into()).collect();
            let filter = filter_of(&keys);
            assert!(filter.len() <= length * 10 / 8 + 40);
            assert!(keys.iter().all(|key| may_match(key, &filter)));
            let absent = (0..10_000u32).map(|n| (n + 1_000_000_000).to_le_bytes());
            let hits = absent.filter(|key| may_match(key, &filter)).count();
            assert!(hits <= 200, "{hits} of 10000 at {length} keys");
            if hits > 125 { mediocre += 1 } else { good += 1 }
        }
        assert!(mediocre <= good / 5, "{mediocre} mediocre, {good} good");
    }
}
