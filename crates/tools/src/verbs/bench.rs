//! `bench`: LevelDB's db_bench, as a verb. Flags and report are the program's own.

use std::env;
use std::ffi::OsString;

use clap::Args;
use siltstone_bench::{Ended, HELP};

use crate::errors::{Exit, Failure, Outcome};

/// Measure: LevelDB's db_bench, its flags and its report, and YCSB
#[derive(Args, Debug)]
pub(crate) struct BenchArgs {
    /// db_bench's flags
    #[arg(value_name = "--NAME=VALUE", trailing_var_arg = true, allow_hyphen_values = true)]
    flags: Vec<OsString>,
}

pub(crate) fn help() -> String {
    format!(
        "{HELP}
Examples:
  siltstone bench --num=2000 --benchmarks=fillrandom,readrandom --db=./bench-db
  siltstone bench --num=2000 --benchmarks=ycsbload,ycsba --db=./bench-db --percentiles=1"
    )
}

pub(crate) fn bench(args: &BenchArgs) -> Outcome {
    let program = env::current_exe().map_err(|error| {
        Failure::new(Exit::Io, "E-IO", format!("find this program's own file: {error}"))
    })?;
    let program = [program.into(), OsString::from("bench")];
    match siltstone_bench::run(&program, &args.flags, &mut std::io::stdout()) {
        Ended::Done => Ok(Exit::Ok),
        Ended::Refused => Ok(Exit::Usage),
        Ended::Failed => Ok(Exit::Io),
    }
}
