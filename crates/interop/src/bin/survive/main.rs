//! Real ends on a real kernel: processes killed, power cut from under a file system, disks that are
//! full. A child works on a database and tells of each write before and after; the parent ends it
//! and holds what is found afterwards against what was acknowledged.
//!
//! ```text
//! cargo run -p siltstone-interop --bin survive -- kill  [--cycles N] [--engine leveldb]
//! cargo run -p siltstone-interop --bin survive -- power [--cycles N] [--fs xfs] [--engine leveldb]
//! cargo run -p siltstone-interop --bin survive -- full  [--rounds N] [--engine leveldb]
//! ```
//!
//! The seed fixes what is written and what is meant to happen; when threads and processes run is the
//! kernel's own, so a run is never quite the same.
#![deny(unsafe_code)]

mod check;
mod child;
mod disk;
mod ear;
mod ending;
mod full;
mod history;
mod kill;
mod pipe;
mod power;
mod script;
mod shutdown;
mod store;

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Parser, Subcommand};
use siltstone_interop::leveldb::LevelDb;

use store::Engine;

#[derive(Parser)]
#[command(name = "survive", about = "Ends processes and file systems under a database, and looks")]
struct Cli {
    #[command(subcommand)]
    campaign: Campaign,
}

#[derive(Subcommand)]
enum Campaign {
    /// Kills processes (`kill -9`) at all moments: no acknowledged write may be lost
    Kill(kill::KillArgs),
    /// Cuts the power of a real file system: no synced write, and none before it, may be lost
    Power(power::PowerArgs),
    /// Fills disks and lowers limits: writes fail, nothing is lost, and writes resume
    Full(full::FullArgs),
    /// The process that is ended
    #[command(hide = true)]
    Child(child::ChildArgs),
}

/// Set when someone wants this program to end: campaigns stop and tidy up.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

fn main() -> ExitCode {
    let campaign = Cli::parse().campaign;
    if let Campaign::Child(args) = campaign {
        child::run(&args);
    }
    heed_interruptions();
    match campaign {
        Campaign::Kill(args) if is_there(args.engine) => kill::run(&args, &INTERRUPTED),
        Campaign::Power(args) if is_there(args.engine) => power::run(&args, &INTERRUPTED),
        Campaign::Full(args) if is_there(args.engine) => full::run(&args, &INTERRUPTED),
        _ => ExitCode::SUCCESS,
    }
}

/// If not, says that all is skipped.
fn is_there(engine: Engine) -> bool {
    engine == Engine::Siltstone || LevelDb::load_or_skip().is_some()
}

fn heed_interruptions() {
    let set = ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::Relaxed));
    set.expect("nobody else has set a handler");
}
