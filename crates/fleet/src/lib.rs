//! Merges on other machines: the engine, the remote compaction's client and workers, and a bucket, joined.
//!
//! A database whose tables lie in a bucket gets a [`Fleet`] as its
//! [`compaction_service`](siltstone::Options::compaction_service). It makes a [`JobSpec`](siltstone_remote::JobSpec) of each job
//! that the database gives away, submits it, and binds what comes back to the numbers that the database gives. A worker
//! runs such jobs with a [`BucketRunner`], which is the engine's own merge over ranged reads and whole uploads.
//!
//! Where tables lie is asked of the database's store, by [`Tables`].
//!
//! Neither side waits for the other with a thread; what must not be lost is in `siltstone-remote`, and what must not be
//! believed is checked there, here (sizes and checksums against the bucket) and in the engine (order, range, counts).
#![forbid(unsafe_code)]

mod cloud;
mod convert;
mod desk;
mod fleet;
mod input;
mod job;
mod left;
mod output;
mod runner;
mod tables;

pub use fleet::{Fleet, FleetConfig, Verify, pace_for_workers};
pub use runner::BucketRunner;
pub use tables::{ObjectRef, Tables};
