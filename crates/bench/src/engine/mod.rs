//! The border between the harness and what it measures. The benchmarks are written against these
//! traits, and compiled anew for each engine: no call of theirs is virtual.

pub(crate) mod leveldb;
pub(crate) mod siltstone;

use ::siltstone::Metrics;

/// Errors are for printing only.
pub(crate) type Result<T> = std::result::Result<T, String>;

/// What makes and removes databases in one place, with one set of options.
pub(crate) trait Store {
    type Db: Engine;

    /// Whether what the harness itself checksums and compresses with is also the engine's.
    const SHARES_CODECS: bool;

    /// Name and version, for the report's first line.
    fn version(&self) -> (&'static str, String);

    fn open(&self) -> Result<Self::Db>;

    /// Removes the database; fine if there is none.
    fn destroy(&self) -> Result<()>;

    /// How often keys were compared since the last call, if that is counted.
    fn take_comparisons(&self) -> u64;
}

/// An open database, used by all threads of a benchmark.
pub(crate) trait Engine: Sync + Sized {
    type Batch: Batch;
    type Cursor<'db>: Cursor
    where
        Self: 'db;

    fn batch(&self) -> Self::Batch;

    fn write(&self, batch: &mut Self::Batch, sync: bool) -> Result<()>;

    /// Puts the value of `key` into `value`, whose memory is used again. False if there is none.
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool>;

    fn cursor(&self) -> Result<Self::Cursor<'_>>;

    /// Compacts everything.
    fn compact(&self) -> Result<()>;

    fn property(&self, name: &str) -> Option<String>;

    /// Counters since open, if the engine has some.
    fn metrics(&self) -> Option<Metrics>;

    /// Waits for background work to end, if the engine can.
    fn rest(&self) -> Result<()>;
}

/// Changes that are written together.
pub(crate) trait Batch {
    fn clear(&mut self);
    fn put(&mut self, key: &[u8], value: &[u8]);
    fn delete(&mut self, key: &[u8]);
}

/// A place among the entries. Movement either succeeds or says why not; beyond the ends it is
/// [`valid`](Cursor::valid) no more.
pub(crate) trait Cursor {
    fn seek_to_first(&mut self) -> Result<()>;
    fn seek_to_last(&mut self) -> Result<()>;
    fn seek(&mut self, key: &[u8]) -> Result<()>;
    fn next(&mut self) -> Result<()>;
    fn prev(&mut self) -> Result<()>;
    fn valid(&self) -> bool;
    fn key(&self) -> &[u8];
    fn value(&self) -> &[u8];
}
