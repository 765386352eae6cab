//! Databases whose tables lie in a bucket: the seam to buckets, and what is built on it.
//!
//! Nothing here is async or speaks a network protocol; `siltstone-s3` has a [`Bucket`] that does.
#![forbid(unsafe_code)]

mod bucket;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod memory;

pub use bucket::{
    Bucket, BucketError, Call, Condition, Failure, Object, Part, Purpose, Result, Stat, Tag,
};
pub use memory::MemoryBucket;
