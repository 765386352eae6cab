//! Version + edit -> version. Used at every install and, edit by edit, when a manifest is replayed.
//!
//! **Order within a slot.** Sorted slots go by key. Level 0 goes by number, greatest first: flushes
//! take numbers in the order of their data, and manifests are written without regard to order. An
//! `SstLog` slot goes by arrival, for a table moved there may be older than its neighbours by
//! number and newer by data: what an edit adds stands before all that was there, in the order in
//! which the edit names it (A4). What it both removes and adds there is the same table, of which less
//! counts than before, and keeps its place. A manifest that begins with all tables in search order,
//! and goes on edit by edit, gives the same order again.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::base::comparator::InternalOrder;
use crate::base::error::{Error, Result};
use crate::base::slot::{Area, SLOTS, Slot};
use crate::format::filename::FileNumber;
use crate::version::table_meta::TableMeta;
use crate::version::{Tables, Version};

/// What an edit does to the tables of a version.
#[derive(Clone, Default)]
pub(crate) struct Change {
    pub(crate) removed: Vec<(Slot, FileNumber)>,
    pub(crate) added: Vec<(Slot, Arc<TableMeta>)>,
}

/// Gathers changes and applies them at once. Replaying a manifest of a million edits one version at
/// a time would be quadratic.
pub(crate) struct VersionBuilder<'a> {
    order: &'a InternalOrder,
    base: &'a Version,
    changes: usize,
    slots: [SlotChange; SLOTS],
}

/// What all changes together do to one slot.
#[derive(Default)]
struct SlotChange {
    /// Tables of the base version that are gone.
    removed: HashSet<FileNumber>,
    added: HashMap<FileNumber, Added>,
}

struct Added {
    table: Arc<TableMeta>,
    arrival: Arrival,
}

/// Orders tables as an `SstLog` slot has them: the last change first, and within one change as
/// it has them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Arrival {
    change: Reverse<usize>,
    position: usize,
}

impl Arrival {
    /// Of a table that was there before all changes.
    fn of_base(position: usize) -> Self {
        Arrival { change: Reverse(0), position }
    }
}

impl<'a> VersionBuilder<'a> {
    pub(crate) fn new(order: &'a InternalOrder, base: &'a Version) -> Self {
        VersionBuilder { order, base, changes: 0, slots: Default::default() }
    }

    /// Removals come before additions, as in the format: a table that changes within its slot is
    /// both. Removing a table that is not there is nothing, as LevelDB has it.
    ///
    /// # Errors
    ///
    /// Corruption if a table is added to a slot that has it.
    pub(crate) fn apply(&mut self, change: Change) -> Result<()> {
        self.changes += 1;
        let mut left = HashMap::new();
        for (slot, number) in change.removed {
            if let Some(arrival) = self.remove(slot, number) {
                left.insert((slot, number), arrival);
            }
        }
        for (position, (slot, table)) in change.added.into_iter().enumerate() {
            let number = table.number;
            let new = Arrival { change: Reverse(self.changes), position };
            let arrival = left.get(&(slot, number)).copied().unwrap_or(new);
            let added = &mut self.slots[slot.index()].added;
            if added.insert(number, Added { table, arrival }).is_some() {
                return Err(added_twice(slot, number));
            }
        }
        Ok(())
    }

    /// Returns the table's arrival, where order goes by it.
    fn remove(&mut self, slot: Slot, number: FileNumber) -> Option<Arrival> {
        let target = &mut self.slots[slot.index()];
        let added = target.added.remove(&number);
        let is_new = target.removed.insert(number);
        if slot.area != Area::SstLog {
            return None;
        }
        let in_base = || self.base.slot(slot).iter().position(|table| table.number == number);
        let in_base = || in_base().filter(|_| is_new).map(Arrival::of_base);
        added.map(|added| added.arrival).or_else(in_base)
    }

    pub(crate) fn finish(mut self) -> Result<Version> {
        let mut version = self.base.clone();
        for slot in Slot::all() {
            let change = std::mem::take(&mut self.slots[slot.index()]);
            if !change.removed.is_empty() || !change.added.is_empty() {
                version.set_slot(slot, self.merge(slot, change)?);
            }
        }
        Ok(version)
    }

    fn merge(&self, slot: Slot, change: SlotChange) -> Result<Tables> {
        let base = self.base.slot(slot).iter().enumerate();
        let kept = base.filter(|(_, table)| !change.removed.contains(&table.number));
        let kept = kept.map(|(position, table)| Added {
            table: Arc::clone(table),
            arrival: Arrival::of_base(position),
        });
        let kept: Vec<Added> = kept.collect();
        let is_twice = |kept: &&Added| change.added.contains_key(&kept.table.number);
        if let Some(twice) = kept.iter().find(is_twice) {
            return Err(added_twice(slot, twice.table.number));
        }
        let mut all: Vec<Added> = change.added.into_values().chain(kept).collect();
        all.sort_unstable_by_key(|added| added.arrival);
        let mut tables: Vec<_> = all.into_iter().map(|added| added.table).collect();
        self.sort(slot, &mut tables);
        Ok(Arc::new(tables.into_iter().collect()))
    }

    /// Puts newly arrived tables, which stand first, in their places.
    fn sort(&self, slot: Slot, tables: &mut [Arc<TableMeta>]) {
        if slot.is_sorted() {
            tables.sort_by(|a, b| {
                let by_key = self.order.compare(a.smallest.as_bytes(), b.smallest.as_bytes());
                by_key.then(a.number.cmp(&b.number))
            });
        } else if slot.area == Area::Tree {
            tables.sort_by_key(|table| Reverse(table.number));
        }
    }
}

fn added_twice(slot: Slot, number: FileNumber) -> Error {
    Error::corruption(format!("an edit adds table {number} to {slot}, which has it"))
}

/// One edit applied to one version.
pub(crate) fn apply(order: &InternalOrder, base: &Version, change: Change) -> Result<Version> {
    let mut builder = VersionBuilder::new(order, base);
    builder.apply(change)?;
    builder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::testing::{numbers, order, sst_log, table, tree, version};

    fn gone(removed: &[(Slot, u64)]) -> Vec<(Slot, FileNumber)> {
        removed.iter().map(|(slot, number)| (*slot, FileNumber(*number))).collect()
    }

    fn change(removed: &[(Slot, u64)], added: Vec<(Slot, Arc<TableMeta>)>) -> Change {
        Change { removed: gone(removed), added }
    }

    #[test]
    fn each_slot_has_its_own_order() {
        let base = version([
            (Slot::L0, table(5, "a", "z")),
            (Slot::L0, table(6, "a", "z")),
            (tree(1), table(9, "d", "f")),
            (sst_log(1), table(8, "a", "c")),
            (sst_log(1), table(2, "a", "c")),
        ]);
        let added = vec![
            (Slot::L0, table(12, "a", "b")),
            (Slot::L0, table(11, "a", "b")),
            (tree(1), table(10, "a", "c")),
            (tree(1), table(7, "g", "h")),
            (sst_log(1), table(3, "b", "c")),
            (sst_log(1), table(4, "b", "c")),
        ];
        let order = order();
        let mut builder = VersionBuilder::new(&order, &base);
        builder.apply(change(&[], added)).unwrap();
        builder.apply(change(&[], vec![(sst_log(1), table(1, "c", "d"))])).unwrap();
        let next = builder.finish().unwrap();
        assert_eq!(numbers(next.slot(Slot::L0)), [12, 11, 6, 5]);
        assert_eq!(numbers(next.slot(tree(1))), [10, 9, 7]);
        assert_eq!(numbers(next.slot(sst_log(1))), [1, 3, 4, 8, 2]);
        assert_eq!(numbers(base.slot(tree(1))), [9], "the base stays as it is");
    }

    #[test]
    fn changes_at_once_are_changes_one_by_one() {
        let base = version([(tree(1), table(1, "a", "b")), (tree(2), table(2, "a", "b"))]);
        let changes = [
            change(&[(tree(1), 1)], vec![(sst_log(1), table(1, "a", "b"))]),
            change(&[], vec![(tree(1), table(3, "a", "c")), (tree(1), table(4, "d", "e"))]),
            change(&[(tree(1), 4), (tree(1), 3)], vec![(sst_log(1), table(3, "a", "c"))]),
            change(&[(sst_log(1), 1)], vec![(tree(2), table(1, "c", "d"))]),
            change(&[(tree(2), 2)], vec![]),
        ];
        let order = order();
        let mut builder = VersionBuilder::new(&order, &base);
        let mut stepwise = base.clone();
        for change in changes {
            stepwise = apply(&order, &stepwise, change.clone()).unwrap();
            builder.apply(change).unwrap();
        }
        let at_once = builder.finish().unwrap();
        let shape = |version: &Version| {
            version.tables().map(|(slot, table)| (slot, table.number.0)).collect::<Vec<_>>()
        };
        assert_eq!(shape(&at_once), shape(&stepwise));
        assert_eq!(shape(&at_once), [(sst_log(1), 3), (tree(2), 1)]);
    }

    #[test]
    fn a_table_may_be_replaced_where_it_is_and_moved_elsewhere() {
        let base = version([(tree(1), table(1, "a", "b")), (tree(1), table(2, "d", "e"))]);
        let again = change(&[(tree(1), 1)], vec![(tree(1), table(1, "f", "g"))]);
        let next = apply(&order(), &base, again).unwrap();
        assert_eq!(numbers(next.slot(tree(1))), [2, 1]);
        let moved = change(&[(tree(1), 1)], vec![(tree(3), table(1, "f", "g"))]);
        let next = apply(&order(), &next, moved).unwrap();
        assert_eq!((numbers(next.slot(tree(1))), numbers(next.slot(tree(3)))), (vec![2], vec![1]));
    }

    #[test]
    fn removing_what_is_not_there_is_nothing() {
        let base = version([(tree(1), table(1, "a", "b"))]);
        let next = apply(&order(), &base, change(&[(tree(1), 7), (tree(2), 1)], vec![])).unwrap();
        assert_eq!(numbers(next.tables().map(|(_, table)| table)), [1]);
    }

    #[test]
    fn adding_twice_is_corruption() {
        let base = version([(tree(1), table(1, "a", "b"))]);
        let message = "Corruption: an edit adds table 1 to L1, which has it";
        let twice = change(&[], vec![(tree(1), table(1, "x", "y"))]);
        let error = apply(&order(), &base, twice).err().unwrap();
        assert_eq!(error.to_string(), message);

        let in_one = vec![(tree(1), table(1, "x", "y")), (tree(1), table(1, "x", "y"))];
        let error = apply(&order(), &Version::default(), change(&[], in_one)).err().unwrap();
        assert_eq!(error.to_string(), message);

        let (order, empty) = (order(), Version::default());
        let mut builder = VersionBuilder::new(&order, &empty);
        builder.apply(change(&[], vec![(tree(1), table(1, "a", "b"))])).unwrap();
        let again = change(&[], vec![(tree(1), table(1, "a", "b"))]);
        assert!(builder.apply(again).unwrap_err().is_corruption());
    }

    #[test]
    fn slots_without_changes_are_shared() {
        let base = version([(tree(1), table(1, "a", "b")), (tree(2), table(2, "a", "b"))]);
        let next = apply(&order(), &base, change(&[(tree(1), 1)], vec![])).unwrap();
        assert!(Arc::ptr_eq(base.shared_slot(tree(2)), next.shared_slot(tree(2))));
    }
}
