//! Relative links in Markdown lead to files that are there.

use super::report::Report;
use super::tree::Tree;

pub(crate) fn check(tree: &Tree, report: &mut Report) {
    for (path, text) in tree.texts.iter().filter(|(path, _)| path.ends_with(".md")) {
        for (index, line) in text.lines().enumerate() {
            for target in targets(line) {
                if !leads_somewhere(tree, path, target) {
                    report.fail(path, index + 1, format!("link to {target}, which is not there"));
                }
            }
        }
    }
}

/// What stands in `](..)`, if it is a relative path; without its anchor.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| {
        let target = &rest[..rest.find(')')?];
        let target = target.split('#').next().unwrap_or(target);
        (!target.is_empty() && !target.contains(':') && !target.contains(' ')).then_some(target)
    })
}

fn leads_somewhere(tree: &Tree, from: &str, target: &str) -> bool {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." if parts.pop().is_none() => return false,
            ".." => {}
            _ => parts.push(part),
        }
    }
    let found = parts.join("/");
    let folder = format!("{found}/");
    tree.paths.contains(&found) || tree.paths.iter().any(|path| path.starts_with(&folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_links_are_found() {
        let tree = Tree::of(&[
            ("README.md", "[a](docs/a.md#b), [c](docs/), [d](https://x.org/y) and [e](docs/e.md)"),
            ("docs/a.md", "[up](../README.md) [out](../../README.md)\n[self](#here)"),
        ]);
        let mut report = Report::default();
        check(&tree, &mut report);
        assert_eq!(
            report.failures(),
            [
                "README.md:1: link to docs/e.md, which is not there",
                "docs/a.md:1: link to ../../README.md, which is not there",
            ]
        );
    }
}
