//! siltstone: an embedded, ordered key-value engine that reads and writes LevelDB's files.
#![deny(unsafe_code)]
#![allow(dead_code)] // Until the floors above use what the lower ones offer.

mod base;
mod compaction;
mod db;
mod env;
mod format;
mod memtable;
mod store;
mod version;

pub use format::batch::{BatchOp, WriteBatch};
pub use format::filename::FileNumber;
