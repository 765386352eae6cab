//! What is written and read: the same entries in the same order for every contestant, made by seed while they are needed.

use siltstone_cloud_lab::{Dice, key};

/// A prime above all counts of entries: steps of it meet each of them once, in an order without a pattern.
const STEP: u64 = 2_654_435_761;

/// Entries to be put, and by how many at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Who put at the same time, each one entry after the other.
    pub(crate) writers: u64,
    /// Entries of each.
    pub(crate) each: u64,
    /// The first entry's number.
    pub(crate) first: u64,
    /// Bytes of a value.
    pub(crate) value_bytes: usize,
    /// Where random numbers begin.
    pub(crate) seed: u64,
    /// What an acknowledgement waits for.
    pub(crate) waits: Waits,
}

/// What an acknowledgement waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    /// For the most that a contestant can promise.
    Durable,
    /// For nothing but the call.
    No,
}

impl Load {
    pub(crate) fn entries(&self) -> u64 {
        self.writers * self.each
    }

    /// Bytes of keys and values.
    pub(crate) fn bytes(&self) -> u64 {
        self.entries() * (key(0).len() + self.value_bytes) as u64
    }

    /// The entries of one writer, as they come.
    pub(crate) fn of(&self, writer: u64) -> impl Iterator<Item = (String, Vec<u8>)> + use<> {
        let Load { each, first, value_bytes, seed, .. } = *self;
        let entries = self.entries();
        let mut dice = Dice(seed ^ (writer << 32));
        (writer * each..(writer + 1) * each).map(move |at| {
            let mut value = vec![0; value_bytes];
            dice.fill(&mut value);
            let number = u128::from(at) * u128::from(STEP) % u128::from(entries.max(1));
            (key(first + number as u64), value)
        })
    }
}

/// `count` of the numbers below `records`, as far apart as can be, in an order without a pattern: none lies beside one that
/// was read before. Round 1 lies in the middle between what round 0 reads.
pub(crate) fn spread(count: u64, records: u64, round: u64) -> Vec<u64> {
    let gap = (records / count.max(1)).max(1);
    let shift = gap / 2 * round;
    (0..count).map(|at| (at * STEP % count * gap + shift) % records.max(1)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn load(writers: u64) -> Load {
        Load { writers, each: 50, first: 7, value_bytes: 20, seed: 3, waits: Waits::No }
    }

    #[test]
    fn every_entry_comes_once_and_again_the_same() {
        let load = load(4);
        let all = || (0..4).flat_map(|writer| load.of(writer)).collect::<Vec<_>>();
        let keys: BTreeSet<String> = all().into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, (7..207).map(key).collect());
        assert_eq!(all(), all());
        assert_eq!(load.bytes(), 200 * 36);
        let values: BTreeSet<Vec<u8>> = all().into_iter().map(|(_, value)| value).collect();
        assert_eq!(values.len(), 200);
    }

    #[test]
    fn what_is_read_lies_apart() {
        let (one, other) = (spread(25, 1_000, 0), spread(25, 1_000, 1));
        let mut sorted = [one.clone(), other].concat();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), 50);
        let mut sorted = one.clone();
        sorted.sort_unstable();
        assert!(sorted.windows(2).all(|pair| pair[1] - pair[0] == 40));
        assert_ne!(one, sorted);
    }
}
