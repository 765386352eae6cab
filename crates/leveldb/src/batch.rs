//! Write batches: changes that the database takes together or not at all.

use super::handle::{Handle, chars};
use super::symbols::{RawBatch, Symbols};

/// Puts and deletes in the order they were added. Made by [`LevelDb::batch`](super::LevelDb::batch).
pub struct WriteBatch {
    symbols: &'static Symbols,
    raw: Handle<RawBatch>,
}

impl WriteBatch {
    pub(super) fn new(symbols: &'static Symbols) -> WriteBatch {
        // SAFETY: the constructor has no condition and gives the object to us.
        let raw = unsafe { Handle::new((symbols.writebatch_create)(), symbols.writebatch_destroy) };
        WriteBatch { symbols, raw }
    }

    /// Adds a put.
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        let (key_len, value_len) = (key.len(), value.len());
        // SAFETY: the batch is alive and ours alone; the library copies the bytes.
        unsafe {
            let raw = self.raw.as_ptr();
            (self.symbols.writebatch_put)(raw, chars(key), key_len, chars(value), value_len);
        }
    }

    /// Adds a delete.
    pub fn delete(&mut self, key: &[u8]) {
        // SAFETY: the batch is alive and ours alone; the library copies the bytes.
        unsafe { (self.symbols.writebatch_delete)(self.raw.as_ptr(), chars(key), key.len()) }
    }

    /// Adds all that `source` holds.
    pub fn append(&mut self, source: &WriteBatch) {
        // SAFETY: both batches are alive, and two, as one of them is borrowed for change.
        unsafe { (self.symbols.writebatch_append)(self.raw.as_ptr(), source.raw.as_ptr()) }
    }

    /// Removes all.
    pub fn clear(&mut self) {
        // SAFETY: the batch is alive and ours alone.
        unsafe { (self.symbols.writebatch_clear)(self.raw.as_ptr()) }
    }

    /// For the library to write. It sets the sequence number inside, hence the `mut`.
    pub(super) fn as_mut_ptr(&mut self) -> *mut RawBatch {
        self.raw.as_ptr()
    }
}
