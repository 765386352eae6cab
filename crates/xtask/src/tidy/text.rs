//! Rules on plain text: how files open, what they are called, ASCII, unfinished work, and no path
//! of the machine a file was written on.

use super::report::Report;
use super::source::{Source, words};
use super::tree::Tree;

/// Names that say nothing of what is inside.
const EMPTY_NAMES: [&str; 5] = ["utils.rs", "util.rs", "common.rs", "helpers.rs", "misc.rs"];

pub(crate) fn check(tree: &Tree, report: &mut Report) {
    for (path, text) in &tree.texts {
        machine_paths(path, text, report);
        if is_source(path) {
            ascii(path, text, report);
        }
        if let Some(source) = tree.sources.get(path) {
            opening(path, text, report);
            name(path, report);
            unfinished(path, source, report);
        }
    }
}

fn is_source(path: &str) -> bool {
    let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
    matches!(extension, "rs" | "toml" | "py" | "sh") || path == ".ci/run"
}

fn opening(path: &str, text: &str, report: &mut Report) {
    let in_src = path.starts_with("src/") || path.contains("/src/");
    if in_src && !text.starts_with("//!") {
        report.fail(path, 1, "must open with a `//!` doc: what this is and who calls it");
    }
}

fn name(path: &str, report: &mut Report) {
    let file = path.rsplit('/').next().unwrap_or(path);
    if EMPTY_NAMES.contains(&file) {
        report.fail(path, 1, "name the file for what it holds");
    }
}

fn ascii(path: &str, text: &str, report: &mut Report) {
    for (index, line) in text.lines().enumerate() {
        if let Some(odd) = line.chars().find(|char| !char.is_ascii()) {
            report.fail(path, index + 1, format!("{odd:?} is not ASCII; write an escape"));
        }
    }
}

/// Unfinished work is named and numbered, and never compiled in.
fn unfinished(path: &str, source: &Source, report: &mut Report) {
    for word in ["todo", "unimplemented"] {
        for at in words(&source.code, word) {
            if source.code[at + word.len()..].starts_with('!') {
                report.fail(path, source.line(at), format!("`{word}!` does not land"));
            }
        }
    }
    for word in ["TODO", "FIXME", "XXX"] {
        for at in words(&source.comments, word) {
            let rest = &source.comments[at + word.len()..];
            if word != "TODO" || !is_numbered(rest) {
                report.fail(path, source.line(at), "unfinished work is `TODO(#123): what and why`");
            }
        }
    }
}

/// True for `(#123): `.
fn is_numbered(rest: &str) -> bool {
    let Some(rest) = rest.strip_prefix("(#") else {
        return false;
    };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    digits > 0 && rest[digits..].starts_with("): ")
}

/// Folders that exist where a file was written and not where it is read. Put together here, so
/// that this file does not hold them itself.
fn machine_folders() -> [String; 3] {
    ["work", "root", "home"].map(|folder| ["/", folder, "/"].concat())
}

fn machine_paths(path: &str, text: &str, report: &mut Report) {
    let folders = machine_folders();
    for (index, line) in text.lines().enumerate() {
        for folder in &folders {
            // Not part of a longer path such as an address or a relative name.
            let absolute = line.match_indices(folder.as_str()).any(|(at, _)| {
                let before = line[..at].chars().next_back();
                !before.is_some_and(|char| char.is_alphanumeric() || "_-./$}~".contains(char))
            });
            if absolute {
                report.fail(path, index + 1, format!("`{folder}` is a path of one machine"));
            }
        }
    }
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
    fn files_open_with_their_doc() {
        assert_eq!(failures("crates/a/src/b.rs", "//! Doc.\n"), [""; 0]);
        assert_eq!(failures("crates/a/src/b.rs", "// Not a doc.\n").len(), 1);
        assert_eq!(failures("crates/a/build.rs", "fn main() {}\n"), [""; 0]);
    }

    #[test]
    fn source_is_ascii_and_prose_need_not_be() {
        let found = failures("crates/a/src/b.rs", "//! Doc.\n// \u{2014}\n");
        assert_eq!(found, ["crates/a/src/b.rs:2: '\u{2014}' is not ASCII; write an escape"]);
        assert_eq!(failures("docs/a.md", "\u{2014}"), [""; 0]);
    }

    #[test]
    fn unfinished_work_has_a_number() {
        let bare = ["// TO", "DO: later"].concat();
        assert_eq!(failures("a/b.rs", &bare).len(), 1);
        let numbered = ["// TO", "DO(#12): retry, because"].concat();
        assert_eq!(failures("a/b.rs", &numbered), [""; 0]);
        assert_eq!(failures("a/b.rs", &["fn f() { to", "do!() }"].concat()).len(), 1);
        assert_eq!(failures("a/b.rs", "// FIXME(#1): x").len(), 1);
        assert_eq!(failures("a/b.rs", "let s = \"TODO\"; // mastodon"), [""; 0]);
    }

    #[test]
    fn no_path_of_this_machine() {
        for folder in machine_folders() {
            assert_eq!(failures("docs/a.md", &format!("see {folder}x")).len(), 1, "{folder}");
            assert_eq!(failures("docs/a.md", &format!("see a{folder}x")), [""; 0]);
        }
    }

    #[test]
    fn a_name_says_what_is_inside() {
        assert_eq!(failures("crates/a/src/utils.rs", "//! Doc.\n").len(), 1);
    }
}
