//! What reads pay for the logs beside levels, and when that was enough.
//!
//! **Idea.** Each run of a log is one more source of a scan, and each table of a log over a key one more filter that a get
//! asks. To merge the log would spare that, and costs writes. As who rents skis buys some once the rent has come to
//! their price, a slice of the log is merged when reads have paid for it: whatever is read from now on, about twice
//! what would have been best was spent at most.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::base::slot::{Area, LEVELS, Level, Slot};
use crate::compaction::policy::PolicyEvent;
use crate::compaction::slice;
use crate::compaction::sliced::SLICE_TABLES_MAX;
use crate::db::core::Core;
use crate::db::super_version::SuperVersion;
use crate::version::lookup::{Lookup, Target};
use crate::version::{Tables, Version};

/// One get in so many is looked into, and pays for all of them.
const GETS_PER_BILL: u32 = 16;
/// For each table of a log over its key a get pays a quarter of what a scan does for a run.
const VISITS_PER_BILL: usize = (GETS_PER_BILL / 4) as usize;

/// By level, in visits of scans, since a slice was last asked for.
#[derive(Default)]
pub(crate) struct LogBills([AtomicU64; LEVELS]);

impl LogBills {
    /// Whether that is enough now. It begins anew then, for one of the readers.
    fn charge(&self, level: Level, visits: u64, worth: u64) -> bool {
        let bill = &self.0[level.index()];
        let paid = bill.fetch_add(visits, Relaxed) + visits;
        paid >= worth && bill.compare_exchange(paid, 0, Relaxed, Relaxed).is_ok()
    }
}

impl Core {
    /// A scan begins, and goes through all runs of all logs.
    #[inline]
    pub(crate) fn bill_scan(&self, pinned: &SuperVersion) {
        let Some(bills) = &self.log_bills else { return };
        let order = &self.settings.order.user;
        for (log, tables) in logs(&pinned.version) {
            self.charge(bills, &pinned.version, log, tables.runs(order).len());
        }
    }

    /// A get was answered.
    #[inline]
    pub(crate) fn bill_get(&self, pinned: &SuperVersion, target: &Target<'_>) {
        let Some(bills) = &self.log_bills else { return };
        if target.filter_hash().is_multiple_of(GETS_PER_BILL) {
            self.bill_layers(bills, pinned, target);
        }
    }

    #[cold]
    fn bill_layers(&self, bills: &LogBills, pinned: &SuperVersion, target: &Target<'_>) {
        for (log, tables) in logs(&pinned.version) {
            let tables = Lookup::tables_within(&self.settings.order, (log, tables), target);
            self.charge(bills, &pinned.version, log, tables * VISITS_PER_BILL);
        }
    }

    fn charge(&self, bills: &LogBills, version: &Version, log: Slot, visits: usize) {
        let worth = version.shared_slot(log).worth(|| self.slice_bytes(version, log));
        if bills.charge(log.level, visits as u64, worth) {
            self.state.lock().policy.observe(PolicyEvent::LogPaid { level: log.level });
            self.ring_for_work();
        }
    }

    /// What merging a slice of a log writes at most, roughly.
    fn slice_bytes(&self, version: &Version, log: Slot) -> u64 {
        let bytes = |slot| version.slot(slot).iter().map(|table| table.size).sum::<u64>();
        let all = bytes(log) + slice::target(log).map_or(0, bytes);
        all.min(self.settings.leveled.table_bytes.saturating_mul(SLICE_TABLES_MAX as u64))
    }
}

fn logs(version: &Version) -> impl Iterator<Item = (Slot, &Tables)> {
    version.filled_slots().filter(|(slot, _)| slot.area == Area::SstLog)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_asked_for_each_time_it_was_paid() {
        let bills = LogBills::default();
        let level = Level::new(2).expect("there are seven");
        let asked: Vec<usize> = (0..100).filter(|_| bills.charge(level, 3, 100)).collect();
        assert_eq!(asked, [33, 67]);
        // What is worth less than was paid is due at once.
        assert!(bills.charge(level, 1, 5));
    }
}
