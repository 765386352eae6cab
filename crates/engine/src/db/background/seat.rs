//! The processor that writing goes on on. Lanes keep off it: a lane that wakes up there, and it is often the writer that
//! wakes it, has the writer wait for milliseconds, with another processor idle.
//!
//! **Concurrency.** Written by the leader of the writers. Read at any time: an old answer has a lane move once more.

use std::time::Duration;

use crate::base::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Who has not written for so long wants no processor.
const STALE: Duration = Duration::from_millis(20);
/// So many looks in a row must find the same processor. Several writers at work have no place of their own.
const ALIKE_MIN: u64 = 3;

#[derive(Default)]
pub(crate) struct Seat {
    processor: AtomicU64,
    /// Looks in a row that found this one.
    alike: AtomicU64,
    /// When the last one did: nanoseconds on the environment's clock.
    seen: AtomicU64,
}

impl Seat {
    /// The leader writes there.
    pub(crate) fn note(&self, processor: usize, now: Duration) {
        let processor = processor as u64;
        let same = self.processor.load(Relaxed) == processor;
        self.alike.store(if same { self.alike.load(Relaxed) + 1 } else { 1 }, Relaxed);
        self.processor.store(processor, Relaxed);
        self.seen.store(now.as_nanos() as u64, Relaxed);
    }

    /// The processor to keep off, if there is one.
    pub(crate) fn taken(&self, now: Duration) -> Option<usize> {
        let seen = Duration::from_nanos(self.seen.load(Relaxed));
        let lasts = self.alike.load(Relaxed) >= ALIKE_MIN && now.saturating_sub(seen) < STALE;
        lasts.then(|| self.processor.load(Relaxed) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seat_is_taken_once_it_is_kept_and_until_it_is_left() {
        let (seat, ms) = (Seat::default(), Duration::from_millis);
        let mut taken = Vec::new();
        for (now, processor) in (100..).zip([0, 0, 0, 1, 0, 1, 1, 1, 1]) {
            seat.note(processor, ms(now));
            taken.push(seat.taken(ms(now)));
        }
        let (nobody, first, second) = (None, Some(0), Some(1));
        assert_eq!(taken, [nobody, nobody, first, nobody, nobody, nobody, nobody, second, second]);
        assert_eq!((seat.taken(ms(127)), seat.taken(ms(128))), (second, nobody));
    }
}
