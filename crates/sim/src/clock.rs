//! Time that follows the run: each look at the clock moves it on a little, and sleeping moves it on by
//! as much as was asked.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use siltstone::Clock;

/// A clock of a world of its own. It starts at zero.
#[derive(Default)]
pub struct SimClock {
    micros: AtomicU64,
}

impl Clock for SimClock {
    fn now(&self) -> Duration {
        Duration::from_micros(self.micros.fetch_add(1, Relaxed))
    }

    fn wall_micros(&self) -> u64 {
        // Some moment in 2001.
        1_000_000_000_000_000 + self.micros.load(Relaxed)
    }

    fn sleep(&self, time: Duration) {
        // Sleeps of millennia do not occur.
        self.micros.fetch_add(time.as_micros() as u64, Relaxed);
    }
}
