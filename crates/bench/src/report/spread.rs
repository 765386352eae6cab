//! The middle and the ends of what several runs gave.

/// Lowest, middle and highest of some numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) low: f64,
    pub(crate) median: f64,
    pub(crate) high: f64,
}

impl Spread {
    /// `None` for no numbers. Of an even count, the median is the mean of the two in the middle.
    pub(crate) fn of(numbers: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut sorted: Vec<f64> = numbers.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (low, high) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len().is_multiple_of(2) {
            (sorted[middle - 1] + sorted[middle]) / 2.0
        } else {
            sorted[middle]
        };
        Some(Spread { low, median, high })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_the_median() {
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([3.0]), Some(Spread { low: 3.0, median: 3.0, high: 3.0 }));
        let odd = Spread::of([9.0, 1.0, 2.0]).unwrap();
        assert_eq!((odd.low, odd.median, odd.high), (1.0, 2.0, 9.0));
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 9.0]).unwrap().median, 3.0);
    }
}
