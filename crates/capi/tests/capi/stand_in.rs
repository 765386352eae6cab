//! A program built for LevelDB, with LevelDB's header and library, and then run on ours.

use std::path::Path;

use crate::stage::{Scratch, cc, libraries, run, source, text};

/// LevelDB's header and library are there; if not, says so, or fails where they must be.
fn has_leveldb() -> bool {
    let scratch = Scratch::new("has-leveldb");
    let legacy = source("programs/legacy.c");
    let output = cc().arg(legacy).arg("-lleveldb").arg("-o").arg(scratch.path("out")).output();
    let found = output.is_ok_and(|output| output.status.success());
    if !found {
        let required = std::env::var_os("SILTSTONE_REQUIRE_LEVELDB").is_some();
        assert!(!required, "LevelDB is required here: install libleveldb-dev");
        println!("SKIPPED (libleveldb-dev not found)");
    }
    found
}

#[test]
fn a_program_for_leveldb_prints_the_same_on_ours() {
    if !has_leveldb() {
        return;
    }
    // What it printed, and by whom it was served, with so much of the environment changed.
    let ran = |name: &str, variable: Option<(&str, &Path)>| {
        let scratch = Scratch::new(name);
        let program = scratch.compile("legacy", ["-lleveldb"]);
        let output = run(scratch.command(&program).envs(variable));
        (text(&output.stdout), text(&output.stderr))
    };
    let scratch = Scratch::new("stand-in");
    let names = ["libleveldb.so.1d", "libleveldb.so.1", "libleveldb.so"];
    let lib = scratch.libraries_as(&names);
    let preloaded = libraries().join("libsiltstone_c.so");

    let (leveldbs, by) = ran("on-leveldb", None);
    assert_eq!(by, "provided by LevelDB\n");
    assert!(leveldbs.contains("29999 entries"), "{leveldbs}");
    for (variable, path) in [("LD_PRELOAD", &*preloaded), ("LD_LIBRARY_PATH", &*lib)] {
        let (ours, by) = ran(variable, Some((variable, path)));
        assert_eq!(by, "provided by siltstone\n", "{variable}");
        assert_eq!(ours, leveldbs, "{variable}");
    }
}

#[test]
fn the_headers_declare_the_same() {
    let leveldbs = Path::new("/usr/include/leveldb/c.h");
    if !leveldbs.exists() && !has_leveldb() {
        return;
    }
    let header = format!("-DLEVELDB_HEADER=\"{}\"", leveldbs.display());
    let include = format!("-I{}", crate::stage::include().display());
    let mut both = cc();
    both.args(["-std=c11", "-fsyntax-only", &header, &include]);
    run(both.arg(source("programs/signatures.c")));
}
