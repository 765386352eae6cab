//! Writing again after the disk was full (rule R6).
//!
//! A failed append or sync poisons its log: the bytes behind it can no longer be trusted, so later
//! writes must not go there (LevelDB appends on, and loses every later synced write at reopen).
//! Everything that memory holds and no table does yet is copied into a new log, synced, and only
//! then are writes accepted again. The copies keep their sequence numbers, so a recovery that also
//! finds older logs replays each write once.
//!
//! The new log takes the place of the newest one, under its name. A failed write may stand whole at
//! the end of that one (its sync failed), and is not copied: side by side, the log of the greater
//! number would hold the older value of a key. LevelDB makes a table of each log, and its `Get`
//! trusts their numbers.

use std::ops::Range;
use std::sync::Arc;

use crate::base::error::{Error, Result};
use crate::base::event::Event;
use crate::base::iter::InternalIterator;
use crate::base::key::{self, SeqNo, ValueKind};
use crate::db::core::Core;
use crate::db::write::committer::Committer;
use crate::db::write::wal::Wal;
use crate::env::site::Site;
use crate::format::batch::{self, WriteBatch};
use crate::format::filename::{FileName, FileNumber};
use crate::memtable::MemTable;
use crate::version::graveyard::Graves;

/// Entries are copied in records of about this size.
const RECORD_BYTES: usize = 256 << 10;

impl Core {
    /// Replaces poisoned logs. On failure everything is as before, and the next write tries again.
    pub(crate) fn heal(&self, committer: &mut Committer) -> Result<()> {
        self.drop_spare_log(); // The disk was full.
        let (memtables, start) = {
            let state = self.state.lock();
            let tables = state.immutables.iter().chain([&state.memtable]);
            let memtables: Vec<_> = tables.map(|entry| entry.table.clone()).collect();
            (memtables, state.floor(0).last_seqno.plus(1))
        };
        let number = committer.wal.number();
        let wal = self.relog(&memtables, number, Some(start..committer.next_seqno))?;
        let replaced = {
            let mut state = self.state.lock();
            state.memtable.wal = number;
            for entry in &mut state.immutables {
                entry.wal = number;
            }
            state.take_wals_below(number)
        };
        // At once, not by housekeeping: what they hold is in the new log, and the disk was full.
        self.sweep(Graves { names: replaced, ..Graves::default() });
        // Their bytes are in the new log; closing can tell nothing that matters any more.
        committer.older.clear();
        committer.wal = wal;
        self.listeners.tell(&Event::Healed);
        Ok(())
    }

    /// Copies memtables, oldest first, into a new log, which becomes `number` and replaces the log
    /// of that number, if there is one. It gets its name only when all of it is durable: records are
    /// cut by size, so a part of it could show half a batch.
    ///
    /// If it holds all that there is of the sequence numbers `vouched`, it says so with a mark at either
    /// end: numbers of failed writes would look like missing writes otherwise.
    pub(crate) fn relog(
        &self,
        memtables: &[Arc<MemTable>],
        number: FileNumber,
        vouched: Option<Range<SeqNo>>,
    ) -> Result<Wal> {
        let hidden = self.new_file_number();
        let fs = &self.env.file_system;
        let copied = Wal::create_hidden(&self.log_place(), hidden).and_then(|mut wal| {
            if let Some(seqnos) = &vouched {
                wal.append_mark(seqnos.start)?;
            }
            for table in memtables {
                copy_entries(table, &mut wal)?;
            }
            if let Some(seqnos) = &vouched {
                wal.append_mark(seqnos.end)?;
            }
            wal.take_name(number)?;
            Ok(wal)
        });
        copied.inspect_err(|_| {
            let hidden = FileName::Temp(hidden).in_dir(&self.dir);
            let _ = fs.remove_file(&hidden, Site::TempRemove);
        })
    }
}

/// Appends a memtable's entries in the order of their sequence numbers, as a log must have them.
pub(crate) fn copy_entries(table: &Arc<MemTable>, wal: &mut Wal) -> Result<()> {
    let copy = Copied::of(table)?;
    let mut batch = WriteBatch::new();
    let mut first = SeqNo(0);
    for entry in &copy.entries {
        let follows = entry.seqno == first.plus(u64::from(batch.count()));
        if !batch.is_empty() && (!follows || batch.approximate_size() >= RECORD_BYTES) {
            append_batch(wal, first, &mut batch)?;
        }
        if batch.is_empty() {
            first = entry.seqno;
        }
        let key = &copy.bytes[entry.key.clone()];
        match entry.kind {
            ValueKind::Value => batch.put(key, &copy.bytes[entry.value.clone()]),
            ValueKind::Deletion => batch.delete(key),
        }
    }
    if batch.is_empty() { Ok(()) } else { append_batch(wal, first, &mut batch) }
}

fn append_batch(wal: &mut Wal, first: SeqNo, batch: &mut WriteBatch) -> Result<()> {
    let header = batch::header(first, batch.count());
    wal.append(first, &[&header, batch.body()])?;
    batch.clear();
    Ok(())
}

/// A memtable's entries by sequence number. At most one write buffer is copied at a time.
struct Copied {
    bytes: Vec<u8>,
    entries: Vec<CopiedEntry>,
}

struct CopiedEntry {
    seqno: SeqNo,
    kind: ValueKind,
    key: Range<usize>,
    value: Range<usize>,
}

impl Copied {
    fn of(table: &Arc<MemTable>) -> Result<Self> {
        let mut copy = Copied { bytes: Vec::new(), entries: Vec::new() };
        let mut iter = table.iter();
        iter.seek_to_first()?;
        while iter.valid() {
            let parsed = key::parse(iter.key())
                .ok_or_else(|| Error::corruption("a memtable holds a malformed key"))?;
            let start = copy.bytes.len();
            copy.bytes.extend_from_slice(parsed.user);
            let middle = copy.bytes.len();
            copy.bytes.extend_from_slice(iter.value());
            copy.entries.push(CopiedEntry {
                seqno: parsed.seqno,
                kind: parsed.kind,
                key: start..middle,
                value: middle..copy.bytes.len(),
            });
            iter.next()?;
        }
        copy.entries.sort_unstable_by_key(|entry| entry.seqno);
        Ok(copy)
    }
}
