//! The command `siltstone`: look into, load, check and mend LevelDB and siltstone databases.
//!
//! `main` decides who is called (a verb, the shell, or LevelDB's own tool by program name), prints
//! the failure if there is one, and turns it into an exit code. The rest lives in modules:
//! `cli` is the tree of verbs, `verbs/` does them, `output` writes results, `load/` reads files.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "a program's edge: files, time and threads are real")]

mod bytes;
mod cli;
mod demo;
mod errors;
mod handle;
mod interrupt;
mod leveldbutil;
mod load;
mod open;
mod output;
mod range;
mod shell;
mod sizes;
mod verbs;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use errors::{Exit, Failure, Outcome};

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let program = arguments.first().map(Path::new).and_then(Path::file_stem);
    if program.is_some_and(|name| name == "leveldbutil") {
        return leveldbutil::run(&arguments[1..]);
    }
    match cli::parse(arguments) {
        Ok(cli) => {
            let as_json = cli.globals.output.is_some_and(output::Format::is_json);
            finish(cli::run(&cli), as_json)
        }
        Err(error) => {
            // Clap knows which of its messages are help (stdout, 0) and which are errors (2).
            let code = if error.use_stderr() { Exit::Usage } else { Exit::Ok };
            drop(error.print());
            ExitCode::from(code as u8)
        }
    }
}

fn finish(outcome: Outcome, as_json: bool) -> ExitCode {
    let exit = match outcome {
        Ok(exit) => exit,
        Err(failure) if Failure::is_broken_pipe(&failure) => Exit::Ok,
        Err(failure) => {
            failure.print(as_json);
            failure.exit
        }
    };
    ExitCode::from(exit as u8)
}
