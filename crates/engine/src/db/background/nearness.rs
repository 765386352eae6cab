//! What readers had near of tables that a merge replaces comes near of those that take their place, before they are shown: else a
//! merge would make readers of far tables wait for what they had.

use std::ops::Range;

use crate::compaction::job::{Job, Output};
use crate::db::core::Core;
use crate::format::filename::FileNumber;
use crate::format::table::builder::TableSummary;
use crate::format::table::stretches::KeyStretch;
use crate::version::table_meta::TableMeta;

impl Core {
    /// Called before an output is installed; its tables are open.
    pub(super) fn bring_near(&self, job: &Job, output: &Output) {
        if self.options.table_store.is_none() {
            return;
        }
        let near = job.input_tables().flat_map(|(_, input)| self.near_keys(input));
        let near: Vec<KeyStretch> = near.collect();
        let bytes_of = |built: &TableSummary| -> Option<(FileNumber, Vec<Range<u64>>)> {
            // What cannot be read is for its readers to complain about.
            let table = self.tables.get(built.number, built.bytes).ok()?;
            let wanted = table.bytes_with(&near, (&built.smallest, &built.largest));
            (!wanted.is_empty()).then_some((built.number, wanted))
        };
        if near.is_empty() {
            return;
        }
        let wanted: Vec<_> = output.tables.iter().filter_map(bytes_of).collect();
        if !wanted.is_empty() {
            self.store.bring_near(&wanted);
        }
    }

    fn near_keys(&self, input: &TableMeta) -> Vec<KeyStretch> {
        let near = self.store.near(input.number);
        if near.is_empty() {
            return Vec::new();
        }
        let (table, ends) = (input.open(&self.tables), (&input.smallest, &input.largest));
        table.map_or_else(|_| Vec::new(), |table| table.keys_in(&near, ends))
    }
}
