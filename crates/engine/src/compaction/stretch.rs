//! Neighbours in a level that go down together.
//!
//! A table's merge rewrites all that the table overlaps in the next level: as many bytes as lie under it, and the rest of
//! the two tables that its ends lie in. Neighbours share these rests.

use std::sync::Arc;

use crate::base::slot::Slot;
use crate::compaction::closure::range_of;
use crate::compaction::policy::PickView;
use crate::format::filename::FileNumber;
use crate::version::Place;
use crate::version::table_meta::TableMeta;

/// More bring nothing, and level 0 waits while a merge has tables of level 1.
const TABLES_MAX: usize = 6;

/// Idle tables that lie side by side in a slot. The least is the best to merge: of equals that of fewer tables (one that
/// overlaps nothing can be moved as it is), then the older.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stretch {
    /// Bytes to rewrite in the target for each byte of these, in thousandths.
    cost_permille: u64,
    len: usize,
    oldest: FileNumber,
    first: Place,
}

impl Stretch {
    pub(crate) fn places(&self) -> Vec<Place> {
        let positions = self.first.position..self.first.position + self.len;
        positions.map(|position| Place { position, ..self.first }).collect()
    }
}

/// How far neighbours are taken along.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// What the level has too much. A table more would be better kept, until more of what it overlaps is overwritten.
    pub(crate) excess: u64,
    /// Of the whole merge, with what is overlapped.
    pub(crate) merge: u64,
}

/// The stretches of `from`, in no order; single tables whatever the limits. What is in an unsorted slot has no neighbours.
pub(crate) fn stretches(
    view: &PickView<'_>,
    from: Slot,
    target: Slot,
    limits: Limits,
) -> Vec<Stretch> {
    let (tables, below) = (view.version.slot(from), view.version.slot(target));
    let windows = tables.iter().map(|table| range_of(table).window(view.order, below));
    let windows: Vec<_> = windows.collect();
    let bytes_before = sums(below);
    let len_max = if from.is_sorted() { TABLES_MAX } else { 1 };
    let mut stretches = Vec::new();
    for start in 0..tables.len() {
        let mut bytes = 0u64;
        let mut oldest = tables[start].number;
        for end in start..tables.len().min(start + len_max) {
            let is_enough = end > start && bytes >= limits.excess;
            if is_enough || view.in_flight.is_busy(tables[end].number) {
                break;
            }
            bytes = bytes.saturating_add(tables[end].size);
            oldest = oldest.min(tables[end].number);
            let overlap =
                bytes_before[windows[end].end].saturating_sub(bytes_before[windows[start].start]);
            if end > start && bytes.saturating_add(overlap) > limits.merge {
                break;
            }
            stretches.push(Stretch {
                cost_permille: overlap.saturating_mul(1000) / bytes.max(1),
                len: end + 1 - start,
                oldest,
                first: Place { slot: from, position: start },
            });
        }
    }
    stretches
}

/// The bytes of all tables before each, and of all.
fn sums(tables: &[Arc<TableMeta>]) -> Vec<u64> {
    let mut sums = vec![0u64];
    for table in tables {
        sums.push(sums[sums.len() - 1].saturating_add(table.size));
    }
    sums
}
