//! `broker`: queues the jobs of many databases and leases them to workers.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use siltstone_remote::{Authority, BrokerConfig, BrokerHost, Grant, Role, Scope, termination};
use tokio::net::TcpListener;

use super::security::SecurityArgs;
use super::{grants, metrics, read, runtime, transport};
use crate::errors::{Exit, Failure, Outcome};
use crate::output::Context;

/// Hand the merges of databases to workers, and news of their versions to replicas
#[derive(Args, Debug)]
pub(crate) struct BrokerArgs {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7171")]
    listen: SocketAddr,
    /// Who may do what, a line for each grant: role, databases, `name` or `token`, and which
    #[arg(long, value_name = "FILE", required_unless_present = "insecure_loopback")]
    grants: Option<PathBuf>,
    /// Where to tell Prometheus, at /metrics, what it counts [default: nowhere]
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    #[command(flatten)]
    security: SecurityArgs,
    /// Bind the port, look at the files, and end
    #[arg(long)]
    check: bool,
}

/// Runs until it is asked to end.
pub(crate) fn run(args: &BrokerArgs, context: &Context) -> Outcome {
    let security = args.security.of_broker()?;
    let authority = authority(args)?;
    let runtime = runtime()?;
    runtime.block_on(async {
        let bound = TcpListener::bind(args.listen).await;
        let listener = bound.map_err(|error| {
            Failure::new(Exit::Io, "E-IO", format!("listen on {}: {error}", args.listen))
        })?;
        let address = listener.local_addr().unwrap_or(args.listen);
        let host = BrokerHost::start(BrokerConfig::new(term(), seed()));
        if let Some(address) = args.metrics {
            let counted = host.clone();
            let text = move || {
                let counted = counted.clone();
                async move { metrics::of_broker(&counted.stats().await) }
            };
            metrics::serve(address, text).await?;
        }
        let check = args.check;
        let asked = termination();
        let stop = async move {
            if !check {
                asked.await;
            }
        };
        if !args.check {
            context.note(format!("listening on {address}"));
        }
        let served = host.serve(listener, security, authority, stop).await;
        served.map_err(|error| transport(&error))?;
        Ok(Exit::Ok)
    })
}

/// On one machine, and without a list, whoever is on it may do everything.
fn authority(args: &BrokerArgs) -> Result<Authority, Failure> {
    if let Some(path) = &args.grants {
        let text = read(path)?;
        return grants::authority(&String::from_utf8_lossy(&text));
    }
    let mut authority = Authority::new();
    for role in [Role::Worker, Role::Client, Role::Admin, Role::Replica] {
        authority.allow_plaintext(Grant { role, scope: Scope::All });
    }
    Ok(authority)
}

/// Higher at each start, as long as no clock is set back by more than a broker's life.
fn term() -> u32 {
    u32::try_from(since_1970().as_secs()).unwrap_or(u32::MAX)
}

/// Only so that two of them do not wait alike.
pub(super) fn seed() -> u64 {
    u64::try_from(since_1970().as_nanos()).unwrap_or(u64::MAX) ^ u64::from(std::process::id()) << 32
}

fn since_1970() -> std::time::Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
