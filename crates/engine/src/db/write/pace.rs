//! How fast writers may go while level 0 is crowded, or flushes are behind.
//!
//! LevelDB sleeps a millisecond before each write from eight tables on, whatever the write's size, and stops where a
//! memtable is full before the last one is flushed. Here each byte written adds to a debt of time. For a crowded level
//! 0 its price rises with the crowding. For memtables that wait it is such that the memtable is full when they will be
//! flushed. Debts are slept off in pieces: rare enough that one put in a thousand does not meet one, short
//! enough that the worst put is not theirs.

use std::time::Duration;

/// The longest put is one of these where nothing else is in its way, and with shorter ones sleeps are what p99.9 is of. Lanes
/// need some of it to come and go.
const SLEEP: Duration = Duration::from_micros(700);
/// Where a memtable of so many bytes fills, sleeps are few beside the puts, and p99.9 does with shorter ones.
const ROOM_LARGE: usize = 16 << 20;
const SLEEP_LARGE: Duration = Duration::from_micros(200);
/// Price of a byte at full pressure: 4 MiB/s.
const NANOS_PER_BYTE_MAX: f64 = 1e9 / (4 << 20) as f64;
/// So often the leader looks how far flushes are. For each look there is one sleep at the most.
const LOOK_BYTES: usize = 16 << 10;
/// No more is remembered of what flushes are behind: whatever was expected may be over by then.
const FILL_DEBT_MAX: Duration = Duration::from_millis(10);

/// The leader's account.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    bytes: u64,
    debt: Duration,
    pub(crate) fill: Fill,
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
        self.debt = self.debt.checked_sub(SLEEP)?;
        Some(SLEEP)
    }
}

/// The account of the memtable being filled.
#[derive(Debug, Default)]
pub(crate) struct Fill {
    /// The memtable's bytes at the last look.
    filled: usize,
    seen: Duration,
    debt: Duration,
}

impl Fill {
    /// Whether the leader should look, with the memtable at `filled` bytes. It may be another one than the last time.
    #[inline]
    pub(crate) fn wants_look(&self, filled: usize) -> bool {
        filled.wrapping_sub(self.filled) >= LOOK_BYTES
    }

    /// Charges what was written since the last look, in a memtable of `room` bytes that is not to be full before `left`
    /// is over, and says how long to sleep now.
    pub(crate) fn charge(
        &mut self,
        now: Duration,
        filled: usize,
        room: usize,
        left: Duration,
    ) -> Option<Duration> {
        let before = if filled < self.filled { 0 } else { self.filled };
        let wrote = filled - before;
        let share = wrote as f64 / room.saturating_sub(before).max(wrote).max(1) as f64;
        let took = now.saturating_sub(self.seen);
        (self.filled, self.seen) = (filled, now);
        // Writing took a part of it, and so did the last sleep.
        self.debt = (self.debt + left.mul_f64(share)).saturating_sub(took).min(FILL_DEBT_MAX);
        let sleep = if room < ROOM_LARGE { SLEEP } else { SLEEP_LARGE };
        (self.debt >= sleep).then_some(sleep)
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

    const ROOM: usize = 4 << 20;

    /// Fills a memtable, each kilobyte in so many microseconds, while what waits takes `left`. Returns how long that took.
    fn fill(fill: &mut Fill, now: &mut Duration, micros: u64, left: Duration) -> Duration {
        let begin = *now;
        for filled in (0..=ROOM).step_by(1 << 10) {
            *now += Duration::from_micros(micros);
            if fill.wants_look(filled) {
                let left = left.saturating_sub(*now - begin);
                *now += fill.charge(*now, filled, ROOM, left).unwrap_or_default();
            }
        }
        *now - begin
    }

    #[test]
    fn a_memtable_is_full_when_the_others_are_flushed() {
        let (mut account, mut now) = (Fill::default(), Duration::from_secs(9));
        let free = fill(&mut account, &mut now, 5, Duration::ZERO);
        assert_eq!(free, Duration::from_micros(5 * 4097), "nothing waits");
        for left in [30, 50, 200, 50].map(Duration::from_millis) {
            let took = fill(&mut account, &mut now, 5, left);
            assert!(took.abs_diff(left) < Duration::from_millis(3), "{took:?} for {left:?}");
        }
        let slow = fill(&mut account, &mut now, 20, Duration::from_millis(60));
        assert!(slow < Duration::from_millis(90), "slow enough by itself: {slow:?}");
    }

    /// A flush that hangs lets writers go on, slowly, until the memtable is full.
    #[test]
    fn debts_have_an_end() {
        let (mut account, mut now) = (Fill::default(), Duration::ZERO);
        let took = fill(&mut account, &mut now, 5, Duration::from_secs(3600));
        assert!(took < Duration::from_millis(400), "{took:?}");
        assert_eq!(account.charge(now, 40 << 10, ROOM, Duration::MAX), Some(SLEEP));
        assert_eq!(account.charge(now, 40 << 10, 16 * ROOM, Duration::MAX), Some(SLEEP_LARGE));
    }
}
