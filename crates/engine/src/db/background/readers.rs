//! Whether other threads read while one writes without a pause. Where readers and lanes have one processor, the one that the writer
//! leaves, lanes would take most of it from readers, so they go behind them; for good, since a thread that has lowered its
//! priority may not raise it again.
//!
//! The leader of the writers looks every 16 KiB whether somebody has read since. Who does so in an eighth of all looks, for some
//! mebibytes, is no passer-by.
//!
//! **Concurrency.** Readers set a mark that is mostly set already: they look at it, and write it once for each look of the leader.

use crate::base::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use crate::base::sync::this_thread;

/// Looks that are judged together, ..
const LOOKS: u64 = 64;
/// .. of which so many find that somebody has read, ..
const HITS_MIN: u64 = 8;
/// .. so many times in a row.
const STREAK: u64 = 4;

const NOBODY: u64 = 0;

/// Apart from what writers change: each read looks here.
#[repr(align(128))]
#[derive(Default)]
pub(crate) struct Readers {
    /// Who has read since the last look.
    seen: AtomicU64,
    are_beside: AtomicBool,
    looks: AtomicU64,
    hits: AtomicU64,
    streak: AtomicU64,
}

impl Readers {
    /// This thread reads.
    #[inline]
    pub(crate) fn note(&self) {
        if self.seen.load(Relaxed) == NOBODY {
            self.seen.store(this_thread(), Relaxed);
        }
    }

    /// The leader of the writers looks.
    pub(crate) fn look(&self) {
        let seen = self.seen.swap(NOBODY, Relaxed);
        let hits = self.hits.load(Relaxed) + u64::from(seen != NOBODY && seen != this_thread());
        let looks = self.looks.load(Relaxed) + 1;
        let is_over = looks == LOOKS;
        self.looks.store(if is_over { 0 } else { looks }, Relaxed);
        self.hits.store(if is_over { 0 } else { hits }, Relaxed);
        if is_over {
            self.judge(hits);
        }
    }

    fn judge(&self, hits: u64) {
        let streak = if hits >= HITS_MIN { self.streak.load(Relaxed) + 1 } else { 0 };
        self.streak.store(streak, Relaxed);
        if streak >= STREAK {
            self.are_beside.store(true, Relaxed);
        }
    }

    /// Whether there were readers beside the writer, at any time.
    pub(crate) fn are_beside_writer(&self) -> bool {
        self.are_beside.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks after each of which somebody else has read, or nobody.
    fn look(readers: &Readers, reads: impl IntoIterator<Item = bool>) -> bool {
        for is_read in reads {
            if is_read {
                std::thread::scope(|scope| drop(scope.spawn(|| readers.note())));
            }
            readers.look();
        }
        readers.are_beside_writer()
    }

    fn each(nth: u64) -> impl Iterator<Item = bool> {
        (0..LOOKS).map(move |at| at % nth == 0)
    }

    #[test]
    fn who_reads_again_and_again_is_beside_the_writer() {
        let readers = Readers::default();
        for nth in [8, 8, 8, 10, 8, 8, 8] {
            assert!(!look(&readers, each(nth)), "{nth}");
        }
        assert!(look(&readers, each(8)));
        assert!(look(&readers, std::iter::repeat_n(false, 1000)), "for good");
    }

    #[test]
    fn who_writes_himself_is_not() {
        let readers = Readers::default();
        for _ in 0..100 * LOOKS {
            readers.note();
            readers.look();
        }
        assert!(!readers.are_beside_writer());
    }
}
