//! LevelDB under the same harness, through its C API: Debian's library, or any that has the functions.
//!
//! What the C API costs on top of C++ (a value is copied into malloc'd memory for each get) is in the
//! figures; the wrapper adds nothing that grows with the data.

use std::cmp::Ordering;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use siltstone::Metrics;
use siltstone_leveldb::{
    Comparator, Compression, Db, Iter, LevelDb, Options, WriteBatch, WriteOptions,
};

use super::{Batch, Cursor, Engine, Result, Store};
use crate::flags::Flags;

/// A plain function counts for LevelDB, so it has to count here.
static COMPARISONS: AtomicU64 = AtomicU64::new(0);

/// Opens databases with LevelDB's library.
pub(crate) struct LevelDbStore {
    library: LevelDb,
    path: PathBuf,
    options: Options,
}

impl LevelDbStore {
    /// Takes the named library, or the one that the system has.
    pub(crate) fn new(library: Option<&str>, flags: &Flags) -> Result<Self> {
        let library = match library {
            Some(name) => LevelDb::load_from(name)?,
            None => LevelDb::load().ok_or(
                "libleveldb.so is not installed; --engine=leveldb:LIBRARY names one elsewhere",
            )?,
        };
        if flags.reuse_logs {
            return Err("LevelDB's C API has no way to set --reuse_logs".to_owned());
        }
        let size = |number: i32| usize::try_from(number).unwrap_or(0);
        let compression = if flags.compression { Compression::Snappy } else { Compression::None };
        let options = Options {
            create_if_missing: !flags.use_existing_db,
            write_buffer_size: size(flags.write_buffer_size),
            max_open_files: flags.open_files,
            block_size: size(flags.block_size),
            max_file_size: size(flags.max_file_size),
            compression,
            bloom_bits_per_key: (flags.bloom_bits >= 0).then_some(flags.bloom_bits),
            cache_bytes: (flags.cache_size >= 0).then(|| size(flags.cache_size)),
            comparator: flags.comparisons.then_some(COUNTING),
            ..Options::default()
        };
        Ok(LevelDbStore { library, path: flags.db.clone(), options })
    }
}

/// The bytewise order, counting. It cannot shorten keys, as LevelDB's own does.
const COUNTING: Comparator =
    Comparator { name: c"leveldb.BytewiseComparator", compare: compare_and_count };

fn compare_and_count(a: &[u8], b: &[u8]) -> Ordering {
    COMPARISONS.fetch_add(1, Relaxed);
    a.cmp(b)
}

impl Store for LevelDbStore {
    type Db = Db;

    const SHARES_CODECS: bool = false;

    fn version(&self) -> (&'static str, String) {
        let (major, minor) = self.library.version();
        ("LevelDB", format!("{major}.{minor}"))
    }

    fn open(&self) -> Result<Db> {
        if let Some(parent) = self.path.parent() {
            // If that fails, opening says so better.
            let _ = std::fs::create_dir_all(parent);
        }
        self.library.open(&self.path, &self.options).map_err(text)
    }

    fn destroy(&self) -> Result<()> {
        self.library.destroy(&self.path, &self.options).map_err(text)
    }

    fn take_comparisons(&self) -> u64 {
        COMPARISONS.swap(0, Relaxed)
    }
}

impl Engine for Db {
    type Batch = WriteBatch;
    type Cursor<'db> = Iter<'db>;

    fn batch(&self) -> WriteBatch {
        Db::batch(self)
    }

    #[inline]
    fn write(&self, batch: &mut WriteBatch, sync: bool) -> Result<()> {
        Db::write(self, batch, WriteOptions { sync }).map_err(text)
    }

    #[inline]
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let copy = |found: &[u8]| {
            value.clear();
            value.extend_from_slice(found);
        };
        Ok(self.read(key, copy).map_err(text)?.is_some())
    }

    #[inline]
    fn cursor(&self) -> Result<Iter<'_>> {
        Ok(self.iter())
    }

    fn compact(&self) -> Result<()> {
        self.compact_range(None, None);
        Ok(())
    }

    fn property(&self, name: &str) -> Option<String> {
        Db::property(self, name)
    }

    fn metrics(&self) -> Option<Metrics> {
        None
    }

    fn rest(&self) -> Result<()> {
        Ok(())
    }
}

impl Batch for WriteBatch {
    #[inline]
    fn clear(&mut self) {
        WriteBatch::clear(self);
    }

    #[inline]
    fn put(&mut self, key: &[u8], value: &[u8]) {
        WriteBatch::put(self, key, value);
    }

    #[inline]
    fn delete(&mut self, key: &[u8]) {
        WriteBatch::delete(self, key);
    }
}

impl Cursor for Iter<'_> {
    fn seek_to_first(&mut self) -> Result<()> {
        Iter::seek_to_first(self);
        sound(self)
    }

    fn seek_to_last(&mut self) -> Result<()> {
        Iter::seek_to_last(self);
        sound(self)
    }

    #[inline]
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        Iter::seek(self, key);
        sound(self)
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        Iter::next(self);
        sound(self)
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        Iter::prev(self);
        sound(self)
    }

    #[inline]
    fn valid(&self) -> bool {
        Iter::valid(self)
    }

    #[inline]
    fn key(&self) -> &[u8] {
        Iter::key(self)
    }

    #[inline]
    fn value(&self) -> &[u8] {
        Iter::value(self)
    }
}

/// An iterator that stands nowhere is at an end, or has met an error and tells if asked.
#[inline]
fn sound(iter: &Iter<'_>) -> Result<()> {
    if iter.valid() { Ok(()) } else { iter.status().map_err(text) }
}

#[cold]
fn text(error: siltstone_leveldb::Error) -> String {
    error.to_string()
}
