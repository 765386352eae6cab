//! Unsafe code stands only in the files listed in `ARCHITECTURE.md`, between the two marks below.
//! A listed path that ends in `/` covers the folder.

use super::report::Report;
use super::source::words;
use super::tree::Tree;

const LIST: &str = "ARCHITECTURE.md";
const OPEN: &str = "<!-- tidy: unsafe files -->";
const CLOSE: &str = "<!-- tidy: end -->";

pub(crate) fn check(tree: &Tree, report: &mut Report) {
    let text = tree.texts.get(LIST).map_or("", String::as_str);
    let Some(listed) = listed(text) else {
        report.fail(LIST, 1, format!("has no list between {OPEN} and {CLOSE}"));
        return;
    };
    for (path, source) in &tree.sources {
        if listed.iter().any(|entry| covers(entry, path)) {
            continue;
        }
        for at in words(&source.code, "unsafe") {
            report.fail(path, source.line(at), format!("unsafe code, but {LIST} does not list it"));
        }
    }
    for entry in listed {
        let used = tree.sources.iter().any(|(path, source)| {
            covers(entry, path) && words(&source.code, "unsafe").next().is_some()
        });
        if !used {
            report.warn(LIST, 1, format!("lists {entry}, which holds no unsafe code"));
        }
    }
}

/// One line: how much there is.
pub(crate) fn overview(tree: &Tree) -> String {
    let mut total = 0;
    let mut files = Vec::new();
    for (path, source) in &tree.sources {
        let blocks = words(&source.code, "unsafe")
            .filter(|at| source.code[at + "unsafe".len()..].trim_start().starts_with('{'))
            .count();
        if blocks > 0 {
            files.push(format!("{path} {blocks}"));
        }
        total += blocks;
    }
    if files.is_empty() {
        return "unsafe blocks: none".to_owned();
    }
    format!("unsafe blocks: {total} ({})", files.join(", "))
}

/// The paths in the marked list: the first code span of each item.
fn listed(text: &str) -> Option<Vec<&str>> {
    let (_, rest) = text.split_once(OPEN)?;
    let (list, _) = rest.split_once(CLOSE)?;
    let items = list.lines().filter(|line| line.starts_with("- "));
    Some(items.filter_map(|item| item.split('`').nth(1)).collect())
}

fn covers(entry: &str, path: &str) -> bool {
    entry == path || (entry.ends_with('/') && path.starts_with(entry))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> Tree {
        let list = format!("{OPEN}\n- `a/arena.rs`: memory\n- `ffi/`: the border\n{CLOSE}\n");
        let mut all = vec![(LIST, list.as_str())];
        all.extend_from_slice(files);
        Tree::of(&all)
    }

    #[test]
    fn unsafe_code_stays_in_listed_files() {
        let tree = tree(&[
            ("a/arena.rs", "fn f() { unsafe { g() } }"),
            ("ffi/deep/c.rs", "unsafe extern \"C\" { fn h(); }"),
            ("a/other.rs", "#![deny(unsafe_code)]\n// unsafe\nfn f() { unsafe { g() } }"),
        ]);
        let mut report = Report::default();
        check(&tree, &mut report);
        assert_eq!(
            report.failures(),
            ["a/other.rs:3: unsafe code, but ARCHITECTURE.md does not list it"]
        );
        assert!(report.warnings().is_empty());
        assert_eq!(overview(&tree), "unsafe blocks: 2 (a/arena.rs 1, a/other.rs 1)");
    }

    #[test]
    fn the_list_is_kept_true() {
        let mut report = Report::default();
        check(&tree(&[("a/arena.rs", "fn f() {}")]), &mut report);
        assert_eq!(report.warnings().len(), 2);

        let mut report = Report::default();
        check(&Tree::of(&[(LIST, "no list")]), &mut report);
        assert_eq!(report.failures().len(), 1);
    }
}
