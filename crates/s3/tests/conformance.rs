//! What a bucket promises, asked of [`S3Bucket`] over stores in this process, and over a real server if there is one:
//! `SILTSTONE_S3_ENDPOINT`, or `scripts/s3-server`, says where.

mod server;

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

#[test]
fn over_a_server() {
    let Some(url) = server::url("conformance") else { return };
    check(&S3Bucket::open(&url, options()).unwrap());
}

#[test]
fn over_a_server_that_removes_one_by_one() {
    let Some(url) = server::url("one-by-one") else { return };
    check(&S3Bucket::open(&format!("{url}&bulk_delete=false"), options()).unwrap());
}

/// All of it, but for races on a server that is known to lose them.
fn check(bucket: &S3Bucket) {
    if !server::races() {
        return conformance::check(bucket);
    }
    let asks_for_races = ["one of racing creators wins", "no update is lost"];
    for (name, case) in conformance::CASES {
        if asks_for_races.contains(&name) {
            eprintln!("SKIPPED: {name}: this server may lose races");
        } else {
            case(bucket);
        }
    }
}
