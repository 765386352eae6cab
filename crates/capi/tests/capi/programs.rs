//! Programs compiled with our headers and linked with our library.

use std::process::Command;

use crate::stage::{Scratch, linked, run, text};

#[track_caller]
fn passes(name: &str) {
    passes_under(None, name);
}

/// Has the program run by another one, if so.
#[track_caller]
fn passes_under(runner: Option<&str>, name: &str) {
    let scratch = Scratch::new(&format!("{name}-{}", runner.unwrap_or("alone")));
    let program = scratch.compile(name, linked());
    let lib = scratch.libraries_as(&["libsiltstone_c.so.0"]);
    let mut command = scratch.command_under(runner, &program);
    let output = run(command.env("LD_LIBRARY_PATH", lib));
    assert!(text(&output.stdout).ends_with("passed\n"), "{output:?}");
}

#[test]
fn the_phases_of_leveldbs_own_test() {
    passes("phases");
}

#[test]
fn ownership_nulls_errors_and_destructors() {
    passes("rules");
}

#[test]
fn what_leveldb_lacks() {
    passes("extra");
}

/// Programs are debugged so; not all that the kernel tells a process is true there.
#[test]
fn ownership_nulls_errors_and_destructors_under_valgrind() {
    if Command::new("valgrind").arg("--version").output().is_ok() {
        passes_under(Some("valgrind"), "rules");
    } else {
        println!("SKIPPED (valgrind not found)");
    }
}
