//! `cloud jobs`: folders of jobs that workers have, or had. From the bucket alone: what runs right now the broker knows.

use std::time::Duration;

use clap::Args;
use siltstone_cloud::{JobFolder, list_jobs, read_newest};

use super::place::{Place, Tries};
use super::times::show_moment;
use crate::errors::{Exit, Outcome};
use crate::output::{Cell, Context, Record};

const COLUMNS: [&str; 8] =
    ["job", "state", "attempts", "outputs", "named", "size_bytes", "written", "age_us"];

/// List what workers wrote, and whether anybody may still want it
#[derive(Args, Debug)]
pub(crate) struct JobsArgs {
    #[command(flatten)]
    place: Place,
}

pub(crate) fn run(args: &JobsArgs, context: &Context) -> Outcome {
    let opened = args.place.open(Tries::Short)?;
    let explain = |error| opened.explain(error);
    read_newest(&opened.home).map_err(explain)?.ok_or_else(|| opened.absent())?;
    let jobs = list_jobs(&opened.home).map_err(explain)?;
    let now_ms = opened.home.clock().wall_micros() / 1000;
    context.rows(&COLUMNS, jobs.iter().map(|folder| row(folder, now_ms)).collect())?;
    if jobs.is_empty() {
        context.note("no jobs: all that was merged here was merged by the owner, or is collected");
    }
    opened.note_cost(context);
    Ok(Exit::Ok)
}

/// The age is by two clocks, the bucket's and ours.
fn row(folder: &JobFolder, now_ms: u64) -> Record {
    let (first, last) = folder.written_ms;
    let job = folder.job;
    vec![
        ("job", Cell::text(format!("{}-{}", job.epoch.0, job.number))),
        ("state", Cell::text(if folder.is_alive { "open" } else { "over" })),
        ("attempts", Cell::Count(folder.attempts as u64)),
        ("outputs", Cell::Count(folder.outputs as u64)),
        ("named", Cell::Count(folder.named as u64)),
        ("size_bytes", Cell::Size(folder.bytes)),
        ("written", Cell::text(show_moment(last))),
        ("age_us", Cell::Time(Duration::from_millis(now_ms.saturating_sub(first)))),
    ]
}
