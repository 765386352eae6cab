//! What a database in a bucket counts, as text: for [`property`](CloudDb::property), and for Prometheus.

use std::fmt::{Display, Write};

use super::{CloudDb, TieredMetrics};
use crate::bucket::Purpose;
use crate::reads::counters::ReadStats;

/// One of the counts: name, whether it only grows, what it is.
type Count = (&'static str, Kind, &'static str, fn(&TieredMetrics) -> u64);

#[derive(Clone, Copy)]
enum Kind {
    Gauge,
    Counter,
}

const COUNTS: [Count; 17] = {
    use Kind::{Counter, Gauge};
    [
        ("epoch", Gauge, "How often the database has changed hands.", |now| now.epoch),
        ("version", Gauge, "The last version committed.", |now| now.version),
        ("tables", Gauge, "Tables of that version.", |now| now.tables),
        ("table_bytes", Gauge, "Bytes of these tables.", |now| now.table_bytes),
        ("edits_waiting", Gauge, "Version edits not committed yet.", |now| now.edits_waiting),
        ("bytes_waiting", Gauge, "Bytes of tables in the folder only.", |now| now.bytes_waiting),
        ("uploads", Counter, "Tables uploaded.", |now| now.uploads),
        ("upload_bytes", Counter, "Bytes of tables uploaded.", |now| now.upload_bytes),
        ("failures", Counter, "Uploads and commits tried again.", |now| now.failures),
        ("commits", Counter, "Records of edits committed.", |now| now.commits),
        ("edits", Counter, "Version edits in them.", |now| now.edits),
        ("waits", Counter, "Flushes and merges that waited for uploads.", |now| now.waits),
        ("wait_micros", Counter, "Microseconds that they waited.", |now| now.wait_micros),
        ("evicted", Counter, "Copies of tables let go.", |now| now.evicted),
        ("log_pieces", Counter, "Pieces of the log in the bucket.", |now| now.log_pieces),
        ("log_bytes", Counter, "Bytes of these pieces.", |now| now.log_bytes),
        ("log_lag", Gauge, "Bytes of the log in the folder only.", |now| now.log_lag),
    ]
};

impl CloudDb {
    /// A property by its name: those of [`Db::property`](siltstone::Db::property), and
    ///
    /// | | |
    /// | --- | --- |
    /// | `leveldb.cloud.epoch` | how often the database has changed hands |
    /// | `leveldb.cloud.unuploaded-bytes` | bytes of tables that are in the folder only |
    /// | `leveldb.cloud.unarchived-log-bytes` | bytes of the log that are in the folder only |
    /// | `leveldb.cloud.metrics` | all of [`cloud_metrics`](Self::cloud_metrics), a line each |
    /// | `leveldb.cloud.reads` | all of [`read_stats`](Self::read_stats), a line each |
    ///
    /// What a bucket was asked and what that costs is known to the bucket, whoever uses it.
    pub fn property(&self, name: &str) -> Option<String> {
        let Some(ours) = name.strip_prefix("leveldb.cloud.") else {
            return (**self).property(name);
        };
        let now = || self.cloud_metrics();
        Some(match ours {
            "epoch" => now().epoch.to_string(),
            "unuploaded-bytes" => now().bytes_waiting.to_string(),
            "unarchived-log-bytes" => now().log_lag.to_string(),
            "metrics" => metrics_text(&now()),
            "reads" => reads_text(&self.read_stats()),
            _ => return None,
        })
    }

    /// The same counts in the text format that Prometheus reads: `siltstone_cloud_*` and `siltstone_cloud_reads_*`. To serve it
    /// is up to the caller.
    pub fn prometheus(&self) -> String {
        let mut text = String::new();
        metrics_families(&mut text, &self.cloud_metrics());
        reads_families(&mut text, &self.read_stats());
        text
    }
}

fn metrics_text(now: &TieredMetrics) -> String {
    let mut text = String::new();
    for (name, _, _, count) in COUNTS {
        line(&mut text, name, count(now));
    }
    text
}

fn reads_text(stats: &ReadStats) -> String {
    let mut text = String::new();
    stats.named().for_each(|(name, count)| line(&mut text, name, count));
    for purpose in Purpose::ALL {
        line(&mut text, &format!("gets.{}", purpose.name()), stats.gets(purpose));
        line(&mut text, &format!("get_bytes.{}", purpose.name()), stats.get_bytes(purpose));
    }
    text
}

fn metrics_families(text: &mut String, now: &TieredMetrics) {
    for (name, kind, help, count) in COUNTS {
        let (name, kind) = match kind {
            Kind::Gauge => (format!("siltstone_cloud_{name}"), "gauge"),
            Kind::Counter => (format!("siltstone_cloud_{name}_total"), "counter"),
        };
        head(text, &name, kind, help);
        line(text, &name, count(now));
    }
}

fn reads_families(text: &mut String, stats: &ReadStats) {
    for (name, count) in stats.named() {
        let name = format!("siltstone_cloud_reads_{name}_total");
        head(text, &name, "counter", "See ReadStats.");
        line(text, &name, count);
    }
    type Asked = fn(&ReadStats, Purpose) -> u64;
    let asked: [(&str, &str, Asked); 2] = [
        ("gets", "Gets sent, failed ones too.", ReadStats::gets),
        ("get_bytes", "Bytes that they asked for.", ReadStats::get_bytes),
    ];
    for (name, help, count) in asked {
        let name = format!("siltstone_cloud_reads_{name}_total");
        head(text, &name, "counter", help);
        for purpose in Purpose::ALL {
            let labeled = format!("{name}{{purpose=\"{}\"}}", purpose.name());
            line(text, &labeled, count(stats, purpose));
        }
    }
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn line(text: &mut String, name: &str, value: impl Display) {
    let _ = writeln!(text, "{name} {value}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_count_is_told_once_with_its_kind() {
        let now = TieredMetrics { epoch: 3, uploads: 17, log_lag: 5, ..TieredMetrics::default() };
        let mut text = String::new();
        metrics_families(&mut text, &now);
        reads_families(&mut text, &ReadStats::default());
        for told in [
            "# TYPE siltstone_cloud_epoch gauge",
            "siltstone_cloud_epoch 3",
            "# TYPE siltstone_cloud_uploads_total counter",
            "siltstone_cloud_uploads_total 17",
            "siltstone_cloud_log_lag 5",
            "siltstone_cloud_reads_cache_hits_total 0",
        ] {
            assert_eq!(text.lines().filter(|line| *line == told).count(), 1, "{told} in {text}");
        }
        let mut names: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
