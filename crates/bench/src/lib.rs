//! db_bench: LevelDB's benchmarks, flags and report, for siltstone. The program `db_bench` and the
//! command `siltstone bench` are this library with another first word.
//!
//! The report on standard output is LevelDB's to the byte, so that what reads one reads the other.
//! Names, numbers of operations, keys, values and their order are LevelDB's as well.
//!
//! - `flags` reads the command line, `benchmark` knows what each name does,
//! - `session` runs the list, `work` is what its threads do,
//! - `engine` is the border to what is measured, `report` what is printed.
#![forbid(unsafe_code)]

mod benchmark;
mod engine;
mod flags;
mod keys;
mod random;
mod report;
mod session;
mod work;

use std::ffi::OsString;
use std::io::Write;

use engine::leveldb::LevelDbStore;
use engine::siltstone::Siltstone;
use flags::{EngineName, Flags, Refused};
use session::Session;

/// Runs the benchmarks that `arguments` (without the program's name) ask for, prints the report to
/// `out` and what is not part of it to standard error, and returns the exit code: 0, or 1 for flags
/// that do not exist and for a benchmark that failed.
///
/// Without `--use_existing_db=1`, the database in the folder `--db` is removed first.
pub fn run(arguments: &[OsString], out: &mut dyn Write) -> u8 {
    let flags = match Flags::parse(arguments) {
        Ok(flags) => flags,
        Err(Refused::Help) => {
            // A reader that went away needs no help.
            let _ = write!(out, "{}", Refused::Help);
            return 0;
        }
        Err(refused) => {
            eprint!("{refused}");
            return 1;
        }
    };
    let ran = match &flags.engine {
        EngineName::Siltstone => Session::new(&flags, Siltstone::new(&flags), out).run(),
        EngineName::LevelDb(library) => LevelDbStore::new(library.as_deref(), &flags)
            .and_then(|store| Session::new(&flags, store, out).run()),
    };
    match ran {
        Ok(()) => 0,
        Err(message) => {
            eprintln!("{message}");
            1
        }
    }
}
