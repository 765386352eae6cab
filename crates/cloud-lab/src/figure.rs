//! A figure, and what was wanted of it.

/// One measured number.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Which measurement: `M2` and so on.
    pub id: &'static str,
    /// Of what.
    pub what: String,
    /// How much.
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
    /// Dollars.
    Dollars,
}

impl Unit {
    /// As tables call it.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Micros => "\u{b5}s",
            Unit::MegabytesPerSecond => "MB/s",
            Unit::Ratio => "ratio",
            Unit::Count => "count",
            Unit::Dollars => "$",
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

/// The middle one of several runs.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Median, p99, p99.9.
pub fn quantiles(times: &[f64]) -> [f64; 3] {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    [0.5, 0.99, 0.999].map(|quantile| {
        let at = (times.len() as f64 * quantile) as usize;
        times.get(at.min(times.len().saturating_sub(1))).copied().unwrap_or_default()
    })
}
