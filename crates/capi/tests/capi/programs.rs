//! Programs compiled with our headers and linked with our library.

use crate::stage::{Scratch, linked, run, text};

#[track_caller]
fn passes(name: &str) {
    let scratch = Scratch::new(name);
    let program = scratch.compile(name, linked());
    let lib = scratch.libraries_as(&["libsiltstone_c.so.0"]);
    let output = run(scratch.command(&program).env("LD_LIBRARY_PATH", lib));
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
