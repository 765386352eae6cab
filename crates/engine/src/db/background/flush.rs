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
use crate::base::sync::atomic::Ordering::Relaxed;
use crate::compaction::hot_map::KeyHash;
use crate::compaction::retention::{Retention, Verdict};
use crate::db::background::Worked;
use crate::db::core::Core;
use crate::db::state::Logged;
use crate::format::filename::FileNumber;
use crate::format::table::builder::TableSummary;
use crate::format::table::{Table, TableBuilder};
use crate::memtable::MemTable;
use crate::version::builder::Change;
use crate::version::table_meta::TableMeta;

/// Entries of so many bytes are flushed between two looks at whether the writer wants the processor: a tenth to a fifth of a
/// millisecond.
const TURN_BYTES: usize = 64 << 10;
/// A flush is on time while its share that is done is so many times the share of the next memtable that is filled.
const AHEAD: f64 = 4.0;

/// Where so many of a table's blocks were used in the cache, all of the next one are kept from the start: of each that readers
/// find there, they are spared two reads that take several times as long as the lane's.
const USED_PERCENT: u64 = 33;

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
            let kept = opened.and_then(|opened| self.keep_if_read(&opened));
            kept.inspect_err(|_| table.mark_obsolete())?;
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

    /// Has the blocks of a new table kept in the block cache, if those of the table before it were used there. Not while writers
    /// wait for flushes.
    fn keep_if_read(&self, table: &Arc<Table>) -> Result<()> {
        let pinned = self.view.load_full();
        let before = pinned.version.slot(Slot::L0).first().map(|before| before.place().get());
        let used = match before {
            Some(Some(before)) => before.used_percent(),
            Some(None) => 0,
            // It was merged away. What was known of it counts half.
            None => self.level0_use.load(Relaxed) / 2,
        };
        self.level0_use.store(used, Relaxed);
        let is_late = pinned.immutables.len() > 1;
        if is_late || used < USED_PERCENT { Ok(()) } else { table.keep_all_blocks() }
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
        let builder = TableBuilder::new(file, number, self.settings.upper_table.clone())
            .expecting(memtable.entries());
        let retention = Retention::keeping_deletions(&self.settings.order.user, snapshots);
        let make_way = |done| self.flush_makes_way(done);
        let summary = write_memtable(memtable, builder, Some(retention), make_way)?;
        self.counters.entries_dropped.add(memtable.entries() - summary.properties.entries);
        self.store.sync_names()?;
        Ok(summary)
    }

    /// Where there is no processor but the writer's: lets it write on, if there is time. Who is preempted instead takes a
    /// whole turn of milliseconds before it is.
    fn flush_makes_way(&self, done: f64) {
        let threads = &self.env.threads;
        if self.options.lanes_make_way
            && !self.runs_by_hand()
            && self.seat.is_on(threads.processor(), self.env.clock.now())
            && self.flush_has_time(done)
        {
            threads.give_way();
        }
    }

    /// Whether a flush of which `done`, a share, is done will not be waited for, and no merge would take its time instead of
    /// the writer.
    fn flush_has_time(&self, done: f64) -> bool {
        let state = self.state.lock();
        let waiting = state.immutables.len().saturating_sub(1) as f64;
        let filled = state.memtable.table.memory() as f64;
        let behind = waiting + filled / self.settings.write_buffer_bytes as f64;
        state.merges_here() == 0 && done >= AHEAD * behind
    }
}

/// Writes a memtable's entries, or those of them that are to stay, into a table, and makes its bytes durable. A key that
/// is written over and over would fill the table, and whoever scans past it would step over each of its old values.
/// Now and then `rest` is told which share of the entries is done.
pub(crate) fn write_memtable(
    memtable: &Arc<MemTable>,
    mut builder: TableBuilder,
    mut retention: Option<Retention<'_>>,
    rest: impl Fn(f64),
) -> Result<TableSummary> {
    let (mut done, mut turn_bytes) = (0, 0);
    let mut iter = memtable.iter();
    iter.seek_to_first()?;
    while iter.valid() {
        let judged = retention.as_mut().zip(key::parse(iter.key()));
        let verdict = judged.map(|(retention, entry)| retention.judge(&entry));
        if verdict != Some(Verdict::Drop) {
            builder.add(iter.key(), iter.value())?;
        }
        done += 1;
        turn_bytes += iter.key().len() + iter.value().len();
        if turn_bytes >= TURN_BYTES {
            turn_bytes = 0;
            rest(done as f64 / memtable.entries() as f64);
        }
        iter.next()?;
    }
    builder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compaction::closure::close;
    use crate::db::handle::Db;
    use crate::db::options::{Background, Options};
    use crate::env::Env;
    use crate::version::testing::{table, tree, version};

    /// A database whose memtable is a tenth full.
    fn open() -> Db {
        let options = Options {
            create_if_missing: true,
            env: Env::memory(),
            write_buffer_size: 1 << 20,
            background: Background::ByHand,
            ..Options::default()
        };
        let db = Db::open("db", options).unwrap();
        db.put("k", vec![1; (1 << 20) / 10]).unwrap();
        db
    }

    #[test]
    fn a_flush_has_time_while_it_is_ahead_of_writers() {
        let db = open();
        assert!(db.core().flush_has_time(0.5));
        assert!(!db.core().flush_has_time(0.3), "the memtable would be full before");
        let mut state = db.core().state.lock();
        let waiting = state.memtable.clone();
        state.immutables.extend([waiting.clone(), waiting]);
        drop(state);
        assert!(!db.core().flush_has_time(0.9), "another one waits already");
        db.core().state.lock().immutables.clear();
    }

    /// Writes a table to level 0.
    fn write_table(db: &Db) {
        (0..500).for_each(|n: u32| db.put(n.to_be_bytes(), [7; 100]).unwrap());
        db.flush().unwrap();
    }

    /// How many percent of the newest table's blocks are in the block cache.
    fn kept(db: &Db) -> u64 {
        let pinned = db.core().view.load_full();
        let newest = pinned.version.slot(Slot::L0).first().unwrap();
        newest.place().get().unwrap().kept_percent()
    }

    /// Reads all keys so often that their blocks are kept and used.
    fn read(db: &Db) {
        for n in (0..4).flat_map(|_| 0..500_u32) {
            assert!(db.get(n.to_be_bytes()).unwrap().is_some());
        }
    }

    #[test]
    fn a_new_tables_blocks_are_kept_where_the_last_ones_were_used() {
        let db = open();
        write_table(&db);
        write_table(&db);
        assert_eq!(kept(&db), 0, "nobody reads");
        read(&db);
        write_table(&db);
        assert_eq!(kept(&db), 100);
        write_table(&db);
        assert_eq!(kept(&db), 0, "nobody has read the last one");
    }

    #[test]
    fn a_flush_has_no_time_for_merges() {
        let db = open();
        let order = &db.core().settings.order.user;
        let version = version([(Slot::L0, table(9, "a", "c"))]);
        let merged = close(order, &version, &[FileNumber(9)], tree(1)).unwrap();
        db.core().state.lock().in_flight.begin(order, 1, &merged, tree(1));
        assert!(!db.core().flush_has_time(0.5));
        db.core().state.lock().in_flight.end(1);
        assert!(db.core().flush_has_time(0.5));
    }
}
