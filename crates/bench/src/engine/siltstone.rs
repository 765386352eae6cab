//! siltstone under the harness, with LevelDB's defaults where the flags do not say otherwise.

use std::cmp::Ordering;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use siltstone::{
    BlockCache, BloomFilter, BytewiseComparator, Cache, Comparator, Compression, Db, DbIterator,
    FilterPolicy, Metrics, Options, ReadOptions, WriteBatch, WriteOptions,
};

use super::{Batch, Cursor, Engine, Result, Store};
use crate::flags::Flags;

/// Opens siltstone databases.
pub(crate) struct Siltstone {
    path: PathBuf,
    options: Options,
    comparisons: Arc<AtomicU64>,
}

impl Siltstone {
    pub(crate) fn new(flags: &Flags) -> Self {
        // Numbers below 0 are out of every range, and moved into it as 0 is.
        let size = |number: i32| usize::try_from(number).unwrap_or(0);
        let comparisons = Arc::new(AtomicU64::new(0));
        let cache = || Arc::new(BlockCache::new(size(flags.cache_size))) as Arc<dyn Cache>;
        let filter = || Arc::new(BloomFilter::new(size(flags.bloom_bits))) as Arc<dyn FilterPolicy>;
        let counting = || Arc::new(Counting(Arc::clone(&comparisons))) as Arc<dyn Comparator>;
        let options = Options {
            create_if_missing: !flags.use_existing_db,
            comparator: flags.comparisons.then(counting),
            write_buffer_size: size(flags.write_buffer_size),
            max_file_size: size(flags.max_file_size),
            block_size: size(flags.block_size),
            block_cache: (flags.cache_size >= 0).then(cache),
            filter_policy: (flags.bloom_bits >= 0).then(filter),
            max_open_files: size(flags.open_files),
            reuse_logs: flags.reuse_logs,
            compaction: flags.compaction,
            level1_bytes: flags.level1_size,
            compression: if flags.compression { Compression::Snappy } else { Compression::None },
            ..Options::default()
        };
        Siltstone { path: flags.db.clone(), options, comparisons }
    }
}

impl Store for Siltstone {
    type Db = Db;

    const SHARES_CODECS: bool = true;

    fn version(&self) -> (&'static str, String) {
        ("siltstone", env!("CARGO_PKG_VERSION").to_owned())
    }

    fn open(&self) -> Result<Db> {
        if let Some(parent) = self.path.parent() {
            // If that fails, opening says so better.
            let _ = std::fs::create_dir_all(parent);
        }
        Db::open(&self.path, self.options.clone()).map_err(text)
    }

    fn destroy(&self) -> Result<()> {
        siltstone::destroy(&self.path, &self.options).map_err(text)
    }

    fn take_comparisons(&self) -> u64 {
        self.comparisons.swap(0, Relaxed)
    }
}

impl Engine for Db {
    type Batch = WriteBatch;
    type Cursor<'db> = DbIterator;

    fn batch(&self) -> WriteBatch {
        WriteBatch::new()
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
        let found = self.read(key, &ReadOptions::default(), copy).map_err(text)?;
        Ok(found.is_some())
    }

    #[inline]
    fn cursor(&self) -> Result<DbIterator> {
        self.iter().map_err(text)
    }

    fn compact(&self) -> Result<()> {
        self.compact_range(None, None).map_err(text)
    }

    fn property(&self, name: &str) -> Option<String> {
        Db::property(self, name)
    }

    fn metrics(&self) -> Option<Metrics> {
        Some(Db::metrics(self))
    }

    fn rest(&self) -> Result<()> {
        self.wait_for_background().map_err(text)
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

impl Cursor for DbIterator {
    fn seek_to_first(&mut self) -> Result<()> {
        DbIterator::seek_to_first(self).map_err(text)
    }

    fn seek_to_last(&mut self) -> Result<()> {
        DbIterator::seek_to_last(self).map_err(text)
    }

    #[inline]
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        DbIterator::seek(self, key).map_err(text)
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        DbIterator::next(self).map_err(text)
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        DbIterator::prev(self).map_err(text)
    }

    #[inline]
    fn valid(&self) -> bool {
        DbIterator::valid(self)
    }

    #[inline]
    fn key(&self) -> &[u8] {
        DbIterator::key(self)
    }

    #[inline]
    fn value(&self) -> &[u8] {
        DbIterator::value(self)
    }
}

#[cold]
fn text(error: siltstone::Error) -> String {
    error.to_string()
}

/// The bytewise order, counting. It has a name of its own: under LevelDB's name the engine would
/// compare by itself, and there would be nothing to count.
struct Counting(Arc<AtomicU64>);

impl Comparator for Counting {
    fn name(&self) -> &str {
        "db_bench.CountingBytewiseComparator"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.0.fetch_add(1, Relaxed);
        BytewiseComparator.compare(a, b)
    }

    fn shortest_separator(&self, start: &mut Vec<u8>, limit: &[u8]) {
        BytewiseComparator.shortest_separator(start, limit);
    }

    fn short_successor(&self, key: &mut Vec<u8>) {
        BytewiseComparator.short_successor(key);
    }
}
