//! Open loop: operations begin when a timetable says, not when the one before has ended. What waits
//! behind a slow operation is late, and its time counts from when it should have begun.

use std::thread;
use std::time::{Duration, Instant};

/// Waiting by the scheduler may last this much longer than asked.
const SLACK: Duration = Duration::from_micros(80);

/// One thread's timetable.
pub(crate) struct Pace {
    next: Instant,
    interval: Duration,
}

impl Pace {
    /// `per_second` operations of all threads together; this is thread `index` of `threads`. The
    /// threads' turns lie evenly between each other.
    pub(crate) fn new(per_second: f64, index: usize, threads: usize) -> Self {
        let interval = Duration::from_secs_f64(threads as f64 / per_second);
        let offset = interval.mul_f64(index as f64 / threads as f64);
        Pace { next: Instant::now() + offset, interval }
    }

    /// Waits for the next turn, if it is not there yet, and returns when it was to be. `operations`
    /// are done in this turn.
    pub(crate) fn wait(&mut self, operations: u32) -> Instant {
        let turn = self.next;
        self.next += self.interval * operations;
        loop {
            let left = turn.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return turn;
            }
            // The last bit is spent awake, since sleep would overshoot; but not in the way of those
            // who have work, the engine's own threads among them.
            match left.checked_sub(SLACK) {
                Some(left) => thread::sleep(left),
                None => thread::yield_now(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_come_at_the_rate_and_not_before_their_time() {
        let begun = Instant::now();
        let mut pace = Pace::new(2000.0, 1, 2);
        let turns: Vec<Instant> = (0..20).map(|_| pace.wait(1)).collect();
        assert!(begun.elapsed() >= Duration::from_millis(19), "{:?}", begun.elapsed());
        for pair in turns.windows(2) {
            assert_eq!(pair[1] - pair[0], Duration::from_millis(1));
        }
        assert!(turns[0] - begun >= Duration::from_micros(500), "half an interval behind thread 0");
    }

    #[test]
    fn who_is_late_is_not_held_back() {
        let mut pace = Pace::new(1000.0, 0, 1);
        let first = pace.wait(1);
        // As if an operation had taken 50 ms.
        pace.next = first - Duration::from_millis(50);
        let begun = Instant::now();
        let turn = pace.wait(1);
        assert_eq!(turn, first - Duration::from_millis(50), "the time counts from the turn");
        assert!(begun.elapsed() < Duration::from_millis(40));
    }
}
