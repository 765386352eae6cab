//! An open database of LevelDB.

use std::ffi::{CString, c_int};
use std::path::Path;
use std::{ptr, slice};

use super::batch::WriteBatch;
use super::c_path;
use super::error::Result;
use super::handle::{Handle, chars, checked, owned_memory, owned_string};
use super::iter::{Iter, Snapshot};
use super::options::{Options, Parts, ReadOptions, WriteOptions, read_options, write_options};
use super::symbols::{RawDb, RawReadOptions, RawWriteOptions, Symbols};

/// An open database, closed on drop. May be shared between threads.
pub struct Db {
    symbols: &'static Symbols,
    /// Stands before the parts, so that the database is closed before they go (invariant I3).
    raw: Handle<RawDb>,
    _parts: Parts,
    /// The common read and write options, made once: a measurement must not pay for them per call.
    plain_read: Handle<RawReadOptions>,
    plain_write: Handle<RawWriteOptions>,
    synced_write: Handle<RawWriteOptions>,
}

// SAFETY: a LevelDB database belongs to no thread. The option objects are only read after they are
// made, and the one foreign part, the comparator, is a plain function.
unsafe impl Send for Db {}
// SAFETY: LevelDB locks inside each of its calls; see above for the rest.
unsafe impl Sync for Db {}

impl Db {
    pub(super) fn open(symbols: &'static Symbols, path: &Path, options: &Options) -> Result<Db> {
        let (parts, name) = (Parts::new(symbols, options), c_path(path));
        // SAFETY: the options and the name are alive during the call.
        let raw = checked(symbols, |error| unsafe {
            (symbols.open)(parts.options(), name.as_ptr(), error)
        })?;
        Ok(Db {
            symbols,
            // SAFETY: without an error, `open` has given us a database.
            raw: unsafe { Handle::new(raw, symbols.close) },
            _parts: parts,
            plain_read: read_options(symbols, &ReadOptions::default()),
            plain_write: write_options(symbols, WriteOptions { sync: false }),
            synced_write: write_options(symbols, WriteOptions { sync: true }),
        })
    }

    /// Sets `key` to `value`, without waiting for the disk.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.put_with(WriteOptions::default(), key, value)
    }

    /// Sets `key` to `value`.
    pub fn put_with(&self, options: WriteOptions, key: &[u8], value: &[u8]) -> Result<()> {
        let (db, options) = (self.as_ptr(), self.write_options(options));
        let (key_len, value_len) = (key.len(), value.len());
        // SAFETY: all is alive during the call, and the lengths are those of the slices.
        checked(self.symbols, |error| unsafe {
            let put = self.symbols.put;
            put(db, options, chars(key), key_len, chars(value), value_len, error);
        })
    }

    /// Removes `key`, without waiting for the disk. Its absence is no error.
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        self.delete_with(WriteOptions::default(), key)
    }

    /// Removes `key`. Its absence is no error.
    pub fn delete_with(&self, options: WriteOptions, key: &[u8]) -> Result<()> {
        let options = self.write_options(options);
        // SAFETY: all is alive during the call, and the length is that of the slice.
        checked(self.symbols, |error| unsafe {
            (self.symbols.delete)(self.as_ptr(), options, chars(key), key.len(), error);
        })
    }

    /// An empty write batch.
    pub fn batch(&self) -> WriteBatch {
        WriteBatch::new(self.symbols)
    }

    /// Applies `batch`, which may be used again.
    pub fn write(&self, batch: &mut WriteBatch, options: WriteOptions) -> Result<()> {
        let options = self.write_options(options);
        // SAFETY: all is alive during the call, and the batch is not shared.
        checked(self.symbols, |error| unsafe {
            (self.symbols.write)(self.as_ptr(), options, batch.as_mut_ptr(), error);
        })
    }

    /// The value of `key` now.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get_by(&self.plain_read, key)
    }

    /// The value of `key`.
    ///
    /// # Panics
    ///
    /// If the snapshot in `options` is another database's.
    pub fn get_with(&self, options: &ReadOptions<'_>, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.assert_own_snapshot(options);
        self.get_by(&read_options(self.symbols, options), key)
    }

    /// Hands the value of `key` now to `found` where the library has put it, without a copy of ours.
    pub fn read<R>(&self, key: &[u8], found: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        self.read_by(&self.plain_read, key, found)
    }

    fn get_by(&self, options: &Handle<RawReadOptions>, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.read_by(options, key, <[u8]>::to_vec)
    }

    fn read_by<R>(
        &self,
        options: &Handle<RawReadOptions>,
        key: &[u8],
        found: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        let mut len = 0;
        // SAFETY: all is alive during the call, and the length is that of the slice.
        let value = checked(self.symbols, |error| unsafe {
            let (db, options) = (self.as_ptr(), options.as_ptr());
            (self.symbols.get)(db, options, chars(key), key.len(), &raw mut len, error)
        })?;
        // SAFETY: `get` returns null or malloc'd memory, and gives it to us.
        let value = unsafe { owned_memory(self.symbols, value) };
        // SAFETY: `get` has stored the length of what it returned, which lives until `value` goes.
        Ok(value.map(|value| found(unsafe { slice::from_raw_parts(value.as_ptr().cast(), len) })))
    }

    /// An iterator over the database as it is now.
    pub fn iter(&self) -> Iter<'_> {
        Iter::new(self, &self.plain_read)
    }

    /// An iterator.
    ///
    /// # Panics
    ///
    /// If the snapshot in `options` is another database's.
    pub fn iter_with(&self, options: &ReadOptions<'_>) -> Iter<'_> {
        self.assert_own_snapshot(options);
        Iter::new(self, &read_options(self.symbols, options))
    }

    /// Keeps the present state readable.
    pub fn snapshot(&self) -> Snapshot<'_> {
        Snapshot::new(self)
    }

    /// The property `name`, such as `leveldb.stats`; `None` if there is no such property.
    ///
    /// # Panics
    ///
    /// If `name` holds a zero byte.
    pub fn property(&self, name: &str) -> Option<String> {
        let name = CString::new(name).expect("the name of a property holds no zero byte");
        // SAFETY: all is alive during the call, which gives us null or a malloc'd C string.
        unsafe {
            let text = (self.symbols.property_value)(self.as_ptr(), name.as_ptr());
            owned_string(self.symbols, text)
        }
    }

    /// About how many bytes of tables each range, start inclusive and limit exclusive, takes.
    pub fn approximate_sizes(&self, ranges: &[(&[u8], &[u8])]) -> Vec<u64> {
        let count = c_int::try_from(ranges.len()).expect("fewer than 2^31 ranges");
        let starts: Vec<_> = ranges.iter().map(|(start, _)| chars(start)).collect();
        let start_lens: Vec<_> = ranges.iter().map(|(start, _)| start.len()).collect();
        let limits: Vec<_> = ranges.iter().map(|(_, limit)| chars(limit)).collect();
        let limit_lens: Vec<_> = ranges.iter().map(|(_, limit)| limit.len()).collect();
        let mut sizes = vec![0; ranges.len()];
        // SAFETY: all five arrays have `count` places, and are alive during the call.
        unsafe {
            (self.symbols.approximate_sizes)(
                self.as_ptr(),
                count,
                starts.as_ptr(),
                start_lens.as_ptr(),
                limits.as_ptr(),
                limit_lens.as_ptr(),
                sizes.as_mut_ptr(),
            );
        }
        sizes
    }

    /// Compacts all tables that meet the range, both ends inclusive; `None` is an open end. Flushes
    /// the memtable first. Errors are lost: the C API has no way to tell them.
    pub fn compact_range(&self, start: Option<&[u8]>, limit: Option<&[u8]>) {
        let start_len = start.map_or(0, <[u8]>::len);
        let limit_len = limit.map_or(0, <[u8]>::len);
        let start = start.map_or(ptr::null(), chars);
        let limit = limit.map_or(ptr::null(), chars);
        // SAFETY: all is alive during the call; null means an open end.
        unsafe {
            (self.symbols.compact_range)(self.as_ptr(), start, start_len, limit, limit_len);
        }
    }

    /// Closes the database. The same as dropping it, said aloud.
    pub fn close(self) {}

    pub(super) fn symbols(&self) -> &'static Symbols {
        self.symbols
    }

    pub(super) fn as_ptr(&self) -> *mut RawDb {
        self.raw.as_ptr()
    }

    fn write_options(&self, options: WriteOptions) -> *const RawWriteOptions {
        if options.sync { self.synced_write.as_ptr() } else { self.plain_write.as_ptr() }
    }

    fn assert_own_snapshot(&self, options: &ReadOptions<'_>) {
        let own = options.snapshot.is_none_or(|snapshot| snapshot.is_of(self));
        assert!(own, "the snapshot is this database's");
    }
}
