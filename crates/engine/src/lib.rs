//! siltstone: an embedded, ordered key-value engine that reads and writes LevelDB's files.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods))] // Tests start threads as they please.

mod base;
mod compaction;
mod db;
mod env;
mod format;
mod memtable;
mod store;
mod version;

pub use base::comparator::{BytewiseComparator, Comparator};
pub use base::error::{Error, ErrorKind, Result};
pub use base::event::{Dropped, Event, EventListener, RecoveryReport, StallCause};
pub use base::key::{SeqNo, ValueKind};
pub use base::metrics::Metrics;
pub use base::slot::{Area, Level, Slot};
pub use db::care::destroy::destroy;
pub use db::care::dump::dump_file;
pub use db::care::repair::{
    LostRange, RepairOptions, RepairPlan, RepairReport, SalvagedLog, SalvagedTable, TableState,
    plan_repair, repair, repair_with,
};
pub use db::care::verify::{
    FileKind, Verdict, VerifiedFile, VerifyProgress, VerifyReport, verify, verify_with,
};
pub use db::handle::Db;
pub use db::options::{Background, Level0Limits, Options, ReadOptions, WriteOptions};
pub use db::read::iterator::{DbIterator, Entries};
pub use db::read::snapshot::Snapshot;
pub use db::shape::{LevelInfo, TableInfo};
pub use env::Env;
pub use env::clock::Clock;
pub use env::fs::{FileLock, FileSystem, Metadata, RandomAccessFile, WritableFile};
pub use env::site::Site;
pub use env::threads::{Lane, Threads};
pub use format::batch::{BatchOp, WriteBatch};
pub use format::filename::FileNumber;
pub use format::table::cache::{Cache, CacheKey, CachedBlock};
pub use format::table::compress::Compression;
pub use format::table::filter::{BloomFilter, FilterPolicy};
pub use store::TableStore;
pub use store::block_cache::BlockCache;
