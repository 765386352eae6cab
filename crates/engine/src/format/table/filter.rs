//! Filters: a few bits per key that tell most absent keys without reading a block. Databases name
//! a policy in their options; tables record its name with what it made.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use crate::base::hash::{hash, hash64};

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
const WIDE_HASH_SEED: u64 = 0x5117_5703_b100_0064;
/// Probe counts above this are left to encodings of the future: always a match.
const PROBES_MAX: u8 = 30;

/// The built-in Bloom filter, in two kinds. A database that has the one reads tables with the other as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BloomFilter {
    bits_per_key: usize,
    probes: u8,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    LevelDb,
    Wide,
}

impl BloomFilter {
    /// LevelDB's filter of so many bits per key, bit for bit, under its name `leveldb.BuiltinBloomFilter2`. With 10 about one
    /// absent key in a hundred passes; of keys that are decimal numbers three, for its hash of 32 bits spreads them badly.
    pub fn new(bits_per_key: usize) -> Self {
        BloomFilter::of(Kind::LevelDb, bits_per_key)
    }

    /// The same by a hash of 64 bits, `siltstone.BloomFilter64`, for which all keys are alike: with 10 bits a key one absent key
    /// in 120 passes, with 14 one in 800. Where a block that is read in vain is a request to a bucket, this is the one to have.
    ///
    /// LevelDB reads such tables, and takes them for tables without a filter.
    ///
    /// ```
    /// use siltstone::{BloomFilter, FilterPolicy};
    ///
    /// let (policy, mut filter) = (BloomFilter::wide(14), Vec::new());
    /// policy.create_filter(&[b"granite", b"slate"], &mut filter);
    /// assert!(policy.may_match(b"slate", &filter));
    /// assert!(!policy.may_match(b"marble", &filter));
    /// ```
    pub fn wide(bits_per_key: usize) -> Self {
        BloomFilter::of(Kind::Wide, bits_per_key)
    }

    fn of(kind: Kind, bits_per_key: usize) -> Self {
        // Fewest false positives at bits * ln 2 probes; 0.69 is what LevelDB takes it for.
        let probes = (bits_per_key as f64 * 0.69) as usize;
        let probes = probes.clamp(1, usize::from(PROBES_MAX)) as u8;
        BloomFilter { bits_per_key, probes, kind }
    }

    /// The kind of this name, made alike.
    pub(crate) fn named(self, name: &[u8]) -> Option<Self> {
        let kinds = [Kind::LevelDb, Kind::Wide].map(|kind| BloomFilter { kind, ..self });
        kinds.into_iter().find(|filter| filter.name().as_bytes() == name)
    }

    /// As it was made.
    pub(crate) fn bits_per_key(&self) -> usize {
        self.bits_per_key
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// What LevelDB's filter keeps of a key. A table's builder collects these instead of the keys.
    #[inline]
    pub(crate) fn hash(key: &[u8]) -> u32 {
        hash(key, HASH_SEED)
    }

    /// What the wide one keeps.
    #[inline]
    pub(crate) fn wide_hash(key: &[u8]) -> u64 {
        hash64(key, WIDE_HASH_SEED)
    }

    /// Of keys' [hashes](Self::hash), for LevelDB's kind.
    pub(crate) fn create(&self, hashes: &[u32], out: &mut Vec<u8>) {
        self.append(hashes.iter(), out, |&hash, count, bytes| probes(hash, count, bytes));
    }

    /// Of keys' [hashes](Self::wide_hash), for the wide kind.
    pub(crate) fn create_wide(&self, hashes: &[u64], out: &mut Vec<u8>) {
        self.append(hashes.iter(), out, |&hash, count, bytes| wide_probes(hash, count, bytes));
    }

    fn append<H, I: Iterator<Item = usize>>(
        &self,
        hashes: impl ExactSizeIterator<Item = H>,
        out: &mut Vec<u8>,
        probes: impl Fn(H, u8, usize) -> I,
    ) {
        // Short filters would have too many false positives.
        let bits = hashes.len().saturating_mul(self.bits_per_key).max(64);
        let bytes = bits.div_ceil(8);
        let start = out.len();
        out.resize(start + bytes, 0);
        let array = &mut out[start..];
        for hash in hashes {
            for bit in probes(hash, self.probes, bytes) {
                array[bit / 8] |= 1 << (bit % 8);
            }
        }
        out.push(self.probes);
    }

    /// Of a filter taken apart: so many probes, and its bits.
    #[inline]
    pub(crate) fn may_match_bits(hash: u32, count: u8, array: &[u8]) -> bool {
        are_set(array, count, |bytes| probes(hash, count, bytes))
    }

    /// The same of the wide kind.
    #[inline]
    pub(crate) fn may_match_wide_bits(hash: u64, count: u8, array: &[u8]) -> bool {
        are_set(array, count, |bytes| wide_probes(hash, count, bytes))
    }
}

#[inline]
fn are_set<I: Iterator<Item = usize>>(
    array: &[u8],
    count: u8,
    probes: impl FnOnce(usize) -> I,
) -> bool {
    if array.is_empty() || count > PROBES_MAX {
        return !array.is_empty();
    }
    let is_set = |bit: usize| array.get(bit / 8).is_none_or(|byte| byte & (1 << (bit % 8)) != 0);
    probes(array.len()).all(is_set)
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

/// The same with 64 bits, which are as a part of the array what they are of all numbers: no division.
#[inline]
fn wide_probes(mut hash: u64, count: u8, bytes: usize) -> impl Iterator<Item = usize> {
    let step = hash.rotate_right(33) | 1;
    let bits = bytes as u128 * 8;
    (0..count).map(move |_| {
        let bit = ((u128::from(hash) * bits) >> 64) as usize;
        hash = hash.wrapping_add(step);
        bit
    })
}

impl FilterPolicy for BloomFilter {
    fn name(&self) -> &str {
        match self.kind {
            Kind::LevelDb => "leveldb.BuiltinBloomFilter2",
            Kind::Wide => "siltstone.BloomFilter64",
        }
    }

    fn create_filter(&self, keys: &[&[u8]], out: &mut Vec<u8>) {
        match self.kind {
            Kind::LevelDb => {
                let hashes: Vec<u32> = keys.iter().map(|key| BloomFilter::hash(key)).collect();
                self.create(&hashes, out);
            }
            Kind::Wide => {
                let hashes: Vec<u64> = keys.iter().map(|key| BloomFilter::wide_hash(key)).collect();
                self.create_wide(&hashes, out);
            }
        }
    }

    #[inline]
    fn may_match(&self, key: &[u8], filter: &[u8]) -> bool {
        let Some((&count, array)) = filter.split_last() else { return false };
        match self.kind {
            Kind::LevelDb => BloomFilter::may_match_bits(BloomFilter::hash(key), count, array),
            Kind::Wide => {
                BloomFilter::may_match_wide_bits(BloomFilter::wide_hash(key), count, array)
            }
        }
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

    /// What reads filters of this name, if this does or its other kind would.
    pub(crate) fn named(&self, name: &[u8]) -> Option<Filter> {
        match self {
            Filter::Bloom(bloom) => bloom.named(name).map(Filter::Bloom),
            Filter::Custom(policy) => (policy.name().as_bytes() == name).then(|| self.clone()),
        }
    }

    #[inline]
    pub(crate) fn may_match(&self, key: &[u8], filter: &[u8]) -> bool {
        match self {
            Filter::Bloom(bloom) => bloom.may_match(key, filter),
            Filter::Custom(policy) => policy.may_match(key, filter),
        }
    }
}

/// A user key that one filter after the other is asked for. What the built-in policy keeps of it is worked out once, and only
/// if one asks.
pub(crate) struct FilterKey<'a> {
    pub(crate) user: &'a [u8],
    hash: Cell<Option<u32>>,
    wide_hash: Cell<Option<u64>>,
}

impl<'a> FilterKey<'a> {
    #[inline]
    pub(crate) fn new(user: &'a [u8]) -> Self {
        FilterKey { user, hash: Cell::new(None), wide_hash: Cell::new(None) }
    }

    #[inline]
    pub(crate) fn hash(&self) -> u32 {
        self.hash.get().unwrap_or_else(|| {
            let hash = BloomFilter::hash(self.user);
            self.hash.set(Some(hash));
            hash
        })
    }

    #[inline]
    pub(crate) fn wide_hash(&self) -> u64 {
        self.wide_hash.get().unwrap_or_else(|| {
            let hash = BloomFilter::wide_hash(self.user);
            self.wide_hash.set(Some(hash));
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
mod tests;
