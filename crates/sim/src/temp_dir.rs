//! A folder of its own for each test, removed when the test is over.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A campaign's folders take less than this together.
const SPACE_MIN: u64 = 512 << 20;

/// An empty folder; it goes, with all in it, when the value does.
pub struct TempDir(PathBuf);

impl TempDir {
    /// A new folder. `purpose` becomes a part of its name, to tell what a killed test left behind.
    pub fn new(purpose: &str) -> Self {
        Self::under(std::env::temp_dir(), purpose)
    }

    /// A new folder in memory where the system has such a place (Linux: `/dev/shm`), for those who make and
    /// delete thousands of files and do not ask what a disk keeps. ext4 without a journal, for one, does not give
    /// out the inode of a deleted file for seconds, and looks at all of those for each file it makes.
    pub fn in_memory(purpose: &str) -> Self {
        let memory = Path::new("/dev/shm");
        let is_writable = rustix::fs::access(memory, rustix::fs::Access::WRITE_OK).is_ok();
        // Containers often have next to nothing there.
        let space = rustix::fs::statvfs(memory).map_or(0, |found| found.f_bavail * found.f_frsize);
        let has_room = is_writable && space >= SPACE_MIN;
        let parent = if has_room { memory.into() } else { std::env::temp_dir() };
        Self::under(parent, purpose)
    }

    fn under(parent: PathBuf, purpose: &str) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name =
            format!("siltstone-{purpose}-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let path = parent.join(name);
        // A killed process of the same id may have left one.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("the system's temporary folder takes a folder");
        // Where the temporary folder is itself behind a link, paths in errors would differ.
        TempDir(path.canonicalize().expect("the folder was just made"))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
