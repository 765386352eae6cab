//! LevelDB's benchmark program, for siltstone.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::process::ExitCode;

use siltstone_bench::Ended;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os();
    let named = OsString::from_iter(arguments.next());
    // The program's own file, where the system tells it: its name alone may lead elsewhere.
    let program = std::env::current_exe().map_or(named, OsString::from);
    let arguments: Vec<OsString> = arguments.collect();
    match siltstone_bench::run(&[program], &arguments, &mut std::io::stdout()) {
        Ended::Done => ExitCode::SUCCESS,
        Ended::Refused | Ended::Failed => ExitCode::FAILURE,
    }
}
