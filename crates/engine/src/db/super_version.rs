//! What a reader pins: one immutable bundle of memtables and version.

use std::sync::Arc;

use crate::memtable::MemTable;
use crate::version::Version;

pub(crate) struct SuperVersion {
    /// The memtable that takes writes.
    pub(crate) memtable: Arc<MemTable>,
    /// Memtables that wait to be flushed, newest first.
    pub(crate) immutables: Vec<Arc<MemTable>>,
    pub(crate) version: Arc<Version>,
}

impl SuperVersion {
    /// Memtables in search order.
    pub(crate) fn memtables(&self) -> impl Iterator<Item = &Arc<MemTable>> {
        std::iter::once(&self.memtable).chain(&self.immutables)
    }
}
