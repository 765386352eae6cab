//! `lab cloud`: databases in a bucket, on a store in memory that is as slow as one likes.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use siltstone_cloud_lab::{
    Figure, Location, Places, Plan, Profile, Wanted, faults, merges, objects, reads, replicas,
    scans, setups, stalls, trouble, writes, zombies,
};

use crate::errors::{Exit, Failure, Outcome};
use crate::output::{Cell, Context, Record};
use crate::sizes::parse_count;

/// Databases in a bucket, on a store as slow as one likes: writes, reads, scans, merges, faults, zombies, replicas, trouble;
/// beside S3FS
#[derive(Args, Debug)]
pub(super) struct CloudArgs {
    /// One measurement alone [default: each in turn]
    #[arg(long, value_name = "WHAT")]
    measure: Option<Measure>,
    /// How slow the store is: zero, s3std or express
    #[arg(long, value_name = "NAME", value_parser = parse_profile, default_value = "s3std")]
    profile: Profile,
    /// Entries of a database
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value = "300k")]
    records: u64,
    /// Bytes of a value
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    value_bytes: usize,
    /// How long the store is in trouble each time, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    trouble: u64,
    /// How often paused owners wake after takeovers and collections, one seed each
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value = "10k")]
    schedules: u64,
    /// Each figure of writes, stalls, merges, faults, setups and gets after merges is the median of so many runs, taken in turn
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=99))]
    runs: u64,
    /// Where random numbers begin
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Where databases are made, and removed [default: the folder for temporary files]
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// A folder where S3FS has mounted a bucket, for objects and setups [default: those on S3FS are left out]
    #[arg(long, value_name = "FOLDER")]
    s3fs: Option<PathBuf>,
    /// A server's bucket for objects and setups, s3://BUCKET/PATH, which --profile does not slow down [default: a store in memory]
    #[arg(long, value_name = "URL", value_parser = parse_bucket)]
    bucket: Option<Location>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Measure {
    /// Fills in order and at random, in each mode
    Writes,
    /// Gets, cold and warm, before merges and after
    Reads,
    /// Scans, short and long
    Scans,
    /// Writes while merges run, here or at a worker
    Stalls,
    /// Merges at one worker, two and four
    Merges,
    /// Merges while workers, wires, the broker or the database fail
    Faults,
    /// Owners that wake after others have taken over and collected
    Zombies,
    /// Replicas that follow
    Replicas,
    /// Writes and reads while a tenth, half and all of the store's requests fail
    Trouble,
    /// Objects by their size: whole, by ranges, on S3FS
    Objects,
    /// Fills and gets in the five set-ups of the paper, and two of ours
    Setups,
}

const COLUMNS: [&str; 6] = ["measurement", "what", "value", "unit", "wanted", "met"];

fn parse_profile(text: &str) -> Result<Profile, String> {
    Profile::named(text).ok_or_else(|| "one of zero, s3std, express".to_owned())
}

fn parse_bucket(text: &str) -> Result<Location, String> {
    Location::parse(text).map_err(|error| error.message)
}

pub(super) fn cloud(args: &CloudArgs, context: &Context) -> Outcome {
    let plan = Plan {
        profile: args.profile,
        records: args.records.max(1),
        value_bytes: args.value_bytes,
        runs: args.runs,
        folder: args.folder.clone().unwrap_or_else(std::env::temp_dir),
        seed: args.seed,
    };
    let places = Places { s3fs: args.s3fs.clone(), bucket: args.bucket.clone() };
    if let Some(folder) = places.s3fs.as_deref().filter(|folder| !folder.is_dir()) {
        return Err(Failure::usage(format!("--s3fs: {} is no folder", folder.display())));
    }
    let mut rows = Vec::new();
    let mut tell = |figure: Figure| rows.push(row(&figure));
    let is_wanted = |measure| args.measure.is_none_or(|wanted| wanted == measure);
    if is_wanted(Measure::Writes) {
        writes(&plan, &mut tell)?;
    }
    if is_wanted(Measure::Reads) {
        reads(&plan, &mut tell)?;
    }
    if is_wanted(Measure::Scans) {
        scans(&plan, &mut tell)?;
    }
    if is_wanted(Measure::Stalls) {
        stalls(&plan, &mut tell)?;
    }
    if is_wanted(Measure::Merges) {
        merges(&plan, &mut tell)?;
    }
    if is_wanted(Measure::Faults) {
        faults(&plan, &mut tell)?;
    }
    if is_wanted(Measure::Zombies) {
        zombies(&plan, args.schedules, &mut tell)?;
    }
    if is_wanted(Measure::Replicas) {
        replicas(&plan, &mut tell)?;
    }
    if is_wanted(Measure::Trouble) {
        trouble(&plan, Duration::from_secs(args.trouble), &mut tell)?;
    }
    if is_wanted(Measure::Objects) {
        objects(&plan, &places, &mut tell)?;
    }
    if is_wanted(Measure::Setups) {
        setups(&plan, &places, &mut tell)?;
    }
    context.rows(&COLUMNS, rows)?;
    Ok(Exit::Ok)
}

fn row(figure: &Figure) -> Record {
    let wanted = figure.wanted.map_or(Cell::Missing, |wanted| {
        Cell::text(match wanted {
            Wanted::AtMost(bound) => format!("at most {bound}"),
            Wanted::AtLeast(bound) => format!("at least {bound}"),
        })
    });
    let met = figure.wanted.map_or(Cell::Missing, |_| Cell::Flag(figure.is_met()));
    vec![
        ("measurement", Cell::text(figure.id)),
        ("what", Cell::text(figure.what.clone())),
        ("value", if figure.value.is_nan() { Cell::Missing } else { Cell::Ratio(figure.value) }),
        ("unit", Cell::text(figure.unit.name())),
        ("wanted", wanted),
        ("met", met),
    ]
}
