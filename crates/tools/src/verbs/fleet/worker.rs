//! `worker`: merges what a broker gives it, from a bucket into it.

use std::io::Write;
use std::net::SocketAddr;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use siltstone::Env;
use siltstone::service::JobTools;
use siltstone_cloud::BucketError;
use siltstone_fleet::BucketRunner;
use siltstone_remote::{BrokerAddress, OnLost, WorkerConfig, WorkerId, run_worker, termination};
use siltstone_s3::{Options, S3Bucket};

use super::broker::seed;
use super::security::{SecurityArgs, token};
use super::{host, host_of, metrics, read, runtime, transport};
use crate::errors::{Exit, Failure, Outcome};
use crate::output::Context;

/// Merge for databases elsewhere: takes jobs from a broker, reads and writes their bucket
#[derive(Args, Debug)]
pub(crate) struct WorkerArgs {
    /// The broker, as https://host:port
    #[arg(long, value_name = "URI")]
    broker: String,
    /// The bucket, as s3://bucket/prefix?endpoint=..&region=..; keys come from the environment
    #[arg(long, value_name = "URL")]
    bucket: String,
    /// This worker's name; two that run at once have two [default: host and process]
    #[arg(long)]
    name: Option<String>,
    /// Jobs at once [default: one for each processor]
    #[arg(long, value_name = "COUNT")]
    slots: Option<NonZero<u32>>,
    /// The name in the broker's certificate [default: the host of its URI]
    #[arg(long, value_name = "NAME", requires = "tls_cert")]
    broker_name: Option<String>,
    /// A token to show the broker, as hexadecimal digits
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Where to tell Prometheus, at /metrics, what it asks of the bucket [default: nowhere]
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    #[command(flatten)]
    security: SecurityArgs,
    /// Look at the flags and files, and end
    #[arg(long)]
    check: bool,
}

/// Runs until it is asked to end; then its jobs end first, if they do so within twenty seconds.
pub(crate) fn run(args: &WorkerArgs, context: &Context) -> Outcome {
    let address = address(args, context.quiet)?;
    let bucket = S3Bucket::open(&args.bucket, Options::default()).map_err(|error| wrong(&error))?;
    let bucket = Arc::new(bucket);
    let runner = BucketRunner::new(Arc::clone(&bucket) as _, JobTools::default());
    let runner = runner.with_threads(Env::posix().threads);
    // In containers all processes have the same number.
    let own = || format!("{}-{}", host(), std::process::id());
    let name = args.name.clone().unwrap_or_else(own);
    let name = WorkerId::new(&name).map_err(|error| Failure::usage(error.to_string()))?;
    let processors = || std::thread::available_parallelism().map_or(1, NonZero::get);
    let slots = args.slots.map_or_else(|| u32::try_from(processors()).unwrap_or(1), NonZero::get);
    let config = WorkerConfig::new(name, slots, runner.capabilities(), seed());
    if args.check {
        return Ok(Exit::Ok);
    }
    let ran = runtime()?.block_on(async {
        let stop = termination();
        context.note(format!("{} with {slots} slots, for {}", config.worker, args.broker));
        if let Some(metrics) = args.metrics {
            let text = move || std::future::ready(bucket.meter().prometheus());
            metrics::serve(metrics, text).await?;
        }
        let ran = run_worker(config, address, Arc::new(runner), stop).await;
        ran.map_err(|error| transport(&error))
    });
    ran?;
    Ok(Exit::Ok)
}

fn address(args: &WorkerArgs, is_quiet: bool) -> Result<BrokerAddress, Failure> {
    let broker = args.broker_name.as_deref().unwrap_or(host_of(&args.broker));
    let shown = args.token_file.as_deref().map(read).transpose()?;
    let shown = shown.map(|digits| token(&String::from_utf8_lossy(&digits))).transpose()?;
    let on_lost = OnLost::new(|why| {
        // Nobody may be reading; that is no reason to stop.
        let _ = writeln!(std::io::stderr(), "the broker is away: {why}");
    });
    Ok(BrokerAddress {
        uri: args.broker.clone(),
        security: args.security.of_worker(broker)?,
        token: shown,
        on_lost: (!is_quiet).then_some(on_lost),
    })
}

fn wrong(error: &BucketError) -> Failure {
    Failure::usage(format!("--bucket: {}", error.message))
}
