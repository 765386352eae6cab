//! Folders for databases that go away with the test. Used by every test of this crate.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{env, fs, process, thread};

/// A fresh folder, removed on drop unless the thread panics: then it is kept, and its place printed,
/// because the files tell what happened.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes an empty folder below the system's place for temporary files; `name` is for the reader.
    ///
    /// # Panics
    ///
    /// If the folder cannot be made.
    pub fn new(name: &str) -> Scratch {
        Scratch::below(&env::temp_dir(), name)
    }

    /// Makes an empty folder below `place`.
    ///
    /// # Panics
    ///
    /// If the folder cannot be made.
    pub fn below(place: &Path, name: &str) -> Scratch {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = format!("siltstone-{name}-{}-{number}", process::id());
        let path = place.join(folder);
        // A process of the same id may have died here before.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a scratch folder can be made");
        Scratch(path)
    }

    /// Where the folder is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A place inside the folder. Nothing is made there.
    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

/// Copies the files of the folder `from` into a new folder `to`, but none of its folders. While
/// nobody writes, the copy is what a killed process would have left.
///
/// # Panics
///
/// If that cannot be done.
pub fn copy_files(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("the copy's folder can be made");
    for entry in fs::read_dir(from).expect("the folder can be listed") {
        let entry = entry.expect("the folder can be listed");
        if entry.path().is_file() {
            fs::copy(entry.path(), to.join(entry.file_name())).expect("files can be copied");
        }
    }
}

/// The write-ahead logs in a folder, oldest first.
///
/// # Panics
///
/// If the folder cannot be listed.
pub fn wals(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder can be listed");
    let paths = entries.map(|entry| entry.expect("the folder can be listed").path());
    let mut wals: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "log")).collect();
    wals.sort();
    wals
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("kept for inspection: {}", self.0.display());
        } else {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}
