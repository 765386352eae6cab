//! Which jobs may run side by side.
//!
//! **Invariant A7.** Running jobs share no table, and no hull within one target slot. Their tables
//! still count as in place when the next plan is checked.

use std::collections::HashSet;

use crate::base::comparator::UserOrder;
use crate::base::slot::Slot;
use crate::compaction::closure::{Closed, hull};
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
        let (low, high) = hull(order, closed.metas());
        !self.jobs.iter().any(|job| {
            job.to == to
                && order.compare(&job.from_key, high).is_le()
                && order.compare(low, &job.to_key).is_le()
        })
    }

    /// Notes a job that [`admits`](Self::admits) let in.
    pub(crate) fn begin(&mut self, order: &UserOrder, id: u64, closed: &Closed, to: Slot) {
        debug_assert!(!closed.metas().any(|table| self.is_busy(table.number)));
        let (low, high) = hull(order, closed.metas());
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
