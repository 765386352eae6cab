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

impl Drop for Scratch {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("kept for inspection: {}", self.0.display());
        } else {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}
