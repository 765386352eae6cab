//! siltstone: an embedded, ordered key-value engine that reads and writes LevelDB's files.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods))] // Tests start threads as they please.
#![allow(dead_code)] // Until the floors above use what the lower ones offer.

mod base;
mod compaction;
mod db;
mod env;
mod format;
mod memtable;
mod store;
mod version;

pub use base::error::{Error, ErrorKind, Result};
pub use env::Env;
pub use env::clock::Clock;
pub use env::fs::{FileLock, FileSystem, Metadata, RandomAccessFile, WritableFile};
pub use env::site::Site;
pub use env::threads::{Lane, Threads};
pub use format::batch::{BatchOp, WriteBatch};
pub use format::filename::FileNumber;
