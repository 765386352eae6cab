//! Merges on other machines: the broker that hands jobs out, and the workers that do them. Both run until they are asked to
//! end (SIGTERM, Ctrl-C), and end what they are at first.

pub(crate) mod broker;
pub(crate) mod client;
mod grants;
mod metrics;
mod security;
pub(crate) mod worker;

use std::path::Path;

use siltstone_remote::TransportError;
use tokio::runtime::{Builder, Runtime};

use crate::errors::{Exit, Failure};

/// Threads for connections: what they carry are a few small messages for each job.
const NETWORK_THREADS: usize = 2;

fn runtime() -> Result<Runtime, Failure> {
    let runtime = Builder::new_multi_thread().worker_threads(NETWORK_THREADS).enable_all().build();
    runtime.map_err(|error| Failure::new(Exit::Io, "E-IO", format!("start threads: {error}")))
}

/// This machine's name, for people and for names of workers.
pub(crate) fn host() -> String {
    let name = std::fs::read_to_string("/etc/hostname").unwrap_or_default();
    if name.trim().is_empty() { "host".to_owned() } else { name.trim().to_owned() }
}

/// Of `https://host:port`.
fn host_of(uri: &str) -> &str {
    let host = uri.split("://").last().unwrap_or_default();
    host.rsplit_once(':').map_or(host, |(host, _)| host)
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| Failure::file("read", path, &error))
}

fn transport(error: &TransportError) -> Failure {
    Failure::usage(error.to_string())
}
