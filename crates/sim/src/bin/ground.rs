//! The campaigns of the ground, one subcommand each. A campaign prints its figures with their goals
//! and fails if one is missed; a failure comes with the command that repeats it.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use siltstone::Site;
use siltstone_sim::corrupt;
use siltstone_sim::crash::campaign::{self, CrashArgs, MutantArgs};
use siltstone_sim::differential;

#[derive(Parser)]
#[command(name = "ground", about = "Puts siltstone through crashes, faults and damage, and counts")]
struct Cli {
    #[command(subcommand)]
    campaign: Campaign,
}

#[derive(Subcommand)]
enum Campaign {
    Crash(CrashArgs),
    Mutants(MutantArgs),
    /// Fails every call of representative workloads, in every way, and checks what comes of it
    Faults(siltstone_sim::faults::Args),
    Corrupt(corrupt::Args),
    /// Lists the names of all calls that change the disk
    Sites,
    /// Random operations on many option sets, against a model and against each other
    Differential(differential::Args),
}

fn main() -> ExitCode {
    match Cli::parse().campaign {
        Campaign::Crash(args) => campaign::crash(&args).print(),
        Campaign::Mutants(args) => campaign::mutants(&args).print(),
        Campaign::Faults(args) => siltstone_sim::faults::run(&args).print(),
        Campaign::Corrupt(args) => corrupt::run(&args).print(),
        Campaign::Sites => {
            Site::ALL.iter().for_each(|site| println!("{}", site.name()));
            ExitCode::SUCCESS
        }
        Campaign::Differential(args) => differential::run(&args).print(),
    }
}
