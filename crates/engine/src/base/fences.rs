//! Keys in bytewise order as integers: where a key lies among them, mostly without touching one of them. Indexes and
//! levels are searched by them.
//!
//! **Layout.** What all keys begin with is kept once; of each key, the eight bytes behind that, as a big-endian
//! integer. Unequal keys may have equal integers, and greater keys never lesser ones. The last integer of each *stretch* of them
//! stands in front of them all: a search goes through those, which are few enough to stay near the processor, and through one
//! stretch, whose lines come together. Of an index that is searched once in a while each line has to come from far away, so all
//! integers lie in one piece, and what keys begin with in the structure itself.

use std::ops::Range;

#[derive(Debug, Default)]
pub(crate) struct Fences {
    common: Common,
    /// Of each whole stretch the last, then all.
    words: Box<[u64]>,
    stretches: usize,
}

/// What all keys begin with.
#[derive(Debug, Default)]
struct Common {
    len: usize,
    /// Its first bytes as a big-endian integer, followed by zeros.
    head: u128,
    /// What of a key's first bytes is to be the same.
    mask: u128,
    /// All of it, if that is more.
    long: Box<[u8]>,
}

/// Two lines of the processor's cache.
const STRETCH: usize = 16;

impl Fences {
    /// Of keys that do not descend. If they do, searches go wrong, and no more.
    pub(crate) fn new<'a>(keys: impl Iterator<Item = &'a [u8]> + Clone) -> Self {
        let mut all = keys.clone();
        let first = all.next().unwrap_or_default();
        let shared = all.fold(first.len(), |shared, key| shared.min(common_prefix(first, key)));
        let past_common = keys.map(|key| prefix(key.get(shared..).unwrap_or_default()));
        let prefixes: Vec<u64> = past_common.collect();
        let lasts = prefixes.iter().skip(STRETCH - 1).step_by(STRETCH).copied();
        let words = lasts.chain(prefixes.iter().copied()).collect();
        let stretches = prefixes.len() / STRETCH;
        Fences { common: Common::new(&first[..shared]), words, stretches }
    }

    pub(crate) fn len(&self) -> usize {
        self.words.len() - self.stretches
    }

    /// All keys before the range are less than `key`, all behind it greater; those within it, which are few or none,
    /// have to be compared.
    #[inline]
    pub(crate) fn around(&self, key: &[u8]) -> Range<usize> {
        self.around_after(key, |_| {})
    }

    /// As [`around`](Self::around). Calls `hint` in between, with a few keys among which the range begins, or right behind them: to be
    /// near is what they wait for then.
    #[inline]
    pub(crate) fn around_after(&self, key: &[u8], hint: impl FnOnce(Range<usize>)) -> Range<usize> {
        let Some(wanted) = self.prefix_of(key) else {
            let at = if self.common.is_behind(key) { 0 } else { self.len() };
            return at..at;
        };
        let left = self.lesser_than(wanted, hint);
        let rest = self.prefixes().get(left..).unwrap_or_default();
        // Mostly none is equal; and searching again would cost as much as the search before.
        let equal = match rest.first() {
            Some(&first) if first == wanted => rest.partition_point(|&prefix| prefix == wanted),
            _ => 0,
        };
        left..left + equal
    }

    /// How many of the integers are less.
    #[inline]
    fn lesser_than(&self, wanted: u64, hint: impl FnOnce(Range<usize>)) -> usize {
        let (lasts, prefixes) = self.words.split_at(self.stretches);
        let start = STRETCH * lasts.partition_point(|&last| last < wanted);
        hint(start..start + STRETCH);
        let stretch = prefixes.get(start..).unwrap_or_default();
        let stretch = stretch.get(..STRETCH).unwrap_or(stretch);
        start + stretch.iter().filter(|prefix| **prefix < wanted).count()
    }

    /// True if `key` is surely greater than the key at `at` minus one, if there is one, and less than that at `at`.
    /// False if only the keys themselves can tell.
    #[inline]
    pub(crate) fn surely_between(&self, at: usize, key: &[u8]) -> bool {
        let Some(wanted) = self.prefix_of(key) else { return false };
        let prefixes = self.prefixes();
        let is_before = prefixes.get(at).is_some_and(|own| wanted < *own);
        is_before && at.checked_sub(1).is_none_or(|before| prefixes[before] < wanted)
    }

    #[inline]
    fn prefixes(&self) -> &[u64] {
        self.words.get(self.stretches..).unwrap_or_default()
    }

    #[inline]
    fn prefix_of(&self, key: &[u8]) -> Option<u64> {
        self.common.strip(key).map(prefix)
    }
}

impl Common {
    fn new(bytes: &[u8]) -> Self {
        let long = if bytes.len() > HEAD_BYTES { bytes.into() } else { Box::default() };
        let mask = !u128::MAX.checked_shr(8 * bytes.len() as u32).unwrap_or(0);
        Common { len: bytes.len(), head: head(bytes), mask, long }
    }

    /// What a key has behind it.
    #[inline]
    fn strip<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        let (start, rest) = key.split_at_checked(self.len)?;
        let is_same = match self.long.is_empty() {
            true => head(key) & self.mask == self.head,
            false => *start == *self.long,
        };
        is_same.then_some(rest)
    }

    /// Whether a key that does not begin with it is before all that do.
    fn is_behind(&self, key: &[u8]) -> bool {
        match self.long.is_empty() {
            // Where only zeros differ, the key is shorter.
            true => head(key) & self.mask <= self.head,
            false => *key < *self.long,
        }
    }
}

const HEAD_BYTES: usize = size_of::<u128>();

/// A key's first bytes as a big-endian integer; missing ones count as zero.
#[inline]
fn head(key: &[u8]) -> u128 {
    match key.first_chunk::<HEAD_BYTES>() {
        Some(bytes) => u128::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; HEAD_BYTES];
            bytes.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
            u128::from_be_bytes(bytes)
        }
    }
}

/// Length of the longest common beginning, eight bytes at a time.
#[inline]
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let len = a.len().min(b.len());
    let (a, b) = (&a[..len], &b[..len]);
    let (a_words, a_tail) = a.as_chunks::<8>();
    let (b_words, b_tail) = b.as_chunks::<8>();
    for (at, (x, y)) in a_words.iter().zip(b_words).enumerate() {
        let differing = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if differing != 0 {
            return 8 * at + (differing.trailing_zeros() / 8) as usize;
        }
    }
    let tail = a_tail.iter().zip(b_tail).take_while(|(x, y)| x == y).count();
    8 * a_words.len() + tail
}

/// The first eight bytes; missing ones count as zero.
#[inline]
pub(crate) fn prefix(key: &[u8]) -> u64 {
    match key.first_chunk::<8>() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 8];
            bytes.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
            u64::from_be_bytes(bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Short keys, keys with zeros, keys that differ behind the ninth byte only.
    fn keys() -> Vec<Vec<u8>> {
        let mut keys: Vec<Vec<u8>> = vec![b"k".to_vec(), b"k\0".to_vec(), b"k\0\0".to_vec()];
        keys.extend((0..300).map(|number| format!("key/{:012}", number * 3).into_bytes()));
        keys.extend((0..40).map(|number| format!("kez/{:04}", number * 7).into_bytes()));
        keys.sort();
        keys
    }

    #[test]
    fn what_is_around_a_key_is_where_it_lies() {
        let all = keys();
        let long: Vec<Vec<u8>> =
            all.iter().map(|key| [&b"what all of them begin with\0\0"[..], key].concat()).collect();
        for keys in [&all[..], &all[3..303], &all[..1], &[], &long[..], &long[3..303], &long[..1]] {
            let fences = Fences::new(keys.iter().map(|key| &key[..]));
            let mut wanted: Vec<Vec<u8>> = all.iter().chain(&long).cloned().collect();
            wanted.extend(wanted.clone().iter().map(|key| [key, &b"\0"[..]].concat()));
            wanted.extend(wanted.clone().iter().map(|key| key[..key.len() - 1].to_vec()));
            wanted.extend((0..30).map(|len| long[0][..len].to_vec()));
            for key in &wanted {
                let around = fences.around(key);
                assert!(keys[..around.start].iter().all(|before| before < key));
                assert!(keys[around.end..].iter().all(|behind| behind > key));
                let at = keys.partition_point(|before| before < key);
                for place in [at, at + 1, at.saturating_sub(1)] {
                    let between = place < keys.len()
                        && *key < keys[place]
                        && (place == 0 || keys[place - 1] < *key);
                    assert!(between || !fences.surely_between(place, key), "{place} {key:?}");
                }
            }
        }
    }

    #[test]
    fn few_are_left_to_compare() {
        let keys: Vec<String> = (0..1000).map(|number| format!("{:016}", number * 5)).collect();
        let fences = Fences::new(keys.iter().map(|key| key.as_bytes()));
        assert_eq!(fences.around(b"0000000000000500"), 100..101);
        assert_eq!(fences.around(b"0000000000000501"), 101..101);
        assert!(fences.surely_between(101, b"0000000000000501"));
    }

    #[test]
    fn common_prefixes() {
        assert_eq!(common_prefix(b"", b"a"), 0);
        assert_eq!(common_prefix(b"abcdefgh", b"abcdefgh"), 8);
        for len in 0..40 {
            let a = vec![b'x'; len];
            for cut in 0..len {
                let mut b = a.clone();
                b[cut] = b'y';
                assert_eq!(common_prefix(&a, &b), cut);
            }
            assert_eq!(common_prefix(&a, &[&a[..], b"more"].concat()), len);
        }
    }
}
