//! Has LevelDB and siltstone do the same operations side by side, swapping their folders, and
//! compares them; see `siltstone_interop::rivals`. Says `SKIPPED` if there is no LevelDB, or fails if
//! `SILTSTONE_REQUIRE_LEVELDB` is set.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use siltstone_interop::leveldb::LevelDb;
use siltstone_interop::rivals::{Args, run};

#[derive(Parser)]
#[command(name = "rivals", about = "Has LevelDB and siltstone do the same, and compares them")]
struct Cli {
    #[command(flatten)]
    args: Args,
}

fn main() -> ExitCode {
    let args = Cli::parse().args;
    LevelDb::load_or_skip().map_or(ExitCode::SUCCESS, |leveldb| run(leveldb, &args).print())
}
