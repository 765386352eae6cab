//! `lab`: experiments, one word each.

#[cfg(feature = "cloud")]
mod cloud;

use std::iter;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use siltstone::Compaction;
use siltstone_bench::Law;
use siltstone_bench::lab::l2sm::{self, Levels, Plan, Way};
use siltstone_bench::lab::leveldb;

use super::simulate::parse_law;
use crate::errors::Exit;
use crate::errors::Outcome;
use crate::open::parse_compaction;
use crate::output::{Cell, Context, Record};
use crate::sizes::parse_count;

/// Run an experiment, and print its tables
#[derive(Args, Debug)]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Debug, Subcommand)]
enum Experiment {
    L2sm(L2smArgs),
    #[cfg(feature = "cloud")]
    Cloud(Box<cloud::CloudArgs>),
}

/// Ways to compact beside each other, on real files: bytes, times, reads and space
#[derive(Args, Debug)]
struct L2smArgs {
    /// One way alone, beside the one that all are measured by
    #[arg(long, value_name = "HOW", value_parser = parse_compaction)]
    compaction: Option<Compaction>,
    /// Which records are updated: zipfian, latest or uniform [default: each in turn]
    #[arg(long, value_name = "LAW", value_parser = parse_law)]
    distribution: Option<Law>,
    /// Records, loaded in random order
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value = "500k")]
    records: u64,
    /// Updates of each record, on average
    #[arg(long, value_name = "TIMES", default_value_t = 5)]
    updates: u64,
    /// Bytes of a value
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    value_bytes: usize,
    /// Gets of each pass, and a twentieth as many scans [default: one of each record, 500,000 at most]
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    reads: Option<u64>,
    /// Updates in a second, begun when it is their time [default: one after the other]
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    rate: Option<u64>,
    /// Megabytes that the disk writes in a second [default: what it does]
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    disk: Option<u64>,
    /// What updates leave in logs stays there, however much is read
    #[arg(long)]
    keep_logs: bool,
    /// LevelDB itself beside the ways, whose levels are as large as its own: 10, 100, 1,000 MiB
    #[arg(long, conflicts_with = "disk")]
    beside_leveldb: bool,
    /// Each cell of the table is the median of so many runs, taken in turn
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=99))]
    runs: u64,
    /// Where random numbers begin
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Where databases are made, and removed [default: the folder for temporary files]
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

const COLUMNS: [&str; 19] = [
    "distribution",
    "compaction",
    "flushed",
    "merged",
    "drained",
    "merged_to_control",
    "drained_to_control",
    "written_to_control",
    "moves",
    "largest_merge_bytes",
    "updates_us",
    "p999_us",
    "longest_us",
    "get_us",
    "scan_us",
    "tables_over_key",
    "scan_sources",
    "space",
    "bytes_of_levels_and_logs",
];

pub(crate) fn lab(args: &LabArgs, context: &Context) -> Outcome {
    match &args.experiment {
        Experiment::L2sm(args) => l2sm(args, context),
        #[cfg(feature = "cloud")]
        Experiment::Cloud(args) => cloud::cloud(args, context),
    }
}

fn l2sm(args: &L2smArgs, context: &Context) -> Outcome {
    let laws = args.distribution.map_or(Law::ALL.to_vec(), |law| vec![law]);
    let ways = ways(args);
    let mut rows = Vec::new();
    for law in laws {
        let mut runs: Vec<Vec<l2sm::Outcome>> = vec![Vec::new(); ways.len()];
        for run in 0..args.runs {
            for (way, outcomes) in ways.iter().zip(&mut runs) {
                let plan = plan(args, law, run);
                outcomes.push(match way {
                    Some(way) => l2sm::run(&plan, *way)?,
                    None => leveldb::run(&plan)?,
                });
            }
        }
        let control =
            |of: fn(&l2sm::Outcome) -> u64| median(&runs[0], |outcome| of(outcome) as f64);
        let control = [control(merged), control(written)];
        let names = ways.iter().map(|way| way.map_or("LevelDB", Way::name));
        rows.extend(names.zip(&runs).map(|(name, runs)| row(law, name, runs, control)));
    }
    context.rows(&COLUMNS, rows)?;
    Ok(Exit::Ok)
}

/// The first is what the others are measured by; `None` is LevelDB.
fn ways(args: &L2smArgs) -> Vec<Option<Way>> {
    let wanted = |way: &Way| {
        let is_control = *way == Way::ALL[0];
        is_control || args.compaction.is_none_or(|compaction| way.compaction == compaction)
    };
    let ways = Way::ALL.into_iter().filter(wanted);
    if !args.beside_leveldb {
        return ways.map(Some).collect();
    }
    let usual = ways.filter(|way| way.levels == Levels::Small);
    let usual = usual.map(|way| Way { levels: Levels::Usual, ..way });
    iter::once(None).chain(usual.map(Some)).collect()
}

fn plan(args: &L2smArgs, law: Law, run: u64) -> Plan {
    let folder = args.folder.clone().unwrap_or_else(std::env::temp_dir);
    let records = u32::try_from(args.records.max(1)).unwrap_or(u32::MAX);
    Plan {
        folder: folder.join(format!("siltstone-lab-l2sm-{}", std::process::id())),
        law,
        records,
        updates: u64::from(records) * args.updates,
        updates_per_second: args.rate.filter(|rate| *rate > 0),
        value_bytes: args.value_bytes,
        disk_bytes_per_second: args.disk.map(|megabytes| megabytes * 1_000_000),
        reads_merge: !args.keep_logs,
        reads: args.reads.unwrap_or(u64::from(records).min(500_000)),
        seed: args.seed + run,
    }
}

fn median(runs: &[l2sm::Outcome], of: impl Fn(&l2sm::Outcome) -> f64) -> f64 {
    let mut figures: Vec<f64> = runs.iter().map(of).collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn merged(outcome: &l2sm::Outcome) -> u64 {
    outcome.merged_bytes
}

fn written(outcome: &l2sm::Outcome) -> u64 {
    outcome.flushed_bytes + outcome.merged_bytes
}

/// Flushed, merged and drained are bytes for each byte of users.
fn row(
    law: Law,
    name: &'static str,
    runs: &[l2sm::Outcome],
    [merged_by_control, written_by_control]: [f64; 2],
) -> Record {
    let ratio = |of: &dyn Fn(&l2sm::Outcome) -> f64| Cell::Ratio(median(runs, of));
    let time = |of: &dyn Fn(&l2sm::Outcome) -> std::time::Duration| {
        let seconds = median(runs, |outcome| of(outcome).as_secs_f64());
        Cell::Time(std::time::Duration::from_secs_f64(seconds))
    };
    let user = |outcome: &l2sm::Outcome| outcome.user_bytes.max(1) as f64;
    let levels = runs[0].levels.map(|(tree, log)| format!("{}+{}", tree >> 10, log >> 10));
    vec![
        ("distribution", Cell::text(law.name())),
        ("compaction", Cell::text(name)),
        ("flushed", ratio(&|outcome| outcome.flushed_bytes as f64 / user(outcome))),
        ("merged", ratio(&|outcome| outcome.merged_bytes as f64 / user(outcome))),
        ("drained", ratio(&|outcome| outcome.merged_bytes_drained as f64 / user(outcome))),
        ("merged_to_control", ratio(&|outcome| outcome.merged_bytes as f64 / merged_by_control)),
        (
            "drained_to_control",
            ratio(&|outcome| outcome.merged_bytes_drained as f64 / merged_by_control),
        ),
        ("written_to_control", ratio(&|outcome| written(outcome) as f64 / written_by_control)),
        ("moves", Cell::Count(median(runs, |outcome| outcome.moves as f64) as u64)),
        (
            "largest_merge_bytes",
            Cell::Size(median(runs, |run| run.largest_merge_bytes as f64) as u64),
        ),
        ("updates_us", time(&|outcome| outcome.updates_took)),
        ("p999_us", time(&|outcome| outcome.p999)),
        ("longest_us", time(&|outcome| outcome.longest)),
        ("get_us", time(&|outcome| outcome.get)),
        ("scan_us", time(&|outcome| outcome.scan)),
        ("tables_over_key", ratio(&|outcome| outcome.tables_over_key)),
        ("scan_sources", Cell::Count(median(runs, |run| run.scan_sources as f64) as u64)),
        ("space", ratio(&|outcome| outcome.space)),
        ("bytes_of_levels_and_logs", Cell::text(levels.join(" "))),
    ]
}
