//! `repair`: what a damaged database still holds, saved into a new one. The damaged one is only
//! read; without `--yes` nothing is written at all.

use std::path::{Path, PathBuf};

use clap::Args;
use siltstone::{RepairOptions, RepairPlan, RepairReport, TableState};

use crate::errors::{Exit, Failure, Outcome};
use crate::open::{explain, reading_options};
use crate::output::{Cell, Context, Record};
use crate::sizes::{show_count, show_size};

const COLUMNS: [&str; 8] =
    ["file", "kind", "state", "size_bytes", "entries", "from", "to", "detail"];

/// Save what a damaged database holds into a new one: a plan, unless --yes
#[derive(Args, Debug)]
pub(crate) struct RepairArgs {
    /// The damaged database; it is only read
    db: PathBuf,
    /// Do it
    #[arg(long, requires = "out")]
    yes: bool,
    /// The folder to make for what is saved
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Also use tables the manifest does not name; may bring back what was deleted
    #[arg(long)]
    use_orphans: bool,
}

pub(crate) fn run(args: &RepairArgs, context: &Context) -> Outcome {
    if !args.db.is_dir() {
        return Err(Failure::usage(format!("no folder at {}", args.db.display())));
    }
    match &args.out {
        Some(out) if args.yes => save(args, out, context),
        _ => plan(args, context),
    }
}

fn plan(args: &RepairArgs, context: &Context) -> Outcome {
    let plan = siltstone::plan_repair(&args.db, &reading_options())
        .map_err(|error| explain(error, &args.db))?;
    let shown = args.db.display();
    tell(&plan, context)?;
    if plan.is_whole() {
        context.note(format!("{shown} can be read in full; a repair would lose nothing"));
    }
    context.note(format!(
        "nothing was done. To save it:  siltstone repair {shown} --yes --out {shown}-saved"
    ));
    Ok(Exit::Ok)
}

fn save(args: &RepairArgs, out: &Path, context: &Context) -> Outcome {
    if out.exists() {
        return Err(Failure::usage(format!("{} is there already", out.display()))
            .detail("repair makes a new folder, so that nothing can be overwritten"));
    }
    let how = RepairOptions { use_orphans: args.use_orphans };
    let report = siltstone::repair_with(&args.db, out, &reading_options(), &how)
        .map_err(|error| explain(error, &args.db))?;
    tell(&report.found, context)?;
    context.note(summary(&report, out));
    Ok(Exit::Ok)
}

fn summary(report: &RepairReport, out: &Path) -> String {
    format!(
        "saved {} keys into {}: {} tables, {}; older entries left out: {}; ranges lost: {}",
        show_count(report.entries_kept),
        out.display(),
        show_count(report.tables),
        show_size(report.bytes),
        show_count(report.entries_dropped),
        show_count(report.found.lost.len() as u64)
    )
}

/// Writes what was found, file by file, then what is lost.
fn tell(plan: &RepairPlan, context: &Context) -> Result<(), Failure> {
    let mut rows: Vec<Record> = Vec::new();
    for table in &plan.tables {
        let state = match table.state {
            TableState::Whole => "whole",
            TableState::Damaged => "damaged",
            _ => "unreadable",
        };
        rows.push(row(&table.path, "table", state, table.bytes, table.entries));
    }
    for log in &plan.logs {
        let state = if log.bytes_dropped > log.torn_bytes { "damaged" } else { "whole" };
        rows.push(row(&log.path, "log", state, log.bytes, log.entries));
    }
    for orphan in &plan.orphans {
        rows.push(row(orphan, "table", "orphan", 0, 0));
    }
    for lost in &plan.lost {
        let key = |key: &Option<Vec<u8>>| {
            key.as_ref().map_or(Cell::Missing, |key| Cell::Key(key.clone(), context.key))
        };
        let mut row = row(&lost.file, "range", "lost", lost.bytes, 0);
        row[5].1 = key(&lost.from);
        row[6].1 = key(&lost.to);
        row[7].1 = Cell::text(format!("at byte {}: {}", lost.offset, lost.reason));
        rows.push(row);
    }
    context.rows(&COLUMNS, rows)?;
    for warning in &plan.warnings {
        context.note(format!("warning: {warning}"));
    }
    Ok(())
}

fn row(file: &Path, kind: &str, state: &str, bytes: u64, entries: u64) -> Record {
    vec![
        ("file", Cell::text(file.display().to_string())),
        ("kind", Cell::text(kind)),
        ("state", Cell::text(state)),
        ("size_bytes", Cell::Size(bytes)),
        ("entries", Cell::Count(entries)),
        ("from", Cell::Missing),
        ("to", Cell::Missing),
        ("detail", Cell::Missing),
    ]
}
