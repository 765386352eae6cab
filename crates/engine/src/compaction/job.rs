//! A job: a plan that the engine has accepted, complete in itself, so that it can run on this
//! thread, on another, or on another machine.

use std::sync::Arc;

use crate::base::comparator::{InternalOrder, UserOrder};
use crate::base::key::SeqNo;
use crate::base::slot::Slot;
use crate::compaction::closure::{Closed, hull};
use crate::compaction::cut::CutRule;
use crate::compaction::parts::Part;
use crate::format::table::builder::TableSummary;
use crate::version::table_meta::TableMeta;
use crate::version::{KeyRange, Tables, Version};

/// What to merge, where to, and what may be dropped on the way.
pub(crate) struct Job {
    pub(crate) id: u64,
    /// Inputs by slot, in search order.
    pub(crate) inputs: Vec<(Slot, Tables)>,
    /// What of them is merged: all, or what is within these keys.
    pub(crate) part: Part,
    pub(crate) to: Slot,
    /// Live snapshots, oldest first, then the sequence number at the job's start.
    pub(crate) snapshots: Vec<SeqNo>,
    /// Tables after the target in the search order that hold keys of the hull, by slot (A6).
    pub(crate) below: Vec<Tables>,
    pub(crate) cut: CutRule,
}

/// What an executor returns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Output {
    pub(crate) tables: Vec<TableSummary>,
    /// How hot each of them is; empty if nobody wants to know.
    pub(crate) hotness: Vec<u64>,
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
        let (low, high) = closed.hull(order);
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
            part: closed.part.clone(),
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

    /// About how many are merged.
    pub(crate) fn input_bytes(&self, order: &UserOrder) -> u64 {
        let (from, until) = (self.part.from.as_deref(), self.part.until.as_deref());
        let within = |table: &TableMeta| table.live_bytes_within(order, from, until);
        self.input_tables().map(|(_, table)| within(table)).sum()
    }

    /// Checks an output before it is installed, whoever made it: sorted, disjoint, and within the
    /// hull of the inputs.
    pub(crate) fn accepts(&self, order: &InternalOrder, output: &Output) -> bool {
        if output.tables.is_empty() {
            return true;
        }
        let bounds = hull(&order.user, self.input_tables().map(|(_, table)| &**table));
        let (low, high) = self.part.clip(&order.user, bounds);
        let inside = |built: &TableSummary| {
            order.user.compare(low, built.smallest.user()).is_le()
                && order.user.compare(built.largest.user(), high).is_le()
                && self.part.is_before_end(&order.user, built.largest.user())
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
    inputs
        .into_iter()
        .map(|(slot, tables)| (slot, Arc::new(tables.into_iter().collect())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::key::InternalKey;
    use crate::compaction::closure::close;
    use crate::format::filename::FileNumber;
    use crate::format::table::properties::TableProperties;
    use crate::version::testing::{bounded, key, numbers, order, sst_log, table, tree, version};

    const LIMITS: JobLimits = JobLimits { table_bytes: 100, grandparent_bytes: 100 };

    fn job(version: &Version, seed: u64, to: Slot) -> Job {
        let user = order().user;
        let closed = close(&user, version, &[FileNumber(seed)], to).unwrap();
        Job::new(1, &user, version, &closed, (to, vec![SeqNo(200)], LIMITS))
    }

    fn built(number: u64, smallest: InternalKey, largest: InternalKey) -> TableSummary {
        let (number, properties) = (FileNumber(number), TableProperties::default());
        TableSummary { number, bytes: 10, properties, smallest, largest }
    }

    fn below(job: &Job) -> Vec<Vec<u64>> {
        job.below.iter().map(|tables| numbers(tables.iter())).collect()
    }

    #[test]
    fn a_job_says_all_that_the_merge_needs() {
        let version = version([
            (Slot::L0, table(20, "a", "f")),
            (Slot::L0, table(19, "e", "h")),
            (tree(1), table(10, "b", "c")),
            (tree(1), table(11, "g", "m")),
            (tree(1), table(12, "n", "z")),
            (sst_log(1), table(13, "k", "l")),
            (sst_log(1), table(14, "n", "z")),
            (tree(2), table(5, "a", "a")),
            (tree(2), table(6, "l", "n")),
            (tree(2), table(7, "x", "z")),
            (tree(6), table(1, "a", "z")),
        ]);
        let job = job(&version, 20, tree(1));
        let inputs: Vec<_> =
            job.inputs.iter().map(|(slot, tables)| (*slot, numbers(tables.iter()))).collect();
        assert_eq!(inputs, [(Slot::L0, vec![20, 19]), (tree(1), vec![10, 11])]);
        assert_eq!(job.input_bytes(&order().user), 40);
        assert_eq!(below(&job), [vec![13], vec![5, 6], vec![1]], "by slot, within the hull");
        let grandparents = job.cut.grandparents.iter().map(|(key, _)| key.user().to_vec());
        assert_eq!(grandparents.collect::<Vec<_>>(), [b"a", b"n"]);
    }

    #[test]
    fn the_last_level_has_nothing_below() {
        let version = version([(tree(6), table(1, "a", "z")), (tree(6), table(2, "zz", "zzz"))]);
        let job = job(&version, 1, tree(6));
        assert!(job.below.is_empty() && job.cut.grandparents.is_empty());
    }

    #[test]
    fn what_an_sst_log_holds_lies_below_what_arrives_there() {
        let version = version([
            (tree(1), table(2, "a", "k")),
            (sst_log(1), table(1, "b", "c")),
            (sst_log(1), table(3, "x", "z")),
        ]);
        assert_eq!(below(&job(&version, 2, sst_log(1))), [vec![1]]);
    }

    #[test]
    fn outputs_that_break_the_rules_are_refused() {
        let version = version([
            (tree(1), bounded(1, key("c", 9), key("h", 3))),
            (tree(2), bounded(2, key("f", 2), key("m", 1))),
        ]);
        let job = job(&version, 1, tree(2));
        let accepts = |tables: &[(InternalKey, InternalKey)]| {
            let tables = tables.iter().zip(50..);
            let tables = tables.map(|((from, to), number)| built(number, from.clone(), to.clone()));
            job.accepts(&order(), &Output { tables: tables.collect(), ..Output::default() })
        };
        assert!(accepts(&[]));
        assert!(accepts(&[(key("c", 9), key("m", 1))]));
        assert!(accepts(&[(key("c", 9), key("e", 1)), (key("f", 9), key("f", 1))]));
        for (reason, tables) in [
            ("below the hull", vec![(key("b", 9), key("d", 1))]),
            ("above the hull", vec![(key("c", 9), key("d", 1)), (key("k", 9), key("n", 1))]),
            ("bounds crossed", vec![(key("d", 9), key("c", 1))]),
            ("bounds crossed within a key", vec![(key("d", 1), key("d", 9))]),
            ("out of order", vec![(key("f", 9), key("g", 1)), (key("c", 9), key("d", 1))]),
            ("overlapping", vec![(key("c", 9), key("f", 1)), (key("e", 9), key("g", 1))]),
            ("one key in two", vec![(key("c", 9), key("f", 5)), (key("f", 4), key("g", 1))]),
        ] {
            assert!(!accepts(&tables), "{reason}");
        }
    }
}
