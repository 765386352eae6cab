//! What a repair finds and what it saves.

use std::fmt;
use std::path::PathBuf;

use crate::base::escape::Escaped;
use crate::base::key::SeqNo;

/// What can be read of a damaged database, and what is lost.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RepairPlan {
    /// The manifest that told which tables count; `None` if none could be read.
    pub manifest: Option<PathBuf>,
    /// The tables that count.
    pub tables: Vec<SalvagedTable>,
    /// The logs that count.
    pub logs: Vec<SalvagedLog>,
    /// What cannot be read.
    pub lost: Vec<LostRange>,
    /// Tables that the manifest does not name. They are used only if
    /// [`RepairOptions::use_orphans`](crate::RepairOptions) says so.
    pub orphans: Vec<PathBuf>,
    /// What a person should know.
    pub warnings: Vec<String>,
}

/// What a repair read and wrote.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RepairReport {
    /// What was found.
    pub found: RepairPlan,
    /// Tables written.
    pub tables: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Keys with a value in the new database.
    pub entries_kept: u64,
    /// Entries left out because newer ones overwrite or delete them.
    pub entries_dropped: u64,
    /// The last sequence number.
    pub last_seqno: SeqNo,
    /// Where the files of the damaged database are now, after a repair in place.
    pub kept: Option<PathBuf>,
}

/// A table that a repair reads.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SalvagedTable {
    /// Its file.
    pub path: PathBuf,
    /// The file's length; 0 if it is missing.
    pub bytes: u64,
    /// Entries that can be read.
    pub entries: u64,
    /// How it is.
    pub state: TableState,
}

/// How a table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TableState {
    /// All of its entries can be read.
    Whole,
    /// Some can, or all but not in the usual way.
    Damaged,
    /// None can, or it is missing.
    Unreadable,
}

/// A log that a repair reads.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SalvagedLog {
    /// Its file.
    pub path: PathBuf,
    /// The file's length.
    pub bytes: u64,
    /// Batches that can be read.
    pub batches: u64,
    /// Updates in them.
    pub entries: u64,
    /// Bytes that are no whole batch.
    pub bytes_dropped: u64,
    /// Of these, how many at its end may be what a crash cut off.
    pub torn_bytes: u64,
}

/// Part of a file that cannot be read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LostRange {
    /// The file.
    pub file: PathBuf,
    /// Where the part begins.
    pub offset: u64,
    /// Its length.
    pub bytes: u64,
    /// No key before this one is concerned; `None` if that is not known.
    pub from: Option<Vec<u8>>,
    /// No key after this one is concerned; `None` if that is not known.
    pub to: Option<Vec<u8>>,
    /// Why it cannot be read.
    pub reason: String,
}

impl RepairPlan {
    /// True if nothing is lost.
    pub fn is_whole(&self) -> bool {
        self.lost.is_empty()
    }

    /// Tables in a state.
    pub fn tables_in(&self, state: TableState) -> usize {
        self.tables.iter().filter(|table| table.state == state).count()
    }

    /// Bytes of logs that are no whole batch.
    pub fn log_bytes_dropped(&self) -> u64 {
        self.logs.iter().map(|log| log.bytes_dropped).sum()
    }
}

impl fmt::Display for LostRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LostRange { file, offset, bytes, from, to, reason } = self;
        write!(f, "lost: {} at byte {offset}, {bytes} bytes", file.display())?;
        if from.is_some() || to.is_some() {
            f.write_str(", keys ")?;
            bound(f, from.as_deref())?;
            f.write_str(" .. ")?;
            bound(f, to.as_deref())?;
        }
        write!(f, ": {reason}")
    }
}

fn bound(f: &mut fmt::Formatter<'_>, key: Option<&[u8]>) -> fmt::Result {
    match key {
        Some(key) => write!(f, "'{}'", Escaped(key)),
        None => f.write_str("?"),
    }
}

impl fmt::Display for RepairPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for warning in &self.warnings {
            writeln!(f, "warning: {warning}")?;
        }
        for lost in &self.lost {
            writeln!(f, "{lost}")?;
        }
        for orphan in &self.orphans {
            writeln!(f, "orphan: {}", orphan.display())?;
        }
        let entries = self.tables.iter().map(|table| table.entries).sum::<u64>();
        writeln!(
            f,
            "tables: {} whole, {} damaged, {} unreadable; {entries} entries",
            self.tables_in(TableState::Whole),
            self.tables_in(TableState::Damaged),
            self.tables_in(TableState::Unreadable),
        )?;
        let updates = self.logs.iter().map(|log| log.entries).sum::<u64>();
        let dropped = self.log_bytes_dropped();
        write!(f, "logs: {}; {updates} updates, {dropped} bytes unreadable", self.logs.len())
    }
}

impl fmt::Display for RepairReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.found)?;
        write!(
            f,
            "saved: {} keys in {} tables, {} bytes; {} entries were overwritten or deleted",
            self.entries_kept, self.tables, self.bytes, self.entries_dropped
        )?;
        match &self.kept {
            Some(kept) => write!(f, "\nkept: {}", kept.display()),
            None => Ok(()),
        }
    }
}
