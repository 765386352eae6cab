//! What a leader holds: the log, the next sequence number, the memtable's inserter.
//!
//! **Invariants.**
//! - C1: order on the way down is log, memtable, visibility. A reader never sees what the log lacks.
//! - C2 (rule R3): before a sync of the log is acknowledged, every older log that memtables still
//!   need is synced. So a synced write makes all earlier ones durable.
//! - C3: a sequence number is used once, even if its append failed: the bytes may be on disk.

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::key::{SEQNO_MAX, SeqNo};
use crate::db::core::Core;
use crate::db::write::pace::Pace;
use crate::db::write::queue::Request;
use crate::db::write::waiter::Waiter;
use crate::db::write::wal::Wal;
use crate::env::site::Site;
use crate::format::batch::{self, BatchReader};
use crate::memtable::Inserter;

/// What changes hands with every write: in a box, so that little is moved.
pub(crate) type Lead = Box<Committer>;

pub(crate) struct Committer {
    pub(crate) inserter: Inserter,
    pub(crate) wal: Wal,
    /// Logs of immutable memtables that were never synced, oldest first.
    pub(crate) older: Vec<Wal>,
    pub(crate) next_seqno: SeqNo,
    pub(crate) pace: Pace,
}

impl Committer {
    /// Commits the leader's write and its group's as one record. Called with room made.
    pub(crate) fn commit(
        &mut self,
        core: &Core,
        own: Request<'_>,
        group: &[std::sync::Arc<Waiter>],
    ) -> Result<()> {
        let sync = own.sync || group.iter().any(|waiter| waiter.sync);
        let followers: u64 = group.iter().map(|waiter| u64::from(waiter.count)).sum();
        let count = u64::from(own.count) + followers;
        if count > 0 {
            self.append(core, own, group, count)?;
        }
        if sync {
            self.sync(core)?;
        }
        Ok(())
    }

    /// Appends to the log and inserts into the memtable. Nothing is visible yet.
    fn append(
        &mut self,
        core: &Core,
        own: Request<'_>,
        group: &[std::sync::Arc<Waiter>],
        count: u64,
    ) -> Result<()> {
        let first = self.next_seqno;
        let record_count = u32::try_from(count)
            .map_err(|_| Error::invalid_argument("a batch holds more than 2^32 - 1 writes"))?;
        if count > SEQNO_MAX.0 - first.0 {
            let message = "sequence numbers are used up; copy the database into a new one";
            return Err(Error::new(ErrorKind::ReadOnly, message));
        }
        self.next_seqno = first.plus(count);
        let header = batch::header(first, record_count);
        let bytes = if group.is_empty() {
            self.wal.append(first, &[&header, own.body])?
        } else {
            let mut parts: Vec<&[u8]> = Vec::with_capacity(2 + group.len());
            parts.extend([&header[..], own.body]);
            parts.extend(group.iter().map(|waiter| &waiter.body[..]));
            self.wal.append(first, &parts)?
        };
        self.pace.wrote(bytes);
        core.counters.batches_written.add_alone(1 + group.len() as u64);
        core.counters.keys_written.add_alone(count);
        core.counters.wal_bytes.add_alone(bytes);
        Ok(())
    }

    /// True if a log has failed: only [healing](Core::heal) makes these writes durable.
    pub(crate) fn is_poisoned(&self) -> bool {
        self.wal.is_poisoned() || self.older.iter().any(Wal::is_poisoned)
    }

    /// Inserts a write whose append (and sync) succeeded.
    pub(crate) fn insert(&mut self, first: SeqNo, body: &[u8], is_helped: bool) -> SeqNo {
        let mut seqno = first;
        for entry in BatchReader::over_body(body) {
            let (kind, key, value) = entry.expect("a batch is whole when it comes to the queue");
            if is_helped {
                self.inserter.leave(seqno, kind, key, value);
            } else {
                self.inserter.add(seqno, kind, key, value);
            }
            seqno = seqno.plus(1);
        }
        seqno
    }

    /// Lets go of logs whose memtables are durable tables. Called at every switch as well: without
    /// any sync, each would keep its file open, and the disk space of a removed one taken. By hand, housekeeping comes
    /// last, and may not come for long: then at once.
    pub(crate) fn let_go_of_flushed(&mut self, core: &Core) {
        let floor = core.floor().wal;
        for wal in self.older.extract_if(.., |wal| wal.number() < floor) {
            let mut file = wal.into_unneeded_file();
            match core.runs_by_hand() {
                true => drop(file.close(Site::WalClose)), // Nothing in it is needed.
                false => core.graveyard.bury_log(file),
            }
        }
    }

    /// C2: older logs first.
    pub(crate) fn sync(&mut self, core: &Core) -> Result<()> {
        self.let_go_of_flushed(core);
        for wal in &mut self.older {
            wal.sync(Site::WalSyncOlder)?;
            core.counters.wal_syncs.add(1);
        }
        for wal in std::mem::take(&mut self.older) {
            // All of it is durable: a failing close loses nothing.
            let _ = wal.close();
        }
        if self.wal.needs_sync() {
            self.wal.sync(Site::WalSync)?;
            core.counters.wal_syncs.add(1);
        }
        Ok(())
    }
}
