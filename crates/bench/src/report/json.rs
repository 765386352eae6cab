//! What `--json` writes: one object, with everything that was measured, for programs.
//!
//! Times are microseconds unless the name says otherwise. What was not measured is null.

use std::ffi::OsString;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::Record;
use super::causes::Causes;
use crate::engine::Result;

/// The file's content: how the program was called, and its records, one list per run.
pub(crate) fn document(engine: &str, arguments: &[OsString], runs: &[Vec<Record>]) -> Value {
    let flags: Vec<_> = arguments.iter().map(|flag| flag.to_string_lossy()).collect();
    let runs: Vec<Vec<Value>> = runs.iter().map(|run| run.iter().map(record).collect()).collect();
    json!({ "engine": engine, "flags": flags, "runs": runs })
}

/// Writes it, for people, too.
pub(crate) fn write(path: &Path, document: &Value) -> Result<()> {
    let written = std::fs::write(path, format!("{document:#}\n"));
    written.map_err(|error| format!("--json={}: {error}", path.display()))
}

fn record(record: &Record) -> Value {
    let stats = &record.stats;
    let percentiles = stats.percentiles().map(|percentiles| {
        let pairs = percentiles.into_iter().map(|(name, micros)| (name.to_owned(), json!(micros)));
        pairs.collect::<Map<_, _>>()
    });
    json!({
        "name": record.name,
        "threads": record.threads,
        "operations": stats.done(),
        "thread_seconds": stats.seconds(),
        "micros_per_op": stats.micros_per_op(),
        "mib_per_second": stats.mib_per_second(),
        "message": stats.message(),
        "comparisons": record.comparisons,
        "percentiles": percentiles,
        "written_bytes": record.causes.as_ref().map(written),
        "stalls": record.causes.as_ref().map(stalls),
    })
}

fn written(causes: &Causes) -> Value {
    json!({
        "users": causes.user_bytes,
        "log": causes.wal_bytes,
        "flush": causes.flush_bytes,
        "compaction": causes.compaction_bytes,
        "amplification": causes.amplification(),
        "log_syncs": causes.wal_syncs,
        "compaction_read": causes.compaction_bytes_read,
    })
}

fn stalls(causes: &Causes) -> Value {
    json!({
        "level0_long": causes.slowed_micros,
        "level0_full": causes.stopped_micros,
        "flush_behind": causes.flush_behind_micros,
        "memtables_full": causes.memtables_full_micros,
    })
}
