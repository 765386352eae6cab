//! Those who wait for tables to be in the bucket. What they do then may take a while, so a lane of their own does it.

use std::time::Duration;

use super::ledger::Ledger;
use super::shared::Shared;

/// What is done when the tables are there, or are waited for no longer.
pub(super) type Then = Box<dyn FnOnce() + Send>;

#[derive(Default)]
pub(super) struct Arrivals(Vec<Arrival>);

pub(super) struct Arrival {
    pub(super) numbers: Vec<u64>,
    /// On the home's clock: then it is told whatever is there.
    pub(super) until: Duration,
    pub(super) then: Then,
}

impl Arrival {
    fn is_due(&self, ledger: &Ledger, now: Duration) -> bool {
        now >= self.until || self.numbers.iter().all(|number| ledger.table(*number).is_some())
    }
}

impl Arrivals {
    pub(super) fn add(&mut self, arrival: Arrival) {
        self.0.push(arrival);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those who are to be told now.
    fn take_due(&mut self, ledger: &Ledger, now: Duration) -> Vec<Arrival> {
        self.0.extract_if(.., |arrival| arrival.is_due(ledger, now)).collect()
    }
}

/// The lane's work. At the end all who still wait are told.
pub(super) fn run(shared: &Shared) {
    while shared.wait(|state| match state.arrivals.is_empty() {
        false => Some(true),
        true => state.stopping.then_some(false),
    }) {
        let due = shared.wait_within(Duration::MAX, |state| {
            let now = if state.stopping { Duration::MAX } else { shared.home.now() };
            let due = state.arrivals.take_due(&state.ledger, now);
            (!due.is_empty()).then_some(due)
        });
        due.into_iter().flatten().for_each(|arrival| (arrival.then)());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::log::record::Table;
    use crate::names::{Epoch, TableId};

    #[test]
    fn who_waits_is_told_when_all_is_there_or_time_is_over() {
        let seconds = Duration::from_secs;
        let table = |number| {
            let id = TableId::Own { epoch: Epoch(1), number };
            (number, Table { home: 0, id, bytes: 1, crc32c: 0 })
        };
        let some = Ledger::new(BTreeMap::from([table(7)]));
        let both = Ledger::new(BTreeMap::from([table(7), table(9)]));
        let mut arrivals = Arrivals::default();
        for until in [seconds(3), seconds(5)] {
            arrivals.add(Arrival { numbers: vec![7, 9], until, then: Box::new(|| ()) });
        }
        assert_eq!(arrivals.take_due(&some, seconds(2)).len(), 0);
        let late = arrivals.take_due(&some, seconds(3));
        assert_eq!(late.iter().map(|arrival| arrival.until).collect::<Vec<_>>(), [seconds(3)]);
        assert_eq!(arrivals.take_due(&both, seconds(3)).len(), 1);
        assert!(arrivals.is_empty());
    }
}
