//! Runs the program and takes its report apart.

use std::process::{Command, Output};

use siltstone_sim::TempDir;

pub(crate) fn db_bench(folder: &TempDir, flags: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_db_bench"));
    command.arg(format!("--db={}", folder.path().join("db").display())).args(flags);
    command.output().expect("the program was built for this test")
}

pub(crate) fn report(folder: &TempDir, flags: &[&str]) -> String {
    let output = db_bench(folder, flags);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{flags:?}: {errors}");
    let text = String::from_utf8(output.stdout).expect("reports are text");
    // Tests run with assertions, of which LevelDB's report warns, too.
    text.replace("WARNING: Assertions are enabled; benchmarks unnecessarily slow\n", "")
}

/// The lines behind the header.
pub(crate) fn lines(folder: &TempDir, flags: &[&str]) -> Vec<String> {
    let text = report(folder, flags);
    let (_, body) = text.split_once("----\n").expect("a header");
    body.lines().map(str::to_owned).collect()
}

/// Replaces the figures of a benchmark's line by marks over their columns, so that a column out of
/// place shows; figures of no fixed width become one mark.
pub(crate) fn mask(line: &str) -> String {
    let Some((name, rest)) = line.split_once(" : ") else { return line.to_owned() };
    let Some((micros, rest)) = rest.split_once(" micros/op;") else { return line.to_owned() };
    let mut masked = format!("{name} : {} micros/op;", column(micros, 11));
    let rest = match rest.split_once(" MB/s") {
        Some((rate, rest)) => {
            masked += &format!(" {} MB/s", column(&rate[1..], 6));
            rest
        }
        None => rest,
    };
    // The number of operations is no figure: it is known.
    if rest.ends_with(" ops)") || rest.ends_with(" per op)") {
        return masked + rest;
    }
    let mut in_number = false;
    for character in rest.chars() {
        let is_part = character.is_ascii_digit() || (in_number && character == '.');
        if !is_part {
            masked.push(character);
        } else if !in_number {
            masked.push('#');
        }
        in_number = is_part;
    }
    masked
}

/// Marks in the place of a number in a column, out of which only a number too long for it may stand.
fn column(text: &str, width: usize) -> String {
    let number = text.trim_start();
    assert!(number.parse::<f64>().is_ok(), "{text:?} is no number");
    assert_eq!(text.len(), number.len().max(width), "{text:?} is out of its column");
    "#".repeat(width)
}
