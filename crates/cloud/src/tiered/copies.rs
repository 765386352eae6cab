//! Copies in the folder of tables that workers have made: nothing else would bring them here, and a merge at home would have left one.
//! Until one is here its table is read from the bucket. They are made while the bucket lacks nothing, of tables that have lasted: what is
//! written without a pause is soon merged again, and would be fetched and written in vain.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use siltstone::Result;

use super::shared::Shared;
use super::{remote, room};

/// A table of this age has lasted.
const AGE: Duration = Duration::from_secs(1);

/// Tables that are to have a copy.
#[derive(Default)]
pub(super) struct Copies {
    /// With when they came to count.
    waiting: VecDeque<(u64, Duration)>,
    under_way: usize,
}

impl Copies {
    pub(super) fn want(&mut self, numbers: impl IntoIterator<Item = u64>, now: Duration) {
        self.waiting.extend(numbers.into_iter().map(|number| (number, now)));
    }

    /// Time alone will bring the next one.
    pub(super) fn are_awaited(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The next one, for one of so many lanes, half of which are left to what the bucket lacks.
    pub(super) fn next(&mut self, lanes: usize, now: Duration) -> Option<u64> {
        if self.under_way >= lanes.div_ceil(2) {
            return None;
        }
        let has_lasted = |(_, since): &mut (u64, Duration)| now.saturating_sub(*since) >= AGE;
        let (next, _) = self.waiting.pop_front_if(has_lasted)?;
        self.under_way += 1;
        Some(next)
    }
}

/// Makes a copy, has the table read from there, and lets older ones go for it. Not tried again: it can be read all the same.
pub(super) fn make(shared: &Arc<Shared>, number: u64) {
    let made = make_one(shared, number);
    let counts = shared.change(|state| {
        state.copies.under_way -= 1;
        state.ledger.counts(number)
    });
    match made {
        // Nobody may commit for long, which would make room as well.
        Ok(()) => room::make(shared),
        Err(error) if counts => {
            shared.counters.failures.fetch_add(1, Relaxed);
            shared.tell_once(error);
        }
        Err(_) => {}
    }
}

fn make_one(shared: &Arc<Shared>, number: u64) -> Result<()> {
    let counts = || shared.state().ledger.counts(number);
    if !counts() {
        return Ok(());
    }
    remote::fetch(shared, number)?;
    // Who removes it does so behind this look, or has done it before the copy was here.
    if !counts() {
        return shared.local.remove(number);
    }
    if let Some(file) = shared.local.open(number)? {
        shared.open.switch(number, || Ok(file))?;
    }
    // Who lets copies go may have been quicker, and a file without a name keeps its room.
    if shared.local.size(number).is_none()
        && let Some(there) = remote::open(shared, number)?
    {
        shared.open.switch(number, || Ok(there))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_lanes_make_copies() {
        let (mut copies, now) = (Copies::default(), AGE);
        copies.want(1..=4, Duration::ZERO);
        let next = |copies: &mut Copies, lanes| copies.next(lanes, now);
        assert_eq!([4, 4, 4].map(|lanes| next(&mut copies, lanes)), [Some(1), Some(2), None]);
        copies.under_way -= 1;
        assert_eq!([4, 4].map(|lanes| next(&mut copies, lanes)), [Some(3), None]);
        copies.under_way = 0;
        assert!(copies.are_awaited());
        assert_eq!([1, 1].map(|lanes| next(&mut copies, lanes)), [Some(4), None]);
        assert!(!copies.are_awaited());
    }

    #[test]
    fn tables_that_have_lasted_get_one() {
        let (mut copies, begin) = (Copies::default(), Duration::from_secs(7));
        copies.want([1], begin);
        copies.want([2], begin + AGE / 2);
        let mut at = |late: Duration| copies.next(8, begin + late);
        assert_eq!(at(AGE - Duration::from_nanos(1)), None);
        assert_eq!([at(AGE), at(AGE)], [Some(1), None]);
        assert_eq!(at(AGE * 3 / 2), Some(2));
    }
}
