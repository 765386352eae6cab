//! What a bucket promises, asked of [`S3Bucket`] over stores in this process.

use std::sync::Arc;

use object_store::memory::InMemory;
use siltstone_cloud::conformance;
use siltstone_s3::{Options, Profile, S3Bucket, SlowStore};

/// Small enough that the suite's large object goes in parts.
fn options() -> Options {
    Options { single_put_bytes: 8 << 20, part_bytes: 5 << 20, ..Options::default() }
}

#[test]
fn over_memory() {
    let bucket = S3Bucket::over(Arc::new(InMemory::new()), "a/prefix", options()).unwrap();
    conformance::check(&bucket);
}

#[test]
fn over_memory_without_a_prefix() {
    let bucket = S3Bucket::over(Arc::new(InMemory::new()), "", options()).unwrap();
    conformance::check(&bucket);
}

#[test]
fn over_a_slow_store_that_takes_no_time() {
    let store = SlowStore::new(Arc::new(InMemory::new()), Profile::ZERO, Default::default(), 1);
    let bucket = S3Bucket::over(Arc::new(store), "p", options()).unwrap();
    conformance::check(&bucket);
}
