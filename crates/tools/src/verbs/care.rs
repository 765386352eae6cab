//! `flush`, `compact` and `downgrade`: what keeps a database in shape.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::ProgressBar;
use siltstone::{Area, Db};

use crate::errors::{Exit, Outcome};
use crate::open::{IfMissing, Tuning, explain, open_to_write};
use crate::output::{Cell, Context};
use crate::range::argument;
use crate::sizes::{show_count, show_duration, show_size};

/// Write what is in memory and in the log as a table
#[derive(Args, Debug)]
pub(crate) struct FlushArgs {
    /// The database
    db: PathBuf,
    #[command(flatten)]
    tuning: Tuning,
}

/// Compact a range of keys, or all, down to their last level
#[derive(Args, Debug)]
pub(crate) struct CompactArgs {
    /// The database
    db: PathBuf,
    /// First key [default: the first there is]
    #[arg(long, value_name = "KEY")]
    from: Option<OsString>,
    /// Last key [default: the last there is]
    #[arg(long, value_name = "KEY")]
    to: Option<OsString>,
    #[command(flatten)]
    tuning: Tuning,
}

/// Bring a database back to LevelDB's format: merge what the logs beside its levels hold
#[derive(Args, Debug)]
pub(crate) struct DowngradeArgs {
    /// The database
    db: PathBuf,
    #[command(flatten)]
    tuning: Tuning,
}

pub(crate) fn downgrade(args: &DowngradeArgs, context: &Context) -> Outcome {
    let db = open_to_write(&args.db, &args.tuning, IfMissing::Fail, context)?;
    let logged: usize = db
        .levels()
        .iter()
        .filter(|part| part.area == Area::SstLog)
        .map(|part| part.tables.len())
        .sum();
    let start = Instant::now();
    db.drain_logs().map_err(|error| explain(error, &args.db))?;
    let took = start.elapsed();
    db.close()?;
    let logged = logged as u64;
    context.done(
        vec![("logged_tables", Cell::Count(logged)), ("downgrade_us", Cell::Time(took))],
        format!(
            "merged {} tables of SST logs in {}; LevelDB opens the database now",
            show_count(logged),
            show_duration(took)
        ),
    )?;
    Ok(Exit::Ok)
}

pub(crate) fn flush(args: &FlushArgs, context: &Context) -> Outcome {
    let db = open_to_write(&args.db, &args.tuning, IfMissing::Fail, context)?;
    let start = Instant::now();
    db.flush().map_err(|error| explain(error, &args.db))?;
    let took = start.elapsed();
    let tables = tables_of(&db);
    db.close()?;
    context.done(
        vec![("tables", Cell::Count(tables.0)), ("flush_us", Cell::Time(took))],
        format!("flushed in {}; {} tables", show_duration(took), show_count(tables.0)),
    )?;
    Ok(Exit::Ok)
}

pub(crate) fn compact(args: &CompactArgs, context: &Context) -> Outcome {
    let key =
        |text: &Option<OsString>| text.as_ref().map(|text| argument(text, context.key)).transpose();
    let (from, to) = (key(&args.from)?, key(&args.to)?);
    let db = open_to_write(&args.db, &args.tuning, IfMissing::Fail, context)?;
    let before = tables_of(&db);
    let start = Instant::now();
    let spinner = if context.shows_progress() {
        ProgressBar::new_spinner().with_message(format!("compacting {}", show_size(before.1)))
    } else {
        ProgressBar::hidden()
    };
    spinner.enable_steady_tick(Duration::from_millis(100));
    let compacted = db.compact_range(from.as_deref(), to.as_deref());
    spinner.finish_and_clear();
    compacted.map_err(|error| explain(error, &args.db))?;
    let took = start.elapsed();
    let after = tables_of(&db);
    db.close()?;
    context.done(
        vec![
            ("tables_before", Cell::Count(before.0)),
            ("tables_after", Cell::Count(after.0)),
            ("before_bytes", Cell::Size(before.1)),
            ("after_bytes", Cell::Size(after.1)),
            ("compact_us", Cell::Time(took)),
        ],
        format!(
            "compacted in {}: {} in {} tables, before {} in {}",
            show_duration(took),
            show_size(after.1),
            show_count(after.0),
            show_size(before.1),
            show_count(before.0)
        ),
    )?;
    Ok(Exit::Ok)
}

/// Number and bytes of the live tables.
fn tables_of(db: &Db) -> (u64, u64) {
    let levels = db.levels();
    let tables = levels.iter().flat_map(|level| &level.tables);
    tables.fold((0, 0), |(count, bytes), table| (count + 1, bytes + table.bytes))
}
