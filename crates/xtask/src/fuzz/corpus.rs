//! The kept corpora: seeds, and what runs have found that covers more.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::build::{self, Places, Target};
use super::campaign::libfuzzer;

/// A kept corpus grows to this many inputs by merging. What is left out, some minutes of fuzzing find
/// again.
const INPUTS_MAX: usize = 80;

/// Writes the seeds into the kept corpora.
pub(super) fn write_seeds(places: &Places) -> Result<bool, String> {
    let program = build::seeds_program(places)?;
    build::succeed(&mut Command::new(program), "the seeds could not be written").map(|()| true)
}

/// Adds to each kept corpus what covers more, out of what runs have grown.
pub(super) fn merge(places: &Places, program: &Path, targets: &[Target]) -> Result<bool, String> {
    for target in targets {
        let (kept, grown) = (places.kept(&target.name), places.grown(&target.name));
        let merged = places.out.join("merged").join(&target.name);
        // What an earlier merge has left would be merged again.
        let _ = fs::remove_dir_all(&merged);
        fs::create_dir_all(&merged).map_err(|error| error.to_string())?;
        fs::create_dir_all(&grown).map_err(|error| error.to_string())?;
        let mut command = libfuzzer(program, target);
        command.arg("-set_cover_merge=1").args([&merged, &kept, &grown]).stderr(Stdio::null());
        build::succeed(&mut command, &format!("merging {}", target.name))?;
        let added = keep_some(&kept, &merged).map_err(|error| error.to_string())?;
        println!("{}: {added} inputs added", target.name);
    }
    Ok(true)
}

/// Copies inputs of `merged` into `kept`, until that is full: short ones and long ones, for what they
/// reach differs. Returns how many are new.
fn keep_some(kept: &Path, merged: &Path) -> std::io::Result<usize> {
    let mut inputs = Vec::new();
    for entry in fs::read_dir(merged)? {
        inputs.push(fs::read(entry?.path())?);
    }
    inputs.sort_by_key(|input| (input.len(), input.clone()));
    let mut known = Vec::new();
    for entry in fs::read_dir(kept)? {
        known.push(fs::read(entry?.path())?);
    }
    inputs.retain(|input| !known.contains(input));
    let room = INPUTS_MAX.saturating_sub(known.len());
    let step = inputs.len().div_ceil(room.max(1)).max(1);
    let chosen: Vec<_> = inputs.iter().step_by(step).take(room).collect();
    for (number, input) in chosen.iter().enumerate() {
        // Names only keep inputs apart; the number of those before tells where they came from.
        let name = format!("found-{:03}-{}", known.len() + number, input.len());
        fs::write(kept.join(name), input)?;
    }
    Ok(chosen.len())
}
