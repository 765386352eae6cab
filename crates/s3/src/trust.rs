//! Whom TLS believes: the system's authorities, or those alone that a file has which the environment names.

use std::fs::File;
use std::io::Read;

use reqwest::Certificate;
use siltstone_cloud::{BucketError, Failure};

/// No bundle of authorities is as large.
const BUNDLE_BYTES_MAX: u64 = 4 << 20;

/// The certificates of a file in PEM form.
pub(crate) fn authorities(path: &str) -> Result<Vec<Certificate>, BucketError> {
    let wrong = |why: String| {
        let message = format!("AWS_CA_BUNDLE names {path}, which {why}");
        BucketError::new(Failure::Wrong, "bucket", message)
    };
    let mut pem = Vec::new();
    let file = File::open(path).map_err(|error| wrong(format!("cannot be opened: {error}")))?;
    file.take(BUNDLE_BYTES_MAX + 1)
        .read_to_end(&mut pem)
        .map_err(|error| wrong(format!("cannot be read: {error}")))?;
    if pem.len() as u64 > BUNDLE_BYTES_MAX {
        return Err(wrong(format!("has more than {BUNDLE_BYTES_MAX} bytes")));
    }
    match Certificate::from_pem_bundle(&pem) {
        Ok(found) if !found.is_empty() => Ok(found),
        // An empty list would mean that nobody is believed, and every server fail with something less clear.
        _ => Err(wrong("has no certificates in PEM form".to_owned())),
    }
}
