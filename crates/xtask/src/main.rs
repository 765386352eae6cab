//! The repository's own chores, run as `cargo xtask <chore>`. People and `.ci/run` call it.
#![forbid(unsafe_code)]

mod callgrind;
mod fuzz;
mod ground;
mod install;
mod planted;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

const USAGE: &str = "usage: cargo xtask CHORE
  tidy      check layers, file openings, unsafe code, text and sizes; print the largest
  ground [CAMPAIGN...]
            put the engine through crashes, faults and damage, with CI's sizes; print the figures
  soak --hours N [CAMPAIGN...]
            the same with new seeds, round after round, for N hours (fractions are fine)
  planted [--check | NAME...]
            plant known bugs into a copy of the engine, to see the ground find each; or only see
            that their patches apply
  bench [--check | NAME]
            time parts of the engine by themselves; or only see that what does so compiles
  callgrind [--accept PATH REASON...]
            count the instructions of hot paths under valgrind, and fail if one has grown by more than
            5 % over the kept figure; or keep the new figure of one (or of all), and why it is right
  shuttle [--schedules N] [--seed N] [--only SCENARIO]
            run short lives of a database under many schedules of its threads
  loom      explore every schedule of small cases of what threads agree by
  tsan [BATCHES]
            run the stress test under ThreadSanitizer, each writer writing BATCHES batches; needs
            the nightly toolchain with the component rust-src";

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
        ["planted", "--check"] => exit_code_of(planted::check(&root())),
        ["planted", only @ ..] => exit_code_of(planted::run(&root(), only)),
        ["bench", "--check"] => check_benches(),
        ["bench", only @ ..] => bench(only),
        ["callgrind"] => exit_code_of(callgrind::check(&root())),
        ["callgrind", "--accept", path, reason @ ..] if !reason.is_empty() => {
            exit_code_of(callgrind::accept(&root(), path, &reason.join(" ")))
        }
        ["tsan"] => tsan("40000"),
        ["tsan", batches] => tsan(batches),
        ["loom"] => loom(),
        ["shuttle", options @ ..] => shuttle(options),
        ["fuzz", ..] => fuzz(&chore[1..]),
        ["install-capi", ..] => install(&chore[1..]),
        _ => {
            eprintln!("{USAGE}\n{}\n{}", fuzz::USAGE, install::USAGE);
            ExitCode::from(2)
        }
    }
}

fn fuzz(arguments: &[String]) -> ExitCode {
    match fuzz::run(arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("fuzz: {message}");
            ExitCode::from(2)
        }
    }
}

fn install(arguments: &[String]) -> ExitCode {
    match install::run(&root(), arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("install-capi: {message}");
            ExitCode::FAILURE
        }
    }
}

fn exit_code(passed: bool) -> ExitCode {
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn exit_code_of(passed: std::io::Result<bool>) -> ExitCode {
    passed.map(exit_code).unwrap_or_else(|error| {
        eprintln!("could not run: {error}");
        ExitCode::from(2)
    })
}

/// This crate lies in `crates/xtask`, so the repository's root is two folders up.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn tidy() -> ExitCode {
    match tidy::run(&root()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("tidy could not run: {message}");
            ExitCode::from(2)
        }
    }
}

// The builds below are of another kind than the usual one, which target folders of their own keep
// from being rebuilt each time.

/// The standard library is built anew, instrumented: without that its channels and locks look like
/// races.
fn tsan(batches: &str) -> ExitCode {
    let mut command = cargo("tsan", "-Zsanitizer=thread");
    command
        .args(["+nightly", "test", "-Zbuild-std", "--target", "x86_64-unknown-linux-gnu"])
        .args(["--package", "siltstone", "--test", "stress"])
        .env("SILTSTONE_STRESS_BATCHES", batches);
    run("tsan", &mut command)
}

fn bench(only: &[&str]) -> ExitCode {
    let mut command = cargo("benches", "--cfg benches");
    command.args(["bench", "--locked", "--package", "siltstone", "--bench", "parts", "--"]);
    run("bench", command.args(only))
}

fn check_benches() -> ExitCode {
    let mut command = cargo("benches", "--cfg benches");
    command.args(["clippy", "--quiet", "--locked", "--package", "siltstone", "--bench", "parts"]);
    run("bench", command.args(["--", "-D", "warnings"]))
}

fn loom() -> ExitCode {
    let mut command = cargo("loom", "--cfg loom");
    command.args(["test", "--locked", "--package", "siltstone", "--lib", "loom_"]);
    run("loom", &mut command)
}

fn shuttle(options: &[&str]) -> ExitCode {
    let mut command = cargo("shuttle", "--cfg shuttle");
    command.args(["run", "--quiet", "--locked", "--package", "siltstone-sim", "--bin", "ground"]);
    command.args(["--", "shuttle"]).args(options);
    run("shuttle", &mut command)
}

/// Cargo with flags for the compiler, and a folder of that kind below the usual target folder.
fn cargo(kind: &str, rustflags: &str) -> Command {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let mut command = Command::new("cargo");
    command.env("RUSTFLAGS", rustflags).env("CARGO_TARGET_DIR", Path::new(&target).join(kind));
    command
}

fn run(chore: &str, command: &mut Command) -> ExitCode {
    match command.status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{chore} could not run: {error}");
            ExitCode::from(2)
        }
    }
}
