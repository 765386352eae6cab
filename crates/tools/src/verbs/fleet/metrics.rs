//! `--metrics`: what a broker or a worker counts, as Prometheus reads it, at `/metrics` by HTTP.

use std::fmt::Write;
use std::future::Future;
use std::net::SocketAddr;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use siltstone_remote::BrokerStats;
use tokio::net::TcpListener;

use crate::errors::{Exit, Failure};

const FORMAT: &str = "text/plain; version=0.0.4";

/// Serves what `text` says at the time, until the runtime ends. Must be called within one.
pub(super) async fn serve<F>(
    address: SocketAddr,
    text: impl Fn() -> F + Clone + Send + Sync + 'static,
) -> Result<(), Failure>
where
    F: Future<Output = String> + Send + 'static,
{
    let bound = TcpListener::bind(address).await;
    let listener = bound.map_err(|error| {
        Failure::new(Exit::Io, "E-IO", format!("listen for metrics on {address}: {error}"))
    })?;
    let answer = move || {
        let text = text();
        async { ([(CONTENT_TYPE, FORMAT)], text.await) }
    };
    let router = Router::new().route("/metrics", get(answer));
    // It ends with the runtime; what fails on one connection is that connection's.
    tokio::spawn(async { axum::serve(listener, router).await });
    Ok(())
}

/// Of a broker.
pub(super) fn of_broker(stats: &BrokerStats) -> String {
    let mut text = String::new();
    let mut family = |name: &str, kind: &str, help: &str, values: &[(&str, u64)]| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "# HELP siltstone_broker_{name} {help}");
        let _ = writeln!(text, "# TYPE siltstone_broker_{name} {kind}");
        for (labels, value) in values {
            let _ = writeln!(text, "siltstone_broker_{name}{labels} {value}");
        }
    };
    let now = [("{state=\"queued\"}", stats.waiting), ("{state=\"running\"}", stats.running)];
    family("jobs", "gauge", "Jobs now.", &now);
    family("workers", "gauge", "Workers connected now.", &[("", stats.workers)]);
    family("slots", "gauge", "Slots of workers now.", &[("", stats.slots)]);
    family("watchers", "gauge", "Replicas that watch now.", &[("", stats.watchers)]);
    let announced = [("", stats.announced)];
    family("announced_total", "counter", "Versions announced.", &announced);
    family("submitted_total", "counter", "Jobs submitted.", &[("", stats.submitted)]);
    family("attempts_total", "counter", "Attempts given to workers.", &[("", stats.attempts)]);
    let ends = [
        ("{how=\"done\"}", stats.done),
        ("{how=\"failed\"}", stats.failed),
        ("{how=\"cancelled\"}", stats.cancelled),
    ];
    family("ended_total", "counter", "Jobs that have ended.", &ends);
    let results = [
        ("{why=\"stale\"}", stats.stale_results),
        ("{why=\"rejected\"}", stats.rejected),
        ("{why=\"refused\"}", stats.refusals.values().sum()),
    ];
    family("results_dropped_total", "counter", "Results that were not taken.", &results);
    let failures: Vec<(String, u64)> = stats
        .failures
        .iter()
        .map(|(code, count)| (format!("{{cause=\"{}\"}}", code.name()), *count))
        .collect();
    let failures: Vec<(&str, u64)> =
        failures.iter().map(|(labels, count)| (labels.as_str(), *count)).collect();
    family("failed_attempts_total", "counter", "Attempts that failed.", &failures);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `deploy/` scales by.
    #[test]
    fn the_queue_is_told_by_state() {
        let stats = BrokerStats { waiting: 5, running: 2, done: 9, ..BrokerStats::default() };
        let stats = BrokerStats { announced: 4, watchers: 3, ..stats };
        let text = of_broker(&stats);
        for line in [
            "# TYPE siltstone_broker_jobs gauge",
            "siltstone_broker_jobs{state=\"queued\"} 5",
            "siltstone_broker_jobs{state=\"running\"} 2",
            "siltstone_broker_ended_total{how=\"done\"} 9",
            "siltstone_broker_announced_total 4",
            "siltstone_broker_watchers 3",
        ] {
            assert!(text.lines().any(|told| told == line), "{line} in {text}");
        }
    }
}
