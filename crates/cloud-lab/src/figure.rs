//! A figure, and what was wanted of it.

use std::time::Duration;

/// One measured number.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Which measurement: `M2` and so on.
    pub id: &'static str,
    /// Of what.
    pub what: String,
    /// How much. No number (NaN) where there was nothing to measure it on: `what` says what is lacking.
    pub value: f64,
    /// Of what kind the number is.
    pub unit: Unit,
    /// What it should be, where somebody said.
    pub wanted: Option<Wanted>,
}

/// Kinds of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Microseconds.
    Micros,
    /// Megabytes in a second.
    MegabytesPerSecond,
    /// Of one to another.
    Ratio,
    /// Requests, or other things that are counted; on average, where something is said to be.
    Count,
    /// Bytes; on average, where something is said to be.
    Bytes,
    /// Dollars.
    Dollars,
    /// Of contents: to be the same as another.
    Checksum,
}

impl Unit {
    /// As tables call it.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Micros => "\u{b5}s",
            Unit::MegabytesPerSecond => "MB/s",
            Unit::Ratio => "ratio",
            Unit::Count => "count",
            Unit::Bytes => "bytes",
            Unit::Dollars => "$",
            Unit::Checksum => "sum",
        }
    }
}

/// A bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wanted {
    /// Not more.
    AtMost(f64),
    /// Not less.
    AtLeast(f64),
}

impl Figure {
    pub(crate) fn new(id: &'static str, what: impl Into<String>, value: f64, unit: Unit) -> Self {
        Figure { id, what: what.into(), value, unit, wanted: None }
    }

    /// One that could not be measured, and why.
    pub(crate) fn missing(id: &'static str, what: &str, why: &str) -> Self {
        Figure::new(id, format!("{what}: {why}"), f64::NAN, Unit::Count)
    }

    pub(crate) fn wanted(self, wanted: Wanted) -> Self {
        Figure { wanted: Some(wanted), ..self }
    }

    /// True if it is as it was wanted, or nothing was.
    pub fn is_met(&self) -> bool {
        match self.wanted {
            Some(Wanted::AtMost(bound)) => self.value <= bound,
            Some(Wanted::AtLeast(bound)) => self.value >= bound,
            None => true,
        }
    }
}

pub(crate) fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// The middle one of several runs.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Median, p99, p99.9.
pub fn quantiles(times: &[f64]) -> [f64; 3] {
    [0.5, 0.99, 0.999].map(|share| quantile(times, share))
}

/// The value below which that share of all is.
pub(crate) fn quantile(values: &[f64], share: f64) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let at = (values.len() as f64 * share) as usize;
    values.get(at.min(values.len().saturating_sub(1))).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_sorted_values() {
        let values: Vec<f64> = (0..200).rev().map(f64::from).collect();
        assert_eq!(
            [0.0, 0.5, 0.99, 1.0].map(|share| quantile(&values, share)),
            [0.0, 100.0, 198.0, 199.0]
        );
        assert_eq!(quantile(&[7.0], 0.99), 7.0);
        assert_eq!(quantile(&[], 0.5), 0.0);
    }

    #[test]
    fn bounds_are_met_from_their_side() {
        let figure = |value| Figure::new("M0", "it", value, Unit::Ratio);
        assert!(figure(5.0).is_met(), "nothing was wanted");
        for (value, at_most, at_least) in
            [(0.9, true, false), (1.0, true, true), (1.1, false, true)]
        {
            assert_eq!(figure(value).wanted(Wanted::AtMost(1.0)).is_met(), at_most);
            assert_eq!(figure(value).wanted(Wanted::AtLeast(1.0)).is_met(), at_least);
        }
    }
}
