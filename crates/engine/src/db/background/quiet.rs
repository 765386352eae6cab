//! What was put off is done once nobody writes: whoever reads then would pay for it.
//!
//! Large tables gather in level 0 until they are eight, for a merge rewrites so much for each of them. When the writers stop at six or
//! seven, nothing would merge them before scans have paid for it, which then run beside the merge.

use std::time::Duration;

use crate::base::key::SeqNo;
use crate::base::slot::Slot;
use crate::base::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use crate::compaction::policy::PolicyEvent;
use crate::db::core::Core;
use crate::env::clock::Clock;

/// Whoever rings meanwhile, or closes the database, waits for no more than one.
const NAP: Duration = Duration::from_millis(10);
/// Nobody writes if nobody has during so many.
const QUIET_NAPS: u32 = 10;
/// So many are enough to see the end of a load: the writer had room for one memtable when he was last heard of. Who writes on rings
/// again for each memtable.
const NAPS_MAX: u32 = 200;

#[derive(Default)]
pub(crate) struct Quiet {
    /// One lane is enough.
    is_watched: AtomicBool,
    /// The newest table when it was last asked for a merge. That may be a while in coming, or fail.
    asked_for: AtomicU64,
}

impl Core {
    /// Called by a lane without work, which has heard so many rings. True if it has some now: level 0, whose merge was put off.
    pub(super) fn merges_once_quiet(&self, heard: u64) -> bool {
        let Quiet { is_watched, asked_for } = &self.quiet;
        let trigger = self.settings.leveled.l0_trigger_once_quiet();
        let are_enough = || self.level0_tables.load(Relaxed) >= trigger as u64;
        if !are_enough() || is_watched.swap(true, Relaxed) {
            return false;
        }
        let falls_quiet = falls_quiet(
            &*self.env.clock,
            || self.visible_seqno(),
            || self.work.rings() != heard || !are_enough(),
        );
        is_watched.store(false, Relaxed);
        if !falls_quiet {
            return false;
        }
        let mut state = self.state.lock();
        let newest = state.version.slot(Slot::L0).first().map(|table| table.number);
        let Some(newest) = newest.filter(|newest| asked_for.swap(newest.0, Relaxed) != newest.0)
        else {
            return false;
        };
        state.policy.observe(PolicyEvent::ScansSpent { newest });
        true
    }
}

/// Naps until nobody has written for some time. False if that does not come to be, or is of no interest any more.
fn falls_quiet(clock: &dyn Clock, written: impl Fn() -> SeqNo, is_over: impl Fn() -> bool) -> bool {
    let (mut last, mut quiet) = (written(), 0);
    for _ in 0..NAPS_MAX {
        clock.sleep(NAP);
        if is_over() {
            return false;
        }
        let now = written();
        quiet = if now == last { quiet + 1 } else { 0 };
        last = now;
        if quiet == QUIET_NAPS {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::atomic::AtomicU32;

    use super::*;
    use crate::base::slot::Level;
    use crate::{Background, Compression, Db, Env, Level0Limits, Options};

    #[derive(Default)]
    struct Naps(AtomicU32);

    impl Clock for Naps {
        fn now(&self) -> Duration {
            Duration::ZERO
        }

        fn wall_micros(&self) -> u64 {
            0
        }

        fn sleep(&self, time: Duration) {
            assert_eq!(time, NAP);
            self.0.fetch_add(1, Relaxed);
        }
    }

    /// After how many naps it is quiet, if somebody writes so many times, once a nap, and somebody rings during one of them.
    fn naps(writes: u64, rung: u32) -> (bool, u32) {
        let clock = Naps::default();
        let written = Cell::new(0);
        let write = || {
            written.set((written.get() + 1).min(writes));
            SeqNo(written.get())
        };
        let is_quiet = falls_quiet(&clock, write, || clock.0.load(Relaxed) == rung);
        (is_quiet, clock.0.into_inner())
    }

    #[test]
    fn it_is_quiet_when_nobody_has_written_for_a_while() {
        assert_eq!(naps(0, u32::MAX), (true, QUIET_NAPS));
        assert_eq!(naps(50, u32::MAX), (true, 49 + QUIET_NAPS));
    }

    #[test]
    fn who_writes_on_or_rings_is_not_waited_for() {
        assert_eq!(naps(u64::MAX, u32::MAX), (false, NAPS_MAX));
        assert_eq!(naps(0, 3), (false, 3));
    }

    /// Level 0 of a database with so many tables there, which are larger than level 1 should be, once nobody writes.
    fn left_alone(tables: usize, time: Duration) -> usize {
        let env = Env::memory();
        let clock = env.clock.clone();
        let options = Options {
            create_if_missing: true,
            env,
            write_buffer_size: 64 << 10,
            compression: Compression::None,
            level0: Level0Limits { compact: 4, slow_down: 12, stop: 16 },
            level1_bytes: 16 << 10,
            background: Background::Lanes,
            unclamped: true,
            ..Default::default()
        };
        let db = Db::open("db", options).unwrap();
        let count = || {
            let levels = db.levels().into_iter().filter(|level| level.level == Level::ZERO);
            levels.map(|level| level.tables.len()).sum::<usize>()
        };
        for table in 0..tables {
            for key in 0..60_u32 {
                db.put(key.to_be_bytes(), vec![table as u8; 1 << 10]).unwrap();
            }
            db.flush().unwrap();
        }
        let begun = clock.now();
        while count() > 0 && clock.now() - begun < time {
            clock.sleep(NAP);
        }
        count()
    }

    #[test]
    fn what_was_put_off_is_merged_once_nobody_writes() {
        assert_eq!(left_alone(6, Duration::from_secs(60)), 0);
        assert_eq!(left_alone(5, 5 * QUIET_NAPS * NAP), 5);
    }
}
