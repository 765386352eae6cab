//! Which parts of an open table readers had lately: what should be near of tables that take its place, and what its copy leaves in
//! the cache when it goes.
//!
//! Parts are marked in one of two sets. Each ten minutes the older is emptied and becomes the newer: a mark lasts for ten to twenty
//! minutes, or for as long as nothing is committed, when nothing is replaced either.
//!
//! **Concurrency.** Readers mark, anybody looks, one at a time cools: marks order nothing, so all are relaxed.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// As much as caches keep together at most.
const PART_BYTES: u64 = 64 << 10;
const NEW_FOR: Duration = Duration::from_secs(600);
const BITS: u64 = u64::BITS as u64;

pub(super) struct Heat {
    bytes: u64,
    marks: [Marks; 2],
    /// The set that is marked in.
    newer: AtomicUsize,
    /// Since when, by the home's clock, in seconds.
    since: AtomicU64,
}

/// A bit for each part.
struct Marks(Box<[AtomicU64]>);

impl Heat {
    /// Of a table of so many bytes that is opened now.
    pub(super) fn new(bytes: u64, now: Duration) -> Self {
        let marks = || Marks::new(bytes.div_ceil(PART_BYTES));
        let (newer, since) = (AtomicUsize::new(0), AtomicU64::new(now.as_secs()));
        Heat { bytes, marks: [marks(), marks()], newer, since }
    }

    /// Somebody reads these bytes, or had lately of another table what they hold.
    pub(super) fn note(&self, bytes: &Range<u64>) {
        let newer = &self.marks[self.newer.load(Relaxed) & 1];
        parts_of(bytes).for_each(|part| newer.set(part));
    }

    /// To be called now and then.
    pub(super) fn cool(&self, now: Duration) {
        let since = Duration::from_secs(self.since.load(Relaxed));
        if now.saturating_sub(since) < NEW_FOR {
            return;
        }
        self.since.store(now.as_secs(), Relaxed);
        let older = (self.newer.load(Relaxed) + 1) & 1;
        self.marks[older].clear();
        self.newer.store(older, Relaxed);
    }

    /// All that is warm, in order, and apart from each other.
    pub(super) fn ranges(&self) -> Vec<Range<u64>> {
        let is_warm = |part: &u64| self.marks.iter().any(|marks| marks.has(*part));
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for part in (0..self.bytes.div_ceil(PART_BYTES)).filter(is_warm) {
            let (start, end) = (part * PART_BYTES, self.bytes.min((part + 1) * PART_BYTES));
            match ranges.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => ranges.push(start..end),
            }
        }
        ranges
    }
}

impl Marks {
    fn new(parts: u64) -> Self {
        Marks((0..parts.div_ceil(BITS)).map(|_| AtomicU64::new(0)).collect())
    }

    fn word(&self, part: u64) -> Option<&AtomicU64> {
        self.0.get(usize::try_from(part / BITS).ok()?)
    }

    fn set(&self, part: u64) {
        let bit = 1 << (part % BITS);
        // Most reads find it set: to write would take the line from other readers.
        if let Some(word) = self.word(part).filter(|word| word.load(Relaxed) & bit == 0) {
            word.fetch_or(bit, Relaxed);
        }
    }

    fn has(&self, part: u64) -> bool {
        self.word(part).is_some_and(|word| word.load(Relaxed) >> (part % BITS) & 1 == 1)
    }

    fn clear(&self) {
        self.0.iter().for_each(|word| word.store(0, Relaxed));
    }
}

fn parts_of(bytes: &Range<u64>) -> Range<u64> {
    match bytes.is_empty() {
        true => 0..0,
        false => bytes.start / PART_BYTES..(bytes.end - 1) / PART_BYTES + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: u64 = PART_BYTES;

    #[test]
    fn what_was_read_is_warm_and_cools() {
        let begin = Duration::from_secs(50);
        let heat = Heat::new(100 * PART + 7, begin);
        assert!(heat.ranges().is_empty());
        heat.note(&(3 * PART + 1..3 * PART + 2));
        heat.note(&(4 * PART..4 * PART));
        heat.note(&(63 * PART..64 * PART + 1));
        heat.note(&(100 * PART..100 * PART + 7));
        heat.note(&(7000 * PART..7001 * PART));
        let read = [3 * PART..4 * PART, 63 * PART..65 * PART, 100 * PART..100 * PART + 7];
        assert_eq!(heat.ranges(), read);
        heat.cool(begin + NEW_FOR - Duration::from_secs(1));
        heat.cool(begin + NEW_FOR);
        heat.note(&(4 * PART..4 * PART + 1));
        let mut both = read.to_vec();
        both[0].end = 5 * PART;
        assert_eq!(heat.ranges(), both);
        heat.cool(begin + NEW_FOR * 3 / 2);
        assert_eq!(heat.ranges(), both);
        heat.cool(begin + 2 * NEW_FOR);
        let ranges = heat.ranges();
        assert_eq!((ranges.len(), ranges[0].clone()), (1, 4 * PART..5 * PART));
        heat.cool(begin + 9 * NEW_FOR);
        assert!(heat.ranges().is_empty());
    }
}
