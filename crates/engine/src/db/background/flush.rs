//! Flush: the oldest immutable memtable becomes a table of level 0.
//!
//! One at a time, so that level 0 stays in order: newer data, larger number. Always level 0, also
//! where LevelDB would place the table deeper: a move gets it there without copying, and every rule
//! has one case less.

use std::sync::Arc;

use crate::base::error::Result;
use crate::base::event::Event;
use crate::base::iter::InternalIterator;
use crate::base::key::{self, SeqNo};
use crate::base::slot::Slot;
use crate::compaction::hot_map::KeyHash;
use crate::compaction::retention::{Retention, Verdict};
use crate::db::background::Worked;
use crate::db::core::Core;
use crate::db::state::Logged;
use crate::format::filename::FileNumber;
use crate::format::table::TableBuilder;
use crate::format::table::builder::TableSummary;
use crate::memtable::MemTable;
use crate::version::builder::Change;
use crate::version::table_meta::TableMeta;

impl Core {
    /// Flushes the oldest immutable memtable, if there is one.
    pub(crate) fn try_flush(&self) -> Worked {
        let (entry, job) = {
            let mut state = self.state.lock();
            if state.flushing || state.failed.is_some() {
                return Worked::Idle;
            }
            let Some(entry) = state.immutables.front().cloned() else { return Worked::Idle };
            state.flushing = true;
            (entry, state.new_job())
        };
        let flushed = self.watch_job(|| self.flush(&entry, job));
        self.state.lock().flushing = false;
        match flushed {
            Ok(()) => {
                self.note_background_success();
                Worked::Yes
            }
            Err(error) => self.note_background_failure(error),
        }
    }

    fn flush(&self, entry: &Logged, job: u64) -> Result<()> {
        let begin = self.env.clock.now();
        self.backlog.flush_begins(begin);
        self.let_residents_go();
        let snapshots = self.snapshots.with_visible(|| self.visible_seqno());
        let table = self.build_level0(&entry.table, &snapshots)?;
        self.note_writes(&entry.table)?;
        if let Some(table) = &table {
            // So no reader has to, and the log does not go before what replaces it has shown that it can be read.
            let opened = table.open(&self.tables);
            opened.inspect_err(|_| table.mark_obsolete())?;
        }
        let bytes = table.as_ref().map_or(0, |table| table.size);
        let number = table.as_ref().map(|table| table.number.0);
        let change = Change {
            added: table.into_iter().map(|table| (Slot::L0, table)).collect(),
            removed: Vec::new(),
        };
        let floor = self.state.lock().floor(1);
        let ended = self.env.clock.now();
        let elapsed = ended.saturating_sub(begin);
        self.install(change, Some(floor), |state| {
            state.away.outlook.flushed(ended);
            let flushed = state.immutables.pop_front();
            debug_assert!(flushed.is_some_and(|old| Arc::ptr_eq(&old.table, &entry.table)));
            let stats = &mut state.level_stats[0];
            stats.bytes_written += bytes;
            stats.elapsed += elapsed;
        })?;
        let now = self.env.clock.now();
        self.backlog.flush_ends(now, now.saturating_sub(begin));
        self.counters.flushes.add(1);
        self.counters.flush_bytes.add(bytes);
        self.listeners.tell(&Event::FlushFinished { job, table: number, bytes, elapsed });
        Ok(())
    }

    /// Tells the policy which keys were written, if it asks.
    fn note_writes(&self, memtable: &Arc<MemTable>) -> Result<()> {
        let Some(map) = &self.hot_map else { return Ok(()) };
        let mut iter = memtable.iter();
        iter.seek_to_first()?;
        while iter.valid() {
            // Merges that ask come in between.
            map.lock().note(KeyHash::of(key::user_key(iter.key())));
            iter.next()?;
        }
        Ok(())
    }

    /// Writes what the snapshots, of which the last is of all, see of a memtable as a durable table; `None` if it is
    /// empty. A failed one is removed, and the next attempt takes a new number: what a failed file holds is unknown.
    pub(crate) fn build_level0(
        &self,
        memtable: &Arc<MemTable>,
        snapshots: &[SeqNo],
    ) -> Result<Option<Arc<TableMeta>>> {
        if memtable.is_empty() {
            return Ok(None);
        }
        let number = self.new_file_number();
        let built = self.write_table(memtable, snapshots, number).inspect_err(|_| {
            let _ = self.store.remove(number);
        })?;
        Ok(Some(Arc::new(TableMeta::written(&built, &self.graveyard))))
    }

    fn write_table(
        &self,
        memtable: &Arc<MemTable>,
        snapshots: &[SeqNo],
        number: FileNumber,
    ) -> Result<TableSummary> {
        let file = self.store.create(number)?;
        let builder = TableBuilder::new(file, number, self.settings.upper_table.clone());
        let retention = Retention::keeping_deletions(&self.settings.order.user, snapshots);
        let summary = write_memtable(memtable, builder, Some(retention))?;
        self.counters.entries_dropped.add(memtable.entries() - summary.properties.entries);
        self.store.sync_names()?;
        Ok(summary)
    }
}

/// Writes a memtable's entries, or those of them that are to stay, into a table, and makes its bytes durable. A key that
/// is written over and over would fill the table, and whoever scans past it would step over each of its old values.
pub(crate) fn write_memtable(
    memtable: &Arc<MemTable>,
    mut builder: TableBuilder,
    mut retention: Option<Retention<'_>>,
) -> Result<TableSummary> {
    let mut iter = memtable.iter();
    iter.seek_to_first()?;
    while iter.valid() {
        let judged = retention.as_mut().zip(key::parse(iter.key()));
        let verdict = judged.map(|(retention, entry)| retention.judge(&entry));
        if verdict != Some(Verdict::Drop) {
            builder.add(iter.key(), iter.value())?;
        }
        iter.next()?;
    }
    builder.finish()
}
