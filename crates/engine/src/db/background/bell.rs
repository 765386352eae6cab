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
