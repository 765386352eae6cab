//! A job: a plan that the engine has accepted, complete in itself, so that it can run on this
//! thread, on another, or on another machine.

use std::sync::Arc;

use crate::base::comparator::{InternalOrder, UserOrder};
use crate::base::key::{InternalKey, SeqNo};
use crate::base::slot::{Level, Slot};
use crate::compaction::closure::{Closed, hull};
use crate::compaction::cut::CutRule;
use crate::format::filename::FileNumber;
use crate::version::table_meta::{TableMeta, TableStats};
use crate::version::{KeyRange, Tables, Version};

/// What to merge, where to, and what may be dropped on the way.
pub(crate) struct Job {
    pub(crate) id: u64,
    /// Inputs by slot, in search order.
    pub(crate) inputs: Vec<(Slot, Tables)>,
    pub(crate) to: Slot,
    /// Live snapshots, oldest first, then the sequence number at the job's start.
    pub(crate) snapshots: Vec<SeqNo>,
    /// Tables after the target in the search order that hold keys of the hull, by slot (A6).
    pub(crate) below: Vec<Tables>,
    pub(crate) cut: CutRule,
}

/// A table an executor made.
#[derive(Clone, Debug)]
pub(crate) struct Built {
    pub(crate) number: FileNumber,
    pub(crate) size: u64,
    pub(crate) smallest: InternalKey,
    pub(crate) largest: InternalKey,
    pub(crate) stats: TableStats,
}

/// What an executor returns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Output {
    pub(crate) tables: Vec<Built>,
    pub(crate) bytes_read: u64,
    pub(crate) bytes_written: u64,
    pub(crate) entries_dropped: u64,
}

/// Limits that shape a job's output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JobLimits {
    pub(crate) table_bytes: u64,
    pub(crate) grandparent_bytes: u64,
}

impl Job {
    pub(crate) fn new(
        id: u64,
        order: &UserOrder,
        version: &Version,
        closed: &Closed,
        (to, snapshots, limits): (Slot, Vec<SeqNo>, JobLimits),
    ) -> Self {
        let (low, high) = hull(order, closed.metas());
        let range = KeyRange::closed(low, high);
        // Outputs go to the front of an unsorted target, so what is there lies below them too.
        let is_below = |slot: &Slot| *slot > to || (*slot == to && !to.is_sorted());
        let below = Slot::all().filter(is_below);
        let below = below.map(|slot| {
            Arc::new(version.overlapping(order, slot, range).into_iter().cloned().collect())
        });
        let grandparents = to.level.deeper().map(|level| {
            let tables = version.overlapping(order, Slot::tree(level), range);
            tables.into_iter().map(|table| (table.largest.clone(), table.size)).collect()
        });
        Job {
            id,
            inputs: by_slot(closed),
            to,
            snapshots,
            below: below.filter(|tables: &Tables| !tables.is_empty()).collect(),
            cut: CutRule {
                table_bytes: limits.table_bytes,
                grandparent_bytes: limits.grandparent_bytes,
                grandparents: grandparents.unwrap_or_default(),
            },
        }
    }

    pub(crate) fn input_tables(&self) -> impl Iterator<Item = (Slot, &Arc<TableMeta>)> {
        self.inputs.iter().flat_map(|(slot, tables)| tables.iter().map(|table| (*slot, table)))
    }

    pub(crate) fn input_bytes(&self) -> u64 {
        self.input_tables().map(|(_, table)| table.size).sum()
    }

    /// The level whose pointer a round-robin policy moves on.
    pub(crate) fn start_level(&self) -> Level {
        self.inputs.first().map_or(self.to.level, |(slot, _)| slot.level)
    }

    /// Checks an output before it is installed, whoever made it: sorted, disjoint, and within the
    /// hull of the inputs.
    pub(crate) fn accepts(&self, order: &InternalOrder, output: &Output) -> bool {
        if output.tables.is_empty() {
            return true;
        }
        let (low, high) = hull(&order.user, self.input_tables().map(|(_, table)| &**table));
        let inside = |built: &Built| {
            order.user.compare(low, built.smallest.user()).is_le()
                && order.user.compare(built.largest.user(), high).is_le()
                && order.compare(built.smallest.as_bytes(), built.largest.as_bytes()).is_le()
        };
        output.tables.iter().all(inside)
            && output.tables.windows(2).all(|pair| {
                order.user.compare(pair[0].largest.user(), pair[1].smallest.user()).is_lt()
            })
    }
}

fn by_slot(closed: &Closed) -> Vec<(Slot, Tables)> {
    let mut inputs: Vec<(Slot, Vec<Arc<TableMeta>>)> = Vec::new();
    for (place, table) in &closed.tables {
        match inputs.last_mut() {
            Some((slot, tables)) if *slot == place.slot => tables.push(Arc::clone(table)),
            _ => inputs.push((place.slot, vec![Arc::clone(table)])),
        }
    }
    inputs.into_iter().map(|(slot, tables)| (slot, Arc::new(tables))).collect()
}
