//! LevelDB's histogram of microseconds, limit for limit, and its text. Filled with `--histogram=1`.

use std::fmt;

/// Where buckets end within one power of ten; below ten only the whole numbers count.
const STEPS: [u64; 16] = [10, 12, 14, 16, 18, 20, 25, 30, 35, 40, 45, 50, 60, 70, 80, 90];
/// The last power of ten that is divided so: the limits end at 9,000,000,000.
const POWERS: u32 = 9;
/// The last bucket has no end.
const UNLIMITED: f64 = 1e200;
const BUCKETS: usize = 9 + STEPS.len() * POWERS as usize + 1;

/// The limits of all buckets: each holds what is below its limit and no bucket before it holds.
const LIMITS: [f64; BUCKETS] = {
    let mut limits = [UNLIMITED; BUCKETS];
    let mut at = 0;
    while at < 9 {
        limits[at] = (at + 1) as f64;
        at += 1;
    }
    let mut power = 0;
    while power < POWERS {
        let mut step = 0;
        while step < STEPS.len() {
            limits[at] = (STEPS[step] * 10u64.pow(power)) as f64;
            at += 1;
            step += 1;
        }
        power += 1;
    }
    limits
};

/// Counts of operations by the microseconds they took.
pub(crate) struct Histogram {
    min: f64,
    max: f64,
    count: f64,
    sum: f64,
    sum_of_squares: f64,
    buckets: [f64; BUCKETS],
}

impl Histogram {
    pub(crate) fn new() -> Self {
        Histogram {
            min: UNLIMITED,
            max: 0.0,
            count: 0.0,
            sum: 0.0,
            sum_of_squares: 0.0,
            buckets: [0.0; BUCKETS],
        }
    }

    pub(crate) fn add(&mut self, micros: f64) {
        let bucket = LIMITS.partition_point(|&limit| limit <= micros).min(BUCKETS - 1);
        self.buckets[bucket] += 1.0;
        self.min = self.min.min(micros);
        self.max = self.max.max(micros);
        self.count += 1.0;
        self.sum += micros;
        self.sum_of_squares += micros * micros;
    }

    pub(crate) fn merge(&mut self, other: &Histogram) {
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.sum += other.sum;
        self.sum_of_squares += other.sum_of_squares;
        for (ours, theirs) in self.buckets.iter_mut().zip(other.buckets) {
            *ours += theirs;
        }
    }

    /// The value below which a share of `percent` lies, as if values were even within a bucket. 0 if
    /// nothing was counted, where LevelDB prints that 0 of 0 is no number.
    fn percentile(&self, percent: f64) -> f64 {
        if self.count == 0.0 {
            return 0.0;
        }
        let threshold = self.count * (percent / 100.0);
        let mut sum = 0.0;
        for (at, &count) in self.buckets.iter().enumerate() {
            sum += count;
            if sum >= threshold {
                let (left, right) = (lower_limit(at), LIMITS[at]);
                let share = (threshold - (sum - count)) / count;
                return (left + (right - left) * share).clamp(self.min, self.max);
            }
        }
        self.max
    }

    fn average(&self) -> f64 {
        if self.count == 0.0 { 0.0 } else { self.sum / self.count }
    }

    fn standard_deviation(&self) -> f64 {
        if self.count == 0.0 {
            return 0.0;
        }
        let square = self.count * self.count;
        ((self.sum_of_squares * self.count - self.sum * self.sum) / square).sqrt()
    }
}

fn lower_limit(bucket: usize) -> f64 {
    if bucket == 0 { 0.0 } else { LIMITS[bucket - 1] }
}

impl fmt::Display for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (average, deviation) = (self.average(), self.standard_deviation());
        writeln!(f, "Count: {:.0}  Average: {average:.4}  StdDev: {deviation:.2}", self.count)?;
        let min = if self.count == 0.0 { 0.0 } else { self.min };
        let median = self.percentile(50.0);
        writeln!(f, "Min: {min:.4}  Median: {median:.4}  Max: {:.4}", self.max)?;
        writeln!(f, "------------------------------------------------------")?;
        let mut sum = 0.0;
        for (at, &count) in self.buckets.iter().enumerate().filter(|(_, count)| **count > 0.0) {
            sum += count;
            let (left, right) = (lower_limit(at), LIMITS[at]);
            let (share, below) = (100.0 / self.count * count, 100.0 / self.count * sum);
            let marks = "#".repeat((20.0 * (count / self.count) + 0.5) as usize);
            writeln!(
                f,
                "[ {left:7.0}, {right:7.0} ) {count:7.0} {share:7.3}% {below:7.3}% {marks}"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_of_leveldb() {
        assert_eq!(LIMITS[..11], [1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 12.]);
        assert_eq!(LIMITS.len(), 154);
        assert_eq!(LIMITS[152], 9e9);
        assert_eq!(LIMITS[153], UNLIMITED);
        assert!(LIMITS.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn the_text_is_that_of_leveldb() {
        let mut histogram = Histogram::new();
        for micros in [0.5, 1.0, 1.5, 11.0] {
            histogram.add(micros);
        }
        assert_eq!(
            histogram.to_string(),
            "Count: 4  Average: 3.5000  StdDev: 4.34\n\
             Min: 0.5000  Median: 1.5000  Max: 11.0000\n\
             ------------------------------------------------------\n\
             [       0,       1 )       1  25.000%  25.000% #####\n\
             [       1,       2 )       2  50.000%  75.000% ##########\n\
             [      10,      12 )       1  25.000% 100.000% #####\n"
        );
    }

    #[test]
    fn merging_is_the_same_as_adding_to_one() {
        let (mut all, mut even, mut odd) = (Histogram::new(), Histogram::new(), Histogram::new());
        for number in 0..1000 {
            let micros = f64::from(number * number) / 7.0;
            all.add(micros);
            if number % 2 == 0 { even.add(micros) } else { odd.add(micros) }
        }
        even.merge(&odd);
        let text = even.to_string();
        // Sums differ in the last bit, which the text does not show.
        assert_eq!(text, all.to_string());
    }

    #[test]
    fn an_empty_one_has_no_percentiles() {
        let text = Histogram::new().to_string();
        assert!(text.contains("\nMin: 0.0000  Median: 0.0000  Max: 0.0000\n"), "{text}");
    }
}
