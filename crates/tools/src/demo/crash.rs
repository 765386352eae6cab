//! The act of the demo with two processes: a child writes and acknowledges, the parent kills it,
//! and what was acknowledged is looked for. The child is this program under a hidden verb.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use siltstone::{Db, WriteBatch, WriteOptions};

use super::{broken, options};
use crate::errors::{Exit, Failure, Outcome};

const PREFIX: &str = "order/";

/// What the parent saw of the child.
pub(super) struct Crash {
    pub(super) acknowledged: HashSet<u64>,
}

/// The arguments of the child.
#[derive(Args, Debug)]
pub(crate) struct WriterArgs {
    db: PathBuf,
}

fn key(number: u64) -> String {
    format!("{PREFIX}{number:08}")
}

fn value(number: u64) -> String {
    format!("order {number}, paid").repeat(3)
}

/// The child: writes orders for ever, each synced, and acknowledges each on stdout.
pub(crate) fn write_until_killed(args: &WriterArgs) -> Outcome {
    let db = Db::open(&args.db, options())?;
    let mut acknowledgements = std::io::stdout().lock();
    for number in 0.. {
        let mut batch = WriteBatch::new();
        batch.put(key(number).as_bytes(), value(number).as_bytes());
        db.write(&batch, WriteOptions { sync: true })?;
        writeln!(acknowledgements, "{number}")?;
        acknowledgements.flush()?;
    }
    Ok(Exit::Ok)
}

/// Starts the child on `path`, waits for `enough` acknowledgements and kills it.
pub(super) fn kill_a_writer(path: &Path, enough: usize) -> Result<Crash, Failure> {
    let this = Path::new("this program");
    let failed = |error| Failure::file("run", this, &error);
    let mut child = Command::new(std::env::current_exe().map_err(failed)?)
        .arg("demo-writer")
        .arg(path)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let stdout = child.stdout.take().ok_or_else(|| broken("the writer has no stdout"))?;
    let mut acknowledged = HashSet::new();
    // Past the kill, the pipe still gives what was acknowledged before it; then it ends.
    for line in BufReader::new(stdout).lines() {
        let line = line.map_err(failed)?;
        // The last line may be cut short: a number in part acknowledges nothing.
        if let Ok(number) = line.parse::<u64>()
            && number == acknowledged.len() as u64
        {
            acknowledged.insert(number);
        }
        if acknowledged.len() == enough {
            child.kill().map_err(failed)?;
        }
    }
    child.wait().map_err(failed)?;
    if acknowledged.len() < enough {
        return Err(broken("the writer ended by itself"));
    }
    Ok(Crash { acknowledged })
}

/// The orders in the database, each compared with what was written.
pub(super) fn orders(db: &Db) -> Result<HashSet<u64>, Failure> {
    let mut found = HashSet::new();
    let mut iter = db.iter()?;
    iter.seek(PREFIX.as_bytes())?;
    while iter.valid() && iter.key().starts_with(PREFIX.as_bytes()) {
        let digits = String::from_utf8_lossy(&iter.key()[PREFIX.len()..]).into_owned();
        let number =
            digits.parse().map_err(|_| broken(format!("an order that none wrote: {digits}")))?;
        if iter.value() != value(number).as_bytes() {
            return Err(broken(format!("order {number} does not hold what was written")));
        }
        found.insert(number);
        iter.next()?;
    }
    Ok(found)
}
