//! Time: a monotonic clock for durations, a wall clock for the info log, and sleeping.
#![expect(clippy::disallowed_methods, reason = "the one place that asks the system for time")]

use std::time::{Duration, Instant, SystemTime};

/// The clock seam.
pub trait Clock: Send + Sync {
    /// Monotonic time since some fixed moment.
    fn now(&self) -> Duration;

    /// Wall-clock microseconds since 1970 (UTC). May jump; only for people to read.
    fn wall_micros(&self) -> u64;

    /// Blocks the calling thread.
    fn sleep(&self, time: Duration);
}

/// The operating system's clocks. Monotonic time counts from the value's making.
pub(crate) struct SystemClock {
    started: Instant,
}

impl SystemClock {
    pub(crate) fn new() -> Self {
        SystemClock { started: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn wall_micros(&self) -> u64 {
        // A wall clock set before 1970 reads as 1970; 64 bits of microseconds last 584,000 years.
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        since_1970.map_or(0, |time| time.as_micros() as u64)
    }

    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// For atomics: nanoseconds, no more than fit.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_moves_forward_and_the_wall_clock_is_of_this_century() {
        let clock = SystemClock::new();
        let before = clock.now();
        clock.sleep(Duration::ZERO);
        assert!(clock.now() >= before);
        assert!(clock.wall_micros() > 946_684_800_000_000);
    }
}
