//! The real LevelDB beside siltstone: what the tests in `tests/` and the measurements in `src/bin/`
//! of this crate compare the engine with. Never published.
//!
//! LevelDB is looked for when a test runs, so that the workspace builds without it; see
//! [`LevelDb::load`](leveldb::LevelDb::load) for where.
#![deny(unsafe_code)]

pub mod leveldb;
pub mod scratch;
