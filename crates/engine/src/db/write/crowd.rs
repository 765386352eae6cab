//! How many writers want syncs at the same time, so that one sync can serve them all.
//!
//! A leader that syncs as soon as it leads takes along whoever happens to wait: those whom the last sync was for have
//! only just been told, and come back while the disk is at work for one. Four writers then share two syncs.

use std::time::Duration;

/// Each time that a sync takes so long, its leader waits as long as for one that takes no time.
const SYNC_PER_WAIT: Duration = Duration::from_millis(1);
/// But no longer than so many times: threads on a busy machine have come back by then.
const WAITS_MAX: u32 = 25;
/// After so many waits in vain in a row, a leader waits once in 2^6 times.
const VAIN_MAX: u32 = 6;

/// What is known of those who write at the same time.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    /// For how many the last commit was, and how many came meanwhile.
    size: usize,
    /// Waits in vain, in a row.
    vain: u32,
    /// Leaders that shall not wait.
    to_skip: u32,
    /// What the last sync took.
    sync: Duration,
}

impl Crowd {
    /// How many should wait behind a leader before it syncs. None, if it is alone, or has mostly waited in vain.
    pub(crate) fn awaited(&mut self) -> usize {
        if self.to_skip > 0 {
            self.to_skip -= 1;
            return 0;
        }
        self.size.saturating_sub(1)
    }

    /// How long to wait for them, in shares of what is worth it before any sync. One that asks a bucket takes tens of
    /// milliseconds: who misses it waits as long again.
    pub(crate) fn patience(&self) -> u32 {
        let waits = self.sync.as_nanos() / SYNC_PER_WAIT.as_nanos();
        u32::try_from(waits).unwrap_or(WAITS_MAX).clamp(1, WAITS_MAX)
    }

    /// Notes what a sync took, with all that was done for it.
    pub(crate) fn synced(&mut self, took: Duration) {
        self.sync = took;
    }

    /// Notes how many of the awaited came: most, or it was in vain.
    pub(crate) fn waited(&mut self, awaited: usize, came: usize) {
        self.vain = if 2 * came > awaited { 0 } else { (self.vain + 1).min(VAIN_MAX) };
        self.to_skip = (1 << self.vain) - 1;
    }

    /// Notes for how many a leader has committed, itself included, and how many wait for the next one.
    pub(crate) fn committed(&mut self, together: usize, waiting: usize) {
        self.size = together + waiting;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lone_writer_waits_for_nobody() {
        let mut crowd = Crowd::default();
        for _ in 0..3 {
            assert_eq!(crowd.awaited(), 0);
            crowd.committed(1, 0);
        }
    }

    #[test]
    fn groups_that_take_turns_become_one() {
        let mut crowd = Crowd::default();
        crowd.committed(1, 3);
        assert_eq!(crowd.awaited(), 3);
        crowd.waited(3, 3);
        crowd.committed(4, 0);
        assert_eq!(crowd.awaited(), 3);
    }

    #[test]
    fn who_does_not_come_back_is_awaited_ever_more_rarely() {
        let mut crowd = Crowd::default();
        let mut waits = 0;
        for _ in 0..1000 {
            // Another one comes while each commit is under way, but later than anybody would wait.
            if crowd.awaited() > 0 {
                waits += 1;
                crowd.waited(1, 0);
            }
            crowd.committed(1, 1);
        }
        assert!((15..30).contains(&waits), "{waits}");
    }

    #[test]
    fn who_comes_back_after_all_is_awaited_again() {
        let mut crowd = Crowd::default();
        crowd.committed(2, 0);
        crowd.waited(1, 0);
        assert_eq!([crowd.awaited(), crowd.awaited()], [0, 1]);
        crowd.waited(1, 1);
        assert_eq!(crowd.awaited(), 1);
    }

    #[test]
    fn nearly_all_are_as_good_as_all() {
        let mut crowd = Crowd::default();
        crowd.committed(16, 0);
        crowd.waited(15, 14);
        assert_eq!(crowd.awaited(), 15);
        crowd.waited(15, 7);
        assert_eq!(crowd.awaited(), 0);
    }

    #[test]
    fn slow_syncs_are_worth_a_longer_wait() {
        let mut crowd = Crowd::default();
        assert_eq!(crowd.patience(), 1);
        let patience = [300, 5_000, 28_000, 60_000_000].map(|micros| {
            crowd.synced(Duration::from_micros(micros));
            crowd.patience()
        });
        assert_eq!(patience, [1, 5, 25, 25]);
    }
}
