//! Sizes of files and functions, tests left out. Long ones fail, longish ones warn, and the
//! longest are always printed, so that nobody has to remember to look. Code that a program made has
//! no readers: it is counted, and not judged.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::layers;
use super::report::Report;
use super::source::{Source, leading_name, past_closing, words};
use super::tree::Tree;

const FILE_LINES_MAX: usize = 600;
const FILE_LINES_WARN: usize = 400;
const FUNCTION_LINES_MAX: usize = 100;
const FUNCTION_LINES_WARN: usize = 70;
/// The mark by which other tools know generated code, too. In two parts, so that this is none.
const GENERATED: &str = concat!("@", "generated");
/// How many of the longest are printed.
const LONGEST: usize = 10;

struct Function<'a> {
    name: &'a str,
    line: usize,
    lines: usize,
}

pub(crate) fn check(tree: &Tree, report: &mut Report) {
    for (path, source) in shipped(tree) {
        let lines = source.shipped_lines;
        if lines > FILE_LINES_MAX {
            report.fail(path, 1, format!("{lines} lines without tests; {FILE_LINES_MAX} at most"));
        } else if lines > FILE_LINES_WARN {
            report.warn(path, 1, format!("{lines} lines without tests: two ideas in one room?"));
        }
        for function in functions(source) {
            let Function { name, line, lines } = function;
            if lines > FUNCTION_LINES_MAX {
                let message = format!("fn {name} has {lines} lines; {FUNCTION_LINES_MAX} at most");
                report.fail(path, line, message);
            } else if lines > FUNCTION_LINES_WARN {
                report.warn(path, line, format!("fn {name} has {lines} lines: a screen is less"));
            }
        }
    }
}

/// The longest files and functions, and the lines of each floor and crate.
pub(crate) fn overview(tree: &Tree) -> String {
    let mut files: Vec<(usize, &str)> = Vec::new();
    let mut all: Vec<(usize, String)> = Vec::new();
    for (path, source) in shipped(tree) {
        files.push((source.shipped_lines, path));
        for Function { name, line, lines } in functions(source) {
            all.push((lines, format!("{name} ({path}:{line})")));
        }
    }
    files.sort_by(|a, b| b.cmp(a));
    all.sort_by(|a, b| b.cmp(a));

    let mut out = String::from("longest files, without tests\n");
    for (lines, path) in files.iter().take(LONGEST) {
        let _ = writeln!(out, "{lines:>7}  {path}");
    }
    out.push_str("longest functions, without tests\n");
    for (lines, function) in all.iter().take(LONGEST) {
        let _ = writeln!(out, "{lines:>7}  {function}");
    }
    out.push_str(&totals(tree));
    out
}

fn totals(tree: &Tree) -> String {
    let mut rooms: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for (path, source) in &tree.sources {
        let shipped = if source.is_test { 0 } else { source.shipped_lines };
        let room = rooms.entry(room(path)).or_default();
        room.0 += shipped;
        room.1 += source.lines - shipped;
    }
    let mut out = String::from("  lines    tests  where\n");
    let mut sum = (0, 0);
    for (room, (shipped, tests)) in rooms {
        let _ = writeln!(out, "{shipped:>7}  {tests:>7}  {room}");
        sum = (sum.0 + shipped, sum.1 + tests);
    }
    let _ = writeln!(out, "{:>7}  {:>7}  together", sum.0, sum.1);
    out
}

/// The floor, or the crate, or the folder a file counts for.
fn room(path: &str) -> String {
    if let Some(module) = layers::module(path) {
        let floors = layers::FLOORS.iter();
        let floor = floors.filter(|(name, _)| *name == module).map(|(_, floor)| floor);
        return floor.map(|floor| format!("engine, floor {floor} {module}")).collect();
    }
    let mut parts = path.split('/');
    match (parts.next(), parts.next()) {
        (Some("crates"), Some(name)) => name.to_owned(),
        (Some(first), _) => first.to_owned(),
        (None, _) => path.to_owned(),
    }
}

/// What people wrote, and users run.
fn shipped(tree: &Tree) -> impl Iterator<Item = (&str, &Source)> {
    let written = |source: &Source| !source.is_test && !source.comments.contains(GENERATED);
    tree.sources.iter().filter(move |(_, s)| written(s)).map(|(path, s)| (path.as_str(), s))
}

/// The functions with a body; one inside another counts for both.
fn functions(source: &Source) -> Vec<Function<'_>> {
    let code = source.shipped.as_str();
    let mut found = Vec::new();
    for at in words(code, "fn") {
        let name = leading_name(code[at + 2..].trim_start());
        // Without a name it is a type: `fn(u8) -> u8`.
        if name.is_empty() {
            continue;
        }
        if let Some(open) = body(code, at) {
            let end = past_closing(code, open);
            let lines = 1 + code[at..end].matches('\n').count();
            found.push(Function { name, line: source.line(at), lines });
        }
    }
    found
}

/// Where the body of the function at `at` opens; `None` for a mere signature.
fn body(code: &str, mut at: usize) -> Option<usize> {
    while at < code.len() {
        match code.as_bytes()[at] {
            b'(' | b'[' => at = past_closing(code, at),
            b'{' => return Some(at),
            b';' | b'}' => return None,
            _ => at += 1,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_measured_from_their_name_to_their_brace() {
        let text = "trait T {\n    fn a(&self) -> [u8; 4];\n}\nfn b<F: Fn(u8) -> u8>(f: F)\nwhere\n    \
                    F: Send,\n{\n    let s = \"}\";\n    let g: fn(u8) -> u8 = f;\n}\n\
                    #[cfg(test)]\nmod tests {\n    fn c() {}\n}\n";
        let source = Source::scan(text, false);
        let found: Vec<_> = functions(&source).iter().map(|f| (f.name, f.line, f.lines)).collect();
        assert_eq!(found, [("b", 4, 7)]);
    }

    #[test]
    fn long_files_and_functions_warn_then_fail() {
        let sized = |lines| format!("//! Doc.\nfn f() {{{}}}\n", "\n".repeat(lines));
        let found = |text: &str| {
            let mut report = Report::default();
            check(&Tree::of(&[("crates/a/src/b.rs", text)]), &mut report);
            (report.failures().len(), report.warnings().len())
        };
        assert_eq!(found(&sized(60)), (0, 0));
        assert_eq!(found(&sized(80)), (0, 1));
        assert_eq!(found(&sized(120)), (1, 0));
        assert_eq!(found(&format!("//! Doc.\n{}", "\n".repeat(450))), (0, 1));
        assert_eq!(found(&format!("//! Doc.\n{}", "\n".repeat(650))), (1, 0));
        let in_tests = format!("//! Doc.\n#[cfg(test)]\nmod tests {{\n{}}}\n", sized(650));
        assert_eq!(found(&in_tests), (0, 0));
    }

    #[test]
    fn generated_code_is_not_judged() {
        let text = format!("//! Doc. {GENERATED}\nfn f() {{{}}}\n", "\n".repeat(700));
        let mut report = Report::default();
        check(&Tree::of(&[("crates/a/src/b.rs", &text)]), &mut report);
        assert_eq!((report.failures().len(), report.warnings().len()), (0, 0));
    }

    #[test]
    fn lines_are_counted_by_floor() {
        let tree = Tree::of(&[
            ("crates/engine/src/base/key.rs", "//! Doc.\nfn f() {}\n"),
            ("crates/engine/src/base/tests.rs", "//! Doc.\n"),
            ("crates/tools/src/main.rs", "fn main() {}\n"),
        ]);
        let text = overview(&tree);
        assert!(text.contains("      2        1  engine, floor 0 base\n"), "{text}");
        assert!(text.contains("      1        0  tools\n"), "{text}");
        assert!(text.contains("      3        1  together\n"), "{text}");
    }
}
