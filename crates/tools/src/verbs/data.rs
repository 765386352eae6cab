//! `get`, `put` and `del`: single keys. The shell calls the same functions on its open database.

use std::ffi::OsString;
use std::io::{IsTerminal, Read, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use siltstone::{Db, WriteBatch, WriteOptions};

use crate::errors::{Exit, Failure, Outcome};
use crate::open::{IfMissing, Tuning, explain, open_to_read, open_to_write};
use crate::output::{Cell, Context, Format, stdout};
use crate::range::argument;
use crate::sizes::{show_count, show_duration};

/// Print the value of a key
#[derive(Args, Debug)]
pub(crate) struct GetArgs {
    /// The database
    db: PathBuf,
    key: OsString,
    /// Tell how long the read took: the first, and the same again from the caches
    #[arg(long)]
    timing: bool,
}

/// Store a value under a key
#[derive(Args, Debug)]
pub(crate) struct PutArgs {
    /// The database; made if it is not there
    db: PathBuf,
    key: OsString,
    /// The value; without it, stdin to its end
    // So that -1 is a value; other values with a dash stand after --.
    #[arg(allow_negative_numbers = true)]
    value: Option<OsString>,
    #[command(flatten)]
    tuning: Tuning,
}

/// Delete keys
#[derive(Args, Debug)]
pub(crate) struct DelArgs {
    /// The database
    db: PathBuf,
    #[arg(required = true)]
    keys: Vec<OsString>,
    #[command(flatten)]
    tuning: Tuning,
}

pub(crate) fn get(args: &GetArgs, context: &Context) -> Outcome {
    let key = argument(&args.key, context.key)?;
    let db = open_to_read(&args.db)?;
    let start = Instant::now();
    let value = db.get(&key).map_err(|error| explain(error, &args.db))?;
    let first = start.elapsed();
    let again = Instant::now();
    if args.timing {
        db.get(&key)?;
    }
    let timing = args.timing.then(|| (first, again.elapsed()));
    let Some(value) = value else {
        timing_note(timing, context);
        let shown = context.key.show(&key);
        return Err(Failure::new(Exit::Absent, "E-NOT-FOUND", format!("no key {shown}")).step(
            "see its neighbours",
            format!("siltstone scan {} --from {shown} --limit 5", args.db.display()),
        ));
    };
    write_value(&key, &value, timing, context)?;
    Ok(Exit::Ok)
}

/// Writes a value that was found, in the format asked for.
pub(crate) fn write_value(
    key: &[u8],
    value: &[u8],
    timing: Option<(Duration, Duration)>,
    context: &Context,
) -> Result<(), Failure> {
    let format = context.format(Format::Raw);
    let mut out = stdout();
    match format {
        Format::Raw => {
            out.write_all(value)?;
            if std::io::stdout().is_terminal() {
                out.write_all(b"\n")?;
            }
        }
        Format::Table => writeln!(out, "{}", context.value.show(value))?,
        Format::Json | Format::Jsonl | Format::Csv => {
            drop(out);
            let mut record = vec![
                ("key", Cell::Key(key.to_vec(), context.key)),
                ("value", Cell::Key(value.to_vec(), context.value)),
            ];
            if let Some((first, again)) = timing {
                record.push(("first_read_us", Cell::Time(first)));
                record.push(("second_read_us", Cell::Time(again)));
            }
            return context.record(record);
        }
    }
    out.flush()?;
    timing_note(timing, context);
    Ok(())
}

fn timing_note(timing: Option<(Duration, Duration)>, context: &Context) {
    if let Some((first, again)) = timing {
        let (first, again) = (show_duration(first), show_duration(again));
        context.note(format!("first read {first}, the same again {again}"));
    }
}

pub(crate) fn put(args: &PutArgs, context: &Context) -> Outcome {
    let key = argument(&args.key, context.key)?;
    let value = match &args.value {
        Some(text) => argument(text, context.value)?,
        None => {
            let mut text = Vec::new();
            std::io::stdin()
                .read_to_end(&mut text)
                .map_err(|error| Failure::file("read", "stdin".as_ref(), &error))?;
            text
        }
    };
    let db = open_to_write(&args.db, &args.tuning, IfMissing::Create, context)?;
    let mut batch = WriteBatch::new();
    batch.put(&key, &value);
    write_synced(&db, &batch)?;
    db.close()?;
    let stored =
        vec![("key", Cell::Key(key, context.key)), ("value_bytes", Cell::Size(value.len() as u64))];
    context.done(stored, "stored")?;
    Ok(Exit::Ok)
}

pub(crate) fn del(args: &DelArgs, context: &Context) -> Outcome {
    let keys: Vec<Vec<u8>> =
        args.keys.iter().map(|key| argument(key, context.key)).collect::<Result<_, _>>()?;
    let db = open_to_write(&args.db, &args.tuning, IfMissing::Fail, context)?;
    let mut batch = WriteBatch::new();
    let mut found: u64 = 0;
    for key in &keys {
        found += u64::from(db.get(key)?.is_some());
        batch.delete(key);
    }
    write_synced(&db, &batch)?;
    db.close()?;
    let absent = keys.len() as u64 - found;
    let mut sentence = format!("deleted {}", show_count(found));
    if absent > 0 {
        sentence.push_str(&format!("; {} not there", show_count(absent)));
    }
    context
        .done(vec![("deleted", Cell::Count(found)), ("absent", Cell::Count(absent))], sentence)?;
    Ok(Exit::Ok)
}

/// One write that outlives a power cut: at a prompt, a few milliseconds cost nothing.
pub(crate) fn write_synced(db: &Db, batch: &WriteBatch) -> Result<(), Failure> {
    Ok(db.write(batch, WriteOptions { sync: true })?)
}
