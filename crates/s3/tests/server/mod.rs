//! The real server that tests run against, if the environment names one.

/// The URL of a prefix that is a test's own. None, and said so, if there is no server.
pub(crate) fn url(prefix: &str) -> Option<String> {
    let Ok(endpoint) = std::env::var("SILTSTONE_S3_ENDPOINT") else {
        eprintln!("SKIPPED: SILTSTONE_S3_ENDPOINT is not set; scripts/s3-server starts a server");
        return None;
    };
    let bucket = std::env::var("SILTSTONE_S3_BUCKET").unwrap_or_else(|_| "siltstone".to_owned());
    // A run finds nothing of another one, even if that one failed.
    let run = std::process::id();
    Some(format!("s3://{bucket}/{prefix}-{run}?endpoint={endpoint}"))
}

/// Of racing puts more than one may win there: moto 5.2.5 looks first and writes later, on many threads. Seen now and then,
/// on a machine with other work.
pub(crate) fn races() -> bool {
    std::env::var("SILTSTONE_S3_SERVER").is_ok_and(|server| server == "moto")
}
