//! `simulate`: ways to compact on imaginary tables, beside each other. No files, and each merge checked for the order of
//! versions.

use clap::Args;
use siltstone::{Compaction, Simulation, SimulationOptions};
use siltstone_bench::{Law, Updates};

use crate::errors::{Exit, Failure, Outcome};
use crate::open::parse_compaction;
use crate::output::{Cell, Context, Record};
use crate::sizes::parse_count;

/// Compare ways to compact on imaginary tables, in seconds
#[derive(Args, Debug)]
pub(crate) struct SimulateArgs {
    /// One way alone
    #[arg(long, value_name = "HOW", value_parser = parse_compaction)]
    compaction: Option<Compaction>,
    /// Which records are updated: zipfian, latest or uniform [default: each in turn]
    #[arg(long, value_name = "LAW", value_parser = parse_law)]
    distribution: Option<Law>,
    /// Records, loaded in random order
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value = "1m")]
    records: u64,
    /// Updates of them, which are what is counted
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value = "2m")]
    updates: u64,
    /// Entries of a memtable
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value = "4k")]
    memtable: u64,
    /// Entries of a table
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value = "1k")]
    table: u64,
    /// Entries of level 1
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value = "10k")]
    level1: u64,
    /// How many times the one before it each deeper level holds
    #[arg(long, value_name = "TIMES", default_value_t = 10, value_parser = clap::value_parser!(u64).range(2..=1000))]
    growth: u64,
    /// Where random numbers begin
    #[arg(long, default_value_t = 42)]
    seed: u64,
}

pub(crate) fn parse_law(text: &str) -> Result<Law, String> {
    text.parse().map_err(|()| "zipfian, latest or uniform".to_owned())
}

const COLUMNS: [&str; 11] = [
    "distribution",
    "compaction",
    "flushed",
    "merged",
    "merged_after_draining",
    "largest_merge",
    "merges",
    "moves",
    "stored_to_live",
    "tables_per_get",
    "runs_per_scan",
];

pub(crate) fn simulate(args: &SimulateArgs, context: &Context) -> Outcome {
    let laws = args.distribution.map_or(Law::ALL.to_vec(), |law| vec![law]);
    let ways = args.compaction.map_or(Compaction::ALL.to_vec(), |way| vec![way]);
    let mut rows = Vec::new();
    for law in laws {
        for way in &ways {
            rows.push(run(args, law, *way)?);
        }
    }
    context.rows(&COLUMNS, rows)?;
    context.note("flushed and merged: entries for each update; every version was found in order");
    Ok(Exit::Ok)
}

fn run(args: &SimulateArgs, law: Law, compaction: Compaction) -> Result<Record, Failure> {
    let options = SimulationOptions {
        compaction,
        memtable: usize::try_from(args.memtable.max(1)).unwrap_or(usize::MAX),
        table: args.table.max(1),
        level1: args.level1.max(1),
        growth: args.growth,
        ..SimulationOptions::default()
    };
    let out_of_order = |message: String| Failure::new(Exit::Corruption, "E-ORDER", message);
    let records = u32::try_from(args.records.max(1)).unwrap_or(u32::MAX);
    let mut database = Simulation::new(options);
    Updates::load(records, args.seed)
        .into_iter()
        .try_for_each(|key| database.put(key))
        .map_err(out_of_order)?;
    database.reset();
    let mut updates = Updates::new(law, u64::from(records), args.seed);
    for _ in 0..args.updates {
        database.put(updates.next_record() as u32).map_err(out_of_order)?;
    }
    database.check().map_err(out_of_order)?;
    let (counts, shape) = (database.counts(), database.shape());
    database.drain().map_err(out_of_order)?;
    database.check().map_err(out_of_order)?;
    let drained = database.counts();
    let of_each = |entries: u64| Cell::Ratio(entries as f64 / args.updates.max(1) as f64);
    Ok(vec![
        ("distribution", Cell::text(law.name())),
        ("compaction", Cell::text(compaction.name())),
        ("flushed", of_each(counts.flushed)),
        ("merged", of_each(counts.merged)),
        ("merged_after_draining", of_each(drained.merged)),
        ("largest_merge", Cell::Count(counts.largest_merge)),
        ("merges", Cell::Count(counts.merges)),
        ("moves", Cell::Count(counts.moves)),
        ("stored_to_live", Cell::Ratio(shape.stored as f64 / shape.live.max(1) as f64)),
        ("tables_per_get", Cell::Ratio(shape.probes)),
        ("runs_per_scan", Cell::Count(shape.runs)),
    ])
}
