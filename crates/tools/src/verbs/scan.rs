//! `scan`, `count` and `dump`: walks over many keys, streamed.

use std::path::PathBuf;

use clap::Args;
use siltstone::{Db, ReadOptions};

use crate::errors::{Exit, Failure, Outcome};
use crate::interrupt;
use crate::open::{explain, open_to_read};
use crate::output::{Cell, Columns, Context, Format, stdout};
use crate::range::RangeArgs;

/// Print keys and values in order
#[derive(Args, Debug)]
pub(crate) struct ScanArgs {
    /// The database
    db: PathBuf,
    #[command(flatten)]
    pub(crate) walk: ScanFlags,
}

/// What to scan and what to show of it.
#[derive(Args, Clone, Debug)]
pub(crate) struct ScanFlags {
    #[command(flatten)]
    range: RangeArgs,
    /// Leave the values out
    #[arg(long)]
    keys_only: bool,
}

impl ScanFlags {
    /// Sets a limit unless the user set one; true if it did.
    pub(crate) fn limit_to(&mut self, limit: u64) -> bool {
        self.range.limit_to(limit)
    }
}

/// Count keys
#[derive(Args, Debug)]
pub(crate) struct CountArgs {
    /// The database
    db: PathBuf,
    #[command(flatten)]
    range: RangeArgs,
}

/// Write all pairs in a form that load reads back
#[derive(Args, Debug)]
pub(crate) struct DumpArgs {
    /// The database
    db: PathBuf,
    #[command(flatten)]
    range: RangeArgs,
}

pub(crate) fn scan(args: &ScanArgs, context: &Context) -> Outcome {
    let db = open_to_read(&args.db)?;
    scan_open(&db, &args.walk, context)?;
    Ok(Exit::Ok)
}

/// Scans an open database and returns the number of pairs.
pub(crate) fn scan_open(db: &Db, args: &ScanFlags, context: &Context) -> Result<u64, Failure> {
    let columns = if args.keys_only { Columns::KeysOnly } else { Columns::KeysAndValues };
    write_pairs(db, &args.range, columns, context)
}

pub(crate) fn count(args: &CountArgs, context: &Context) -> Outcome {
    let db = open_to_read(&args.db)?;
    count_open(&db, &args.range, context)?;
    Ok(Exit::Ok)
}

/// Counts the keys of an open database and writes the number.
pub(crate) fn count_open(db: &Db, range: &RangeArgs, context: &Context) -> Result<u64, Failure> {
    let count = range.resolve(context.key)?.walk(db, &one_pass(), |_, _| Ok(()))?;
    let cell = Cell::Count(count);
    let text = match context.format(Format::Raw) {
        Format::Table => cell.human(),
        Format::Raw => cell.plain(),
        _ => {
            context.record(vec![("count", cell)])?;
            return Ok(count);
        }
    };
    use std::io::Write;
    let mut out = stdout();
    writeln!(out, "{text}")?;
    out.flush()?;
    Ok(count)
}

pub(crate) fn dump(args: &DumpArgs, context: &Context) -> Outcome {
    interrupt::listen();
    let db = open_to_read(&args.db)?;
    let written = write_pairs(&db, &args.range, Columns::KeysAndValues, context)
        .map_err(|failure| failure.detail("the dump is not complete"))?;
    context.note(format!("{} pairs", crate::sizes::show_count(written)));
    db.close().map_err(|error| explain(error, &args.db))?;
    Ok(Exit::Ok)
}

fn write_pairs(
    db: &Db,
    range: &RangeArgs,
    columns: Columns,
    context: &Context,
) -> Result<u64, Failure> {
    let range = range.resolve(context.key)?;
    let mut pairs = context.pairs(columns);
    let written = range.walk(db, &one_pass(), |key, value| pairs.write(key, value));
    // Also after a failure the document is ended: what was read stays readable.
    pairs.finish()?;
    written
}

/// A walk reads each block once, so it leaves the cache to others.
fn one_pass() -> ReadOptions {
    ReadOptions { fill_cache: false, ..ReadOptions::default() }
}
