//! What the engine tells a listener: flushes, compactions, stalls, recovery, failures.
//! The info log is one listener; metrics exporters and tests are others.

use std::path::PathBuf;
use std::time::Duration;

use crate::base::error::Error;
use crate::base::key::SeqNo;

/// Told of what happens inside a database. Called on the thread that does the work, the engine's or
/// a caller's, never under a lock. Work waits for it, so implementations must not block for long;
/// and they must not call the database.
pub trait EventListener: Send + Sync {
    /// One event. New kinds may come with new versions.
    fn on_event(&self, event: &Event);
}

/// Why a writer waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StallCause {
    /// Level 0 holds many tables: writes are slowed in proportion.
    L0Slowdown,
    /// Level 0 is full: writes wait.
    L0Stop,
    /// Memtables are filled faster than they are flushed: writes are slowed so that none has to wait.
    FlushSlowdown,
    /// All immutable memtables wait to be flushed.
    MemtablesFull,
}

/// Something that happened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The database was opened.
    Opened {
        /// What recovery found.
        recovery: RecoveryReport,
    },
    /// A memtable was written as a table of level 0.
    FlushFinished {
        /// The job's number, shared by all events of one job.
        job: u64,
        /// The table made, or `None` if the memtable held nothing.
        table: Option<u64>,
        /// Size of the table file.
        bytes: u64,
        /// Time taken.
        elapsed: Duration,
    },
    /// A compaction was accepted and begins.
    CompactionStarted {
        /// The job's number.
        job: u64,
        /// Tables taken in, by level.
        inputs: Vec<(u8, u64)>,
        /// The level they go to.
        target_level: u8,
    },
    /// A compaction was to run elsewhere, and runs here after all.
    CompactionCameHome {
        /// The job's number.
        job: u64,
        /// Why.
        why: String,
    },
    /// A compaction was installed.
    CompactionFinished {
        /// The job's number.
        job: u64,
        /// The level the output went to.
        target_level: u8,
        /// True when the tables only changed their level.
        moved: bool,
        /// Tables made (or moved).
        outputs: Vec<u64>,
        /// Bytes read.
        bytes_read: u64,
        /// Bytes written.
        bytes_written: u64,
        /// Time taken.
        elapsed: Duration,
    },
    /// A writer was held back.
    Stalled {
        /// Why.
        cause: StallCause,
        /// For how long.
        elapsed: Duration,
    },
    /// Background work failed.
    BackgroundError {
        /// The failure.
        error: Error,
        /// True if the engine tries again by itself.
        retries: bool,
    },
    /// Background work or writes succeed again after an error.
    Healed,
    /// A new manifest took over.
    ManifestRotated {
        /// Its number.
        number: u64,
    },
    /// A file no version needs was removed.
    FileRemoved {
        /// Its name in the database folder.
        name: String,
    },
    /// The database was closed.
    Closed,
}

/// What opening a database found in its write-ahead logs.
#[derive(Clone, Debug, Default)]
pub struct RecoveryReport {
    /// Logs replayed, oldest first.
    pub wals: Vec<u64>,
    /// Batches replayed.
    pub batches: u64,
    /// The last sequence number recovered.
    pub last_seqno: SeqNo,
    /// Bytes at the end of a log that were no whole record: what a crash cuts off.
    pub torn_bytes: u64,
    /// What was dropped beyond a torn tail: never more than writes that no sync had promised.
    pub dropped: Vec<Dropped>,
    /// Time taken.
    pub elapsed: Duration,
}

/// Unpromised writes that recovery left out, so that what remains is a prefix.
#[derive(Clone, Debug)]
pub struct Dropped {
    /// The log.
    pub file: PathBuf,
    /// Where the dropped part begins.
    pub offset: u64,
    /// Bytes from there to the log's end.
    pub bytes: u64,
    /// Why.
    pub reason: String,
}

/// The listeners of one database.
#[derive(Clone, Default)]
pub(crate) struct Listeners(Vec<std::sync::Arc<dyn EventListener>>);

impl Listeners {
    pub(crate) fn new(listeners: Vec<std::sync::Arc<dyn EventListener>>) -> Self {
        Listeners(listeners)
    }

    pub(crate) fn push(&mut self, listener: std::sync::Arc<dyn EventListener>) {
        self.0.push(listener);
    }

    pub(crate) fn tell(&self, event: &Event) {
        for listener in &self.0 {
            listener.on_event(event);
        }
    }
}
