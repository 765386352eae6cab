//! The repository's own chores, run as `cargo xtask <chore>`. People and `.ci/run` call it.
#![forbid(unsafe_code)]

mod tidy;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask tidy
  tidy   check layers, file openings, unsafe code, text and sizes; print the largest";

fn main() -> ExitCode {
    let chore: Vec<String> = std::env::args().skip(1).collect();
    match chore.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["tidy"] => tidy(),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn tidy() -> ExitCode {
    // This crate lies in `crates/xtask`, so the repository's root is two folders up.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    match tidy::run(&root) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("tidy could not run: {message}");
            ExitCode::from(2)
        }
    }
}
