//! Examines the server of a bucket: `cargo run -p siltstone-s3 --example doctor -- s3://bucket/prefix?endpoint=..`
//!
//! Keys come from the environment. Ends with 1 if the server must not be committed to.

use std::process::ExitCode;

use siltstone_s3::{Options, S3Bucket, doctor};

fn main() -> ExitCode {
    let Some(url) = std::env::args().nth(1) else {
        eprintln!("usage: doctor s3://bucket/prefix?endpoint=..&region=..");
        return ExitCode::from(2);
    };
    let bucket = match S3Bucket::open(&url, Options::default()) {
        Ok(bucket) => bucket,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let report = doctor::probe(&bucket);
    println!("{report}");
    if report.may_commit() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
