//! `verify`: is every file of a database what was written? Reads all of it and changes nothing.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use siltstone::{FileKind, Verdict, VerifiedFile, VerifyReport};

use crate::errors::{Exit, Failure, Outcome};
use crate::open::{explain, reading_options};
use crate::output::{Cell, Context, Record};
use crate::sizes::{show_count, show_duration, show_size};
use crate::verbs::load::progress;

const COLUMNS: [&str; 7] =
    ["file", "kind", "verdict", "size_bytes", "entries", "torn_bytes", "problem"];

/// Check every table, log and manifest: checksums, order, presence
#[derive(Args, Debug)]
pub(crate) struct VerifyArgs {
    /// The database
    db: PathBuf,
}

pub(crate) fn run(args: &VerifyArgs, context: &Context) -> Outcome {
    if !args.db.is_dir() {
        crate::open::require_database(&args.db)?;
    }
    let start = Instant::now();
    let bar = progress(&args.db, Some(0), context);
    let report = siltstone::verify_with(&args.db, &reading_options(), &mut |at| {
        bar.set_length(at.bytes_total);
        bar.set_position(at.bytes_done);
    });
    bar.finish_and_clear();
    let report = report.map_err(|error| explain(error, &args.db))?;
    context.rows(&COLUMNS, report.files.iter().map(row).collect())?;
    judge(&report, args, context, start)
}

fn row(file: &VerifiedFile) -> Record {
    let (verdict, problem) = match &file.verdict {
        Verdict::Orphan => ("orphan", Cell::Missing),
        Verdict::Damaged(error) => ("damaged", Cell::text(error.to_string())),
        _ => ("ok", Cell::Missing),
    };
    vec![
        ("file", Cell::text(file.path.display().to_string())),
        ("kind", Cell::text(kind(file.kind))),
        ("verdict", Cell::text(verdict)),
        ("size_bytes", Cell::Size(file.bytes)),
        ("entries", Cell::Count(file.entries)),
        ("torn_bytes", Cell::Size(file.torn_bytes)),
        ("problem", problem),
    ]
}

fn kind(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Wal => "log",
        FileKind::Table => "table",
        FileKind::Manifest => "manifest",
        FileKind::Current => "current",
        _ => "other",
    }
}

fn judge(report: &VerifyReport, args: &VerifyArgs, context: &Context, start: Instant) -> Outcome {
    let problems = report.problems().count();
    let shown = args.db.display();
    if problems == 0 {
        context.note(format!(
            "{shown} is whole: {} files, {}, checked in {}",
            show_count(report.files.len() as u64),
            show_size(report.bytes()),
            show_duration(start.elapsed())
        ));
        return Ok(Exit::Ok);
    }
    let noun = if problems == 1 { "problem" } else { "problems" };
    Err(Failure::new(Exit::Corruption, "E-CORRUPT", format!("{problems} {noun} in {shown}"))
        .detail("nothing was changed")
        .step("see what can be saved", format!("siltstone repair {shown}")))
}
