//! Version + edit -> version. Used at every install and, edit by edit, when a manifest is replayed.

use std::collections::HashSet;
use std::sync::Arc;

use crate::base::comparator::InternalOrder;
use crate::base::error::{Error, Result};
use crate::base::slot::{SLOTS, Slot};
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
    removed: [HashSet<FileNumber>; SLOTS],
    added: [Vec<Arc<TableMeta>>; SLOTS],
}

impl<'a> VersionBuilder<'a> {
    pub(crate) fn new(order: &'a InternalOrder, base: &'a Version) -> Self {
        VersionBuilder { order, base, removed: Default::default(), added: Default::default() }
    }

    /// Removals come before additions, as in the format: a table moved within a slot is both.
    /// Removing a table that is not there is nothing, as LevelDB has it.
    pub(crate) fn apply(&mut self, change: Change) {
        for (slot, number) in change.removed {
            self.added[slot.index()].retain(|table| table.number != number);
            self.removed[slot.index()].insert(number);
        }
        for (slot, table) in change.added {
            self.removed[slot.index()].remove(&table.number);
            self.added[slot.index()].push(table);
        }
    }

    pub(crate) fn finish(mut self) -> Result<Version> {
        let mut version = self.base.clone();
        for slot in Slot::all() {
            let index = slot.index();
            if !self.removed[index].is_empty() || !self.added[index].is_empty() {
                let added = std::mem::take(&mut self.added[index]);
                version.slots[index] = self.merge(slot, added)?;
            }
        }
        Ok(version)
    }

    fn merge(&self, slot: Slot, added: Vec<Arc<TableMeta>>) -> Result<Tables> {
        let index = slot.index();
        let removed = &self.removed[index];
        let fresh: HashSet<FileNumber> = added.iter().map(|table| table.number).collect();
        if fresh.len() != added.len() {
            return Err(Error::corruption(format!("an edit adds one table to {slot} twice")));
        }
        let kept = self.base.slots[index].iter();
        let kept = kept.filter(|table| !removed.contains(&table.number));
        // A manifest may state a table anew (LevelDB's does after reuse): the last word counts.
        let mut tables: Vec<_> =
            kept.filter(|table| !fresh.contains(&table.number)).cloned().collect();
        tables.extend(added);
        self.sort(slot, &mut tables);
        Ok(Arc::new(tables))
    }

    fn sort(&self, slot: Slot, tables: &mut [Arc<TableMeta>]) {
        if slot.is_sorted() {
            tables.sort_by(|a, b| {
                let by_key = self.order.compare(a.smallest.as_bytes(), b.smallest.as_bytes());
                by_key.then(a.number.cmp(&b.number))
            });
        } else {
            // Level 0: flushes take numbers in the order of their data, so newest first.
            tables.sort_by_key(|table| std::cmp::Reverse(table.number));
        }
    }
}

/// One edit applied to one version.
pub(crate) fn apply(order: &InternalOrder, base: &Version, change: Change) -> Result<Version> {
    let mut builder = VersionBuilder::new(order, base);
    builder.apply(change);
    builder.finish()
}
