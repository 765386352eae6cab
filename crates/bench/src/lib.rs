//! db_bench: LevelDB's benchmarks, flags and report, for siltstone. The program `db_bench` and the
//! command `siltstone bench` are this library with another first word.
//!
//! The report on standard output is LevelDB's to the byte, so that what reads one reads the other.
//! Names, numbers of operations, keys, values and their order are LevelDB's as well.
//!
//! - `flags` reads the command line, `benchmark` knows what each name does,
//! - `session` runs the list, `work` is what its threads do, `popularity` which records they ask for,
//! - `repeat` has the list run again and again, `against` beside another program,
//! - `engine` is the border to what is measured, `report` what is printed.
#![forbid(unsafe_code)]

mod against;
mod benchmark;
mod engine;
mod flags;
mod keys;
pub mod lab;
mod popularity;
mod random;
mod repeat;
mod report;
mod session;
mod updates;
mod work;

use std::ffi::OsString;
use std::io::Write;

use engine::leveldb::LevelDbStore;
use engine::siltstone::Siltstone;
use flags::{EngineName, Flags, Refused};

pub use flags::HELP;
pub use popularity::Law;
pub use updates::Updates;

/// How a run ended. What was wrong has been told on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Ended {
    /// All was done.
    Done,
    /// A flag does not exist, or does not take its value. Nothing was touched.
    Refused,
    /// A benchmark failed.
    Failed,
}

/// Runs the benchmarks that `arguments` (without the program's name) ask for. Prints the report to
/// `out`, and what is not part of it to standard error.
///
/// `program` are the words that start this program again, for `--against`.
///
/// Without `--use_existing_db=1`, the database in the folder `--db` is removed first.
pub fn run(program: &[OsString], arguments: &[OsString], out: &mut dyn Write) -> Ended {
    let flags = match Flags::parse(arguments) {
        Ok(flags) => flags,
        Err(Refused::Help) => {
            // A reader that went away needs no help.
            let _ = out.write_all(HELP.as_bytes());
            return Ended::Done;
        }
        Err(Refused::Invalid(flag)) => {
            // LevelDB's words.
            eprintln!("Invalid flag '{}'", flag.display());
            return Ended::Refused;
        }
    };
    match measure(program, &flags, arguments, out) {
        Ok(()) => Ended::Done,
        Err(message) => {
            eprintln!("{message}");
            Ended::Failed
        }
    }
}

fn measure(
    program: &[OsString],
    flags: &Flags,
    arguments: &[OsString],
    out: &mut dyn Write,
) -> Result<(), String> {
    if let Some(rival) = &flags.against {
        return against::run(program, flags, rival, arguments, out);
    }
    match &flags.engine {
        EngineName::Siltstone => repeat::run(flags, arguments, || Ok(Siltstone::new(flags)), out),
        EngineName::LevelDb(library) => {
            let make = || LevelDbStore::new(library.as_deref(), flags);
            repeat::run(flags, arguments, make, out)
        }
    }
}
