//! Threads that write all the time take turns, where they would meet at every write.
//!
//! Two of them that meet are slower than one alone: each write moves the memtable's and the log's lines from one processor's cache to the
//! other's, and who waits looks on. So one goes away for a while, and the other writes as if it were alone. When it is back, they meet
//! again, until the other goes: who was away is patient for longer. Who writes now and then only does not go, however often it meets others: it
//! had no turn. Nor does a write that wants a sync, for one sync serves all who wait.
//!
//! Who is away [helps](crate::memtable::MemTable::help): it finds the places of what the other inserts, which is half of the work, and
//! sleeps only where it is through with that.

use std::cell::Cell;
use std::time::Duration;

use crate::base::sync::atomic::{AtomicBool, Ordering::Relaxed};
use crate::base::sync::thread_local;
use crate::env::clock::Clock;

/// So many writes that others committed, ..
const MEETS: i32 = 8;
/// .. within so long ..
const TOGETHER: Duration = Duration::from_micros(60);
/// .. are worth going away, that the other may have its caches warm for most of it.
const TURN: Duration = Duration::from_millis(1);
/// Of memtables of so many bytes a cache has the greater part to fetch anew, for half a millisecond.
const MEMTABLE_LARGE: usize = 16 << 20;
const TURN_LARGE: Duration = Duration::from_millis(4);
/// Where there is nothing to help with.
const NAP: Duration = Duration::from_micros(50);
/// Who was away meets others so often more before it goes again.
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
    /// One is away at the most: if all were, nobody would write.
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

    /// The thread is about to write, without a sync. Blocks for a turn of others if it has met them all the time, and helps them
    /// meanwhile: `help` returns whether there was anything to do.
    #[inline]
    pub(crate) fn make_way(&self, clock: &dyn Clock, help: impl Fn() -> bool) {
        if MET.with(Cell::get).times > MEETS {
            self.rest(clock, &help);
        }
    }

    /// Whether one is away, and helps those who write.
    #[inline]
    pub(crate) fn are_helped(&self) -> bool {
        self.is_one_away.load(Relaxed)
    }

    /// For tests: as if one were away, who does not help.
    #[cfg(test)]
    pub(crate) fn pretend(&self, is_one_away: bool) {
        self.is_one_away.store(is_one_away, Relaxed);
    }

    #[cold]
    fn rest(&self, clock: &dyn Clock, help: &dyn Fn() -> bool) {
        let now = clock.now();
        let begun = MET.with(|met| met.replace(Met { times: 0, since: now })).since;
        if now.saturating_sub(begun) > TOGETHER || self.is_one_away.swap(true, Relaxed) {
            return;
        }
        // What was slept counts by itself: there are clocks with coarse hands.
        let (mut passed, mut slept) = (Duration::ZERO, Duration::ZERO);
        while passed < self.length {
            if !help() {
                let nap = NAP.min(self.length - passed);
                clock.sleep(nap);
                slept += nap;
            }
            passed = clock.now().saturating_sub(now).max(slept);
        }
        self.is_one_away.store(false, Relaxed);
        MET.with(|met| met.set(Met { times: -PATIENCE, since: now }));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::AtomicU32;

    use super::*;

    const SOON: Duration = Duration::from_micros(1);

    /// Time goes on where it is made to. Whoever sleeps does something meanwhile.
    struct Scripted<'a> {
        now: Mutex<Duration>,
        meanwhile: &'a (dyn Fn(&Scripted<'_>) + Sync),
    }

    impl Scripted<'_> {
        fn pass(&self, time: Duration) {
            *self.now.lock().unwrap() += time;
        }
    }

    impl Clock for Scripted<'_> {
        fn now(&self) -> Duration {
            *self.now.lock().unwrap()
        }

        fn wall_micros(&self) -> u64 {
            0
        }

        fn sleep(&self, time: Duration) {
            (self.meanwhile)(self);
            self.pass(time);
        }
    }

    fn idle() -> Scripted<'static> {
        Scripted { now: Mutex::default(), meanwhile: &|_| {} }
    }

    /// Writes that others commit, so far from each other, of a thread of its own. How long it was away, each time.
    fn meet(
        turns: &Turns,
        clock: &Scripted<'_>,
        (times, apart): (i32, Duration),
        help: &(dyn Fn() -> bool + Sync),
    ) -> Vec<Duration> {
        let mut rests = Vec::new();
        let mut make_way = || {
            let begin = clock.now();
            turns.make_way(clock, help);
            rests.extend(Some(clock.now() - begin).filter(|away| !away.is_zero()));
        };
        let meet = || {
            for _ in 0..times {
                make_way();
                turns.met(clock);
                clock.pass(apart);
            }
            make_way();
        };
        std::thread::scope(|scope| scope.spawn(meet).join().unwrap());
        rests
    }

    fn lengths(memtable_bytes: usize, times: i32, apart: Duration) -> Vec<Duration> {
        meet(&Turns::new(memtable_bytes), &idle(), (times, apart), &|| false)
    }

    fn rests(times: i32, apart: Duration) -> usize {
        lengths(0, times, apart).len()
    }

    #[test]
    fn who_meets_others_all_the_time_is_away_for_a_turn() {
        assert_eq!(rests(MEETS, SOON), 0);
        assert_eq!(rests(MEETS + 1, SOON), 1);
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
    fn who_was_away_is_patient() {
        assert_eq!(rests(MEETS + 1 + PATIENCE + MEETS, SOON), 1);
        assert_eq!(rests(MEETS + 1 + PATIENCE + MEETS + 1, SOON), 2);
    }

    #[test]
    fn who_writes_now_and_then_is_never_away() {
        assert_eq!(rests(1000, TOGETHER / 4), 0);
    }

    #[test]
    fn who_is_away_helps_while_there_is_something_to_do() {
        let (turns, clock, naps) = (Turns::new(0), idle(), AtomicU32::new(0));
        let count = |_: &Scripted<'_>| _ = naps.fetch_add(1, Relaxed);
        let clock = Scripted { meanwhile: &count, ..clock };
        let helps = AtomicU32::new(0);
        let help = || {
            assert!(turns.are_helped());
            clock.pass(SOON);
            helps.fetch_add(1, Relaxed) < 100
        };
        let rests = meet(&turns, &clock, (MEETS + 1, SOON), &help);
        assert!(rests.len() == 1 && rests[0] >= TURN && rests[0] < TURN + 2 * SOON);
        let naps = naps.load(Relaxed);
        assert_eq!(helps.load(Relaxed), 100 + naps);
        assert!(naps >= 17, "of 50 \u{b5}s, with a look at the work before each");
        assert!(!turns.are_helped());
    }

    #[test]
    fn a_turn_ends_by_a_clock_that_does_not_tell_naps() {
        let naps = AtomicU32::new(0);
        let frozen = |clock: &Scripted<'_>| {
            naps.fetch_add(1, Relaxed);
            *clock.now.lock().unwrap() -= NAP; // Which `sleep` adds.
        };
        let clock = Scripted { now: Mutex::new(TURN), meanwhile: &frozen };
        meet(&Turns::new(0), &clock, (MEETS + 1, Duration::ZERO), &|| false);
        assert_eq!(naps.load(Relaxed), TURN.div_duration_f64(NAP) as u32);
    }

    #[test]
    fn not_all_are_away_at_the_same_time() {
        let turns = Turns::new(0);
        let other = |clock: &Scripted<'_>| {
            assert!(meet(&turns, clock, (100 * MEETS, SOON), &|| false).is_empty());
        };
        let clock = Scripted { now: Mutex::default(), meanwhile: &other };
        assert_eq!(meet(&turns, &clock, (MEETS + 1, SOON), &|| false).len(), 1);
        assert!(!turns.are_helped());
    }
}
