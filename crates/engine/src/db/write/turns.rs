//! Threads that write all the time take turns, where they would meet at every write.
//!
//! Two of them that meet are slower than one alone: each write moves the memtable's and the log's lines from one processor's cache to the
//! other's, and who waits looks on. So one goes to sleep for a while, and the other writes as if it were alone. When it is back, they meet
//! again, until the other goes: who has slept is patient for longer. Who writes now and then only does not sleep, however often it meets others: it
//! had no turn. Nor does a write that wants a sync, for one sync serves all who wait.

use std::cell::Cell;
use std::time::Duration;

use crate::base::sync::atomic::{AtomicBool, Ordering::Relaxed};
use crate::base::sync::thread_local;
use crate::env::clock::Clock;

/// So many writes that others committed, ..
const MEETS: i32 = 8;
/// .. within so long ..
const TOGETHER: Duration = Duration::from_micros(60);
/// .. are worth a sleep, that the other may have its caches warm for most of it.
const TURN: Duration = Duration::from_millis(1);
/// Of memtables of so many bytes a cache has the greater part to fetch anew, for half a millisecond.
const MEMTABLE_LARGE: usize = 16 << 20;
const TURN_LARGE: Duration = Duration::from_millis(4);
/// Who has slept meets others so often more before it sleeps again.
const PATIENCE: i32 = 16;

#[derive(Clone, Copy)]
struct Met {
    times: i32,
    since: Duration,
}

thread_local! {
    /// Of the thread's latest writes, whatever the database.
    static MET: Cell<Met> = const { Cell::new(Met { times: 0, since: Duration::ZERO }) };
}

pub(crate) struct Turns {
    length: Duration,
    /// One sleeps. If all did, nobody would write.
    is_one_away: AtomicBool,
}

impl Turns {
    pub(crate) fn new(memtable_bytes: usize) -> Self {
        let length = if memtable_bytes < MEMTABLE_LARGE { TURN } else { TURN_LARGE };
        Turns { length, is_one_away: AtomicBool::new(false) }
    }

    /// The thread's write, without a sync, was committed by another one.
    #[inline]
    pub(crate) fn met(&self, clock: &dyn Clock) {
        let mut met = MET.with(Cell::get);
        met.times += 1;
        if met.times == 1 {
            met.since = clock.now();
        }
        MET.with(|own| own.set(met));
    }

    /// The thread is about to write, without a sync. Blocks for a turn of others if it has met them all the time.
    #[inline]
    pub(crate) fn make_way(&self, clock: &dyn Clock) {
        if MET.with(Cell::get).times > MEETS {
            self.rest(clock);
        }
    }

    #[cold]
    fn rest(&self, clock: &dyn Clock) {
        let now = clock.now();
        let begun = MET.with(|met| met.replace(Met { times: 0, since: now })).since;
        if now.saturating_sub(begun) > TOGETHER || self.is_one_away.swap(true, Relaxed) {
            return;
        }
        clock.sleep(self.length);
        self.is_one_away.store(false, Relaxed);
        MET.with(|met| met.set(Met { times: -PATIENCE, since: now }));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Time goes on where it is made to. Whoever sleeps does something meanwhile.
    struct Scripted<'a> {
        now: Mutex<Duration>,
        sleeps: Mutex<Vec<Duration>>,
        meanwhile: &'a (dyn Fn(&Scripted<'_>) + Sync),
    }

    impl Clock for Scripted<'_> {
        fn now(&self) -> Duration {
            *self.now.lock().unwrap()
        }

        fn wall_micros(&self) -> u64 {
            0
        }

        fn sleep(&self, time: Duration) {
            self.sleeps.lock().unwrap().push(time);
            (self.meanwhile)(self);
        }
    }

    /// Writes that others commit, so far from each other.
    fn meet(turns: &Turns, clock: &Scripted<'_>, times: i32, apart: Duration) {
        for _ in 0..times {
            turns.make_way(clock);
            turns.met(clock);
            *clock.now.lock().unwrap() += apart;
        }
        turns.make_way(clock);
    }

    /// How long a thread of its own sleeps each time that meets others so often, so far from each other.
    fn lengths(memtable_bytes: usize, times: i32, apart: Duration) -> Vec<Duration> {
        let clock =
            Scripted { now: Mutex::default(), sleeps: Mutex::default(), meanwhile: &|_| {} };
        std::thread::scope(|scope| {
            scope.spawn(|| meet(&Turns::new(memtable_bytes), &clock, times, apart));
        });
        clock.sleeps.into_inner().unwrap()
    }

    fn sleeps(times: i32, apart: Duration) -> usize {
        lengths(0, times, apart).len()
    }

    const SOON: Duration = Duration::from_micros(1);

    #[test]
    fn who_meets_others_all_the_time_sleeps_for_a_turn() {
        assert_eq!(sleeps(MEETS, SOON), 0);
        assert_eq!(sleeps(MEETS + 1, SOON), 1);
    }

    #[test]
    fn turns_are_longer_where_caches_take_longer_to_warm() {
        for (memtable_bytes, turn) in
            [(4 << 20, TURN), (MEMTABLE_LARGE - 1, TURN), (MEMTABLE_LARGE, TURN_LARGE)]
        {
            assert_eq!(lengths(memtable_bytes, MEETS + 1, SOON), [turn]);
        }
    }

    #[test]
    fn who_has_slept_is_patient() {
        assert_eq!(sleeps(MEETS + 1 + PATIENCE + MEETS, SOON), 1);
        assert_eq!(sleeps(MEETS + 1 + PATIENCE + MEETS + 1, SOON), 2);
    }

    #[test]
    fn who_writes_now_and_then_does_not_sleep() {
        assert_eq!(sleeps(1000, TOGETHER / 4), 0);
    }

    #[test]
    fn not_all_sleep_at_the_same_time() {
        let turns = Turns::new(0);
        let other = |clock: &Scripted<'_>| {
            std::thread::scope(|scope| {
                scope.spawn(|| meet(&turns, clock, 100 * MEETS, SOON));
            });
        };
        let clock = Scripted { now: Mutex::default(), sleeps: Mutex::default(), meanwhile: &other };
        std::thread::scope(|scope| {
            scope.spawn(|| meet(&turns, &clock, MEETS + 1, SOON));
        });
        assert_eq!(clock.sleeps.lock().unwrap().len(), 1);
        assert!(!turns.is_one_away.load(Relaxed));
    }
}
