//! `cloud doctor`: does a server keep what a database in a bucket needs of it?

use clap::Args;
use siltstone_s3::doctor::{Check, Outcome as Kept, Report, Verdict, Weight, probe};
use siltstone_s3::{Options, S3Bucket};

use super::place::{Place, hasty, refused};
use crate::errors::{Exit, Failure, Outcome};
use crate::output::{Cell, Context, Record};

const COLUMNS: [&str; 6] = ["check", "needed_for", "verdict", "took_us", "found", "consequence"];

/// Ask a server whether it keeps what a database needs
///
/// Writes some 12 MiB below a name of its own, and removes them; takes seconds, and less than a cent.
#[derive(Args, Debug)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    place: Place,
}

pub(crate) fn run(args: &DoctorArgs, context: &Context) -> Outcome {
    let bucket = S3Bucket::at(&args.place.locate()?, hasty(Options::default()));
    let bucket = bucket.map_err(|error| refused(error.into()))?;
    let report = probe(&bucket);
    context.rows(&COLUMNS, report.checks.iter().map(row).collect())?;
    context.note(format!("{} requests, {:.6} $", report.requests, report.dollars));
    judge(&report, context)
}

fn row(check: &Check) -> Record {
    let (verdict, found) = match &check.outcome {
        Kept::Held => ("ok", None),
        Kept::Broken(found) => ("broken", Some(found)),
        Kept::Unknown(found) => ("unknown", Some(found)),
    };
    let told = |text: &str| found.map_or(Cell::Missing, |_| Cell::text(text));
    vec![
        ("check", Cell::text(check.name)),
        ("needed_for", Cell::text(needed_for(check.weight))),
        ("verdict", Cell::text(verdict)),
        ("took_us", Cell::Time(check.took)),
        ("found", found.map_or(Cell::Missing, Cell::text)),
        ("consequence", told(check.consequence)),
    ]
}

fn needed_for(weight: Weight) -> &'static str {
    match weight {
        Weight::All => "everything",
        Weight::Commits => "commits",
        Weight::Comfort => "comfort",
    }
}

fn judge(report: &Report, context: &Context) -> Outcome {
    let place = &report.place;
    // The first check puts and gets one object: who cannot do that knows nothing of the server.
    if let Some(Check { outcome: Kept::Unknown(found), .. }) = report.checks.first() {
        let failure = Failure::new(Exit::Io, "E-UNREACHABLE", format!("{place}: {found}"));
        return Err(failure
            .detail("nothing could be asked: see that server, bucket and keys are right")
            .step("see how they are given", "siltstone cloud --help"));
    }
    match report.verdict() {
        Verdict::Everything => {
            context.note(format!("{place}: all modes may be used"));
            Ok(Exit::Ok)
        }
        Verdict::NoCommits => {
            let headline = format!("{place} must not be committed to: it would lose commits");
            Err(Failure::new(Exit::Incompatible, "E-UNFIT", headline)
                .detail("modes that keep versions, owners or the log in the bucket need compare-and-swap")
                .detail("reading what others wrote, and copies, are safe"))
        }
        Verdict::Nothing => {
            let headline = format!("{place} is not to be used for databases");
            Err(Failure::new(Exit::Incompatible, "E-UNFIT", headline)
                .detail("what it gives back is not what was put there"))
        }
    }
}
