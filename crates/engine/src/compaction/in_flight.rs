//! Which jobs may run side by side.
//!
//! **Invariant A7.** Running jobs share no table, and no hull within one target slot. Their tables
//! still count as in place when the next plan is checked.

use std::collections::HashSet;

use crate::base::comparator::UserOrder;
use crate::base::slot::Slot;
use crate::compaction::closure::Closed;
use crate::format::filename::FileNumber;

/// The running jobs' tables and targets.
#[derive(Default)]
pub(crate) struct InFlight {
    jobs: Vec<Running>,
    tables: HashSet<FileNumber>,
}

struct Running {
    id: u64,
    to: Slot,
    from_key: Vec<u8>,
    to_key: Vec<u8>,
    tables: Vec<FileNumber>,
}

impl InFlight {
    pub(crate) fn is_busy(&self, table: FileNumber) -> bool {
        self.tables.contains(&table)
    }

    pub(crate) fn len(&self) -> usize {
        self.jobs.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// True if a job may start beside the running ones.
    pub(crate) fn admits(&self, order: &UserOrder, closed: &Closed, to: Slot) -> bool {
        if closed.tables.iter().any(|(_, table)| self.is_busy(table.number)) {
            return false;
        }
        let (low, high) = closed.hull(order);
        !self.jobs.iter().any(|job| {
            job.to == to
                && order.compare(&job.from_key, high).is_le()
                && order.compare(low, &job.to_key).is_le()
        })
    }

    /// Notes a job that [`admits`](Self::admits) let in.
    pub(crate) fn begin(&mut self, order: &UserOrder, id: u64, closed: &Closed, to: Slot) {
        debug_assert!(!closed.metas().any(|table| self.is_busy(table.number)));
        let (low, high) = closed.hull(order);
        let tables: Vec<_> = closed.tables.iter().map(|(_, table)| table.number).collect();
        self.tables.extend(&tables);
        self.jobs.push(Running { id, to, from_key: low.to_vec(), to_key: high.to_vec(), tables });
    }

    pub(crate) fn end(&mut self, id: u64) {
        let at = self.jobs.iter().position(|job| job.id == id);
        let job = self.jobs.swap_remove(at.expect("a job ends once, after it began"));
        for table in job.tables {
            self.tables.remove(&table);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compaction::closure::close;
    use crate::version::Version;
    use crate::version::testing::{order, table, tree, version};

    fn closed(version: &Version, seed: u64, to: Slot) -> Closed {
        close(&order().user, version, &[FileNumber(seed)], to).unwrap()
    }

    #[test]
    fn jobs_share_no_table_and_no_hull_in_one_target() {
        let user = order().user;
        let version = version([
            (Slot::L0, table(9, "a", "c")),
            (tree(1), table(1, "a", "f")),
            (tree(1), table(2, "g", "k")),
            (tree(1), table(3, "p", "z")),
            (tree(2), table(4, "e", "h")),
        ]);
        let mut in_flight = InFlight::default();
        let first = closed(&version, 1, tree(2));
        assert!(in_flight.admits(&user, &first, tree(2)));
        in_flight.begin(&user, 7, &first, tree(2));
        assert_eq!((in_flight.len(), in_flight.is_empty()), (1, false));
        let busy = [1, 2, 3, 4, 9].map(|number| in_flight.is_busy(FileNumber(number)));
        assert_eq!(busy, [true, false, false, true, false]);

        let admits = |in_flight: &InFlight, seed, to| {
            in_flight.admits(&user, &closed(&version, seed, to), to)
        };
        assert!(!admits(&in_flight, 9, tree(1)), "1 is busy");
        assert!(!admits(&in_flight, 2, tree(2)), "4 is busy");
        assert!(admits(&in_flight, 3, tree(2)), "elsewhere in the target");
        assert!(admits(&in_flight, 2, tree(1)), "another target");

        in_flight.begin(&user, 8, &closed(&version, 3, tree(2)), tree(2));
        in_flight.end(7);
        assert!(admits(&in_flight, 9, tree(1)));
        assert!(!in_flight.is_busy(FileNumber(4)) && in_flight.is_busy(FileNumber(3)));
        in_flight.end(8);
        assert!(in_flight.is_empty());
    }

    /// An output may reach anywhere within the hull, also where no input lies.
    #[test]
    fn a_hull_without_tables_keeps_others_away() {
        let user = order().user;
        let version = version([
            (Slot::L0, table(5, "a", "z")),
            (Slot::L0, table(2, "m", "m")),
            (tree(1), table(3, "n", "o")),
        ]);
        let mut in_flight = InFlight::default();
        in_flight.begin(&user, 1, &closed(&version, 3, tree(3)), tree(3));
        assert!(in_flight.admits(&user, &closed(&version, 2, tree(3)), tree(3)));
        let (place, spanning) = version.placed().next().unwrap();
        assert_eq!(spanning.number, FileNumber(5));
        let alone = Closed { tables: vec![(place, spanning.clone())], ..Closed::default() };
        assert!(!in_flight.admits(&user, &alone, tree(3)));
        assert!(in_flight.admits(&user, &alone, tree(2)));
    }
}
