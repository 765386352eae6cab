//! Writing again after the disk was full (rule R6).
//!
//! A failed append or sync poisons its log: the bytes behind it can no longer be trusted, so later
//! writes must not go there (LevelDB appends on, and loses every later synced write at reopen).
//! Everything that memory holds and no table does yet is copied into a new log, synced, and only
//! then are writes accepted again. The copies keep their sequence numbers, so a recovery that
//! finds both logs replays each write once.

use crate::base::error::Result;
use crate::base::event::Event;
use crate::base::key::{SeqNo, ValueKind};
use crate::db::core::Core;
use crate::db::write::committer::Committer;
use crate::db::write::wal::Wal;
use crate::env::site::Site;
use crate::format::batch;
use crate::format::filename::FileName;
use crate::memtable::MemTable;

/// Entries are copied in records of about this size.
const RECORD_BYTES: usize = 256 << 10;

impl Core {
    /// Replaces poisoned logs. On failure everything is as before, and the next write tries again.
    pub(crate) fn heal(&self, committer: &mut Committer) -> Result<()> {
        let number = self.new_file_number();
        let wal = self.relog(number).inspect_err(|_| {
            let path = FileName::Wal(number).in_dir(&self.dir);
            let _ = self.env.file_system.remove_file(&path, Site::WalRemove);
        })?;
        let retired = {
            let mut state = self.state.lock();
            let floor = state.wal_floor(0);
            state.memtable.wal = number;
            for entry in &mut state.immutables {
                entry.wal = number;
            }
            floor
        };
        committer.older.clear();
        committer.wal = wal;
        self.retire_wals(retired, number);
        self.listeners.tell(&Event::Healed);
        Ok(())
    }

    /// Copies all memtables into a new, synced log.
    fn relog(&self, number: crate::format::filename::FileNumber) -> Result<Wal> {
        let mut wal = Wal::create(&self.env.file_system, &self.dir, number)?;
        let memtables: Vec<_> = {
            let state = self.state.lock();
            let tables = state.immutables.iter().chain([&state.memtable]);
            tables.map(|entry| entry.table.clone()).collect()
        };
        for table in &memtables {
            copy_entries(table, &mut wal)?;
        }
        wal.sync(Site::WalSyncRelog)?;
        Ok(wal)
    }
}

/// Appends a memtable's entries in the order of their sequence numbers, as a log must have them.
pub(crate) fn copy_entries(table: &std::sync::Arc<MemTable>, wal: &mut Wal) -> Result<()> {
    let mut entries: Vec<(SeqNo, ValueKind, &[u8], &[u8])> = table.entries().collect();
    entries.sort_unstable_by_key(|entry| entry.0);
    let mut record = Record::default();
    for (seqno, kind, key, value) in entries {
        let gap = record.next() != Some(seqno);
        if gap || record.body.len() >= RECORD_BYTES {
            record.append_to(wal)?;
            record.first = seqno;
        }
        batch::encode_entry(&mut record.body, kind, key, value);
        record.count += 1;
    }
    record.append_to(wal)
}

/// A run of entries with consecutive sequence numbers.
#[derive(Default)]
struct Record {
    first: SeqNo,
    count: u32,
    body: Vec<u8>,
}

impl Record {
    fn next(&self) -> Option<SeqNo> {
        (self.count > 0).then(|| self.first.plus(u64::from(self.count)))
    }

    fn append_to(&mut self, wal: &mut Wal) -> Result<()> {
        if self.count > 0 {
            let header = batch::header(self.first, self.count);
            wal.append(self.first, &[&header, &self.body])?;
            self.count = 0;
            self.body.clear();
        }
        Ok(())
    }
}
