//! Instructions per operation of the engine's hot paths, counted by valgrind's callgrind. They are the
//! same on every run and hardly differ between machines, so they can be held against kept figures where
//! times cannot.
//!
//! `crates/bench/src/bin/hot_paths.rs` walks the paths, `crates/bench/callgrind.txt` keeps the figures.

mod kept;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kept::Kept;

const FIGURES: &str = "crates/bench/callgrind.txt";
/// The function of the program within which instructions count.
const MEASURED: &str = "*hot_paths::measured*";

/// Counts and compares. False if a path has grown too much, or has no figure.
pub(crate) fn check(root: &Path) -> io::Result<bool> {
    let Some(counted) = count(root)? else { return Ok(true) };
    let kept = Kept::parse(&fs::read_to_string(root.join(FIGURES))?).map_err(io::Error::other)?;
    let (text, sound) = kept.compare(&counted);
    print!("{text}");
    if !sound {
        println!(
            "{FIGURES} keeps what is right: cargo xtask callgrind --accept PATH REASON.. changes it"
        );
    }
    Ok(sound)
}

/// Keeps the figure of a path, or of `all`, as it is now, for the reason given.
pub(crate) fn accept(root: &Path, path: &str, reason: &str) -> io::Result<bool> {
    let Some(counted) = count(root)? else { return Ok(false) };
    let file = root.join(FIGURES);
    let mut kept = Kept::parse(&fs::read_to_string(&file)?).map_err(io::Error::other)?;
    let mut accepted = false;
    for (name, figure) in counted.iter().filter(|(name, _)| path == "all" || path == *name) {
        kept.set(name, *figure, reason);
        println!("{name} is kept at {figure} instructions");
        accepted = true;
    }
    if !accepted {
        println!("there is no path {path}");
        return Ok(false);
    }
    fs::write(file, kept.to_string())?;
    Ok(true)
}

/// Instructions per operation by path; `None` if valgrind is not installed.
fn count(root: &Path) -> io::Result<Option<BTreeMap<String, u64>>> {
    let valgrind = Command::new("valgrind").arg("--version").stdout(Stdio::null()).status();
    if !valgrind.is_ok_and(|status| status.success()) {
        println!("SKIPPED (valgrind not found)");
        return Ok(None);
    }
    let program = build(root)?;
    let listed = Command::new(&program).output()?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let mut counted = BTreeMap::new();
    for line in listed.lines() {
        let words =
            line.split_once(' ').and_then(|(name, count)| Some((name, count.parse().ok()?)));
        let (name, operations): (&str, u64) =
            words.ok_or_else(|| io::Error::other(format!("{}: {line}", program.display())))?;
        counted.insert(name.to_owned(), walk(&program, name)?.div_ceil(operations));
    }
    Ok(Some(counted))
}

/// Builds the program as it is shipped.
fn build(root: &Path) -> io::Result<PathBuf> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--quiet", "--release", "--locked", "--package", "siltstone-bench"]);
    cargo.args(["--features", "hot-paths", "--bin", "hot_paths"]).current_dir(root);
    if !cargo.status()?.success() {
        return Err(io::Error::other("the program does not build"));
    }
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(target.join("release/hot_paths"))
}

/// Walks one path under callgrind, and returns how many instructions that took.
fn walk(program: &Path, name: &str) -> io::Result<u64> {
    let folder = std::env::temp_dir().join(format!("siltstone-callgrind-{}", std::process::id()));
    // What an earlier walk left is in the way.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)?;
    let out = folder.join("callgrind.out");
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--tool=callgrind", "--quiet", &format!("--toggle-collect={MEASURED}")])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(program)
        .arg(name)
        .arg(folder.join("db"));
    let walked = valgrind.output()?;
    let total = fs::read_to_string(&out).ok().and_then(|text| total(&text));
    fs::remove_dir_all(&folder)?;
    total.filter(|total| walked.status.success() && *total > 0).ok_or_else(|| {
        let errors = String::from_utf8_lossy(&walked.stderr).into_owned();
        io::Error::other(format!("{name} could not be counted: {errors}"))
    })
}

/// The sum in a file that callgrind wrote.
fn total(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("totals:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_found() {
        let text = "events: Ir\n\nfl=(1)\n0 12\nsummary: 99\n\ntotals: 1234\n";
        assert_eq!(total(text), Some(1234));
        assert_eq!(total("events: Ir\n"), None);
    }

    #[test]
    fn the_kept_figures_can_be_read_and_have_reasons() {
        let text = fs::read_to_string(crate::root().join(FIGURES)).unwrap();
        let kept = Kept::parse(&text).unwrap();
        assert_eq!(kept.to_string(), text, "as --accept would write it");
    }
}
