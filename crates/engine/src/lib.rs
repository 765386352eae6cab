//! siltstone: an embedded, ordered key-value engine that reads and writes LevelDB's files.
//!
//! A database is a folder that holds an ordered map from byte strings to byte strings. It lives in
//! your process: [`Db::open`] recovers and locks it, and no server is involved.
//!
//! ```
//! use siltstone::{Db, Env, Options, ReadOptions, WriteBatch, WriteOptions};
//!
//! # fn main() -> siltstone::Result<()> {
//! // In memory here; leave `env` out for a folder on disk.
//! let options = Options { create_if_missing: true, env: Env::memory(), ..Default::default() };
//! let db = Db::open("fruit", options)?;
//!
//! db.put("apple", "red")?;
//! db.put("banana", "yellow")?;
//! assert_eq!(db.get("apple")?.as_deref(), Some(&b"red"[..]));
//!
//! // A snapshot goes on seeing what was there when it was taken.
//! let before = ReadOptions { snapshot: Some(db.snapshot()), ..Default::default() };
//!
//! // A batch takes effect whole or not at all; `sync` waits for the disk.
//! let mut batch = WriteBatch::new();
//! batch.delete("apple");
//! batch.put("cherry", "black");
//! db.write(&batch, WriteOptions { sync: true })?;
//! assert_eq!(db.get("apple")?, None);
//! assert_eq!(db.get_with("apple", &before)?.as_deref(), Some(&b"red"[..]));
//!
//! // Iterators move both ways, in key order; an error is not mistaken for the end.
//! let mut iter = db.iter()?;
//! iter.seek("b")?;
//! while iter.valid() {
//!     println!("{} is {}", iter.key().escape_ascii(), iter.value().escape_ascii());
//!     iter.next()?;
//! }
//! drop(iter);
//! db.close()
//! # }
//! ```
//!
//! # Durability
//!
//! A write that was acknowledged survives the death of the process. One that was acknowledged with
//! [`sync`](WriteOptions::sync) survives a power cut, and so does every write before it. Whatever
//! happens, what is found after a crash is a prefix of the accepted writes, in whole batches.
//!
//! # Errors
//!
//! Every fallible call returns [`Error`], whose [`kind`](Error::kind) says what to do about it, and
//! which names the file and byte offset where they are known. An absent key is `None`, no error.
//! Damaged bytes end in an error, never in a panic. When the disk is full, writes fail with
//! [`NoSpace`](ErrorKind::NoSpace), reads go on, and writes succeed again once there is space; after
//! any other failed write or sync of a log, the database takes no more writes until it is reopened.
//!
//! # Threads
//!
//! [`Db`] is cheap to clone and may be used from many threads at once. Reads take no lock and never
//! wait for writers; writers share the log, and one sync serves all who wait for it. The database
//! flushes, compacts and removes files on a few threads of its own, which end when it closes. All
//! calls are synchronous.
//!
//! # LevelDB
//!
//! Folders that LevelDB wrote can be opened, and LevelDB can open those that siltstone wrote; the
//! lock keeps the two apart. [`Options`] have LevelDB's names and, but for what their docs say,
//! its defaults. Tables compressed with [Zstandard](Compression::Zstd) are written only on request,
//! because no tagged release of LevelDB reads them.
//!
//! # Care
//!
//! [`Db::checkpoint`] copies an open database by linking its tables. [`verify`] checks every byte that
//! counts, beside a live writer if need be. [`repair`] saves what a damaged database holds into a new
//! one, or [in its place](repair_in_place). [`destroy`] removes a database, and [`dump_file`] prints one of its files.
//!
//! # Features
//!
//! `zstd` (default) reads and writes Zstandard blocks, by way of the C library. Without it such
//! blocks are an error of the kind [`Incompatible`](ErrorKind::Incompatible).

#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods))] // Tests start threads as they please.

mod base;
/// Not part of the API: in no build but those for measuring parts and for the engine's own tests.
#[cfg(any(test, benches))]
#[doc(hidden)]
pub mod benches;
mod compaction;
mod db;
mod env;
mod format;
/// Not part of the API: in no build but those for fuzzing and for the engine's own tests.
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod memtable;
mod store;
mod version;

pub use base::comparator::{BytewiseComparator, Comparator};
pub use base::error::{Error, ErrorKind, Result};
pub use base::event::{Dropped, Event, EventListener, RecoveryReport, StallCause};
pub use base::key::{SeqNo, ValueKind};
pub use base::metrics::Metrics;
pub use base::slot::{Area, Level, Slot};
pub use compaction::policy::Compaction;
pub use compaction::simulation::{
    Simulation, SimulationCounts, SimulationOptions, SimulationShape,
};
pub use db::care::destroy::destroy;
pub use db::care::dump::dump_file;
pub use db::care::repair::{
    LostRange, RepairOptions, RepairPlan, RepairReport, SalvagedLog, SalvagedTable, TableState,
    plan_repair, repair, repair_in_place, repair_with,
};
pub use db::care::restore::{fold_edits, oldest_log_of, restore_manifest};
pub use db::care::verify::{
    EditedVersion, FileKind, Verdict, VerifiedFile, VerifyProgress, VerifyReport, verify,
    verify_with,
};
pub use db::handle::Db;
pub use db::options::{Background, Level0Limits, Options, ReadOptions, WriteOptions};
pub use db::read::iterator::DbIterator;
pub use db::read::iterator::entries::Entries;
pub use db::read::snapshot::Snapshot;
pub use db::shape::{LevelInfo, TableInfo};
pub use env::Env;
pub use env::clock::Clock;
pub use env::fs::{Access, FileLock, FileSystem, Metadata, RandomAccessFile, WritableFile};
pub use env::site::Site;
pub use env::threads::{Lane, Place, Threads};
pub use format::batch::{BatchOp, WriteBatch};
pub use format::filename::FileNumber;
pub use format::table::bytes::BlockBytes;
pub use format::table::cache::{Cache, CachedBlock, Shelf};
pub use format::table::compress::Compression;
pub use format::table::filter::{BloomFilter, FilterPolicy};
pub use store::block_cache::BlockCache;
pub use store::local::LocalStore;
pub use store::{Installed, TableStore};

/// Merges that run elsewhere: what a [`CompactionService`](service::CompactionService) is given and gives back, and how
/// whoever runs a job does so.
pub mod service {
    pub use crate::compaction::service::completion::{Beginning, Completion};
    pub use crate::compaction::service::run::{
        JobCosts, JobTools, JobWatch, Resume, Workplace, run_job,
    };
    pub use crate::compaction::service::spec::{
        FilterLayout, JobInput, JobSpec, JobTable, KeyPart, KeyRange, KeySpan, TableCut,
        TableLayout,
    };
    pub use crate::compaction::service::{
        CompactionService, FinishedJob, JobOutcome, JobSummary, LeftJob, Submitted,
    };
}

/// Compiles the samples of the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
