//! Runs the list as often as asked, tells the medians, and writes the file of `--json`.

use std::ffi::OsString;
use std::io::Write;

use crate::engine::{Result, Store};
use crate::flags::Flags;
use crate::report::spread::Spread;
use crate::report::{Record, header, json};
use crate::session::{Session, print};

/// Prints the header, then the lines of each run. `make` makes what opens databases, anew for each run:
/// nothing that one run has in memory serves the next.
pub(crate) fn run<S: Store>(
    flags: &Flags,
    arguments: &[OsString],
    make: impl Fn() -> Result<S>,
    out: &mut dyn Write,
) -> Result<()> {
    let mut store = make()?;
    let (engine, version) = store.version();
    eprint!("{}", header::environment(engine, &version));
    print(out, &header::sizes(flags))?;
    let mut runs = vec![Session::new(flags, store, out).run()?];
    for _ in 1..flags.runs.unwrap_or(1) {
        print(out, header::RULE)?;
        store = make()?;
        runs.push(Session::new(flags, store, out).run()?);
    }
    if runs.len() > 1 {
        print(out, &medians(&runs))?;
    }
    match &flags.json {
        Some(path) => {
            let engine = format!("{engine} {version}");
            json::write(path, &json::document(&engine, arguments, &runs))
        }
        None => Ok(()),
    }
}

/// A line for each line of a run. All runs have the same, since they run the same list.
fn medians(runs: &[Vec<Record>]) -> String {
    let mut text = format!("{}Medians of {} runs (lowest to highest)\n", header::RULE, runs.len());
    for (at, first) in runs[0].iter().enumerate() {
        let micros =
            runs.iter().filter_map(|run| run.get(at)).map(|record| record.stats.micros_per_op());
        if let Some(Spread { low, median, high }) = Spread::of(micros) {
            let name = &first.name;
            text += &format!("{name:<12} : {median:11.3} micros/op; ({low:.3} to {high:.3})\n");
        }
    }
    text
}
