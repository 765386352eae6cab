//! The repository's own chores, run as `cargo xtask <chore>`. People and `.ci/run` call it.
#![forbid(unsafe_code)]

mod ground;
mod tidy;

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

const USAGE: &str =
    "usage: cargo xtask tidy | ground [CAMPAIGN...] | soak --hours N [CAMPAIGN...] | tsan [BATCHES]
  tidy   check layers, file openings, unsafe code, text and sizes; print the largest
  ground put the engine through crashes, faults and damage, with CI's sizes; print the figures
  soak   the same with new seeds, round after round, for N hours (fractions are fine)
  tsan   run the stress test under ThreadSanitizer, each writer writing BATCHES batches; needs the
         nightly toolchain with the component rust-src";

fn main() -> ExitCode {
    let chore: Vec<String> = std::env::args().skip(1).collect();
    match chore.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["tidy"] => tidy(),
        ["ground", only @ ..] => exit_code(ground::run_once(only)),
        ["soak", "--hours", hours, only @ ..] => match hours.parse::<f64>() {
            Ok(hours) if (0.0..10_000.0).contains(&hours) => {
                exit_code(ground::soak(Duration::from_secs_f64(hours * 3600.0), only))
            }
            _ => {
                eprintln!("{hours} is no number of hours");
                ExitCode::from(2)
            }
        },
        ["tsan"] => tsan("40000"),
        ["tsan", batches] => tsan(batches),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn exit_code(passed: bool) -> ExitCode {
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
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

/// The standard library is built anew, instrumented: without that its channels and locks look like
/// races. A target folder of its own keeps the usual one from being rebuilt each time.
fn tsan(batches: &str) -> ExitCode {
    let mut command = Command::new("cargo");
    command
        .args(["+nightly", "test", "-Zbuild-std", "--target", "x86_64-unknown-linux-gnu"])
        .args(["--target-dir", "target/tsan", "--package", "siltstone", "--test", "stress"])
        .env("RUSTFLAGS", "-Zsanitizer=thread")
        .env("SILTSTONE_STRESS_BATCHES", batches);
    match command.status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("tsan could not run: {error}");
            ExitCode::from(2)
        }
    }
}
