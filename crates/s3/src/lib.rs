//! [`S3Bucket`]: a [`Bucket`](siltstone_cloud::Bucket) on S3 and on servers that speak its protocol.
//!
//! It tries again what can pass, asks twice for reads that are late, says of each put whether it was done, was not, or may
//! have been, and counts what all of it costs. [`doctor`] tells whether a server keeps the promises that a bucket makes, and
//! [`SlowStore`] stands in for one that is slow or in trouble.
//!
//! Async code ends here: [`S3Bucket`] is called by threads that wait.
#![forbid(unsafe_code)]

mod bucket;
mod client;
mod dice;
pub mod doctor;
mod hedge;
mod location;
mod meter;
mod options;
mod retry;
mod slow;
mod trouble;
mod trust;
mod wire;

pub use bucket::S3Bucket;
pub use location::Location;
pub use meter::{Histogram, Prices, PurposeUse, Snapshot, Verb, VerbUse};
pub use options::{Hedge, Marks, Options, Retry};
pub use slow::{BrownOut, Fault, FaultKind, Faults, Profile, SlowStore};
pub use trouble::Class;
