//! Open tables that may change their place: from the folder to the bucket, when there is no more room for a copy. Who
//! reads one notices nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use siltstone::{Access, RandomAccessFile, Result};

use super::shared::File;

/// A table that is open, here or in the bucket.
pub(super) struct OpenTable {
    file: RwLock<File>,
    bytes: u64,
    path: PathBuf,
}

impl OpenTable {
    fn file(&self) -> std::sync::RwLockReadGuard<'_, File> {
        self.file.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RandomAccessFile for OpenTable {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.file().read_at(buf, offset)
    }

    fn read_for(&self, buf: &mut [u8], offset: u64, access: Access) -> Result<usize> {
        self.file().read_for(buf, offset, access)
    }

    fn drop_copy(&self, offset: u64, len: usize) -> bool {
        self.file().drop_copy(offset, len)
    }

    fn len(&self) -> u64 {
        self.bytes
    }

    fn keep_in_memory(&self) -> bool {
        self.file().keep_in_memory()
    }

    fn let_go(&self) {
        self.file().let_go();
    }

    fn is_in_memory(&self) -> bool {
        self.file().is_in_memory()
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

/// Tables that somebody has open, by number.
#[derive(Default)]
pub(super) struct OpenTables {
    tables: Mutex<BTreeMap<u64, Weak<OpenTable>>>,
}

impl OpenTables {
    pub(super) fn add(&self, number: u64, file: File) -> Arc<OpenTable> {
        let (bytes, path) = (file.len(), file.path().to_owned());
        let table = Arc::new(OpenTable { file: RwLock::new(file), bytes, path });
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        tables.retain(|_, table| table.strong_count() > 0);
        tables.insert(number, Arc::downgrade(&table));
        table
    }

    /// True if the table is open and all of it is in memory: it can stay where it is.
    pub(super) fn is_in_memory(&self, number: u64) -> bool {
        self.find(number).is_some_and(|table| table.is_in_memory())
    }

    /// Who has the table open reads it from `file` from now on.
    pub(super) fn switch(&self, number: u64, file: impl FnOnce() -> Result<File>) -> Result<()> {
        let Some(table) = self.find(number) else { return Ok(()) };
        let file = file()?;
        *table.file.write().unwrap_or_else(PoisonError::into_inner) = file;
        Ok(())
    }

    fn find(&self, number: u64) -> Option<Arc<OpenTable>> {
        let tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        tables.get(&number)?.upgrade()
    }
}
