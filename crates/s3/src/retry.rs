//! When a failed request is tried again: pure arithmetic on a seed, so that a run can be replayed. Called by the client
//! after each failure.

use std::time::Duration;

use crate::dice::Dice;
use crate::options::Retry;
use crate::trouble::{Class, Trouble};

/// An attempt gets no less time than this, if its call has it.
const ATTEMPT_MIN: Duration = Duration::from_millis(250);

/// An attempt that begins with less is hardly answered in time: of a write that was surely not done it would make one that
/// may have been.
const LEFT_MIN: Duration = Duration::from_millis(100);

/// The attempts of one call.
#[derive(Debug)]
pub(crate) struct Attempts {
    dice: Dice,
    made: u32,
}

impl Attempts {
    /// `dice` of the call's own: what other calls draw does not matter to it.
    pub(crate) fn new(dice: Dice) -> Self {
        Attempts { dice, made: 0 }
    }

    /// How long to rest before the next attempt, now that one has failed; none if there is to be no other. `left` is what
    /// remains of the call's time.
    pub(crate) fn rest(
        &mut self,
        retry: &Retry,
        trouble: &Trouble,
        left: Duration,
    ) -> Option<Duration> {
        self.made += 1;
        if !trouble.class.may_pass() || self.made >= self.most(retry, trouble.class) {
            return None;
        }
        let first = match trouble.class {
            Class::Throttled => retry.rest_throttled,
            _ => retry.rest,
        };
        let doubled = first.saturating_mul(1 << (self.made - 1).min(20)).min(retry.rest_max);
        let drawn = doubled.mul_f64(0.5 + self.dice.share() / 2.0);
        let rest = drawn.max(trouble.wait.unwrap_or_default());
        (rest.saturating_add(LEFT_MIN) <= left).then_some(rest)
    }

    /// An answer that makes no sense will hardly make more the third time.
    fn most(&self, retry: &Retry, class: Class) -> u32 {
        if class == Class::Odd { retry.attempts_max.min(2) } else { retry.attempts_max }
    }
}

/// How long one attempt may take: a third of what is left, so that two more have a chance, and the time that its bytes
/// need on a slow line.
pub(crate) fn patience(retry: &Retry, bytes: u64, left: Duration) -> Duration {
    let line = bytes as f64 / retry.bytes_per_second_min.max(1) as f64;
    // A line so slow that its time cannot be told is as slow as the call allows.
    let line = Duration::try_from_secs_f64(line).unwrap_or(left);
    (left / 3).max(ATTEMPT_MIN).saturating_add(line).min(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEFT: Duration = Duration::from_secs(60);

    fn rests(seed: u64, class: Class) -> Vec<Duration> {
        let mut attempts = Attempts::new(Dice::new(seed));
        let trouble = Trouble::new(class, "");
        std::iter::from_fn(|| attempts.rest(&Retry::default(), &trouble, LEFT)).collect()
    }

    #[test]
    fn rests_double_up_to_a_bound_and_end() {
        let rests = rests(1, Class::Server);
        assert_eq!(rests.len(), 9, "ten attempts");
        for (at, rest) in rests.iter().enumerate() {
            let full = Duration::from_millis(40 << at).min(Duration::from_secs(4));
            assert!(*rest >= full / 2 && *rest <= full, "{at}: {rest:?} of {full:?}");
        }
    }

    #[test]
    fn the_same_seed_rests_the_same_and_another_does_not() {
        assert_eq!(rests(5, Class::Timeout), rests(5, Class::Timeout));
        assert_ne!(rests(5, Class::Timeout), rests(6, Class::Timeout));
    }

    #[test]
    fn what_cannot_pass_is_not_tried_again() {
        for class in Class::ALL {
            let again = rests(1, class).len();
            assert_eq!(again > 0, class.may_pass(), "{class:?}");
        }
        assert_eq!(rests(1, Class::Odd).len(), 1);
    }

    #[test]
    fn nobody_rests_past_the_end_of_a_call_or_shorter_than_the_server_asked() {
        let mut attempts = Attempts::new(Dice::new(1));
        let mut trouble = Trouble::new(Class::Throttled, "");
        trouble.wait = Some(Duration::from_secs(3));
        let retry = Retry::default();
        assert_eq!(attempts.rest(&retry, &trouble, LEFT), Some(Duration::from_secs(3)));
        let barely = Duration::from_secs(3) + LEFT_MIN;
        assert_eq!(attempts.rest(&retry, &trouble, barely), Some(Duration::from_secs(3)));
        assert_eq!(attempts.rest(&retry, &trouble, barely - Duration::from_millis(1)), None);
    }

    #[test]
    fn attempts_share_the_time_of_their_call() {
        let retry = Retry::default();
        let patience = |bytes, left| patience(&retry, bytes, left);
        assert_eq!(patience(0, Duration::from_secs(6)), Duration::from_secs(2));
        assert_eq!(patience(32 << 20, LEFT), Duration::from_secs(36));
        assert_eq!(patience(0, Duration::from_millis(90)), Duration::from_millis(90));
        assert_eq!(patience(u64::MAX, LEFT), LEFT);
    }
}
