//! The C program of the README is compiled and run as it stands there.

use std::fs;

use crate::stage::{Scratch, cc, linked, run, text};

#[test]
fn the_readmes_program_runs() {
    let readme = include_str!("../../../../README.md");
    let (_, section) = readme.split_once("## From C and C++").unwrap();
    let (_, program) = section.split_once("```c\n").unwrap();
    let (program, rest) = program.split_once("```\n").unwrap();
    let (_, printed) = rest.split_once("```text\n").unwrap();
    let (printed, _) = printed.split_once("```\n").unwrap();

    let scratch = Scratch::new("readme");
    fs::write(scratch.path("fruit.c"), program).unwrap();
    let binary = scratch.path("fruit");
    run(cc().arg(scratch.path("fruit.c")).arg("-o").arg(&binary).args(linked()));
    let lib = scratch.libraries_as(&["libsiltstone_c.so.0"]);
    let mut command = std::process::Command::new(binary);
    let output = run(command.current_dir(scratch.folder("data")).env("LD_LIBRARY_PATH", lib));
    assert_eq!(text(&output.stdout), printed);
}
