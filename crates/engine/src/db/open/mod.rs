//! Opening a database: lock, manifest, logs, and a fresh manifest and log to go on with.

pub(crate) mod close;
pub(crate) mod files;
mod numbers;
pub(crate) mod read_only;
pub(crate) mod recovery;
pub(crate) mod wal_replay;

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::event::Event;
use crate::base::event::Listeners;
use crate::db::background::Lanes;
use crate::db::core::Core;
use crate::db::info_log::InfoLog;
use crate::db::options::Options;
use crate::db::settings::{self, Settings};
use crate::env::fs::FileSystem;
use crate::env::site::Site;
use crate::format::filename::FileName;

/// Opens for reading and writing, and starts the lanes.
pub(crate) fn open(dir: &Path, options: Options) -> Result<(Arc<Core>, Lanes)> {
    let options = settings::clamp(options);
    let settings = Settings::resolve(&options)?;
    let fs = Arc::clone(&options.env.file_system);
    // Nothing is touched before it is clear that there is something to open or make.
    let is_there = may_open(&*fs, dir, &options)?;
    let made = if is_there { 0 } else { make_folder(&*fs, dir)? };
    let lock = fs.lock(&FileName::Lock.in_dir(dir), Site::LockCreate)?;
    // Somebody may have made or destroyed the database before we got the lock.
    let exists = may_open(&*fs, dir, &options)?;
    let mut listeners = Listeners::new(options.listeners.clone());
    if options.info_log {
        listeners.push(Arc::new(InfoLog::start(&options.env, dir)));
    }
    let core = if exists {
        recovery::recover(dir, options, (settings, listeners, lock))?
    } else {
        // A folder that is there may have been made by a process that died before its name was durable.
        sync_parents(&*fs, dir, made)?;
        recovery::create(dir, options, (settings, listeners, lock))?
    };
    let core = Core::share(core);
    core.listeners.tell(&Event::Opened { recovery: core.recovery.clone() });
    core.go_on_with_left_jobs();
    // Lanes that did start hold the core, and with it the lock, until they are told to end.
    let lanes = Lanes::start(&core).inspect_err(|_| drop(core.stop()))?;
    Ok((core, lanes))
}

/// Whether the database exists; an error if it must not be opened as it is.
fn may_open(fs: &dyn FileSystem, dir: &Path, options: &Options) -> Result<bool> {
    match fs.metadata(&FileName::Current.in_dir(dir)) {
        Ok(_) if options.error_if_exists => {
            Err(Error::invalid_argument("exists (error_if_exists is true)").in_file(dir))
        }
        Ok(_) => Ok(true),
        Err(error) if !error.is_not_found() => Err(error),
        Err(_) if !options.create_if_missing => {
            let message = "does not exist (create_if_missing is false)";
            Err(Error::invalid_argument(message).in_file(dir))
        }
        Err(_) => Ok(false),
    }
}

/// Makes the folder if it is not there; returns how many were made, with those above it.
fn make_folder(fs: &dyn FileSystem, dir: &Path) -> Result<usize> {
    match fs.metadata(dir) {
        Ok(found) if found.is_dir => Ok(0),
        Ok(_) => Err(Error::new(ErrorKind::InvalidArgument, "is not a folder").in_file(dir)),
        Err(error) if error.is_not_found() => {
            let missing = missing_folders(fs, dir)?;
            fs.create_dir(dir, Site::DbDirCreate).map(|()| missing)
        }
        Err(error) => Err(error),
    }
}

/// How many folders `create_dir` is about to make: `dir`, and those above it that are missing.
pub(crate) fn missing_folders(fs: &dyn FileSystem, dir: &Path) -> Result<usize> {
    let mut missing = 0;
    for folder in dir.ancestors() {
        match fs.metadata(folder) {
            Ok(_) => break,
            Err(error) if error.is_not_found() => missing += 1,
            Err(error) => return Err(error),
        }
    }
    Ok(missing)
}

/// Makes the names of `dir` and of the folders above it durable, so that a new database is found again
/// after a crash. Of these folders, the last `made` were made just now.
pub(crate) fn sync_parents(fs: &dyn FileSystem, dir: &Path, made: usize) -> Result<()> {
    for (level, parent) in dir.ancestors().skip(1).enumerate() {
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        match fs.sync_dir(parent, Site::DbParentSync) {
            Ok(()) => {}
            Err(error) if level < made => return Err(error),
            Err(error) if level == 0 && !is_denied(&error) => return Err(error),
            // Nothing was made in it, and it may be closed to us.
            Err(_) => break,
        }
    }
    Ok(())
}

fn is_denied(error: &Error) -> bool {
    let cause = std::error::Error::source(error);
    let cause = cause.and_then(|cause| cause.downcast_ref::<io::Error>());
    cause.is_some_and(|cause| cause.kind() == io::ErrorKind::PermissionDenied)
}
