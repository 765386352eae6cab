//! `cloud gc`: what may go, and why; with `--yes` it goes.

use std::collections::HashSet;
use std::time::Duration;

use clap::Args;
use siltstone_cloud::{CollectOptions, Collection, Collector, Doomed, each_object, read_newest};

use super::place::{Place, Tries, fresh_token};
use super::times::parse_duration;
use crate::errors::{Exit, Outcome};
use crate::output::{Cell, Context, Record};
use crate::sizes::{show_count, show_duration};

const COLUMNS: [&str; 3] = ["object", "removed", "reason"];

/// Remove what no version needs: a plan, unless --yes
#[derive(Args, Debug)]
pub(crate) struct CollectArgs {
    #[command(flatten)]
    place: Place,
    /// Do it
    #[arg(long)]
    yes: bool,
    /// Do nothing, as without --yes
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// How long a version may be read after the next has come, by readers without a lease
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "1h")]
    min_age: Duration,
    /// Look at all objects, and find tables and jobs that no version ever named
    #[arg(long)]
    reconcile: bool,
}

pub(crate) fn run(args: &CollectArgs, context: &Context) -> Outcome {
    let opened = args.place.open(if args.yes { Tries::Long } else { Tries::Short })?;
    let explain = |error| opened.explain(error);
    read_newest(&opened.home).map_err(explain)?.ok_or_else(|| opened.absent())?;
    let options = CollectOptions {
        age_min: args.min_age,
        reconcile: args.reconcile,
        dry_run: !args.yes,
        ..CollectOptions::default()
    };
    if args.min_age < CollectOptions::default().age_min {
        let age = show_duration(args.min_age);
        context
            .note(format!("warning: reads without a lease that take longer than {age} may fail"));
    }
    // Records go on to mention tables that are gone, until nobody needs those records.
    let mut there = HashSet::new();
    each_object(&opened.home, |stat, _| there.extend([stat.name])).map_err(explain)?;
    let collected = Collector::new(&opened.home, options).collect(fresh_token());
    let mut collected = collected.map_err(explain)?;
    collected.removed.retain(|doomed| there.contains(&doomed.name));
    context
        .rows(&COLUMNS, collected.removed.iter().map(|doomed| row(doomed, args.yes)).collect())?;
    context.note(summary(&collected, args));
    opened.note_cost(context);
    Ok(Exit::Ok)
}

fn row(doomed: &Doomed, removed: bool) -> Record {
    vec![
        ("object", Cell::text(doomed.name.clone())),
        ("removed", Cell::Flag(removed)),
        ("reason", Cell::text(doomed.reason.text())),
    ]
}

fn summary(collected: &Collection, args: &CollectArgs) -> String {
    let count = show_count(collected.removed.len() as u64);
    let (boundary, newest) = (collected.boundary, collected.newest);
    let versions = format!("versions from {boundary} to {newest} may still be read");
    if args.yes {
        format!("removed {count} objects; {versions}")
    } else {
        format!("would remove {count} objects; {versions}\nnothing was done; --yes does it")
    }
}
