//! How fast writers may go while level 0 is crowded.
//!
//! LevelDB sleeps a millisecond before each write from eight tables on, whatever the write's size.
//! Here each byte written adds to a debt of time, at a price that rises with the crowding, and the
//! debt is slept off in pieces: rare enough that one put in a thousand does not meet one, short enough that the worst put
//! is not theirs.

use std::time::Duration;

/// With shorter ones p99.9 of random overwrites is a sleep: 40 us with 0.5 ms, 30 with 1, 22 with 2.
const SLEEP_MIN: Duration = Duration::from_millis(2);
/// Longest single delay.
const SLEEP_MAX: Duration = Duration::from_millis(5);
/// Price of a byte at full pressure: 4 MiB/s.
const NANOS_PER_BYTE_MAX: f64 = 1e9 / (4 << 20) as f64;

/// The leader's account.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    bytes: u64,
    debt: Duration,
}

impl Pace {
    pub(crate) fn wrote(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// Charges what was written since the last call at `pressure` (0: free, 1: about to stop), and
    /// says how long to sleep now.
    pub(crate) fn charge(&mut self, pressure: f64) -> Option<Duration> {
        let bytes = std::mem::take(&mut self.bytes);
        if pressure <= 0.0 {
            self.debt = Duration::ZERO;
            return None;
        }
        let price = NANOS_PER_BYTE_MAX * pressure * pressure;
        self.debt += Duration::from_nanos((bytes as f64 * price) as u64);
        if self.debt < SLEEP_MIN {
            return None;
        }
        let sleep = self.debt.min(SLEEP_MAX);
        self.debt -= sleep;
        Some(sleep)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_pressure_no_delay() {
        let mut pace = Pace::default();
        pace.wrote(1 << 30);
        assert_eq!(pace.charge(0.0), None);
        assert_eq!(pace.charge(1.0), None, "bytes written before are not charged later");
    }

    #[test]
    fn delays_sum_up_to_the_price() {
        let mut pace = Pace::default();
        let mut slept = Duration::ZERO;
        for _ in 0..40_000 {
            pace.wrote(140);
            slept += pace.charge(1.0).unwrap_or_default();
        }
        let fair = 40_000.0 * 140.0 / (4 << 20) as f64;
        assert!((slept.as_secs_f64() - fair).abs() < 0.01, "{slept:?} for {fair} s");
    }
}
