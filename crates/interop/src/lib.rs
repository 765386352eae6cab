//! The real LevelDB beside siltstone: what the tests in `tests/` and the measurements in `src/bin/`
//! of this crate compare the engine with. Never published.
//!
//! LevelDB is looked for when a test runs, so that the workspace builds without it; see
//! [`LevelDb::load`](leveldb::LevelDb::load) for where.
//!
//! - [`peer`] drives it and siltstone through one interface,
//! - [`candid`] does so where calls are expected to fail,
//! - [`model`] is the third opinion: an ordered map,
//! - [`rivals`] has both do the lists of the differential campaign,
//! - [`workload`] makes random changes and compares a database with the model.
#![deny(unsafe_code)]

pub mod candid;
pub mod model;
pub mod peer;
pub mod rivals;
pub mod rng;
pub mod scratch;
pub mod workload;

/// The C API's wrapper, a crate of its own.
pub use siltstone_leveldb as leveldb;
