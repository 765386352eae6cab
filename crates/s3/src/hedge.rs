//! When a slow read is asked for a second time. Decides on what it was told alone, without a clock or chance of its own.
//! Called by the client around each get.
//!
//! **H1.** Second requests are at most `budget_percent` of reads, and a burst of ten.
//! **H2.** None while the share of reads that succeed is low, nor before enough is known of how long reads take.
//!
//! **Concurrency.** One mutex, held for arithmetic on a few hundred numbers.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::meter::{BUCKETS, bucket_of, upper_bound};
use crate::options::Hedge;

/// Nothing is known of less.
const SAMPLES_MIN: u32 = 100;
/// Then all counts are halved: what was long ago fades.
const SAMPLES_MAX: u32 = 2_000;
/// What the budget can save up: ten requests.
const SAVED_MAX: u64 = 10 * WHOLE;
/// One request, in the budget's units. Each read pays in as many as the budget has percent.
const WHOLE: u64 = 100;
/// The latest outcomes, of which success is judged.
const OUTCOMES: u32 = 64;

/// Knows how long reads take, and how many second requests may be sent.
#[derive(Debug)]
pub(crate) struct Hedger {
    settings: Hedge,
    seen: Mutex<Seen>,
}

#[derive(Debug)]
struct Seen {
    /// Of times to the first byte, by bucket.
    counts: [u32; BUCKETS],
    samples: u32,
    saved: u64,
    /// One bit per outcome, the latest lowest; set if it failed.
    failures: u64,
}

impl Hedger {
    pub(crate) fn new(settings: Hedge) -> Self {
        let seen = Seen { counts: [0; BUCKETS], samples: 0, saved: 0, failures: 0 };
        Hedger { settings, seen: Mutex::new(seen) }
    }

    /// A read begins: after how long may a second one follow, if any may?
    pub(crate) fn after(&self) -> Option<Duration> {
        let mut seen = self.seen();
        seen.saved = (seen.saved + u64::from(self.settings.budget_percent)).min(SAVED_MAX);
        if seen.samples < SAMPLES_MIN || !seen.is_calm(&self.settings) {
            return None;
        }
        Some(seen.percentile(self.settings.percentile).max(self.settings.after_min))
    }

    /// The read is late by now: takes a second request from the budget.
    pub(crate) fn spend(&self) -> bool {
        let mut seen = self.seen();
        if self.settings.budget_percent == 0 || seen.saved < WHOLE || !seen.is_calm(&self.settings)
        {
            return false;
        }
        seen.saved -= WHOLE;
        true
    }

    /// A read's first byte was here after `time`.
    pub(crate) fn answered(&self, time: Duration) {
        let mut seen = self.seen();
        seen.failures <<= 1;
        seen.counts[bucket_of(time)] += 1;
        seen.samples += 1;
        if seen.samples >= SAMPLES_MAX {
            seen.counts.iter_mut().for_each(|count| *count /= 2);
            seen.samples = seen.counts.iter().sum();
        }
    }

    /// A read failed for a reason that lies with the server or the network.
    pub(crate) fn failed(&self) {
        let mut seen = self.seen();
        seen.failures = (seen.failures << 1) | 1;
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        // Counts only: no half-done change does harm.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    fn is_calm(&self, settings: &Hedge) -> bool {
        let succeeded = OUTCOMES - self.failures.count_ones();
        succeeded * 100 >= settings.success_percent_min * OUTCOMES
    }

    /// No fewer than `percent` of the samples lie at or below it.
    fn percentile(&self, percent: u32) -> Duration {
        let wanted = (u64::from(self.samples) * u64::from(percent)).div_ceil(100);
        let mut passed = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            passed += u64::from(*count);
            if passed >= wanted {
                return upper_bound(bucket);
            }
        }
        upper_bound(BUCKETS - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warm() -> Hedger {
        let hedger = Hedger::new(Hedge::default());
        (0..1_000).for_each(|at| hedger.answered(Duration::from_millis(1 + at / 10)));
        hedger
    }

    #[test]
    fn nothing_is_hedged_before_enough_is_known() {
        let hedger = Hedger::new(Hedge::default());
        (0..SAMPLES_MIN - 1).for_each(|_| hedger.answered(Duration::from_millis(20)));
        assert_eq!(hedger.after(), None);
        hedger.answered(Duration::from_millis(20));
        assert!(hedger.after().is_some());
    }

    #[test]
    fn the_ninety_fifth_of_a_hundred_is_found() {
        let after = warm().after().unwrap();
        let exact = Duration::from_millis(95);
        assert!(after >= exact && after <= exact.mul_f64(1.2), "{after:?}");
    }

    #[test]
    fn the_budget_holds_over_many_reads_and_bursts_are_small() {
        let hedger = warm();
        let sent = (0..10_000).filter(|_| hedger.after().is_some() && hedger.spend()).count();
        assert!((290..=310).contains(&sent), "{sent} of 10000");
        for _ in 0..10_000 {
            hedger.after();
        }
        assert_eq!((0..50).filter(|_| hedger.spend()).count(), 10, "what can be saved up");
    }

    #[test]
    fn none_in_a_brown_out_and_some_again_afterwards() {
        let hedger = warm();
        for _ in 0..100 {
            hedger.after();
        }
        (0..7).for_each(|_| hedger.failed());
        assert_eq!((hedger.after(), hedger.spend()), (None, false));
        (0..OUTCOMES).for_each(|_| hedger.answered(Duration::from_millis(20)));
        assert!(hedger.after().is_some() && hedger.spend());
    }

    #[test]
    fn what_was_long_ago_fades() {
        let hedger = warm();
        (0..20_000).for_each(|_| hedger.answered(Duration::from_millis(2)));
        assert!(hedger.after().unwrap() < Duration::from_millis(10));
    }
}
