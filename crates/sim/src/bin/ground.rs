//! The campaigns of the ground, one subcommand each. A campaign prints its figures with their goals
//! and fails if one is missed; a failure comes with the command that repeats it.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use siltstone::Site;
#[cfg(shuttle)]
use siltstone_sim::baton;
use siltstone_sim::cloud::campaign::{self as clouds, CloudArgs, CloudMutantArgs};
use siltstone_sim::crash::campaign::{self, CrashArgs, MutantArgs};
use siltstone_sim::{corrupt, differential, faults, linear};

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
    Cloud(CloudArgs),
    CloudMutants(CloudMutantArgs),
    /// Fails every call of representative workloads, in every way, and checks what comes of it
    Faults(faults::Args),
    Corrupt(corrupt::Args),
    /// Lists the names of all calls that change the disk
    Sites,
    /// Random operations on many option sets, against a model and against each other
    Differential(differential::Args),
    /// Checks that what threads at work on one database are told is linearizable
    Linear(linear::Args),
    /// Runs short lives of a database under many schedules of its threads
    #[cfg(shuttle)]
    Shuttle(baton::Args),
}

fn main() -> ExitCode {
    match Cli::parse().campaign {
        Campaign::Crash(args) => campaign::crash(&args).print(),
        Campaign::Mutants(args) => campaign::mutants(&args).print(),
        Campaign::Cloud(args) => clouds::cloud(&args).print(),
        Campaign::CloudMutants(args) => clouds::mutants(&args).print(),
        Campaign::Faults(args) => faults::run(&args).print(),
        Campaign::Corrupt(args) => corrupt::run(&args).print(),
        Campaign::Sites => {
            Site::ALL.iter().for_each(|site| println!("{}", site.name()));
            ExitCode::SUCCESS
        }
        Campaign::Differential(args) => differential::run(&args).print(),
        Campaign::Linear(args) => linear::run(&args).print(),
        #[cfg(shuttle)]
        Campaign::Shuttle(args) => baton::run(&args).print(),
    }
}
