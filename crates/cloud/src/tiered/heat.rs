//! Which parts of an open table readers had lately: what should be near of tables that take its place, and what its copy leaves in
//! the cache when it goes.
//!
//! What was read of a table lasts as long as the table is open. What was read of tables before it lasts for a minute: who still wants
//! it has read it here by then.
//!
//! **Concurrency.** Readers mark, anybody looks: marks order nothing, so all are relaxed.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// As much as caches keep together at most.
const PART_BYTES: u64 = 64 << 10;
const LENT_FOR: Duration = Duration::from_secs(60);
const BITS: u64 = u64::BITS as u64;

pub(super) struct Heat {
    bytes: u64,
    read: Marks,
    lent: Marks,
    /// By the home's clock, in nanoseconds.
    lent_until: AtomicU64,
}

/// A bit for each part.
struct Marks(Box<[AtomicU64]>);

impl Heat {
    /// Of a table of so many bytes.
    pub(super) fn new(bytes: u64) -> Self {
        let marks = || Marks::new(bytes.div_ceil(PART_BYTES));
        Heat { bytes, read: marks(), lent: marks(), lent_until: AtomicU64::new(0) }
    }

    /// Somebody reads these bytes.
    pub(super) fn note(&self, bytes: &Range<u64>) {
        parts_of(bytes).for_each(|part| self.read.set(part));
    }

    /// Somebody had lately of other tables what these bytes hold.
    pub(super) fn lend(&self, ranges: &[Range<u64>], now: Duration) {
        let until = now.saturating_add(LENT_FOR).as_nanos();
        self.lent_until.store(u64::try_from(until).unwrap_or(u64::MAX), Relaxed);
        ranges.iter().flat_map(parts_of).for_each(|part| self.lent.set(part));
    }

    /// All that is warm, in order, and apart from each other.
    pub(super) fn ranges(&self, now: Duration) -> Vec<Range<u64>> {
        let is_lent = now.as_nanos() < u128::from(self.lent_until.load(Relaxed));
        let is_warm = |part| self.read.has(part) || (is_lent && self.lent.has(part));
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for part in (0..self.bytes.div_ceil(PART_BYTES)).filter(|part| is_warm(*part)) {
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
    fn what_was_read_is_warm_and_what_was_read_before_for_a_while() {
        let heat = Heat::new(100 * PART + 7);
        let now = Duration::from_secs(5);
        assert!(heat.ranges(now).is_empty());
        heat.note(&(3 * PART + 1..3 * PART + 2));
        heat.note(&(4 * PART..4 * PART));
        heat.note(&(63 * PART..64 * PART + 1));
        heat.note(&(100 * PART..100 * PART + 7));
        heat.note(&(7000 * PART..7001 * PART));
        let read = [3 * PART..4 * PART, 63 * PART..65 * PART, 100 * PART..100 * PART + 7];
        assert_eq!(heat.ranges(now), read);
        heat.lend(&[4 * PART..4 * PART + 1, 90 * PART..91 * PART], now);
        let mut lent = read.to_vec();
        lent[0].end = 5 * PART;
        lent.insert(2, 90 * PART..91 * PART);
        assert_eq!(heat.ranges(now + LENT_FOR - Duration::from_nanos(1)), lent);
        assert_eq!(heat.ranges(now + LENT_FOR), read);
    }
}
