//! Databases whose tables lie in a bucket: the seam to buckets, and what is built on it.
//!
//! A database in a bucket is a log of versions. Each version is one object that is created only if nobody has created it,
//! so the log needs no other service; who owns the database, and what may be collected, two small registers tell. See
//! [`VersionLog`] for owners, [`Follower`] for replicas, [`Collector`] for garbage.
//!
//! Nothing here is async or speaks a network protocol; `siltstone-s3` has a [`Bucket`] that does.
#![forbid(unsafe_code)]

mod archive;
mod bucket;
mod coding;
mod collect;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod crew;
mod error;
#[cfg(test)]
mod fickle;
mod home;
mod log;
mod memory;
mod names;
mod pins;
mod reads;
mod replica;
mod survey;
mod table;
mod tiered;

pub use bucket::{
    Bucket, BucketError, Call, Condition, Failure, Object, Page, Part, Purpose, Result, Stat, Tag,
    Upload,
};
pub use collect::{CollectOptions, Collection, Collector, Doomed, Reason};
pub use crew::{Crew, CrewDesk};
pub use error::{Error, ErrorKind};
pub use home::{Home, Patience};
pub use log::owner::{Owner, OwnerLease};
pub use log::record::{Ancestor, Kind, Record, Span, Table};
pub use log::replay::{Replay, read_newest, read_version};
pub use log::state::VersionState;
pub use log::version_log::{Announce, Edit, Opening, VersionLog};
pub use memory::MemoryBucket;
pub use names::{Attempt, Epoch, JobId, Name, PinName, Root, TableId, Token, VersionNumber};
pub use pins::clone::{clone_database, detach, let_go};
pub use pins::follow::{Follower, Following, Upcoming};
pub use pins::lease::{ReaderLease, Renewal};
pub use pins::pin::{Pin, create_checkpoint, find_checkpoint, list_pins, remove_pin};
pub use reads::cache::{CacheOptions, CacheStats, ExtentCache};
pub use reads::counters::ReadStats;
pub use reads::object::TableObject;
pub use reads::remote_table::RemoteTable;
pub use reads::tables::{RemoteOptions, RemoteTables};
pub use replica::{News, Replica, ReplicaOptions};
pub use survey::jobs::{JobFolder, list_jobs};
pub use survey::measure::{Amount, Measured, Share, measure};
pub use survey::verify::{Depth, Finding, Verdict, verify_database};
pub use survey::{Reader, Survey, each_object, read_owner, read_record, survey};
pub use table::{object_of, upload};
pub use tiered::{
    CloudDb, CloudOptions, CloudTables, LocalCopies, LogArchive, Prepare, TieredMetrics,
    sized_for_buckets,
};
