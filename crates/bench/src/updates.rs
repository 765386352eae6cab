//! Streams of updates by which ways to compact are compared: which record is written next, of so many that were loaded.

use crate::popularity::{Law, Popularity, scatter};
use crate::random::SplitMix;

/// With the law of the latest records, so many updates are done for each that the newest moves on.
const UPDATES_PER_STEP: u64 = 4;

/// An endless stream of updates, the same for the same seed.
pub struct Updates {
    popularity: Popularity,
    law: Law,
    random: SplitMix,
    records: u64,
    done: u64,
}

impl Updates {
    /// Of `records` records, from 1 on.
    pub fn new(law: Law, records: u64, seed: u64) -> Self {
        let records = records.max(1);
        let popularity = Popularity::new(law, records);
        Updates { popularity, law, random: SplitMix::new(seed), records, done: 0 }
    }

    /// The next record to write, below the number of them.
    ///
    /// Zipf's law has the popular ones anywhere, and always the same; of the latest ones the newest is another one by and
    /// by, anywhere as well.
    pub fn next_record(&mut self) -> u64 {
        let newest = self.records + self.done / UPDATES_PER_STEP;
        self.done += 1;
        match self.law {
            Law::Latest => scatter(self.popularity.pick(&mut self.random, newest)) % self.records,
            _ => self.popularity.pick(&mut self.random, self.records),
        }
    }

    /// All records once each, in random order.
    pub fn load(records: u32, seed: u64) -> Vec<u32> {
        let mut random = SplitMix::new(seed);
        let mut order: Vec<u32> = (0..records).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, random.below(last as u64 + 1) as usize);
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_record_is_loaded_once() {
        let order = Updates::load(1000, 7);
        assert_eq!(order.iter().collect::<HashSet<_>>().len(), 1000);
        assert!(!order.is_sorted());
        assert_eq!(order, Updates::load(1000, 7));
    }

    #[test]
    fn the_latest_records_move_on() {
        let mut updates = Updates::new(Law::Latest, 10_000, 7);
        let mut hottest = || {
            let mut counts = vec![0; 10_000];
            (0..40_000).for_each(|_| counts[updates.next_record() as usize] += 1);
            (0..10_000).max_by_key(|record| counts[*record])
        };
        assert_ne!(hottest(), hottest());
        let mut still = Updates::new(Law::Zipfian, 10_000, 7);
        let mut hottest = || {
            let mut counts = vec![0; 10_000];
            (0..40_000).for_each(|_| counts[still.next_record() as usize] += 1);
            (0..10_000).max_by_key(|record| counts[*record])
        };
        assert_eq!(hottest(), hottest());
    }
}
