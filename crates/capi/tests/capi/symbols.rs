//! What the shared library exports, and what the headers declare.

use std::collections::BTreeSet;
use std::process::Command;

use crate::stage::{include, libraries, run, text};

/// LevelDB's functions.
fn leveldbs() -> BTreeSet<String> {
    include_str!("leveldb-names.txt").lines().map(str::to_owned).collect()
}

/// The functions that a header declares: names with our prefixes before a parenthesis.
fn declared(header: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(include().join(header)).unwrap();
    let code: String = text.split("/*").map(|part| part.rsplit("*/").next().unwrap()).collect();
    let before_parentheses = code.split('(').map(|part| part.trim_end());
    let names = before_parentheses.filter_map(|part| {
        part.rsplit(|byte: char| !byte.is_ascii_alphanumeric() && byte != '_').next()
    });
    let ours = |name: &&str| name.starts_with("leveldb_") || name.starts_with("siltstone_");
    names.filter(ours).map(str::to_owned).collect()
}

#[test]
fn the_library_exports_what_the_headers_declare_and_nothing_else() {
    let library = libraries().join("libsiltstone_c.so");
    let output = run(Command::new("nm").args(["-D", "--defined-only"]).arg(library));
    let exported: BTreeSet<String> = text(&output.stdout)
        .lines()
        .filter_map(|line| line.split(' ').next_back())
        .map(str::to_owned)
        .collect();

    assert_eq!(leveldbs().len(), 68);
    assert_eq!(declared("leveldb/c.h"), leveldbs());
    let (mut all, extra) = (leveldbs(), declared("siltstone/c.h"));
    assert!(extra.len() > 5 && extra.iter().all(|name| name.starts_with("siltstone_")));
    all.extend(extra);
    assert_eq!(exported, all);
}

#[test]
fn the_headers_are_cs_and_cxxs() {
    for (language, standard) in [("c", "-std=c99"), ("c++", "-std=c++11")] {
        for header in ["leveldb/c.h", "siltstone/c.h"] {
            let mut compiler = Command::new("cc");
            compiler.args(["-x", language, standard, "-Wall", "-Wextra", "-pedantic", "-Werror"]);
            compiler.args(["-fsyntax-only", "-I"]).arg(include());
            let output = compiler.arg(include().join(header)).output().unwrap();
            let said = text(&output.stderr);
            if language == "c++" && said.contains("cc1plus") {
                println!("SKIPPED (no C++ compiler)");
                continue;
            }
            assert!(output.status.success(), "{header} as {language}: {said}");
        }
    }
}
