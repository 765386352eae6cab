//! `cloud ...`: databases whose tables lie in a bucket. Look at them, check them, look after them; from anywhere, beside
//! whoever writes. `place` opens what a URL names; each verb has a file.
//!
//! C1: no key stands in any output or error: URLs that hold some are refused before they are shown, and what servers say
//! is shown without them ([`siltstone_s3::Location`]).
//! C2: nothing is removed, and nobody is shut out, without `--yes`.

mod collect;
mod cost;
mod doctor;
mod fence;
mod jobs;
mod list;
mod pins;
pub(crate) mod place;
mod times;
mod verify;

use clap::Subcommand;

use crate::errors::Outcome;
use crate::output::Context;

const HELP_LS: &str = "\
One row for the database, its owner, each version, level, checkpoint, clone, reader and job.

Examples:
  siltstone cloud ls s3://shop/orders
  siltstone cloud ls s3://shop/orders --tables -o csv";

const HELP_VERIFY: &str = "\
Tables of the newest version, and of those that checkpoints and clones keep, are read and held
against their checksums. Nothing is written.

Examples:
  siltstone cloud verify s3://shop/orders
  siltstone cloud verify s3://shop/orders --deep -o jsonl";

const HELP_GC: &str = "\
What goes: what no version that may still be read consists of, and what no later version may
name. Every owner may collect by himself; several collectors do no harm.

Examples:
  siltstone cloud gc s3://shop/orders
  siltstone cloud gc s3://shop/orders --reconcile --min-age 2h --yes";

const HELP_CHECKPOINT: &str = "\
A checkpoint keeps a version until it is removed: it costs what its tables cost.

Examples:
  siltstone cloud checkpoint s3://shop/orders create daily --life 7d
  siltstone cloud checkpoint s3://shop/orders
  siltstone cloud checkpoint s3://shop/orders remove daily";

const HELP_CLONE: &str = "\
The clone shares the tables of its parent, which a pin there keeps: a few requests, however large it is.

Examples:
  siltstone cloud clone s3://shop/orders s3://shop/orders-copy
  siltstone cloud ls s3://shop/orders-copy";

const HELP_FENCE: &str = "\
For a writer that is lost: on a machine that does not answer, or that came back twice. What it
has committed stays; what it has only acknowledged on its own disk is not in the bucket.

Examples:
  siltstone cloud fence s3://shop/orders
  siltstone cloud fence s3://shop/orders --yes";

/// The verbs of databases in a bucket.
#[derive(Debug, Subcommand)]
pub(crate) enum CloudVerb {
    #[command(after_help = "Examples:
  siltstone cloud doctor s3://shop
  siltstone cloud doctor s3://shop/orders -o jsonl")]
    Doctor(doctor::DoctorArgs),
    #[command(after_help = HELP_LS)]
    Ls(list::ListArgs),
    #[command(after_help = HELP_VERIFY)]
    Verify(verify::VerifyArgs),
    #[command(after_help = HELP_GC)]
    Gc(collect::CollectArgs),
    #[command(after_help = "Examples:
  siltstone cloud jobs s3://shop/orders
  siltstone cloud jobs s3://shop/orders -o csv")]
    Jobs(jobs::JobsArgs),
    #[command(after_help = "Examples:
  siltstone cloud cost s3://shop/orders
  siltstone cloud cost s3://shop/orders --prices express -o json")]
    Cost(cost::CostArgs),
    #[command(after_help = HELP_CHECKPOINT)]
    Checkpoint(pins::CheckpointArgs),
    #[command(after_help = HELP_CLONE)]
    Clone(pins::CloneArgs),
    #[command(after_help = HELP_FENCE)]
    Fence(fence::FenceArgs),
}

/// What the help of `cloud` itself ends with.
pub(crate) const HELP: &str = "\
A URL is s3://BUCKET/PATH, where PATH is the database's own; ?endpoint=.. and ?region=.. may
follow. Keys come from the environment: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
AWS_SESSION_TOKEN, or the role of the machine or pod.

Examples:
  siltstone cloud doctor s3://shop
  siltstone cloud ls s3://shop/orders";

pub(crate) fn run(verb: &CloudVerb, context: &Context) -> Outcome {
    match verb {
        CloudVerb::Doctor(args) => doctor::run(args, context),
        CloudVerb::Ls(args) => list::run(args, context),
        CloudVerb::Verify(args) => verify::run(args, context),
        CloudVerb::Gc(args) => collect::run(args, context),
        CloudVerb::Jobs(args) => jobs::run(args, context),
        CloudVerb::Cost(args) => cost::run(args, context),
        CloudVerb::Checkpoint(args) => pins::checkpoint(args, context),
        CloudVerb::Clone(args) => pins::clone(args, context),
        CloudVerb::Fence(args) => fence::run(args, context),
    }
}
