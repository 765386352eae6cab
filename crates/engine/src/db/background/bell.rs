//! What wakes the lanes: a count of rings, so that none is lost between a look for work and the sleep
//! that follows it.
//!
//! **Concurrency.** A lane reads the count, looks for work, and sleeps only while the count stands
//! where it was. Who makes work does so under the lock, lets go of it, and rings: that raises the
//! count, passes through the lock, and notifies. A lane that compares counts under the lock either
//! sees the new one, or is asleep when the notice comes.

use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::base::sync::{Guard, Mutex, Signal};

pub(crate) struct Bell {
    rings: AtomicU64,
    signal: Signal,
}

impl Default for Bell {
    fn default() -> Self {
        Bell { rings: AtomicU64::new(0), signal: Signal::default() }
    }
}

impl Bell {
    /// How often it was rung; to be read before the look for work.
    pub(crate) fn rings(&self) -> u64 {
        // Pairs with the release in `ring`: who sees the ring finds the work.
        self.rings.load(Ordering::Acquire)
    }

    /// Wakes all who wait with `lock`, which the caller does not hold.
    pub(crate) fn ring<T>(&self, lock: &Mutex<T>) {
        self.rings.fetch_add(1, Ordering::Release);
        // Whoever compared counts before this is asleep once the lock is free.
        drop(lock.lock());
        self.signal.notify_all();
    }

    /// Sleeps until it is rung more often than `seen`, or `over` holds.
    pub(crate) fn wait_past<'a, T>(
        &self,
        seen: u64,
        mut guard: Guard<'a, T>,
        over: impl Fn(&T) -> bool,
    ) -> Guard<'a, T> {
        while !over(&guard) && self.rings() == seen {
            guard = self.signal.wait(guard);
        }
        guard
    }
}

#[cfg(all(test, loom))]
mod exhaustive {
    use std::sync::Arc;

    use super::*;
    use crate::base::sync::{Rank, explore};

    #[derive(Default)]
    struct Desk {
        work: u32,
        done: u32,
        closing: bool,
    }

    struct Office {
        desk: Mutex<Desk>,
        work: Bell,
        changed: Signal,
    }

    impl Office {
        /// A lane's life, as in `Core::run_lane`: looks and works without holding on to the lock.
        fn lane(&self) {
            loop {
                let seen = self.work.rings();
                let found = std::mem::take(&mut self.desk.lock().work);
                let mut desk = self.desk.lock();
                desk.done += found;
                if desk.closing {
                    return;
                }
                if found > 0 {
                    self.changed.notify_all();
                } else {
                    drop(self.work.wait_past(seen, desk, |desk| desk.closing));
                }
            }
        }

        fn ask(&self) {
            self.desk.lock().work += 1;
            self.work.ring(&self.desk);
        }
    }

    fn every_ring_is_heard(lanes: usize, rings: u32) {
        explore(move || {
            let desk = Mutex::new(Rank::State, Desk::default());
            let office =
                Arc::new(Office { desk, work: Bell::default(), changed: Signal::default() });
            let lane = |_| {
                let office = Arc::clone(&office);
                loom::thread::spawn(move || office.lane())
            };
            let lanes: Vec<_> = (0..lanes).map(lane).collect();
            for asked in 1..=rings {
                office.ask();
                let mut desk = office.desk.lock();
                while desk.done < asked {
                    desk = office.changed.wait(desk);
                }
            }
            office.desk.lock().closing = true;
            office.work.ring(&office.desk);
            lanes.into_iter().for_each(|lane| lane.join().unwrap());
        });
    }

    /// Loom calls it a deadlock if one is not.
    #[test]
    fn loom_every_ring_is_heard() {
        every_ring_is_heard(1, 2);
        every_ring_is_heard(2, 1);
    }
}
