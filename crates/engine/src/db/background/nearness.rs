//! What readers had near of tables that a merge replaces comes near of those that take their place, before they are shown: else a
//! merge would make readers of far tables wait for what they had.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::base::key::InternalKey;
use crate::base::sync::atomic::Ordering::Relaxed;
use crate::compaction::job::{Job, Output};
use crate::db::background::homecoming::is_of_level0;
use crate::db::core::Core;
use crate::format::filename::FileNumber;
use crate::format::table::stretches::KeyStretch;
use crate::version::table_meta::TableMeta;

/// A table that takes others' place: its number, its size, and its first and last key.
type Successor<'a> = ((FileNumber, u64), (&'a InternalKey, &'a InternalKey));

impl Core {
    /// Called before an output is installed; its tables are open.
    pub(super) fn bring_near(&self, job: &Job, output: &Output) {
        // Writers who are held back wait until it is installed.
        if self.options.table_store.is_none() || (is_of_level0(job) && self.are_writers_held_back())
        {
            return;
        }
        let near = job.input_tables().flat_map(|(_, input)| self.near_keys(input));
        let near: Vec<KeyStretch> = near.collect();
        let built = output.tables.iter();
        self.bring_keys_near(
            &near,
            built.map(|built| ((built.number, built.bytes), (&built.smallest, &built.largest))),
        );
    }

    /// The same for the tables of a database that takes another's place.
    pub(crate) fn bring_near_of(&self, other: &Core) {
        if self.options.table_store.is_none() {
            return;
        }
        let (ours, theirs) = (self.tables_by_number(), other.tables_by_number());
        let gone = theirs.iter().filter(|(number, _)| !ours.contains_key(number));
        let near: Vec<KeyStretch> = gone.flat_map(|(_, table)| other.near_keys(table)).collect();
        let new = ours.iter().filter(|(number, _)| !theirs.contains_key(number));
        self.bring_keys_near(
            &near,
            new.map(|(number, table)| ((*number, table.size), (&table.smallest, &table.largest))),
        );
    }

    fn bring_keys_near<'a>(
        &self,
        near: &[KeyStretch],
        successors: impl Iterator<Item = Successor<'a>>,
    ) {
        if near.is_empty() {
            return;
        }
        let bytes_of = |((number, size), ends)| -> Option<(FileNumber, Vec<Range<u64>>)> {
            // What cannot be read is for its readers to complain about.
            let wanted = self.tables.get(number, size).ok()?.bytes_with(near, ends);
            (!wanted.is_empty()).then_some((number, wanted))
        };
        let wanted: Vec<_> = successors.filter_map(bytes_of).collect();
        if !wanted.is_empty() {
            self.store.bring_near(&wanted);
        }
    }

    fn are_writers_held_back(&self) -> bool {
        self.level0_tables.load(Relaxed) >= self.settings.level0.slow_down as u64
    }

    fn near_keys(&self, table: &TableMeta) -> Vec<KeyStretch> {
        let near = self.store.near(table.number);
        if near.is_empty() {
            return Vec::new();
        }
        let (opened, ends) = (table.open(&self.tables), (&table.smallest, &table.largest));
        opened.map_or_else(|_| Vec::new(), |opened| opened.keys_in(&near, ends))
    }

    fn tables_by_number(&self) -> BTreeMap<FileNumber, Arc<TableMeta>> {
        let version = Arc::clone(&self.view.load().version);
        version.tables().map(|(_, table)| (table.number, Arc::clone(table))).collect()
    }
}
