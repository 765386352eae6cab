//! How far scans of a table went lately, in blocks behind the one that they began in: the next one reads as many at once.
//! A call to the system costs as much as copying some three blocks of 2 KiB: to read a block along pays where one scan in three needs it.
//!
//! **Concurrency.** A single number, kept by all whose scans had to read. Threads that note at the same time may note once.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The number is kept in such parts of a block, ..
const PARTS: u32 = 256;
/// .. and each scan moves it by such a part of the difference.
const WEIGHT: i64 = 8;
/// Whoever goes further reads ahead by himself, and shall not have many others read too much.
const BLOCKS_MAX: usize = 4;

#[derive(Default)]
pub(super) struct Reach(AtomicU32);

impl Reach {
    /// A scan has ended so many blocks behind the one that it began in.
    #[inline]
    pub(super) fn note(&self, blocks: usize) {
        let old = self.0.load(Relaxed);
        let goal = blocks.min(BLOCKS_MAX) as i64 * i64::from(PARTS);
        let new = i64::from(old) + (goal - i64::from(old)) / WEIGHT;
        if new != i64::from(old) {
            self.0.store(new as u32, Relaxed);
        }
    }

    /// How many blocks behind the first a scan is going to need, most probably.
    #[inline]
    pub(super) fn usual(&self) -> usize {
        (self.0.load(Relaxed) + PARTS / 2) as usize / PARTS as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_most_scans_do_is_usual() {
        let reach = Reach::default();
        assert_eq!(reach.usual(), 0);
        (0..40).for_each(|_| reach.note(3));
        assert_eq!(reach.usual(), 3);
        reach.note(100);
        assert_eq!(reach.usual(), 3, "one far scan is none");
        (0..40).for_each(|_| reach.note(100));
        assert_eq!(reach.usual(), BLOCKS_MAX);
        (0..40).for_each(|turn| reach.note(usize::from(turn % 4 == 0)));
        assert_eq!(reach.usual(), 0, "three of four stay in their block");
        (0..40).for_each(|turn| reach.note(usize::from(turn % 4 > 0)));
        assert_eq!(reach.usual(), 1);
    }
}
