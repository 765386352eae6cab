//! Floor 3, first half: where tables live and what is kept of them in memory. Flushes and merges
//! create tables here, the table cache opens them, housekeeping removes them.

pub(crate) mod attended_cache;
pub(crate) mod block_cache;
pub(crate) mod local;
pub(crate) mod open_tables;
pub(crate) mod residents;
pub(crate) mod table_cache;

use std::ops::Range;
use std::sync::Arc;

use crate::base::error::Result;
use crate::env::fs::{RandomAccessFile, WritableFile};
use crate::format::filename::FileNumber;

/// Tables are bytes behind a number; this hides where they are. A store belongs to one database, which is what gives
/// numbers: none is ever used for two tables that counted.
///
/// A new table counts only once its file was synced and closed and `sync_names` has succeeded.
pub trait TableStore: Send + Sync {
    /// Makes an empty table to write, in place of what had its number.
    fn create(&self, number: FileNumber) -> Result<Box<dyn WritableFile>>;

    /// Opens a table to read. [`ErrorKind::NotFound`](crate::ErrorKind) if there is none.
    fn open(&self, number: FileNumber) -> Result<Arc<dyn RandomAccessFile>>;

    /// Removes a table that no reader of this database needs any more. Those who have it open may read on.
    fn remove(&self, number: FileNumber) -> Result<()>;

    /// The numbers of all tables here, in any order.
    fn list(&self) -> Result<Vec<FileNumber>>;

    /// Makes all tables made so far durable by name (rule R1).
    fn sync_names(&self) -> Result<()>;

    /// Told of each change of the set of tables, in order, once the manifest has it durably. Called under the manifest's
    /// lock: it must not block, nor call the database.
    fn installed(&self, _change: &Installed<'_>) {}

    /// Which of a table's bytes readers had lately, so that they are near: of stores whose tables may be far away. In order, and apart
    /// from each other. Default: none.
    fn near(&self, _number: FileNumber) -> Vec<Range<u64>> {
        Vec::new()
    }

    /// Asked of tables that a merge has made, before readers see them: brings these bytes near, where lie the keys that
    /// [were near](Self::near) in tables that go for them. Called by a lane, which it may hold up for as long as it takes. What cannot be
    /// brought is left to its readers. Default: nothing.
    fn bring_near(&self, _tables: &[(FileNumber, Vec<Range<u64>>)]) {}
}

/// A change of the set of tables, as the manifest has it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Installed<'a> {
    /// The version edit, in LevelDB's encoding: what a record of the manifest holds.
    pub edit: &'a [u8],
    /// The edit is the whole state, as at a manifest's beginning: nothing that came before it counts. Between two such,
    /// edits build on each other.
    pub is_whole: bool,
    /// Tables that the edit adds, all of them if it is whole. A table that moves is added again.
    pub added: &'a [FileNumber],
    /// Tables that the edit takes from their place.
    pub removed: &'a [FileNumber],
}
