//! Whether the database is read while it is written without a pause. Where readers and lanes have one processor, the one that the
//! writer leaves, lanes would take most of it from readers, so they go behind them; for good, since a thread that has
//! lowered its priority may not raise it again.
//!
//! **Concurrency.** Readers set a mark that is mostly set already: they look at it, and write it once for each flush.

use crate::base::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// So many flushes in a row during which somebody read.
const FLUSHES_MIN: u64 = 3;

/// Apart from what writers change: each read looks here.
#[repr(align(128))]
#[derive(Default)]
pub(crate) struct Readers {
    seen: AtomicBool,
    /// Flushes in a row, until the last one.
    flushes: AtomicU64,
    are_beside: AtomicBool,
}

impl Readers {
    /// Somebody reads.
    #[inline]
    pub(crate) fn note(&self) {
        if !self.seen.load(Relaxed) {
            self.seen.store(true, Relaxed);
        }
    }

    /// A flush begins, by the one lane that flushes.
    pub(crate) fn note_flush(&self) {
        let flushes = match self.seen.swap(false, Relaxed) {
            true => self.flushes.load(Relaxed) + 1,
            false => 0,
        };
        self.flushes.store(flushes, Relaxed);
        if flushes >= FLUSHES_MIN {
            self.are_beside.store(true, Relaxed);
        }
    }

    /// Whether there were readers beside writers, at any time.
    pub(crate) fn are_beside_writers(&self) -> bool {
        self.are_beside.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_are_beside_writers_once_they_read_between_flushes() {
        let readers = Readers::default();
        let flush = |reads: bool| {
            if reads {
                (0..9).for_each(|_| readers.note());
            }
            readers.note_flush();
            readers.are_beside_writers()
        };
        assert_eq!([true, true, false, true, true].map(flush), [false; 5]);
        assert!(flush(true));
        assert!(flush(false), "for good");
    }
}
