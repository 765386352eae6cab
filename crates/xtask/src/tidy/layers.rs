//! Architecture invariant A1: a floor of the engine names only floors below it. Test code may look
//! where it likes.
//!
//! Three ways to name a module are followed: `crate::x`, `crate::{x, y}` and a chain of `super`s
//! that ends at the crate root. An item must be named by its floor: the crate root's re-exports are
//! for users, and would hide a step upwards.

use super::report::Report;
use super::source::{Source, leading_name, past_closing, words};
use super::tree::Tree;

const ENGINE: &str = "crates/engine/src/";

/// The map of the house; drawn in `ARCHITECTURE.md`.
pub(crate) const FLOORS: [(&str, u8); 8] = [
    ("base", 0),
    ("env", 1),
    ("format", 2),
    ("store", 3),
    ("memtable", 3),
    ("version", 4),
    ("compaction", 5),
    ("db", 6),
];

pub(crate) fn check(tree: &Tree, report: &mut Report) {
    for (path, source) in &tree.sources {
        let Some(inside) = path.strip_prefix(ENGINE) else {
            continue;
        };
        if source.is_test || inside == "lib.rs" {
            continue;
        }
        match module(path) {
            Some(home) => check_file(path, home, source, report),
            None => report.fail(path, 1, "stands on no floor; ARCHITECTURE.md has the map"),
        }
    }
}

/// The floor's module that the file at `path` belongs to.
pub(crate) fn module(path: &str) -> Option<&'static str> {
    let first = path.strip_prefix(ENGINE)?.split('/').next()?;
    let first = first.strip_suffix(".rs").unwrap_or(first);
    FLOORS.iter().map(|(name, _)| *name).find(|name| *name == first)
}

fn floor(name: &str) -> Option<u8> {
    FLOORS.iter().find(|(module, _)| *module == name).map(|(_, floor)| *floor)
}

fn check_file(path: &str, home: &str, source: &Source, report: &mut Report) {
    let own = floor(home).expect("home comes from the floor table");
    let mut named = crate_paths(&source.shipped);
    named.extend(super_paths(&source.shipped, module_depth(path)));
    for (offset, name) in named {
        let line = source.line(offset);
        match floor(name) {
            Some(_) if name == home => {}
            Some(other) if other < own => {}
            Some(other) if other == own => {
                report.fail(path, line, format!("`{home}` names `{name}`, its neighbour"));
            }
            Some(other) => report.fail(
                path,
                line,
                format!("`{home}` (floor {own}) names `{name}` (floor {other}): a step upwards"),
            ),
            None => report.fail(
                path,
                line,
                format!("`crate::{name}` goes through the crate root; name the item's module"),
            ),
        }
    }
}

/// First names after `crate::`, with their offsets.
fn crate_paths(code: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for at in words(code, "crate") {
        if let Some(rest) = code[at..].strip_prefix("crate::") {
            found.extend(first_names(rest).into_iter().map(|name| (at, name)));
        }
    }
    found
}

/// First names after a chain of exactly `depth` `super`s, which ends at the crate root. Inside an
/// inline module the chain ends one level lower; only names of floors count, then.
fn super_paths(code: &str, depth: usize) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for at in words(code, "super") {
        if code[..at].ends_with("super::") {
            continue;
        }
        let mut rest = &code[at..];
        let mut steps = 0;
        while let Some(next) = rest.strip_prefix("super::") {
            rest = next;
            steps += 1;
        }
        if steps == depth {
            let names = first_names(rest).into_iter().filter(|name| floor(name).is_some());
            found.extend(names.map(|name| (at, name)));
        }
    }
    found
}

/// `x` of `x::y`; `x` and `y` of `{x::z, y}`.
fn first_names(rest: &str) -> Vec<&str> {
    if !rest.starts_with('{') {
        let name = leading_name(rest);
        return if name.is_empty() { Vec::new() } else { vec![name] };
    }
    let group = &rest[1..past_closing(rest, 0).saturating_sub(1).max(1)];
    let mut names = Vec::new();
    let mut depth = 0usize;
    let mut start = 0;
    for (at, byte) in group.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                names.push(leading_name(group[start..at].trim_start()));
                start = at + 1;
            }
            _ => {}
        }
    }
    names.push(leading_name(group[start..].trim_start()));
    names.retain(|name| !name.is_empty());
    names
}

/// How many modules deep the file's module lies below the crate root.
fn module_depth(path: &str) -> usize {
    let inside = path.strip_prefix(ENGINE).unwrap_or(path);
    let parts = inside.split('/').count();
    if inside.ends_with("/mod.rs") { parts - 1 } else { parts }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failures(path: &str, text: &str) -> Vec<String> {
        let mut report = Report::default();
        check(&Tree::of(&[(path, text)]), &mut report);
        report.failures().to_vec()
    }

    #[test]
    fn downwards_and_at_home_is_fine() {
        let text = "use crate::base::error::{Error, Result};\nuse crate::{env::fs, format};\n\
                    pub(in crate::version) fn f() { crate::version::set::g() }\n";
        assert_eq!(failures("crates/engine/src/version/mod.rs", text), [""; 0]);
    }

    #[test]
    fn a_step_upwards_is_found_in_each_form() {
        let path = "crates/engine/src/format/table/block.rs";
        for text in [
            "use crate::db::options::Options;",
            "use crate::{base::key, db::{Db, options}};",
            "fn f() { crate::db::open() }",
            "use super::super::super::db::Db;",
            "macro_rules! m { () => { $crate::db::Db } }",
        ] {
            let found = failures(path, text);
            assert_eq!(found.len(), 1, "{text}");
            assert!(found[0].contains("`format` (floor 2) names `db` (floor 6)"), "{}", found[0]);
        }
    }

    #[test]
    fn neighbours_do_not_know_each_other() {
        let found = failures("crates/engine/src/store/mod.rs", "\nuse crate::memtable::Memtable;");
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("crates/engine/src/store/mod.rs:2: "), "{}", found[0]);
    }

    #[test]
    fn the_crate_root_is_no_way_round() {
        let found = failures("crates/engine/src/env/fs.rs", "use crate::Db;");
        assert!(found[0].contains("goes through the crate root"), "{found:?}");
    }

    #[test]
    fn tests_comments_and_the_root_are_exempt() {
        let test = "//! See `crate::db::Db`.\n#[cfg(test)]\nmod tests { use crate::db::Db; }\n";
        assert_eq!(failures("crates/engine/src/env/fs.rs", test), [""; 0]);
        assert_eq!(failures("crates/engine/src/lib.rs", "pub use crate::db::Db;"), [""; 0]);
        assert_eq!(failures("crates/engine/src/env/tests.rs", "use crate::db::Db;"), [""; 0]);
        assert_eq!(failures("crates/tools/src/main.rs", "use crate::db::Db;"), [""; 0]);
    }

    #[test]
    fn a_module_outside_the_map_is_found() {
        let found = failures("crates/engine/src/utils.rs", "//! Odds and ends.");
        assert!(found[0].contains("stands on no floor"), "{found:?}");
    }

    #[test]
    fn supers_below_the_root_are_no_floors() {
        let text = "mod held { use super::super::error; }\nuse super::key;";
        assert_eq!(failures("crates/engine/src/base/sync.rs", text), [""; 0]);
    }
}
