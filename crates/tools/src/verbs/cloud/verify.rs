//! `cloud verify`: is every object of a database what it should be? Reads, and changes nothing.

use std::time::Instant;

use clap::Args;
use siltstone_cloud::{Depth, Finding, Name, Verdict, verify_database};

use super::place::{Opened, Place, Tries};
use crate::errors::{Exit, Failure, Outcome};
use crate::open::reading_options;
use crate::output::{Cell, Context, Format, Record, RowWriter, stdout};
use crate::sizes::{show_count, show_duration, show_size};

const COLUMNS: [&str; 6] = ["object", "kind", "verdict", "size_bytes", "entries", "problem"];

/// Check every object that a version needs: presence, size, checksum
#[derive(Args, Debug)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    place: Place,
    /// Read tables as tables, too: every block and entry
    #[arg(long, conflicts_with = "sizes")]
    deep: bool,
    /// Read no table: see that they are there, and how large they are
    #[arg(long)]
    sizes: bool,
}

/// What was found, summed up.
#[derive(Default)]
struct Tally {
    objects: u64,
    bytes: u64,
    problems: u64,
    orphans: u64,
    foreign: u64,
}

impl Tally {
    fn add(&mut self, finding: &Finding) {
        self.objects += 1;
        self.bytes = self.bytes.saturating_add(finding.bytes);
        match finding.verdict {
            Verdict::Damaged(_) => self.problems += 1,
            Verdict::Orphan => self.orphans += 1,
            Verdict::Foreign => self.foreign += 1,
            Verdict::Whole | Verdict::Past | Verdict::Unnamed => {}
        }
    }
}

pub(crate) fn run(args: &VerifyArgs, context: &Context) -> Outcome {
    let opened = args.place.open(Tries::Short)?;
    let start = Instant::now();
    let depth = match (args.deep, args.sizes) {
        (true, _) => Depth::Entries,
        (false, true) => Depth::Presence,
        (false, false) => Depth::Bytes,
    };
    let mut rows = RowWriter::new(stdout(), context.format(Format::Jsonl), &COLUMNS);
    let (mut tally, mut written) = (Tally::default(), Ok(()));
    let found = verify_database(&opened.home, depth, &reading_options(), &mut |finding| {
        tally.add(&finding);
        if written.is_ok() {
            written = rows.write(&row(finding));
        }
    });
    written?;
    rows.finish()?;
    if !found.map_err(|error| opened.explain(error))? {
        return Err(opened.absent());
    }
    opened.note_cost(context);
    judge(&tally, &opened, context, start)
}

fn row(finding: Finding) -> Record {
    let (verdict, problem) = match &finding.verdict {
        Verdict::Whole => ("ok", Cell::Missing),
        Verdict::Damaged(error) => ("damaged", Cell::text(error.message())),
        Verdict::Past => ("past", Cell::Missing),
        Verdict::Unnamed => ("unnamed", Cell::Missing),
        Verdict::Orphan => ("orphan", Cell::Missing),
        Verdict::Foreign => ("foreign", Cell::Missing),
    };
    vec![
        ("object", Cell::text(finding.object.escape_debug().to_string())),
        ("kind", Cell::text(kind(finding.name.as_ref()))),
        ("verdict", Cell::text(verdict)),
        ("size_bytes", Cell::Size(finding.bytes)),
        ("entries", finding.entries.map_or(Cell::Missing, Cell::Count)),
        ("problem", problem),
    ]
}

fn kind(name: Option<&Name>) -> &'static str {
    match name {
        Some(Name::Owner) => "owner",
        Some(Name::Version(_)) => "version",
        Some(Name::Table(_)) => "table",
        Some(Name::Job(_)) => "job",
        Some(Name::Wal(_)) => "log",
        Some(Name::Reader(_)) => "reader",
        Some(Name::Pin(..)) => "pin",
        Some(Name::Boundary) => "boundary",
        Some(Name::Now) => "clock",
        None => "other",
    }
}

fn judge(tally: &Tally, opened: &Opened, context: &Context, start: Instant) -> Outcome {
    let shown = &opened.shown;
    if tally.orphans > 0 {
        let (count, command) = (show_count(tally.orphans), opened.command("gc"));
        context.note(format!("{count} orphans; what would go:  {command} --reconcile"));
    }
    if tally.foreign > 0 {
        let count = show_count(tally.foreign);
        context.note(format!("{count} objects are not of this database, and stay untouched"));
    }
    if tally.problems == 0 {
        context.note(format!(
            "{shown} is whole: {} objects, {}, checked in {}",
            show_count(tally.objects),
            show_size(tally.bytes),
            show_duration(start.elapsed())
        ));
        return Ok(Exit::Ok);
    }
    let noun = if tally.problems == 1 { "problem" } else { "problems" };
    let headline = format!("{} {noun} in {shown}", show_count(tally.problems));
    Err(Failure::new(Exit::Corruption, "E-CORRUPT", headline)
        .detail("nothing was changed")
        .detail(
            "bring the objects back from a copy of the bucket, or open a checkpoint that is whole",
        )
        .step("see what checkpoints there are", opened.command("checkpoint")))
}
