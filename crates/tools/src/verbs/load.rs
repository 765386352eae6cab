//! `load`: files of pairs into a database, parsed on one thread and written on another, with
//! progress, and a summary also when it is stopped half-way.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use siltstone::{Db, ReadOptions};

use crate::errors::{Exit, Failure, Outcome};
use crate::interrupt;
use crate::load::pipe::pipe;
use crate::load::writer::{Duplicates, Writer};
use crate::load::{Input, InputFormat};
use crate::open::{IfMissing, Tuning, exists, open_to_write};
use crate::output::{Cell, Context, Format, Record};
use crate::sizes::{show_count, show_duration, show_rate};

/// Load pairs from JSON, JSON Lines, CSV or raw files
#[derive(Args, Debug)]
pub(crate) struct LoadArgs {
    /// The database; made if it is not there
    db: PathBuf,
    /// Files to load, in order; - is stdin
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// How the files are written [default: by ending, else by the first line]
    #[arg(long, value_name = "FORMAT")]
    format: Option<InputFormat>,
    /// What to do with keys that are there already
    #[arg(long, value_name = "POLICY", default_value = "last")]
    duplicates: Duplicates,
    #[command(flatten)]
    tuning: Tuning,
}

/// How a load went.
pub(crate) struct Summary {
    files: usize,
    pairs: u64,
    written: u64,
    /// None if nobody counted.
    duplicates: Option<u64>,
    parse: Duration,
    write: Duration,
    flush: Duration,
    total: Duration,
    interrupted: bool,
}

pub(crate) fn run(args: &LoadArgs, context: &Context) -> Outcome {
    interrupt::listen();
    for file in &args.files {
        // A mistyped third file should not be found out after an hour of loading the first two.
        if file != Path::new("-") {
            fs::metadata(file).map_err(|error| Failure::file("open", file, &error))?;
        }
    }
    let fresh = !exists(&args.db)?;
    let db = open_to_write(&args.db, &args.tuning, IfMissing::Create, context)?;
    let loaded = load(&db, args, fresh, context);
    let closed = db.close();
    let summary = loaded?;
    closed?;
    report(&summary, context)?;
    if summary.interrupted {
        return Err(Failure::new(Exit::Interrupted, "E-INTERRUPTED", "stopped by a signal")
            .detail(format!(
                "{} pairs are in the database, which was closed cleanly",
                show_count(summary.written)
            ))
            .detail("loading the same files again continues where it matters: keys just repeat"));
    }
    Ok(Exit::Ok)
}

/// Loads the files of `args` into `db`, which was made for them if `fresh`.
fn load(db: &Db, args: &LoadArgs, fresh: bool, context: &Context) -> Result<Summary, Failure> {
    let start = Instant::now();
    let mut writer = Writer::new(db, args.duplicates);
    let (mut pairs, mut parse) = (0, Duration::ZERO);
    for file in &args.files {
        if interrupt::asked() {
            break;
        }
        let input = Input::open(file, args.format)?;
        let done = input.done();
        let bar = progress(file, input.size, context);
        let (key, value) = (context.key, context.value);
        let result = pipe(
            move |sink| input.read(key, value, sink),
            |batch| {
                writer.write(batch)?;
                bar.set_position(done.load(Ordering::Relaxed));
                bar.set_message(show_rate(writer.written, start.elapsed()));
                Ok(())
            },
        );
        bar.finish_and_clear();
        let part = result.map_err(|failure| {
            failure.detail(format!("{} pairs are in the database", show_count(writer.written)))
        })?;
        pairs += part.pairs;
        parse += part.parse;
    }
    let flush_start = Instant::now();
    db.flush()?;
    let flush = flush_start.elapsed();
    let interrupted = interrupt::asked();
    let duplicates = match args.duplicates {
        Duplicates::Last if fresh && !interrupted => Some(pairs - distinct(db)?),
        Duplicates::Last => None,
        _ => Some(writer.duplicates),
    };
    Ok(Summary {
        files: args.files.len(),
        pairs,
        written: writer.written,
        duplicates,
        parse,
        write: writer.time,
        flush,
        total: start.elapsed(),
        interrupted,
    })
}

/// The keys of a database that held none before: one scan is cheaper than a look-up for each pair.
fn distinct(db: &Db) -> Result<u64, Failure> {
    let mut iter = db.iter_with(&ReadOptions { fill_cache: false, ..ReadOptions::default() })?;
    let mut count = 0;
    iter.seek_to_first()?;
    while iter.valid() {
        count += 1;
        iter.next()?;
    }
    Ok(count)
}

/// A bar over the bytes of `file`, or a spinner where their number is not known.
pub(crate) fn progress(file: &Path, size: Option<u64>, context: &Context) -> ProgressBar {
    if !context.shows_progress() {
        return ProgressBar::hidden();
    }
    let (bar, template) = match size {
        Some(size) => (
            ProgressBar::new(size),
            "  {prefix}  {bar:30} {bytes} / {total_bytes}  {msg}  eta {eta}",
        ),
        None => (ProgressBar::new_spinner(), "  {prefix}  {spinner} {bytes}  {msg}"),
    };
    let style = ProgressStyle::with_template(template).expect("the template is well formed");
    let name = file.file_name().unwrap_or(file.as_os_str());
    bar.with_style(style).with_prefix(name.to_string_lossy().into_owned())
}

fn report(summary: &Summary, context: &Context) -> Result<(), Failure> {
    if context.format(Format::Jsonl) == Format::Table {
        println_sentence(summary)
    } else {
        context.record(record(summary))
    }
}

fn record(summary: &Summary) -> Record {
    vec![
        ("files", Cell::Count(summary.files as u64)),
        ("pairs", Cell::Count(summary.pairs)),
        ("written", Cell::Count(summary.written)),
        ("duplicates", summary.duplicates.map_or(Cell::Missing, Cell::Count)),
        ("parse_us", Cell::Time(summary.parse)),
        ("write_us", Cell::Time(summary.write)),
        ("flush_us", Cell::Time(summary.flush)),
        ("total_us", Cell::Time(summary.total)),
        ("interrupted", Cell::Flag(summary.interrupted)),
    ]
}

fn println_sentence(summary: &Summary) -> Result<(), Failure> {
    use std::io::Write;
    let duplicates = match summary.duplicates {
        None => "duplicates not counted; --duplicates count does".to_owned(),
        Some(count) if summary.written < summary.pairs => {
            format!("{} duplicates left out", show_count(count))
        }
        Some(count) => format!(
            "{} distinct, {} replaced an earlier value",
            show_count(summary.pairs.saturating_sub(count)),
            show_count(count)
        ),
    };
    let mut out = crate::output::stdout();
    writeln!(
        out,
        "loaded {} pairs ({duplicates}) in {}, {}\n\
         parse {}, write {} side by side, then flush {}",
        show_count(summary.pairs),
        show_duration(summary.total),
        show_rate(summary.pairs, summary.total),
        show_duration(summary.parse),
        show_duration(summary.write),
        show_duration(summary.flush),
    )?;
    Ok(out.flush()?)
}
