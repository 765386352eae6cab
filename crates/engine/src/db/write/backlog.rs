//! What waits to be flushed, and for how long yet: so that writers go slower before they would have to stop.
//!
//! **Concurrency.** Numbers without order among them: whoever reads some of yesterday's writes a little too fast or too
//! slowly for a moment.

use std::time::Duration;

use crate::base::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::env::clock::nanos;

/// A flush that takes longer than usual takes so much longer yet: a part of what it has taken.
const LATE_SHARE: u32 = 4;
/// Whatever clocks say.
const LEFT_MAX: Duration = Duration::from_secs(3600);

#[derive(Default)]
pub(crate) struct Backlog {
    /// Memtables that wait to be flushed, with the one that is.
    waiting: AtomicU64,
    /// When the last flush began, or ended: nanoseconds on the environment's clock.
    began: AtomicU64,
    /// What a flush took, lately; 0 before the first.
    usual: AtomicU64,
}

impl Backlog {
    /// Called under the state lock.
    pub(crate) fn set_waiting(&self, memtables: usize, now: Duration) {
        // The first to wait has not been waited for since the last flush, however long ago that was.
        if self.waiting.swap(memtables as u64, Relaxed) == 0 {
            self.flush_begins(now);
        }
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Relaxed) as usize
    }

    pub(crate) fn flush_begins(&self, now: Duration) {
        self.began.store(nanos(now), Relaxed);
    }

    pub(crate) fn flush_ends(&self, now: Duration, took: Duration) {
        let usual = self.usual.load(Relaxed);
        let usual = if usual == 0 { nanos(took) } else { usual - usual / 4 + nanos(took) / 4 };
        self.usual.store(usual, Relaxed);
        self.flush_begins(now); // The next one, if there is one.
    }

    /// How long it is, by what flushes took lately, until all that waits is flushed.
    pub(crate) fn left(&self, now: Duration) -> Duration {
        let Some(behind) = self.waiting().checked_sub(1) else { return Duration::ZERO };
        let taken = now.saturating_sub(Duration::from_nanos(self.began.load(Relaxed)));
        let usual = Duration::from_nanos(self.usual.load(Relaxed));
        let this = usual.saturating_sub(taken).max(taken / LATE_SHARE);
        let behind = u32::try_from(behind).unwrap_or(u32::MAX);
        let others = usual.max(taken).saturating_mul(behind);
        this.saturating_add(others).min(LEFT_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(number: u64) -> Duration {
        Duration::from_millis(number)
    }

    #[test]
    fn what_is_left_is_told_by_what_flushes_took() {
        let backlog = Backlog::default();
        assert_eq!(backlog.left(ms(5)), Duration::ZERO, "nothing waits");
        backlog.flush_begins(ms(0));
        backlog.flush_ends(ms(20), ms(20));
        backlog.set_waiting(1, ms(100));
        assert_eq!(backlog.left(ms(100)), ms(20));
        assert_eq!(backlog.left(ms(112)), ms(8));
        backlog.set_waiting(3, ms(112));
        assert_eq!(backlog.left(ms(112)), ms(8 + 2 * 20));
    }

    /// It is not taken for done, and those behind it are expected to be no faster.
    #[test]
    fn a_late_flush_takes_longer_yet() {
        let backlog = Backlog::default();
        backlog.set_waiting(2, ms(0));
        assert_eq!(backlog.left(ms(40)), ms(10 + 40), "the first one of all");
        backlog.flush_ends(ms(40), ms(40));
        assert_eq!(backlog.left(ms(120)), ms(20 + 80));
    }

    /// Between the switch of memtables and the flush's begin, too.
    #[test]
    fn an_idle_hour_is_not_a_late_flush() {
        let (backlog, hour) = (Backlog::default(), Duration::from_secs(3600));
        backlog.flush_ends(ms(20), ms(20));
        backlog.set_waiting(0, ms(20));
        backlog.set_waiting(1, hour);
        assert_eq!(backlog.left(hour), ms(20));
        backlog.set_waiting(2, hour + ms(5));
        assert_eq!(backlog.left(hour + ms(5)), ms(15 + 20), "the first one's time goes on");
    }

    #[test]
    fn the_usual_time_follows_slowly() {
        let backlog = Backlog::default();
        for took in [20, 60, 60] {
            backlog.flush_ends(ms(0), ms(took));
        }
        backlog.set_waiting(1, ms(0));
        assert_eq!(backlog.left(ms(0)), Duration::from_micros(37_500));
    }

    #[test]
    fn times_without_end_do_no_harm() {
        let backlog = Backlog::default();
        backlog.flush_ends(Duration::MAX, Duration::MAX);
        backlog.set_waiting(17, Duration::ZERO);
        assert_eq!(backlog.left(Duration::MAX), LEFT_MAX);
    }
}
