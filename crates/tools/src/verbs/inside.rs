//! `info`, `stats` and `levels`: what a database consists of. All open read-only.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use siltstone::{Area, Db};

use crate::errors::{Exit, Failure, Outcome};
use crate::handle::refuse_url;
use crate::open::open_to_read;
use crate::output::{Cell, Context, Format, Record, stdout};

/// Summarise a database: files, sizes, levels
#[derive(Args, Debug)]
pub(crate) struct InfoArgs {
    /// The database
    db: PathBuf,
}

/// Print the engine's own statistics
#[derive(Args, Debug)]
pub(crate) struct StatsArgs {
    /// The database
    db: PathBuf,
}

/// Print the tables of each level
#[derive(Args, Debug)]
pub(crate) struct LevelsArgs {
    /// The database
    db: PathBuf,
    /// One row a table instead of one a level
    #[arg(long)]
    tables: bool,
}

/// Files of one kind.
#[derive(Clone, Copy, Default)]
struct Tally {
    files: u64,
    bytes: u64,
}

pub(crate) fn info(args: &InfoArgs, context: &Context) -> Outcome {
    refuse_url(&args.db, "ls")?;
    let db = open_to_read(&args.db)?;
    context.record(info_record(&db, &args.db)?)?;
    Ok(Exit::Ok)
}

fn info_record(db: &Db, path: &Path) -> Result<Record, Failure> {
    let (mut tables, mut logs, mut other) = (Tally::default(), Tally::default(), Tally::default());
    let unreadable = |error| Failure::file("list", path, &error);
    for entry in fs::read_dir(path).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        // A file may go between the listing and here: a live writer removes what it compacted.
        let Ok(metadata) = entry.metadata() else { continue };
        let name = entry.file_name();
        let ending = Path::new(&name).extension().and_then(|ending| ending.to_str());
        let tally = match ending {
            Some("ldb" | "sst") => &mut tables,
            Some("log") => &mut logs,
            _ => &mut other,
        };
        tally.files += 1;
        tally.bytes += metadata.len();
    }
    let current = fs::read_to_string(path.join("CURRENT")).unwrap_or_default();
    let levels = db.levels().len();
    let recovered = db.recovery_report();
    Ok(vec![
        ("path", Cell::text(path.display().to_string())),
        ("manifest", Cell::text(current.trim_end())),
        ("levels", Cell::Count(levels as u64)),
        ("tables", Cell::Count(tables.files)),
        ("table_bytes", Cell::Size(tables.bytes)),
        ("logs", Cell::Count(logs.files)),
        ("log_bytes", Cell::Size(logs.bytes)),
        ("log_batches", Cell::Count(recovered.batches)),
        ("log_torn_bytes", Cell::Size(recovered.torn_bytes)),
        ("last_sequence", Cell::Count(recovered.last_seqno.0)),
        ("other_files", Cell::Count(other.files)),
        ("total_bytes", Cell::Size(tables.bytes + logs.bytes + other.bytes)),
    ])
}

pub(crate) fn stats(args: &StatsArgs, context: &Context) -> Outcome {
    let db = open_to_read(&args.db)?;
    stats_open(&db, context)?;
    Ok(Exit::Ok)
}

/// Writes LevelDB's own page for eyes, and each number by name for machines.
pub(crate) fn stats_open(db: &Db, context: &Context) -> Result<(), Failure> {
    let page = db.property("leveldb.stats").unwrap_or_default();
    let numbers = db.metrics();
    if context.format(Format::Jsonl) != Format::Table {
        let mut record = vec![("leveldb.stats", Cell::Text(page))];
        record.extend(numbers.named().map(|(name, value)| (name, Cell::Count(value))));
        return context.record(record);
    }
    use std::io::Write;
    let mut out = stdout();
    writeln!(out, "{}", page.trim_end())?;
    let seen: Record = numbers
        .named()
        .filter(|&(_, value)| value > 0)
        .map(|(name, value)| (name, Cell::Count(value)))
        .collect();
    if !seen.is_empty() {
        writeln!(out, "\nSince it was opened here:")?;
    }
    out.flush()?;
    drop(out);
    context.record(seen)
}

pub(crate) fn levels(args: &LevelsArgs, context: &Context) -> Outcome {
    let db = open_to_read(&args.db)?;
    if args.tables {
        tables_open(&db, context)?
    } else {
        levels_open(&db, context)?
    }
    Ok(Exit::Ok)
}

/// The parts of a level, in the words of the documentation.
fn area(area: Area) -> &'static str {
    match area {
        Area::Tree => "tree",
        Area::SstLog => "sst log",
    }
}

/// Writes one row for each level that holds tables.
pub(crate) fn levels_open(db: &Db, context: &Context) -> Result<(), Failure> {
    let names = ["level", "area", "tables", "size_bytes", "smallest", "largest"];
    let mut rows = Vec::new();
    for level in db.levels() {
        let tables = &level.tables;
        let smallest = tables.iter().map(|table| &table.smallest).min();
        let largest = tables.iter().map(|table| &table.largest).max();
        let (Some(smallest), Some(largest)) = (smallest, largest) else { continue };
        rows.push(vec![
            ("level", Cell::Count(level.level.number().into())),
            ("area", Cell::text(area(level.area))),
            ("tables", Cell::Count(tables.len() as u64)),
            ("size_bytes", Cell::Size(level.bytes())),
            ("smallest", Cell::Key(smallest.clone(), context.key)),
            ("largest", Cell::Key(largest.clone(), context.key)),
        ]);
    }
    if rows.is_empty() {
        context.note("no tables yet: what is there is in the write-ahead log");
    }
    context.rows(&names, rows)
}

fn tables_open(db: &Db, context: &Context) -> Result<(), Failure> {
    let names = ["level", "area", "table", "size_bytes", "smallest", "largest"];
    let mut rows = Vec::new();
    for level in db.levels() {
        for table in &level.tables {
            rows.push(vec![
                ("level", Cell::Count(level.level.number().into())),
                ("area", Cell::text(area(level.area))),
                ("table", Cell::Count(table.number.0)),
                ("size_bytes", Cell::Size(table.bytes)),
                ("smallest", Cell::Key(table.smallest.clone(), context.key)),
                ("largest", Cell::Key(table.largest.clone(), context.key)),
            ]);
        }
    }
    context.rows(&names, rows)
}
