//! Time: a monotonic clock for durations, a wall clock for the info log, and sleeping.

use std::time::Duration;

/// The clock seam.
pub trait Clock: Send + Sync {
    /// Monotonic time since some fixed moment.
    fn now(&self) -> Duration;

    /// Wall-clock microseconds since 1970 (UTC). May jump; only for people to read.
    fn wall_micros(&self) -> u64;

    /// Blocks the calling thread.
    fn sleep(&self, time: Duration);
}
