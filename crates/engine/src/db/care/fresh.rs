//! A folder in which a new database is being made: by a checkpoint, by a repair.
//!
//! **Invariants.**
//! - F1: the folder was empty and is locked until the database is whole.
//! - F2: CURRENT appears last, when all else is durable: files, their names, the folder's own name.
//! - F3: a failure takes back what was made, CURRENT first.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::key::SeqNo;
use crate::db::background::install::snapshot_of;
use crate::db::open::{missing_folders, sync_parents};
use crate::env::fs::{FileLock, FileSystem};
use crate::env::site::Site;
use crate::format::filename::{FileName, FileNumber};
use crate::format::manifest::edit::VersionEdit;
use crate::version::Version;
use crate::version::manifest_log::ManifestLog;

/// A new database's folder.
pub(crate) struct Fresh {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    /// So many folders were not there before: this one, and some above it.
    made: usize,
    lock: Box<dyn FileLock>,
}

/// What the manifest of a new database says.
pub(crate) struct Content<'a> {
    pub(crate) version: &'a Version,
    pub(crate) comparator: &'a str,
    pub(crate) last_seqno: SeqNo,
    /// Greater than the number of any file made; becomes the manifest's.
    pub(crate) next_file: FileNumber,
}

impl Fresh {
    /// Makes the folder, unless it is there and empty, and locks it. `site` is that of making it.
    pub(crate) fn begin(fs: &Arc<dyn FileSystem>, dir: &Path, site: Site) -> Result<Self> {
        let made = match fs.metadata(dir) {
            Ok(found) if found.is_dir => 0,
            Ok(_) => return Err(not_free(dir)),
            Err(error) if error.is_not_found() => {
                let missing = missing_folders(&**fs, dir)?;
                fs.create_dir(dir, site)?;
                missing
            }
            Err(error) => return Err(error),
        };
        // Looked at before the lock, so that a foreign folder gets no lock file, and after it.
        check_empty(&**fs, dir)?;
        let lock = fs.lock(&FileName::Lock.in_dir(dir), Site::LockCreate)?;
        let fresh = Fresh { fs: Arc::clone(fs), dir: dir.to_owned(), made, lock };
        check_empty(&**fs, dir)?;
        let named = sync_parents(&**fs, dir, made);
        fresh.settle(named)
    }

    /// Writes manifest and CURRENT. Tables must be synced; their names need not be.
    pub(crate) fn name(&self, content: &Content<'_>) -> Result<()> {
        let number = content.next_file;
        let header = VersionEdit {
            // No log is needed, and none is missing.
            log_number: Some(FileNumber(0)),
            prev_log_number: Some(FileNumber(0)),
            next_file: Some(FileNumber(number.0 + 1)),
            last_seqno: Some(content.last_seqno),
            ..VersionEdit::default()
        };
        let snapshot = snapshot_of(content.version, content.comparator, header);
        // Syncs the folder before CURRENT takes its name, and again after.
        ManifestLog::create(&self.fs, &self.dir, number, &snapshot)?.close()
    }

    /// Hands itself on, or takes everything back and returns the error.
    pub(crate) fn settle(self, result: Result<()>) -> Result<Self> {
        match result {
            Ok(()) => Ok(self),
            Err(error) => Err(self.abandon(error)),
        }
    }

    /// Takes back what was made (F3), because of `cause`, which it returns. Best effort: without
    /// CURRENT what stays is no database.
    pub(crate) fn abandon(self, cause: Error) -> Error {
        let remove = |name: &str| {
            let _ = self.fs.remove_file(&self.dir.join(name), Site::TempRemove);
        };
        remove(&FileName::Current.to_string());
        for name in self.fs.list(&self.dir).unwrap_or_default() {
            if FileName::parse(&name).is_some_and(|parsed| parsed != FileName::Lock) {
                remove(&name);
            }
        }
        if self.made > 0 {
            remove(&FileName::Lock.to_string());
            let _ = self.fs.remove_dir(&self.dir, Site::TempRemove);
        }
        drop(self.lock);
        cause
    }
}

/// A lock file may be there: whoever made it holds it no more, or locking will tell.
fn check_empty(fs: &dyn FileSystem, dir: &Path) -> Result<()> {
    let foreign = |name: &String| FileName::parse(name) != Some(FileName::Lock);
    if fs.list(dir)?.iter().any(foreign) { Err(not_free(dir)) } else { Ok(()) }
}

fn not_free(dir: &Path) -> Error {
    let message = "is there already; expected a path that is free, or an empty folder";
    Error::new(ErrorKind::InvalidArgument, message).in_file(dir)
}
