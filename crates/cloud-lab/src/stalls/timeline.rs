//! Puts one after the other, and which of them met a merge.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use siltstone::{Event, EventListener, Result};

use crate::stage::wrong;

/// No put takes longer than a minute.
const LONGEST_NANOS: u64 = 60_000_000_000;

/// Counts merges that run, wherever they do. Moves of tables are none.
///
/// **Concurrency.** A counter that orders nothing: who reads it late takes a put at a merge's border for one beside it.
#[derive(Default)]
pub(super) struct Merges(AtomicU64);

impl Merges {
    pub(super) fn are_running(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

impl EventListener for Merges {
    fn on_event(&self, event: &Event) {
        match event {
            Event::CompactionStarted { .. } => {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
            Event::CompactionFinished { moved: false, .. } => {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
            _ => {}
        }
    }
}

/// What puts took.
pub(super) struct Timeline {
    start: Instant,
    /// When the last one was acknowledged.
    last: Instant,
    longest: Duration,
    all: Histogram<u64>,
    merging: Histogram<u64>,
}

impl Timeline {
    pub(super) fn begin() -> Result<Self> {
        let times = || Histogram::new_with_bounds(1, LONGEST_NANOS, 3).map_err(wrong);
        let (all, merging, start) = (times()?, times()?, Instant::now());
        Ok(Timeline { start, last: start, longest: Duration::ZERO, all, merging })
    }

    pub(super) fn start(&self) -> Instant {
        self.start
    }

    pub(super) fn last(&self) -> Instant {
        self.last
    }

    /// One that began `since` is acknowledged now.
    pub(super) fn note(&mut self, since: Instant, met_a_merge: bool) {
        self.note_at(Instant::now(), since, met_a_merge);
    }

    fn note_at(&mut self, now: Instant, since: Instant, met_a_merge: bool) {
        let took = u64::try_from((now - since).as_nanos()).unwrap_or(u64::MAX);
        self.all.saturating_record(took);
        if met_a_merge {
            self.merging.saturating_record(took);
        }
        self.longest = self.longest.max(now - self.last);
        self.last = now;
    }

    /// Puts in a second.
    pub(super) fn rate(&self) -> f64 {
        self.all.len() as f64 / (self.last - self.start).as_secs_f64().max(1e-9)
    }

    /// Between two that were acknowledged one after the other.
    pub(super) fn longest(&self) -> Duration {
        self.longest
    }

    /// What that share of those that met a merge took at most, in microseconds.
    pub(super) fn while_merging(&self, share: f64) -> f64 {
        self.merging.value_at_quantile(share) as f64 / 1e3
    }

    /// The same, of all.
    pub(super) fn at_any_time(&self, share: f64) -> f64 {
        self.all.value_at_quantile(share) as f64 / 1e3
    }

    /// The share of those that met a merge.
    pub(super) fn met(&self) -> f64 {
        self.merging.len() as f64 / (self.all.len() as f64).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(moved: bool) -> Event {
        let (outputs, elapsed) = (Vec::new(), Duration::ZERO);
        let (bytes_read, bytes_written) = (0, 0);
        Event::CompactionFinished {
            job: 1,
            target_level: 1,
            moved,
            outputs,
            bytes_read,
            bytes_written,
            elapsed,
        }
    }

    #[test]
    fn merges_run_from_their_begin_to_their_end_and_moves_never() {
        let merges = Merges::default();
        let started = Event::CompactionStarted { job: 1, inputs: Vec::new(), target_level: 1 };
        let mut seen = Vec::new();
        for event in [&started, &finished(true), &started, &finished(false), &finished(false)] {
            merges.on_event(event);
            seen.push(merges.are_running());
        }
        assert_eq!(seen, [true, true, true, true, false]);
    }

    #[test]
    fn a_timeline_tells_what_puts_took_and_the_longest_time_without_one() {
        let mut timeline = Timeline::begin().unwrap();
        let start = timeline.start();
        let at = |ms: u64| start + Duration::from_millis(ms);
        timeline.note_at(at(1), at(0), false);
        timeline.note_at(at(120), at(1), true);
        // It was its time long before the one before had ended.
        timeline.note_at(at(121), at(21), true);
        timeline.note_at(at(200), at(199), false);
        assert_eq!(timeline.longest(), Duration::from_millis(119));
        assert_eq!((timeline.rate(), timeline.met()), (20.0, 0.5));
        let near = |value: f64, ms: f64| (value / 1e3 - ms).abs() < ms / 100.0;
        assert!(
            near(timeline.while_merging(0.5), 100.0) && near(timeline.while_merging(1.0), 119.0)
        );
        assert!(near(timeline.at_any_time(0.5), 1.0) && near(timeline.at_any_time(1.0), 119.0));
    }
}
