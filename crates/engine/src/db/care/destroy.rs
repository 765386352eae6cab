//! Removing a database: the files that the engine makes, and nothing else.
//!
//! **Invariants.**
//! - D1: CURRENT goes first, and durably, before anything it needs goes. A database of which a part is
//!   left can therefore never be opened as if it were whole.
//! - D2: in its place stands a mark, until nothing else is left, durably. What is left is therefore
//!   never taken for a database that lost its CURRENT, which would be kept from harm.

use std::io;
use std::path::Path;

use crate::base::error::{Error, Result};
use crate::db::care::repair::KEPT_PREFIX;
use crate::db::open::recovery::LOST_FOLDER;
use crate::db::options::Options;
use crate::env::fs::FileSystem;
use crate::env::site::Site;
use crate::format::filename::FileName;

/// Removes the database in the folder `path`, and the folder if nothing else is in it. Files that
/// are not the engine's stay. Fine if there is no such folder. Of `options`, only
/// [`env`](Options::env) counts.
///
/// A destruction that was cut short leaves no database: opening makes a new one, and removes the rest
/// as calling this again does.
///
/// # Errors
///
/// `Locked` if the database is open: then nothing is touched. Otherwise the first file that could
/// not be removed; the others are removed all the same.
pub fn destroy(path: impl AsRef<Path>, options: &Options) -> Result<()> {
    let dir = path.as_ref();
    let fs = &*options.env.file_system;
    match fs.list(dir) {
        Err(error) if error.is_not_found() => return Ok(()),
        listed => drop(listed?),
    }
    let lock_file = FileName::Lock.in_dir(dir);
    let lock = fs.lock(&lock_file, Site::LockCreate)?;
    let mark = FileName::DESTROYED.in_dir(dir);
    make_mark(fs, dir, &mark)?;
    fs.sync_dir(dir, Site::DestroyDirSync)?; // D1
    let emptied = remove_files(fs, dir).and(remove_lost(fs, dir)).and_then(|()| {
        fs.sync_dir(dir, Site::DestroyDirSync)?; // D2
        remove(fs, &mark).map(drop)
    });
    // While the lock is held: once it is free, the name may be another's.
    let unlocked = remove(fs, &lock_file).map(drop);
    drop(lock);
    emptied.and(unlocked)?;
    remove_folder(fs, dir)
}

/// Turns CURRENT into the mark; where there is none, makes it.
fn make_mark(fs: &dyn FileSystem, dir: &Path, mark: &Path) -> Result<()> {
    match fs.rename(&FileName::Current.in_dir(dir), mark, Site::DestroyMark) {
        Err(error) if error.is_not_found() => {
            fs.create(mark, Site::DestroyMark)?.close(Site::DestroyMark)
        }
        renamed => renamed,
    }
}

/// Removes what is ours in `dir`, but the lock and the mark.
fn remove_files(fs: &dyn FileSystem, dir: &Path) -> Result<()> {
    let names = fs.list(dir)?;
    let ours = names.iter().filter(|name| {
        let kept = [FileName::Lock, FileName::DESTROYED];
        FileName::parse(name).is_some_and(|name| !kept.contains(&name))
    });
    remove_all(fs, dir, ours)
}

/// Removes the logs that recovery has put aside, and what repairs in place have kept.
fn remove_lost(fs: &dyn FileSystem, dir: &Path) -> Result<()> {
    let lost = dir.join(LOST_FOLDER);
    let names = fs.list(&lost).unwrap_or_default();
    let kept = names.iter().filter(|name| is_kept(name));
    let kept = kept.map(|name| remove_folder_of(fs, &lost.join(name), |_| true));
    let kept = kept.fold(Ok(()), Result::and);
    kept.and(remove_folder_of(fs, &lost, |name| matches!(name, FileName::Wal(_))))
}

/// Removes files in a folder of ours, and it too unless something is left in it.
fn remove_folder_of(
    fs: &dyn FileSystem,
    dir: &Path,
    ours: impl Fn(FileName) -> bool,
) -> Result<()> {
    let names = match fs.list(dir) {
        Ok(names) => names,
        Err(_) => return Ok(()), // Not there, or no folder: then it is not ours.
    };
    let ours = names.iter().filter(|name| FileName::parse(name).is_some_and(&ours));
    remove_all(fs, dir, ours)?;
    remove_folder(fs, dir)
}

/// True for the folders that repairs in place make.
fn is_kept(name: &str) -> bool {
    name.strip_prefix(KEPT_PREFIX).is_some_and(|number| number.parse::<u32>().is_ok())
}

/// Removes files by name, as many as can be removed; the first failure is told.
fn remove_all<'a>(
    fs: &dyn FileSystem,
    dir: &Path,
    names: impl Iterator<Item = &'a String>,
) -> Result<()> {
    // By the name as found: it may have more digits than we would write.
    names.map(|name| remove(fs, &dir.join(name)).map(drop)).fold(Ok(()), Result::and)
}

/// Removes a file. False if it was not there.
fn remove(fs: &dyn FileSystem, path: &Path) -> Result<bool> {
    match fs.remove_file(path, Site::DestroyRemove) {
        Err(error) if error.is_not_found() => Ok(false),
        removed => removed.map(|()| true),
    }
}

/// Removes a folder unless something is left in it.
fn remove_folder(fs: &dyn FileSystem, dir: &Path) -> Result<()> {
    match fs.remove_dir(dir, Site::DestroyRemoveDir) {
        Err(error) if error.is_not_found() || is_not_empty(&error) => Ok(()),
        removed => removed,
    }
}

fn is_not_empty(error: &Error) -> bool {
    let cause = std::error::Error::source(error);
    let cause = cause.and_then(|cause| cause.downcast_ref::<io::Error>());
    cause.is_some_and(|cause| cause.kind() == io::ErrorKind::DirectoryNotEmpty)
}
