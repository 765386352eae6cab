//! Builds the libFuzzer program, with the stable toolchain: the flags that instrument code are
//! unstable only by name, and `RUSTC_BOOTSTRAP` lets them through. A target folder of its own keeps
//! the usual one from being rebuilt each time.

use std::path::{Path, PathBuf};
use std::process::Command;

const TRIPLE: &str = "x86_64-unknown-linux-gnu";
const PACKAGE: &str = "siltstone-fuzz";

/// Counters for every edge, and a table that tells which is which: what libFuzzer steers by.
const COVERAGE: &str = "-Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=3 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Ccodegen-units=1";
/// Calls that report the operands of comparisons, which libFuzzer then tries. They take a third of the
/// time, so runs for volume, without AddressSanitizer, go without them.
const COMPARISONS: &str = "-Cllvm-args=-sanitizer-coverage-trace-compares";

/// Where things are read from and written to.
pub(super) struct Places {
    pub(super) root: PathBuf,
    /// All that fuzzing makes.
    pub(super) out: PathBuf,
}

impl Places {
    pub(super) fn find() -> Self {
        // This crate lies in `crates/xtask`, so the repository's root is two folders up.
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let target =
            std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
        Places { root, out: target.join("fuzz") }
    }

    /// The corpus in the repository.
    pub(super) fn kept(&self, target: &str) -> PathBuf {
        self.root.join("crates/fuzz/corpus").join(target)
    }

    /// What runs have added to it.
    pub(super) fn grown(&self, target: &str) -> PathBuf {
        self.out.join("grown").join(target)
    }
}

/// A target's name and longest input.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) name: String,
    pub(super) len_max: String,
}

/// The targets of these names; all if none is given.
pub(super) fn targets(places: &Places, names: &[String]) -> Result<Vec<Target>, String> {
    let mut list = Command::new("cargo");
    list.args(["run", "--quiet", "--package", PACKAGE, "--bin", "fuzz-target"]);
    let listed = list.current_dir(&places.root).output().map_err(|error| error.to_string())?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let all: Vec<Target> = listed
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .map(|(name, len_max)| Target { name: name.to_owned(), len_max: len_max.to_owned() })
        .collect();
    if all.is_empty() {
        return Err(format!("{PACKAGE} does not build"));
    }
    if names.is_empty() {
        return Ok(all);
    }
    let find = |name: &String| {
        let known = || all.iter().map(|target| &target.name[..]).collect::<Vec<_>>().join(", ");
        let found = all.iter().find(|target| target.name == *name).cloned();
        found.ok_or_else(|| format!("no target {name}; there are {}", known()))
    };
    names.iter().map(find).collect()
}

/// Builds the program and returns its path.
pub(super) fn program(places: &Places, asan: bool) -> Result<PathBuf, String> {
    let (folder, more) = match asan {
        true => ("asan", format!("{COMPARISONS} -Zsanitizer=address")),
        false => ("plain", String::new()),
    };
    let target_dir = places.out.join(folder);
    let mut build = cargo_build("fuzz-target", &target_dir);
    build
        .args(["--target", TRIPLE])
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", format!("--cfg fuzzing {COVERAGE} {more}"));
    succeed(build.current_dir(&places.root), "the fuzz program does not build")?;
    Ok(target_dir.join(TRIPLE).join("debug/fuzz-target"))
}

/// Builds the program that takes files apart into seeds; it wants no instruments.
pub(super) fn seeds_program(places: &Places) -> Result<PathBuf, String> {
    let target_dir = places.out.join("seeds");
    let mut build = cargo_build("fuzz-seeds", &target_dir);
    build.env("RUSTFLAGS", "--cfg fuzzing");
    succeed(build.current_dir(&places.root), "the seeds program does not build")?;
    Ok(target_dir.join("debug/fuzz-seeds"))
}

/// The profile is `dev`: optimised, with debug assertions and overflow checks.
fn cargo_build(program: &str, target_dir: &Path) -> Command {
    let mut build = Command::new("cargo");
    build.args(["build", "--quiet", "--locked", "--package", PACKAGE, "--bin", program]);
    build.arg("--target-dir").arg(target_dir);
    build
}

pub(super) fn succeed(command: &mut Command, otherwise: &str) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{otherwise}: {status}")),
        Err(error) => Err(format!("{otherwise}: {error}")),
    }
}
