//! Copies in the folder of tables that workers have made: nothing else would bring them here, and a merge at home would have left one.
//! Until one is here its table is read from the bucket. They are made while the bucket lacks nothing.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use siltstone::Result;

use super::shared::Shared;
use super::{remote, room};

/// Tables that are to have a copy.
#[derive(Default)]
pub(super) struct Copies {
    waiting: VecDeque<u64>,
    under_way: usize,
}

impl Copies {
    pub(super) fn want(&mut self, numbers: impl IntoIterator<Item = u64>) {
        self.waiting.extend(numbers);
    }

    /// The next one, for one of so many lanes, half of which are left to what the bucket lacks.
    pub(super) fn next(&mut self, lanes: usize) -> Option<u64> {
        if self.under_way >= lanes.div_ceil(2) {
            return None;
        }
        let next = self.waiting.pop_front()?;
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
        let mut copies = Copies::default();
        copies.want(1..=4);
        assert_eq!([copies.next(4), copies.next(4), copies.next(4)], [Some(1), Some(2), None]);
        copies.under_way -= 1;
        assert_eq!([copies.next(4), copies.next(4)], [Some(3), None]);
        copies.under_way = 0;
        assert_eq!([copies.next(1), copies.next(1)], [Some(4), None]);
    }
}
