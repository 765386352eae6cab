//! LevelDB's benchmark program, for siltstone.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    ExitCode::from(siltstone_bench::run(&arguments, &mut std::io::stdout()))
}
