//! How long to wait before trying again: twice as long each time, up to a limit, and never quite as long as others who
//! failed at the same moment.

use std::time::Duration;

use crate::dice::Dice;

/// Bounds of the wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackoffLimits {
    /// The first wait at most.
    pub first: Duration,
    /// Any wait at most.
    pub most: Duration,
}

impl BackoffLimits {
    /// The wait after so many failures in a row, which is between half of the bound and the bound.
    pub(crate) fn wait(self, failures: u32, dice: &mut Dice) -> Duration {
        let doubled = self
            .first
            .saturating_mul(1u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX));
        let bound = doubled.min(self.most);
        let half = bound / 2;
        // Below 2^32, so that no product overflows.
        let share = (dice.next() >> 32) as u32;
        half + Duration::from_nanos(((half.as_nanos() * u128::from(share)) >> 32) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_their_limit_and_differ() {
        let limits =
            BackoffLimits { first: Duration::from_millis(100), most: Duration::from_secs(5) };
        let mut dice = Dice::new(7);
        for (failures, bound) in
            [(1, 100), (2, 200), (3, 400), (6, 3_200), (7, 5_000), (40, 5_000), (u32::MAX, 5_000)]
        {
            let bound = Duration::from_millis(bound);
            let (one, other) = (limits.wait(failures, &mut dice), limits.wait(failures, &mut dice));
            assert!(
                one >= bound / 2 && one <= bound && other <= bound && one != other,
                "{failures}"
            );
        }
    }
}
