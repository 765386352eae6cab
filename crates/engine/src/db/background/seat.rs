//! The processor on which writing goes on. Lanes keep off it: one that wakes up there, and it is often the writer that
//! wakes it, or that runs there when the writer wakes up, has the writer wait for milliseconds, with another
//! processor idle.
//!
//! Writers that are slowed down sleep, and tell until when. One lane may borrow the processor for that time.
//!
//! **Concurrency.** Written by the leader of the writers, but for `is_lent`, which belongs to the lane that has set it.
//! Read at any time: an old answer has a lane move once more.

use std::time::Duration;

use crate::base::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use crate::env::clock::nanos;
use crate::env::threads::Place;

/// Who has not written for so long wants no processor.
const STALE: Duration = Duration::from_millis(20);
/// So many looks in a row must find the same processor. Several writers at work have no place of their own.
const ALIKE_MIN: u64 = 3;
/// To move to another processor and back takes some tens of microseconds, and is not worth less.
const LOAN_MIN: Duration = Duration::from_micros(300);
/// So long before its time is over a lane gives the processor back: it looks at the clock every 32 entries.
const RETURN_EARLY: Duration = Duration::from_micros(50);
/// A writer of large batches that sleeps for a third of the time leaves its processor to the lanes that it waits for:
/// shorter waits are worth nothing to it. Of small ones few wait, and the longest wait counts.
const SLEPT_SHARE_MAX: f64 = 0.3;
const BATCH_LARGE: u64 = 512;
/// Over which that is taken.
const SHARE_TIME: Duration = Duration::from_millis(100);

#[derive(Default)]
pub(crate) struct Seat {
    processor: AtomicU64,
    /// Looks in a row that found this one.
    alike: AtomicU64,
    /// When the last one did: nanoseconds on the environment's clock, as below.
    seen: AtomicU64,
    /// Until when the writer sleeps.
    free_until: AtomicU64,
    is_lent: AtomicBool,
    /// How long the writer has slept since `judged`.
    slept: AtomicU64,
    judged: AtomicU64,
    /// What was written then.
    batches: AtomicU64,
    bytes: AtomicU64,
    sleeps_mostly: AtomicBool,
}

/// What was written since the database was opened.
#[derive(Clone, Copy, Default)]
pub(crate) struct Written {
    pub(crate) batches: u64,
    pub(crate) bytes: u64,
}

impl Seat {
    /// Writing is about to begin there, as far as anybody knows: who opens a database mostly writes to it.
    pub(crate) fn keep_free(&self, processor: usize, now: Duration) {
        (0..ALIKE_MIN).for_each(|_| self.note(processor, now, Written::default()));
    }

    /// The leader writes there.
    pub(crate) fn note(&self, processor: usize, now: Duration, written: Written) {
        let processor = processor as u64;
        let same = self.processor.load(Relaxed) == processor;
        self.alike.store(if same { self.alike.load(Relaxed) + 1 } else { 1 }, Relaxed);
        self.processor.store(processor, Relaxed);
        self.seen.store(nanos(now), Relaxed);
        self.judge(now, written);
    }

    fn judge(&self, now: Duration, written: Written) {
        let time = now.saturating_sub(Duration::from_nanos(self.judged.load(Relaxed)));
        if time < SHARE_TIME {
            return;
        }
        let slept = Duration::from_nanos(self.slept.swap(0, Relaxed));
        let batches = written.batches - self.batches.swap(written.batches, Relaxed);
        let bytes = written.bytes - self.bytes.swap(written.bytes, Relaxed);
        let is_large = bytes >= BATCH_LARGE * batches;
        let is_long = slept.as_secs_f64() > SLEPT_SHARE_MAX * time.as_secs_f64();
        self.sleeps_mostly.store(is_large && is_long, Relaxed);
        self.judged.store(nanos(now), Relaxed);
    }

    /// The leader is about to sleep, for so long or until it is woken.
    pub(crate) fn lend(&self, now: Duration, time: Duration) {
        self.free_until.store(nanos(now.saturating_add(time)), Relaxed);
    }

    /// The leader is awake again, after so long.
    pub(crate) fn claim(&self, slept: Duration) {
        self.free_until.store(0, Relaxed);
        self.slept.store(self.slept.load(Relaxed).saturating_add(nanos(slept)), Relaxed);
    }

    #[cfg(test)]
    pub(crate) fn is_to_be_had(&self) -> bool {
        self.free_until.load(Relaxed) != 0
    }

    /// The processor that is written on, if there is one.
    fn taken(&self, now: Duration) -> Option<usize> {
        let seen = Duration::from_nanos(self.seen.load(Relaxed));
        let lasts = self.alike.load(Relaxed) >= ALIKE_MIN
            && now.saturating_sub(seen) < STALE
            && !self.sleeps_mostly.load(Relaxed);
        lasts.then(|| self.processor.load(Relaxed) as usize)
    }

    /// Whether writing goes on there.
    pub(crate) fn is_on(&self, processor: Option<usize>, now: Duration) -> bool {
        processor.is_some() && processor == self.taken(now)
    }

    /// Where a lane is to run that runs in `place` now. Only lanes that look often borrow.
    pub(crate) fn next_place(&self, place: Place, now: Duration, borrows: bool) -> Place {
        let Some(taken) = self.taken(now) else {
            self.give_back(place);
            return Place::Anywhere;
        };
        let free = Duration::from_nanos(self.free_until.load(Relaxed)).saturating_sub(now);
        let here = Place::On(taken);
        if place == here {
            if borrows && free > RETURN_EARLY {
                return here;
            }
        } else if borrows && free >= LOAN_MIN && !self.is_lent.swap(true, Relaxed) {
            return here;
        }
        self.give_back(place);
        Place::Off(taken)
    }

    /// Who leaves a place on a processor has borrowed it.
    fn give_back(&self, place: Place) {
        if matches!(place, Place::On(_)) {
            self.is_lent.store(false, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANYWHERE: Place = Place::Anywhere;

    fn us(number: u64) -> Duration {
        Duration::from_micros(number)
    }

    fn taken(processor: usize, now: Duration) -> Seat {
        let seat = Seat::default();
        seat.keep_free(processor, now);
        seat
    }

    #[test]
    fn a_seat_is_taken_once_it_is_kept_and_until_it_is_left() {
        let (seat, ms) = (Seat::default(), Duration::from_millis);
        let mut places = Vec::new();
        for (now, processor) in (100..).zip([0, 0, 0, 1, 0, 1, 1, 1, 1]) {
            seat.note(processor, ms(now), Written::default());
            places.push(seat.next_place(ANYWHERE, ms(now), true));
        }
        let (first, second) = (Place::Off(0), Place::Off(1));
        let expected =
            [ANYWHERE, ANYWHERE, first, ANYWHERE, ANYWHERE, ANYWHERE, ANYWHERE, second, second];
        assert_eq!(places, expected);
        assert_eq!(seat.next_place(second, ms(127), true), second);
        assert_eq!(seat.next_place(second, ms(128), true), ANYWHERE);
    }

    #[test]
    fn who_opens_the_database_has_a_seat_at_once() {
        let seat = Seat::default();
        assert_eq!(seat.next_place(ANYWHERE, us(9000), true), ANYWHERE);
        seat.keep_free(1, us(9000));
        assert_eq!(seat.next_place(ANYWHERE, us(9000), true), Place::Off(1));
        assert_eq!(
            seat.next_place(ANYWHERE, us(9000) + STALE, true),
            ANYWHERE,
            "it does not write"
        );
    }

    #[test]
    fn one_lane_borrows_the_seat_while_the_writer_sleeps() {
        let seat = taken(1, us(9000));
        let (off, on) = (Place::Off(1), Place::On(1));
        assert_eq!(seat.next_place(ANYWHERE, us(9000), true), off);
        seat.lend(us(9000), us(2000));
        assert_eq!(seat.next_place(off, us(9000), false), off, "it would not come back in time");
        assert_eq!(seat.next_place(off, us(9000), true), on);
        assert_eq!(seat.next_place(off, us(9001), true), off, "one of them");
        assert_eq!(seat.next_place(on, us(10_949), true), on);
        assert_eq!(seat.next_place(on, us(10_950), true), off, "before the writer is back");
        assert_eq!(seat.next_place(off, us(10_701), true), off, "not for so short a time");
        seat.claim(us(2000));
        assert_eq!(seat.next_place(off, us(9000), true), off, "the writer is awake");
        seat.lend(us(11_000), us(2000));
        assert_eq!(seat.next_place(off, us(11_000), true), on);
    }

    #[test]
    fn a_writer_of_large_batches_that_mostly_sleeps_has_no_seat() {
        let seat = taken(0, us(100_000));
        let off = Place::Off(0);
        let mut written = Written::default();
        for (slept, batches, bytes, expected) in [
            (31_000, 100, 51_200, ANYWHERE),
            (29_000, 100, 51_200, off),
            (31_000, 100, 51_199, off),
            (99_000, 2, 4_000_000, ANYWHERE),
            (99_000, 0, 0, ANYWHERE),
            (99_000, 9, 900, off),
        ] {
            seat.claim(us(slept - 1000));
            seat.claim(us(1000));
            let later = Duration::from_nanos(seat.seen.load(Relaxed)) + SHARE_TIME;
            written.batches += batches;
            written.bytes += bytes;
            seat.note(0, later, written);
            let place = seat.next_place(ANYWHERE, later, true);
            assert_eq!(place, expected, "{slept} of 100,000 us, {batches} batches of {bytes}");
        }
    }

    #[test]
    fn a_borrowed_seat_is_given_back_in_any_case() {
        let seat = taken(1, us(9000));
        seat.lend(us(9000), Duration::MAX);
        assert_eq!(seat.next_place(ANYWHERE, us(9000), true), Place::On(1));
        assert_eq!(seat.next_place(Place::On(1), us(9000), false), Place::Off(1), "about to sleep");
        assert_eq!(seat.next_place(ANYWHERE, us(9000), true), Place::On(1));
        assert_eq!(seat.next_place(Place::On(1), us(60_000), true), ANYWHERE, "nobody writes");
        seat.keep_free(2, us(60_000));
        assert_eq!(seat.next_place(ANYWHERE, us(60_000), true), Place::On(2));
        seat.keep_free(1, us(60_000));
        assert_eq!(seat.next_place(Place::On(2), us(60_000), true), Place::Off(1), "it has moved");
        assert_eq!(seat.next_place(Place::Off(1), us(60_000), true), Place::On(1));
    }
}
