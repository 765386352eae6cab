//! All that the state lock guards: memtables, the current version, jobs, and the first failure.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::base::error::{Error, ErrorKind};
use crate::base::key::SeqNo;
use crate::base::slot::LEVELS;
use crate::compaction::in_flight::InFlight;
use crate::compaction::policy::CompactionPolicy;
use crate::db::background::away::Away;
use crate::db::super_version::SuperVersion;
use crate::format::filename::{FileName, FileNumber};
use crate::memtable::MemTable;
use crate::version::Version;

/// A memtable and the log that holds its writes.
#[derive(Clone)]
pub(crate) struct Logged {
    pub(crate) table: Arc<MemTable>,
    pub(crate) wal: FileNumber,
    /// Numbers below this are in older memtables, in tables, or were never given to a write.
    pub(crate) start: SeqNo,
}

/// What recovery needs besides the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Floor {
    /// The oldest log needed.
    pub(crate) wal: FileNumber,
    /// Every number up to this one is in tables, or was never given to a write. Recovery tells by
    /// it whether the oldest log's beginning is missing.
    pub(crate) last_seqno: SeqNo,
}

pub(crate) struct State {
    pub(crate) memtable: Logged,
    /// Oldest first: the order in which they are flushed.
    pub(crate) immutables: VecDeque<Logged>,
    /// Logs on disk that have not gone to housekeeping.
    pub(crate) wals: Vec<FileNumber>,
    pub(crate) version: Arc<Version>,
    pub(crate) policy: Box<dyn CompactionPolicy>,
    pub(crate) in_flight: InFlight,
    pub(crate) away: Away,
    pub(crate) next_job: u64,
    pub(crate) flushing: bool,
    /// Background work that failed and will be tried again. Cleared by the next success, and by
    /// callers who ask for another try.
    pub(crate) retrying: Option<Error>,
    /// Background work failed, and has not succeeded since.
    pub(crate) ailing: bool,
    /// The failure that ended writing; only reopening clears it.
    pub(crate) failed: Option<Error>,
    pub(crate) closing: bool,
    pub(crate) level_stats: [LevelStats; LEVELS],
}

/// What `leveldb.stats` shows of a level, since open.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LevelStats {
    pub(crate) elapsed: Duration,
    pub(crate) bytes_read: u64,
    pub(crate) bytes_written: u64,
}

impl State {
    pub(crate) fn super_version(&self) -> Arc<SuperVersion> {
        Arc::new(SuperVersion {
            memtable: Arc::clone(&self.memtable.table),
            immutables: self.immutables.iter().rev().map(|entry| entry.table.clone()).collect(),
            version: Arc::clone(&self.version),
        })
    }

    /// What recovery will need once the first `flushed` immutables are tables.
    pub(crate) fn floor(&self, flushed: usize) -> Floor {
        let waiting = || self.immutables.iter().skip(flushed).chain([&self.memtable]);
        let wal = waiting().map(|entry| entry.wal).min().unwrap_or(self.memtable.wal);
        let start = waiting().next().map_or(self.memtable.start, |oldest| oldest.start);
        Floor { wal, last_seqno: SeqNo(start.0.saturating_sub(1)) }
    }

    /// Logs that nothing needs any more; whoever takes them removes them.
    pub(crate) fn take_wals_below(&mut self, floor: FileNumber) -> Vec<FileName> {
        let retired = self.wals.extract_if(.., |number| *number < floor);
        retired.map(FileName::Wal).collect()
    }

    /// Compactions that are running in this process.
    pub(crate) fn merges_here(&self) -> usize {
        self.in_flight.len().saturating_sub(self.away.len())
    }

    pub(crate) fn new_job(&mut self) -> u64 {
        self.next_job += 1;
        self.next_job
    }

    /// The error that a writer gets, if writing has ended.
    pub(crate) fn refusal(&self) -> Option<Error> {
        if self.closing {
            return Some(Error::new(ErrorKind::Closed, "the database is closed"));
        }
        let cause = self.failed.clone()?;
        let message = format!("writes ended after an earlier failure ({cause}); reopen");
        let kind = match cause.kind() {
            ErrorKind::Fenced => ErrorKind::Fenced,
            _ => ErrorKind::ReadOnly,
        };
        Some(cause.because(kind, message))
    }

    /// Keeps the first failure: later ones are its consequences.
    pub(crate) fn fail(&mut self, error: Error) {
        self.failed.get_or_insert(error);
    }
}
