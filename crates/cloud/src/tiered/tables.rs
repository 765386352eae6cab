//! Open tables that may change their place: from the folder to the bucket, when there is no more room for a copy, or the other way,
//! when there is one. Who reads one notices nothing.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::Duration;

use siltstone::{Access, RandomAccessFile, Result};

use super::heat::Heat;
use super::shared::{File, Shared};

/// A table's file, and where it is.
#[derive(Clone)]
pub(super) enum Placed {
    /// In the folder.
    Here(File),
    /// In the bucket.
    There(File),
}

impl Placed {
    fn file(&self) -> &File {
        let (Placed::Here(file) | Placed::There(file)) = self;
        file
    }
}

/// A table that is open, here or in the bucket.
pub(super) struct OpenTable {
    number: u64,
    placed: RwLock<Placed>,
    bytes: u64,
    path: PathBuf,
    heat: Heat,
    /// A copy of it is to be made some time: whoever reads it wants it now.
    awaits_copy: AtomicBool,
    owner: Weak<Shared>,
}

impl OpenTable {
    fn placed(&self) -> Placed {
        self.placed.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Calls `read` with the file where it is now.
    fn with<R>(&self, read: impl FnOnce(&File) -> R) -> R {
        read(self.placed.read().unwrap_or_else(PoisonError::into_inner).file())
    }

    fn note_reader(&self, bytes: &Range<u64>) {
        self.heat.note(bytes);
        if self.awaits_copy.load(Relaxed)
            && self.awaits_copy.swap(false, Relaxed)
            && let Some(shared) = self.owner.upgrade()
        {
            shared.change(|state| state.copies.hurry(self.number));
        }
    }
}

impl RandomAccessFile for OpenTable {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.with(|file| file.read_at(buf, offset))
    }

    fn read_for(&self, buf: &mut [u8], offset: u64, access: Access) -> Result<usize> {
        if matches!(access, Access::Get | Access::Scan) {
            self.note_reader(&(offset..offset.saturating_add(buf.len() as u64)));
        }
        self.with(|file| file.read_for(buf, offset, access))
    }

    fn drop_copy(&self, offset: u64, len: usize) -> bool {
        self.with(|file| file.drop_copy(offset, len))
    }

    fn len(&self) -> u64 {
        self.bytes
    }

    fn keep_in_memory(&self) -> bool {
        self.with(|file| file.keep_in_memory())
    }

    fn let_go(&self) {
        self.with(|file| file.let_go());
    }

    fn is_in_memory(&self) -> bool {
        self.with(|file| file.is_in_memory())
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
    pub(super) fn add(&self, number: u64, placed: Placed, owner: &Arc<Shared>) -> Arc<OpenTable> {
        let (bytes, path) = (placed.file().len(), placed.file().path().to_owned());
        let table = Arc::new(OpenTable {
            number,
            placed: RwLock::new(placed),
            bytes,
            path,
            heat: Heat::new(bytes, owner.home.now()),
            awaits_copy: AtomicBool::new(false),
            owner: Arc::downgrade(owner),
        });
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        tables.retain(|_, table| table.strong_count() > 0);
        tables.insert(number, Arc::downgrade(&table));
        table
    }

    /// True if the table is open and all of it is in memory: it can stay where it is.
    pub(super) fn is_in_memory(&self, number: u64) -> bool {
        self.find(number).is_some_and(|table| table.is_in_memory())
    }

    /// Who has the table open reads it from there from now on.
    pub(super) fn switch(&self, number: u64, to: impl FnOnce() -> Result<Placed>) -> Result<()> {
        let Some(table) = self.find(number) else { return Ok(()) };
        let to = to()?;
        *table.placed.write().unwrap_or_else(PoisonError::into_inner) = to;
        Ok(())
    }

    /// Whoever reads these tables from now on [hurries](super::copies::Copies::hurry) their copies.
    pub(super) fn let_hurry(&self, numbers: &[u64]) {
        let tables = numbers.iter().filter_map(|number| self.find(*number));
        tables.for_each(|table| table.awaits_copy.store(true, Relaxed));
    }

    /// What readers had lately of a table, and where it is. `None` if nobody has it open.
    pub(super) fn heat(&self, number: u64) -> Option<(Placed, Vec<Range<u64>>)> {
        self.find(number).map(|table| (table.placed(), table.heat.ranges()))
    }

    /// Readers had lately of other tables what these bytes of one hold.
    pub(super) fn lend_heat(&self, number: u64, ranges: &[Range<u64>]) {
        let table = self.find(number);
        table.iter().for_each(|table| ranges.iter().for_each(|range| table.heat.note(range)));
    }

    /// To be called now and then: what was read long ago is forgotten.
    pub(super) fn cool(&self, now: Duration) {
        let tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        tables.values().filter_map(Weak::upgrade).for_each(|table| table.heat.cool(now));
    }

    fn find(&self, number: u64) -> Option<Arc<OpenTable>> {
        let tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        tables.get(&number)?.upgrade()
    }
}
