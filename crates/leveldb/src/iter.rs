//! Iterators and snapshots. Both borrow their database (invariant I3).

use std::ffi::c_char;
use std::{ptr, slice};

use super::db::Db;
use super::error::Result;
use super::handle::{Handle, chars, checked};
use super::symbols::{RawIter, RawReadOptions, RawSnapshot, Symbols};

/// A place in a sorted view of the database. Begins nowhere: seek first.
pub struct Iter<'db> {
    db: &'db Db,
    raw: Handle<RawIter>,
    /// What the library said after the last move. Kept, so that checking it costs no call.
    valid: bool,
}

impl<'db> Iter<'db> {
    pub(super) fn new(db: &'db Db, options: &Handle<RawReadOptions>) -> Iter<'db> {
        let symbols = db.symbols();
        // SAFETY: the database and the options are alive; the iterator copies from the options
        // what it needs, reads the snapshot's number now, and is given to us.
        let raw = unsafe {
            let raw = (symbols.create_iterator)(db.as_ptr(), options.as_ptr());
            Handle::new(raw, symbols.iter_destroy)
        };
        Iter { db, raw, valid: false }
    }

    /// Whether the iterator stands on an entry. If not, ask [`status`](Self::status) for the reason.
    #[inline]
    pub fn valid(&self) -> bool {
        self.valid
    }

    /// Moves to the first entry.
    pub fn seek_to_first(&mut self) {
        // SAFETY: the iterator is alive, and no key or value of it is borrowed.
        unsafe { (self.symbols().iter_seek_to_first)(self.raw.as_ptr()) }
        self.moved();
    }

    /// Moves to the last entry.
    pub fn seek_to_last(&mut self) {
        // SAFETY: as in `seek_to_first`.
        unsafe { (self.symbols().iter_seek_to_last)(self.raw.as_ptr()) }
        self.moved();
    }

    /// Moves to the first entry not before `key`.
    pub fn seek(&mut self, key: &[u8]) {
        // SAFETY: as in `seek_to_first`; the library copies the key.
        unsafe { (self.symbols().iter_seek)(self.raw.as_ptr(), chars(key), key.len()) }
        self.moved();
    }

    /// Moves to the entry after this one.
    ///
    /// # Panics
    ///
    /// If the iterator is not valid.
    pub fn next(&mut self) {
        self.assert_valid();
        // SAFETY: as in `seek_to_first`, and the iterator is valid, which LevelDB asserts.
        unsafe { (self.symbols().iter_next)(self.raw.as_ptr()) }
        self.moved();
    }

    /// Moves to the entry before this one.
    ///
    /// # Panics
    ///
    /// If the iterator is not valid.
    pub fn prev(&mut self) {
        self.assert_valid();
        // SAFETY: as in `next`.
        unsafe { (self.symbols().iter_prev)(self.raw.as_ptr()) }
        self.moved();
    }

    /// The key here.
    ///
    /// # Panics
    ///
    /// If the iterator is not valid.
    pub fn key(&self) -> &[u8] {
        self.read(self.symbols().iter_key)
    }

    /// The value here.
    ///
    /// # Panics
    ///
    /// If the iterator is not valid.
    pub fn value(&self) -> &[u8] {
        self.read(self.symbols().iter_value)
    }

    /// The first error met, if any. A scan that ends without asking cannot tell end from damage.
    pub fn status(&self) -> Result<()> {
        // SAFETY: the iterator is alive.
        checked(self.symbols(), |error| unsafe {
            (self.symbols().iter_get_error)(self.raw.as_ptr(), error);
        })
    }

    /// Reads the key or the value: `field` is `iter_key` or `iter_value`.
    fn read(
        &self,
        field: unsafe extern "C" fn(*const RawIter, *mut usize) -> *const c_char,
    ) -> &[u8] {
        self.assert_valid();
        let mut len = 0;
        // SAFETY: the iterator is alive and valid. What it points at stays until it moves, and
        // moving takes `&mut self`.
        unsafe {
            let start = field(self.raw.as_ptr(), &raw mut len);
            slice::from_raw_parts(start.cast(), len)
        }
    }

    fn moved(&mut self) {
        // SAFETY: the iterator is alive.
        self.valid = unsafe { (self.symbols().iter_valid)(self.raw.as_ptr()) != 0 };
    }

    fn assert_valid(&self) {
        assert!(self.valid, "the iterator stands on an entry");
    }

    fn symbols(&self) -> &'static Symbols {
        self.db.symbols()
    }
}

/// The database as it was when the snapshot was made. Released on drop.
pub struct Snapshot<'db> {
    db: &'db Db,
    raw: *const RawSnapshot,
}

impl<'db> Snapshot<'db> {
    pub(super) fn new(db: &'db Db) -> Snapshot<'db> {
        // SAFETY: the database is alive.
        let raw = unsafe { (db.symbols().create_snapshot)(db.as_ptr()) };
        Snapshot { db, raw }
    }

    pub(super) fn as_ptr(&self) -> *const RawSnapshot {
        self.raw
    }

    pub(super) fn is_of(&self, db: &Db) -> bool {
        ptr::eq(self.db, db)
    }
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        // SAFETY: the database is alive, the snapshot is its, and is released only here.
        unsafe { (self.db.symbols().release_snapshot)(self.db.as_ptr(), self.raw) }
    }
}
