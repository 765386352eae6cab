//! Asset 4, the differential and metamorphic runner: random operations on many option sets, against an
//! ordered map and against each other. The program `ground` runs it, the engine's test `model` a
//! slice of it; `crates/interop` has the same lists done by LevelDB.
//!
//! A run is a list of operations made from a seed ([`generator`]), done to a database and to a model
//! ([`mod@reference`]) and compared at every step ([`mod@run`]). Beside the model, several things are claimed
//! that need none:
//!
//! - the same list has the same answers on every option set of the same order,
//! - a scan is the mirror image of the one in the other direction, and the sum of its parts,
//! - what was compacted, checkpointed, repaired or opened read-only shows what was there before,
//! - every value says whose it is ([`value`]),
//! - a run that is a function of its seed does the same twice, down to its calls to the disk.
//!
//! A failing list shrinks by itself ([`mod@shrink`]) and is told with the command that repeats it.

pub mod campaign;
pub mod failure;
pub mod generator;
mod key;
pub mod kind;
pub mod operation;
pub mod option_sets;
pub mod order;
pub mod random;
pub mod reference;
pub mod run;
pub mod shrink;
pub mod value;

use campaign::Campaign;
use kind::Kind;
use option_sets::SETS;

use crate::report::{Goal, Report};

/// From so many operations on, each kind must have come often enough.
const WHOLE_CAMPAIGN: u64 = 1_000_000;

#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// The first seed; further rounds over all option sets take the ones after it
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Operations of all runs together, at least
    #[arg(long, default_value_t = 1_050_000)]
    pub operations: u64,
    /// Operations of one run
    #[arg(long, default_value_t = 12_000)]
    pub len: usize,
    /// Only this option set
    #[arg(long)]
    pub set: Option<String>,
    /// Of each run only the operations with these indices
    #[arg(long, value_delimiter = ',')]
    pub keep: Option<Vec<usize>>,
    /// Do each run twice, and compare what they do
    #[arg(long)]
    pub repeat: bool,
    /// Compare each run's answers with those on another option set
    #[arg(long)]
    pub same_as: Option<String>,
    /// Runs side by side
    #[arg(long, default_value_t = 2)]
    pub threads: usize,
}

impl Default for Args {
    fn default() -> Self {
        Args {
            seed: 1,
            operations: 1_050_000,
            len: 12_000,
            set: None,
            keep: None,
            repeat: false,
            same_as: None,
            threads: 2,
        }
    }
}

/// Runs the campaign. Prints the seeds, how often each kind ran, and the first failure.
pub fn run(args: &Args) -> Report {
    let jobs = Campaign::jobs(args);
    let last = jobs.last().map_or(args.seed, |job| job.seed);
    println!("differential: {} runs, seeds {} to {last}", jobs.len(), args.seed);
    let campaign = Campaign::run(&jobs, args.threads, args.keep.as_deref());
    for (kind, count) in Kind::ALL.iter().zip(campaign.tally.kinds) {
        println!("{count:9}  {}", kind.name());
    }
    println!("the deepest level that held a table: {}", campaign.tally.deepest);
    if let Some(failure) = &campaign.failure {
        println!("{}", failure.report());
    }
    report(args, &campaign)
}

fn report(args: &Args, campaign: &Campaign) -> Report {
    let tally = &campaign.tally;
    // A replay of a part has less of everything.
    let part = args.keep.is_some();
    let at_least = |least| if part { Goal::None } else { Goal::AtLeast(least) };
    let often = match tally.operations {
        WHOLE_CAMPAIGN.. => Goal::AtLeast(100),
        _ => Goal::None,
    };
    let mut report = Report::new("differential");
    report
        .figure("operations", tally.operations, at_least(args.operations))
        .figure("differences", u64::from(campaign.failure.is_some()), Goal::AtMost(0))
        .figure("kinds of operation", Kind::ALL.len() as u64, Goal::AtLeast(40))
        .figure("option sets", SETS.len() as u64, Goal::AtLeast(24))
        .figure("runs", campaign.runs, Goal::None)
        .figure("runs compared with another set's", campaign.compared, Goal::None)
        .figure("runs done twice", campaign.repeated, Goal::None)
        .figure("faults injected", tally.faults, Goal::None)
        .figure("flushes", tally.flushes, Goal::None)
        .figure("compactions", tally.compactions, Goal::None)
        .figure("reopens", tally.reopens, Goal::None);
    let rarest = tally.kinds.iter().min().copied().unwrap_or(0);
    report.figure("times the rarest kind ran", rarest, often);
    report
}
