//! Floor 4: which tables make up the database, slot by slot, and how one set follows another.
//! Read paths search a [`Version`]; flush and compaction replace it by installing edits.
//!
//! **Invariants.**
//! - A3 (order): for one user key, every entry found earlier in the search order is newer.
//! - A5 (disjoint): tables in a sorted slot share no user key. Databases written by LevelDB may
//!   share one border key between neighbours; the right-hand table is then the older.
//!
//! A version is immutable and shared: a new one clones only the slots an edit touches.

pub(crate) mod builder;
mod candidates;
pub(crate) mod check;
pub(crate) mod graveyard;
pub(crate) mod level_iter;
pub(crate) mod lookup;
pub(crate) mod manifest_log;
pub(crate) mod recover;
pub(crate) mod run_iter;
pub(crate) mod strata;
pub(crate) mod table_list;
pub(crate) mod table_meta;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use crate::base::comparator::UserOrder;
use crate::base::slot::{Level, SLOTS, Slot};
use crate::format::filename::FileNumber;
use crate::version::table_list::TableList;
use crate::version::table_meta::TableMeta;

/// The tables of one slot.
pub(crate) type Tables = Arc<TableList>;

/// An immutable set of tables.
#[derive(Clone, Default)]
pub(crate) struct Version {
    slots: [Tables; SLOTS],
    /// A bit for each slot that has tables, by its index: reads come by the others without a look.
    filled: u16,
}

const _: () = assert!(SLOTS <= u16::BITS as usize);

/// A range of user keys, both ends included; `None` is open.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KeyRange<'a> {
    pub(crate) from: Option<&'a [u8]>,
    pub(crate) to: Option<&'a [u8]>,
}

impl<'a> KeyRange<'a> {
    pub(crate) fn closed(from: &'a [u8], to: &'a [u8]) -> Self {
        KeyRange { from: Some(from), to: Some(to) }
    }

    pub(crate) fn meets(&self, order: &UserOrder, table: &TableMeta) -> bool {
        self.from.is_none_or(|from| order.compare(table.largest.user(), from).is_ge())
            && self.to.is_none_or(|to| order.compare(table.smallest.user(), to).is_le())
    }

    /// The positions of the tables of a sorted slot that meet the range: one stretch, found by
    /// binary search.
    pub(crate) fn window(&self, order: &UserOrder, tables: &[Arc<TableMeta>]) -> Range<usize> {
        let ends_before =
            |from, table: &TableMeta| order.compare(table.largest.user(), from).is_lt();
        let starts_within =
            |to, table: &TableMeta| order.compare(table.smallest.user(), to).is_le();
        let start =
            self.from.map_or(0, |from| tables.partition_point(|table| ends_before(from, table)));
        let end = self
            .to
            .map_or(tables.len(), |to| tables.partition_point(|table| starts_within(to, table)));
        start..end.max(start)
    }
}

impl Version {
    pub(crate) fn slot(&self, slot: Slot) -> &[Arc<TableMeta>] {
        &self.slots[slot.index()]
    }

    pub(crate) fn shared_slot(&self, slot: Slot) -> &Tables {
        &self.slots[slot.index()]
    }

    pub(crate) fn slots(&self) -> impl DoubleEndedIterator<Item = (Slot, &[Arc<TableMeta>])> {
        Slot::all().map(|slot| (slot, self.slot(slot)))
    }

    /// The slots that have tables, in search order.
    #[inline]
    pub(crate) fn filled_slots(&self) -> impl Iterator<Item = (Slot, &Tables)> {
        let mut left = self.filled;
        std::iter::from_fn(move || {
            let index = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            Some((Slot::at(index)?, self.slots.get(index)?))
        })
    }

    fn set_slot(&mut self, slot: Slot, tables: Tables) {
        let bit = 1 << slot.index();
        self.filled = if tables.is_empty() { self.filled & !bit } else { self.filled | bit };
        self.slots[slot.index()] = tables;
    }

    /// Every table with its slot, in search order.
    pub(crate) fn tables(&self) -> impl DoubleEndedIterator<Item = (Slot, &Arc<TableMeta>)> {
        self.slots().flat_map(|(slot, tables)| tables.iter().map(move |table| (slot, table)))
    }

    /// Every table with its place in the search order. Within a sorted slot the position counts
    /// too: it tells which of two tables that share a border key is the older.
    pub(crate) fn placed(&self) -> impl Iterator<Item = (Place, &Arc<TableMeta>)> {
        self.slots().flat_map(|(slot, tables)| {
            let place = move |position| Place { slot, position };
            tables.iter().enumerate().map(move |(position, table)| (place(position), table))
        })
    }

    pub(crate) fn table_at(&self, place: Place) -> &Arc<TableMeta> {
        &self.slot(place.slot)[place.position]
    }

    pub(crate) fn find(&self, number: FileNumber) -> Option<(Slot, &Arc<TableMeta>)> {
        self.tables().find(|(_, table)| table.number == number)
    }

    pub(crate) fn level_tables(&self, level: Level) -> impl Iterator<Item = &Arc<TableMeta>> {
        self.tables().filter(move |(slot, _)| slot.level == level).map(|(_, table)| table)
    }

    pub(crate) fn level_bytes(&self, level: Level) -> u64 {
        self.level_tables(level).map(|table| table.size).sum()
    }

    /// Tables of `slot` that hold keys in `range`, with their places, in the slot's order.
    pub(crate) fn meeting(
        &self,
        order: &UserOrder,
        slot: Slot,
        range: KeyRange<'_>,
    ) -> impl Iterator<Item = (Place, &Arc<TableMeta>)> {
        let tables = self.slot(slot);
        let sorted = slot.is_sorted();
        let window = if sorted { range.window(order, tables) } else { 0..tables.len() };
        let places = window.clone().map(move |position| Place { slot, position });
        places.zip(&tables[window]).filter(move |(_, table)| sorted || range.meets(order, table))
    }

    /// The same, without places.
    pub(crate) fn overlapping(
        &self,
        order: &UserOrder,
        slot: Slot,
        range: KeyRange<'_>,
    ) -> Vec<&Arc<TableMeta>> {
        self.meeting(order, slot, range).map(|(_, table)| table).collect()
    }

    /// The first slot after `slot` in the search order that holds keys in `range`. Where there is
    /// none, deletions in `slot` hide nothing (A6).
    pub(crate) fn next_meeting(
        &self,
        order: &UserOrder,
        slot: Slot,
        range: KeyRange<'_>,
    ) -> Option<Slot> {
        let mut deeper = Slot::all().filter(|deeper| *deeper > slot);
        deeper.find(|deeper| self.meeting(order, *deeper, range).next().is_some())
    }
}

/// A table's place in the search order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) slot: Slot,
    pub(crate) position: usize,
}
