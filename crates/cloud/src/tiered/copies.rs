//! Copies in the folder of tables that workers have made: nothing else would bring them here, and a merge at home would have left one.
//! Until one is here its table is read from the bucket. They are made at once of tables that somebody reads, or has read what they hold;
//! of others while the bucket lacks nothing, and once they have lasted: what is written without a pause is soon merged again, and would be
//! fetched and written in vain.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use siltstone::Result;

use super::shared::Shared;
use super::tables::Placed;
use super::{remote, room};

/// A table of this age has lasted.
const AGE: Duration = Duration::from_secs(1);

/// What is brought here of a table in the bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fetch {
    /// All of it, into the folder.
    Copy(u64),
    /// Some of it, into the cache.
    Parts(u64, Vec<Range<u64>>),
}

impl Fetch {
    pub(super) fn number(&self) -> u64 {
        let (Fetch::Copy(number) | Fetch::Parts(number, _)) = self;
        *number
    }
}

/// Tables of which something is to be here.
#[derive(Default)]
pub(super) struct Copies {
    /// Those that nobody waits for, with when they came to count.
    waiting: VecDeque<(u64, Duration)>,
    /// What goes first.
    urgent: VecDeque<Fetch>,
    /// Tables of which something urgent is wanted, and not done.
    awaited: BTreeSet<u64>,
    under_way: usize,
}

impl Copies {
    pub(super) fn want(&mut self, numbers: &[u64], now: Duration) {
        self.waiting.extend(numbers.iter().map(|number| (*number, now)));
    }

    /// Somebody waits for these, each of another table.
    pub(super) fn want_now(&mut self, wanted: Vec<Fetch>) {
        self.awaited.extend(wanted.iter().map(Fetch::number));
        self.urgent.extend(wanted);
    }

    /// Whoever waited for these need not any more.
    pub(super) fn are_made(&self, numbers: &[u64]) -> bool {
        numbers.iter().all(|number| !self.awaited.contains(number))
    }

    /// Somebody reads a table of which a copy is wanted.
    pub(super) fn hurry(&mut self, number: u64) {
        if let Some(at) = self.waiting.iter().position(|(waiting, _)| *waiting == number) {
            self.waiting.remove(at);
            self.want_now(vec![Fetch::Copy(number)]);
        }
    }

    pub(super) fn awaits(&self, number: u64) -> bool {
        self.waiting.iter().any(|(waiting, _)| *waiting == number)
    }

    /// Time alone will bring the next one.
    pub(super) fn are_awaited(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// What goes before all else, for one of so many lanes, half of which are left to what the bucket lacks.
    pub(super) fn next_urgent(&mut self, lanes: usize) -> Option<Fetch> {
        let next = self.has_lane(lanes).then(|| self.urgent.pop_front())??;
        self.under_way += 1;
        Some(next)
    }

    /// What goes when nothing else does.
    pub(super) fn next(&mut self, lanes: usize, now: Duration) -> Option<Fetch> {
        let has_lasted = |(_, since): &mut (u64, Duration)| now.saturating_sub(*since) >= AGE;
        let (next, _) = self.has_lane(lanes).then(|| self.waiting.pop_front_if(has_lasted))??;
        self.under_way += 1;
        Some(Fetch::Copy(next))
    }

    fn has_lane(&self, lanes: usize) -> bool {
        self.under_way < lanes.div_ceil(2)
    }

    /// However it has ended.
    fn end(&mut self, number: u64) {
        self.under_way -= 1;
        self.awaited.remove(&number);
    }
}

/// Brings it. Not tried again: the table can be read all the same.
pub(super) fn make(shared: &Arc<Shared>, fetch: &Fetch) {
    let number = fetch.number();
    let made = match fetch {
        Fetch::Copy(number) => make_copy(shared, *number),
        Fetch::Parts(number, parts) => remote::warm(shared, *number, parts),
    };
    let lives = shared.change(|state| {
        state.copies.end(number);
        state.ledger.lives(number)
    });
    match made {
        // Nobody may commit for long, which would make room as well.
        Ok(()) => room::make(shared),
        Err(error) if lives => {
            shared.counters.failures.fetch_add(1, Relaxed);
            shared.tell_once(error);
        }
        Err(_) => {}
    }
}

/// Makes a copy, has the table read from there, and lets older ones go for it.
fn make_copy(shared: &Arc<Shared>, number: u64) -> Result<()> {
    let lives = || shared.state().ledger.lives(number);
    if !lives() {
        return Ok(());
    }
    remote::fetch(shared, number)?;
    // Who removes it does so behind this look, or has done it before the copy was here.
    if !lives() {
        return shared.local.remove(number);
    }
    if let Some(file) = shared.local.open(number)? {
        shared.open.switch(number, || Ok(Placed::Here(file)))?;
    }
    // Who lets copies go may have been quicker, and a file without a name keeps its room.
    if shared.local.size(number).is_none()
        && let Some(there) = remote::open(shared, number)?
    {
        shared.open.switch(number, || Ok(Placed::There(there)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_lanes_make_copies() {
        let (mut copies, now) = (Copies::default(), AGE);
        copies.want(&[1, 2, 3, 4], Duration::ZERO);
        let next = |copies: &mut Copies, lanes| Some(copies.next(lanes, now)?.number());
        assert_eq!([4, 4, 4].map(|lanes| next(&mut copies, lanes)), [Some(1), Some(2), None]);
        copies.end(1);
        assert_eq!([4, 4].map(|lanes| next(&mut copies, lanes)), [Some(3), None]);
        copies.under_way = 0;
        assert!(copies.are_awaited());
        assert_eq!([1, 1].map(|lanes| next(&mut copies, lanes)), [Some(4), None]);
        assert!(!copies.are_awaited());
    }

    #[test]
    fn tables_that_have_lasted_get_one() {
        let (mut copies, begin) = (Copies::default(), Duration::from_secs(7));
        copies.want(&[1], begin);
        copies.want(&[2], begin + AGE / 2);
        let mut at = |late: Duration| copies.next(8, begin + late);
        assert_eq!(at(AGE - Duration::from_nanos(1)), None);
        assert_eq!([at(AGE), at(AGE)], [Some(Fetch::Copy(1)), None]);
        assert_eq!(at(AGE * 3 / 2), Some(Fetch::Copy(2)));
    }

    #[test]
    fn what_somebody_reads_or_waits_for_goes_first() {
        let mut copies = Copies::default();
        copies.want(&[1, 2, 3], Duration::ZERO);
        assert_eq!(copies.next_urgent(8), None);
        copies.hurry(2);
        copies.hurry(9);
        assert!(copies.awaits(1) && !copies.awaits(2));
        let parts = Fetch::Parts(7, vec![0..5, 7..8]);
        copies.want_now(vec![parts.clone()]);
        assert!(copies.are_made(&[1, 3]) && !copies.are_made(&[3, 7]));
        let next: Vec<_> = std::iter::from_fn(|| copies.next_urgent(4)).collect();
        assert_eq!(next, [Fetch::Copy(2), parts], "two lanes of four");
        copies.end(7);
        assert!(copies.are_made(&[7]) && !copies.are_made(&[2]));
    }
}
