//! The repository's files as the checks see them: all text that git tracks or would track.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use super::source::Source;

#[derive(Default)]
pub(crate) struct Tree {
    /// Every file's path from the root, text or not.
    pub(crate) paths: BTreeSet<String>,
    /// Text files by path.
    pub(crate) texts: BTreeMap<String, String>,
    /// Rust files by path, scanned.
    pub(crate) sources: BTreeMap<String, Source>,
}

impl Tree {
    pub(crate) fn read(root: &Path) -> Result<Self, String> {
        let mut tree = Tree::default();
        for path in listed(root)? {
            let Ok(bytes) = std::fs::read(root.join(&path)) else {
                continue; // Deleted here and still in git's index.
            };
            tree.insert(path, bytes);
        }
        tree.mark_test_modules();
        Ok(tree)
    }

    fn insert(&mut self, path: String, bytes: Vec<u8>) {
        self.paths.insert(path.clone());
        let Ok(text) = String::from_utf8(bytes) else {
            return;
        };
        if path.ends_with(".rs") {
            let is_test = is_test_path(&path);
            self.sources.insert(path.clone(), Source::scan(&text, is_test));
        }
        self.texts.insert(path, text);
    }

    /// A module that is declared under `#[cfg(test)]` is a test file whatever its name.
    fn mark_test_modules(&mut self) {
        let mut found = Vec::new();
        for (path, source) in &self.sources {
            let folder = module_folder(path);
            for name in source.test_modules() {
                found.push(format!("{folder}/{name}.rs"));
                found.push(format!("{folder}/{name}/mod.rs"));
            }
        }
        for path in found {
            if let Some(source) = self.sources.get_mut(&path) {
                source.is_test = true;
            }
        }
    }

    /// A tree made in a test.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let mut tree = Tree::default();
        for (path, text) in files {
            tree.insert((*path).to_owned(), text.as_bytes().to_vec());
        }
        tree.mark_test_modules();
        tree
    }
}

/// Tracked files, and new ones that are not ignored: so a file is checked before it is committed.
fn listed(root: &Path) -> Result<Vec<String>, String> {
    let arguments = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let output = Command::new("git")
        .args(arguments)
        .current_dir(root)
        .output()
        .map_err(|cause| format!("git ls-files: {cause}"))?;
    if !output.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let names = String::from_utf8(output.stdout).map_err(|_| "a path is not UTF-8".to_owned())?;
    Ok(names.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

fn is_test_path(path: &str) -> bool {
    path.ends_with("/tests.rs")
        || path.split('/').any(|part| matches!(part, "tests" | "benches" | "examples" | "fuzz"))
}

/// The folder in which the children of the module at `path` lie.
fn module_folder(path: &str) -> &str {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    match file {
        "mod.rs" | "lib.rs" | "main.rs" => folder,
        _ => path.strip_suffix(".rs").unwrap_or(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_files_are_told_by_place_name_and_declaration() {
        let tree = Tree::of(&[
            ("crates/engine/src/a.rs", "#[cfg(test)]\nmod model;\n#[cfg(test)]\nmod tests;\n"),
            ("crates/engine/src/a/model.rs", ""),
            ("crates/engine/src/a/tests.rs", ""),
            ("crates/engine/src/a/plain.rs", ""),
            ("crates/engine/src/b/mod.rs", "#[cfg(all(test, loom))]\nmod loom;\n"),
            ("crates/engine/src/b/loom.rs", ""),
            ("crates/engine/tests/crash.rs", ""),
        ]);
        let tests: Vec<&str> =
            tree.sources.iter().filter(|(_, s)| s.is_test).map(|(p, _)| p.as_str()).collect();
        assert_eq!(
            tests,
            [
                "crates/engine/src/a/model.rs",
                "crates/engine/src/a/tests.rs",
                "crates/engine/src/b/loom.rs",
                "crates/engine/tests/crash.rs",
            ]
        );
    }

    #[test]
    fn bytes_that_are_no_text_are_only_a_path() {
        let mut tree = Tree::default();
        tree.insert("testdata/000005.ldb".to_owned(), vec![0xff, 0xfe]);
        assert!(tree.paths.contains("testdata/000005.ldb"));
        assert!(tree.texts.is_empty());
    }
}
