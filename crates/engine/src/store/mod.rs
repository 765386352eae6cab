//! Floor 3, first half: where tables live and what is kept of them in memory. Flushes and merges
//! create tables here, the table cache opens them, housekeeping removes them.

pub(crate) mod block_cache;
pub(crate) mod local;
pub(crate) mod residents;
pub(crate) mod table_cache;

use std::sync::Arc;

use crate::base::error::Result;
use crate::env::fs::{RandomAccessFile, WritableFile};
use crate::format::filename::FileNumber;

/// Tables are bytes behind a number; this hides where they are.
///
/// A new table counts only once its file was synced and closed and `sync_names` has succeeded.
pub(crate) trait TableStore: Send + Sync {
    /// Makes an empty table to write, in place of what had its number.
    fn create(&self, number: FileNumber) -> Result<Box<dyn WritableFile>>;

    /// Opens a table to read. [`ErrorKind::NotFound`](crate::ErrorKind) if there is none.
    fn open(&self, number: FileNumber) -> Result<Arc<dyn RandomAccessFile>>;

    /// Removes a table. Those who have it open may read on.
    fn remove(&self, number: FileNumber) -> Result<()>;

    /// The numbers of all tables here, in any order.
    fn list(&self) -> Result<Vec<FileNumber>>;

    /// Makes all tables made so far durable by name (rule R1).
    fn sync_names(&self) -> Result<()>;
}
