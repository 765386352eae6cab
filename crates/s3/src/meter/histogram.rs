//! How long requests take, in buckets that grow by a quarter of a power of two: any time is known to 19 percent, from 64
//! microseconds to over an hour.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Four to each doubling.
const STEPS: usize = 4;
/// Times below 2^6 microseconds share the first bucket.
const FIRST_BITS: u32 = 6;
pub(crate) const BUCKETS: usize = 1 + 26 * STEPS;

/// The bucket that `time` falls into.
pub(crate) fn bucket_of(time: Duration) -> usize {
    let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    if micros < 1 << FIRST_BITS {
        return 0;
    }
    let bits = micros.ilog2();
    // The two bits behind the leading one say which quarter it is.
    let quarter = (micros >> (bits - 2)) & 3;
    let bucket = 1 + (bits - FIRST_BITS) as usize * STEPS + quarter as usize;
    bucket.min(BUCKETS - 1)
}

/// All times of a bucket lie below it; those of the last have no bound, and are taken for an hour.
pub(crate) fn upper_bound(bucket: usize) -> Duration {
    let Some(at) = bucket.checked_sub(1) else { return Duration::from_micros(1 << FIRST_BITS) };
    let (doubling, quarter) = ((at / STEPS) as u32, (at % STEPS) as u64);
    Duration::from_micros((5 + quarter) << (doubling + FIRST_BITS - 2))
}

/// Counts by bucket.
#[derive(Debug)]
pub(crate) struct Histograph {
    counts: [AtomicU64; BUCKETS],
    micros: AtomicU64,
}

impl Default for Histograph {
    fn default() -> Self {
        Histograph { counts: [const { AtomicU64::new(0) }; BUCKETS], micros: AtomicU64::new(0) }
    }
}

impl Histograph {
    pub(crate) fn count(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.counts[bucket_of(time)].fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    pub(crate) fn snapshot(&self) -> Histogram {
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        Histogram { counts, total: Duration::from_micros(self.micros.load(Ordering::Relaxed)) }
    }
}

/// Times, counted by bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    /// All times together.
    pub total: Duration,
}

impl Histogram {
    /// How many times were counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// A time that `percent` of all do not pass, to within a fifth; none if nothing was counted.
    pub fn percentile(&self, percent: f64) -> Option<Duration> {
        let wanted = (self.count() as f64 * percent / 100.0).ceil().max(1.0) as u64;
        self.cumulative().find(|(_, passed)| *passed >= wanted).map(|(bound, _)| bound)
    }

    /// Upper bounds of buckets, and how many times lie below each.
    pub fn cumulative(&self) -> impl Iterator<Item = (Duration, u64)> {
        self.counts.iter().enumerate().scan(0, |passed, (bucket, count)| {
            *passed += count;
            Some((upper_bound(bucket), *passed))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_lies_in_its_bucket_and_in_no_other() {
        let mut micros = 1;
        while micros < 60 * 60 * 1_000_000 {
            let time = Duration::from_micros(micros);
            let bucket = bucket_of(time);
            assert!(time < upper_bound(bucket), "{time:?} in bucket {bucket}");
            assert!(bucket == 0 || time >= upper_bound(bucket - 1), "{time:?} in bucket {bucket}");
            micros += micros / 7 + 1;
        }
        assert_eq!(bucket_of(Duration::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_are_right_to_a_quarter() {
        let times = Histograph::default();
        (1..=1_000).for_each(|ms| times.count(Duration::from_millis(ms)));
        let seen = times.snapshot();
        for (percent, exact) in [(50.0, 500), (99.0, 990)] {
            let (found, exact) = (seen.percentile(percent).unwrap(), Duration::from_millis(exact));
            assert!(found >= exact && found <= exact.mul_f64(1.25), "{percent}: {found:?}");
        }
        assert_eq!((seen.count(), seen.total), (1_000, Duration::from_millis(500_500)));
        assert_eq!(Histogram::default().percentile(50.0), None);
    }
}
