//! Shrinking: from a list of operations that fails to a short one that still does.
//!
//! Delta debugging: take away parts of the list, halving the parts' size when none can go. Bounded
//! by operations run, not by time.

/// Operations that shrinking may run.
const BUDGET: u64 = 6_000_000;

/// The indices of the operations left, ascending, that still make `fails` true. `until` is the
/// number of operations after which the failure shows.
pub fn shrink(until: usize, mut fails: impl FnMut(&[usize]) -> bool) -> Vec<usize> {
    let mut kept: Vec<usize> = (0..until).collect();
    let mut spent = 0;
    let mut part = kept.len().div_ceil(2);
    while part > 0 {
        let before = kept.len();
        // From the end: what comes last depends on what was before, seldom the other way round.
        let mut end = kept.len();
        while end > 0 {
            let start = end.saturating_sub(part);
            let mut without = kept.clone();
            without.drain(start..end);
            spent += without.len() as u64;
            if spent > BUDGET {
                return kept;
            }
            if fails(&without) {
                kept = without;
            }
            end = start;
        }
        let stuck = kept.len() == before;
        part = match part {
            1 if stuck => 0,
            1 => 1,
            _ => part.div_ceil(2).min(kept.len().div_ceil(2).max(1)),
        };
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::shrink;

    #[test]
    fn what_is_needed_stays() {
        let needed = [3, 170, 171, 900];
        let kept = shrink(1000, |kept| needed.iter().all(|index| kept.contains(index)));
        assert_eq!(kept, needed);
    }

    #[test]
    fn needs_of_each_other_are_found_out() {
        // Opening (even) is needed by closing (odd); one pair must stay.
        let whole = |kept: &[usize]| {
            (0..500).any(|pair| kept.contains(&(2 * pair)) && kept.contains(&(2 * pair + 1)))
        };
        assert_eq!(shrink(1000, whole).len(), 2);
    }
}
