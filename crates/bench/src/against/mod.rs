//! `--against`: the same list on two programs by turns, each run in a process of its own, and the ratio
//! of each line. A round runs both, and in every other round the rival begins: what slows the machine
//! for a while slows both.

mod lines;
mod table;

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use indicatif::ProgressBar;

use crate::engine::Result;
use crate::flags::{EngineName, Flags, Rival, leveldbs_own, without};
use crate::report::json;
use crate::session::print;
use lines::Line;

const ROUNDS: usize = 3;

/// A program and how it is called.
struct Side {
    label: String,
    command: Vec<OsString>,
    folder: PathBuf,
}

/// Runs the rounds and prints the table. `program` are the words that start this program.
pub(crate) fn run(
    program: &[OsString],
    flags: &Flags,
    rival: &Rival,
    arguments: &[OsString],
    out: &mut dyn Write,
) -> Result<()> {
    let [ours, theirs] = sides(program, flags, rival, arguments);
    let count = flags.runs.unwrap_or(ROUNDS);
    let mut rounds = Vec::new();
    for round in 0..count {
        let take = |side: &Side| take_turn(side, &format!("round {} of {count}", round + 1));
        rounds.push(if round % 2 == 0 {
            let ours = take(&ours)?;
            (ours, take(&theirs)?)
        } else {
            let theirs = take(&theirs)?;
            (take(&ours)?, theirs)
        });
    }
    let rows = table::rows(&rounds);
    if rows.is_empty() {
        return Err("the two programs have no line in common".to_owned());
    }
    print(out, &table::text(&rows, &ours.label, &theirs.label))?;
    match &flags.json {
        Some(path) => json::write(path, &table::document(&rows, &ours.label, &theirs.label)),
        None => Ok(()),
    }
}

/// This program and its rival, each with a folder of its own. A stranger gets only the flags that
/// LevelDB's program takes.
fn sides(program: &[OsString], flags: &Flags, rival: &Rival, arguments: &[OsString]) -> [Side; 2] {
    const TAKEN_HERE: [&str; 4] = ["against", "runs", "json", "db"];
    let common = without(arguments, &TAKEN_HERE);
    let side = |label: String, mut command: Vec<OsString>, flags_passed: Vec<OsString>, name| {
        let folder = flags.db.join(name);
        let mut db = OsString::from("--db=");
        db.push(&folder);
        command.extend(flags_passed);
        command.push(db);
        Side { label, command, folder }
    };
    let ours = side(label(&flags.engine), program.to_vec(), common.clone(), "ours");
    let theirs = match rival {
        Rival::Engine(engine) => {
            let mut passed = without(&common, &["engine"]);
            passed.push(format!("--engine={engine}").into());
            side(label(engine), program.to_vec(), passed, "theirs")
        }
        Rival::Program(path) => {
            let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
            side(name, vec![path.clone().into()], leveldbs_own(&common), "theirs")
        }
    };
    [ours, theirs]
}

/// The engine's name, or its library's.
fn label(engine: &EngineName) -> String {
    match engine {
        EngineName::Siltstone => "siltstone".to_owned(),
        EngineName::LevelDb(None) => "leveldb".to_owned(),
        EngineName::LevelDb(Some(library)) => {
            let name = Path::new(library).file_name();
            name.map_or_else(|| library.clone(), |name| name.to_string_lossy().into_owned())
        }
    }
}

/// Runs one program through the list.
fn take_turn(side: &Side, what: &str) -> Result<Vec<Line>> {
    let shown = side.command.join(" ".as_ref()).display().to_string();
    let failed = |reason: String| format!("{shown}: {reason}");
    std::fs::create_dir_all(side.folder.parent().unwrap_or(&side.folder))
        .map_err(|error| failed(error.to_string()))?;
    let spinner = std::io::stderr().is_terminal().then(|| {
        let spinner = ProgressBar::new_spinner().with_message(format!("{what}: {}", side.label));
        spinner.enable_steady_tick(Duration::from_millis(200));
        spinner
    });
    let mut command = Command::new(&side.command[0]);
    command.args(&side.command[1..]).stdin(Stdio::null());
    let output = command.output().map_err(|error| failed(error.to_string()))?;
    if let Some(spinner) = spinner {
        spinner.finish_and_clear();
    }
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let last = errors.trim_end().rsplit('\n').next().unwrap_or_default();
        return Err(failed(format!("{}: {last}", output.status)));
    }
    Ok(lines::parse(&String::from_utf8_lossy(&output.stdout)))
}
