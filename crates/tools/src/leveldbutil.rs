//! LevelDB's own tool, for scripts that call it: the program under the name `leveldbutil`. Its one
//! command is `dump FILES..`, and any failure exits with 1.

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use crate::output::stdout;
use crate::verbs::files::dump_text;

pub(crate) fn run(arguments: &[OsString]) -> ExitCode {
    match arguments.split_first() {
        Some((command, files)) if command == "dump" && !files.is_empty() => dump(files),
        _ => {
            eprintln!(
                "Usage: leveldbutil command...\n   \
                 dump files...         -- dump contents of specified files"
            );
            ExitCode::FAILURE
        }
    }
}

fn dump(files: &[OsString]) -> ExitCode {
    let mut all_well = true;
    let mut out = stdout();
    for file in files {
        if let Err(failure) = dump_text(Path::new(file), &mut out) {
            if failure.is_broken_pipe() {
                break;
            }
            failure.print(false);
            all_well = false;
        }
    }
    // A reader that went away needs no more output.
    drop(out.flush());
    if all_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
