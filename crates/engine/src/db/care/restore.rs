//! A database out of what a store of tables was told ([`Installed`](crate::Installed)): edits that lie in a bucket, say,
//! while the folder that they came from is lost.

use std::path::Path;

use crate::base::error::{Error, Result};
use crate::db::open::{missing_folders, sync_parents};
use crate::env::Env;
use crate::env::site::Site;
use crate::format::filename::{FileName, FileNumber};
use crate::format::manifest::edit::VersionEdit;
use crate::format::manifest::edit::fold::Fold;
use crate::version::manifest_log::ManifestLog;

/// Version edits, in LevelDB's encoding, as one that says the same as all of them together. One that is whole, as at a
/// manifest's beginning, makes those before it count no more.
///
/// # Errors
///
/// [`Corruption`](crate::ErrorKind::Corruption) if an edit cannot be read or does not fit to those before it, or none is
/// whole.
pub fn fold_edits<E: AsRef<[u8]>>(edits: impl IntoIterator<Item = E>) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fold(edits)?.encode(&mut bytes)?;
    Ok(bytes)
}

/// The number of the oldest log that a database needs whose manifest ends with this edit; `None` if the edit does not say.
///
/// # Errors
///
/// [`Corruption`](crate::ErrorKind::Corruption) if the edit cannot be read.
pub fn oldest_log_of(edit: &[u8]) -> Result<Option<FileNumber>> {
    Ok(VersionEdit::decode(edit)?.log_number)
}

/// Gives a folder, which is made if need be, the manifest that `edits` make up, so that it can be opened with a
/// [`table_store`](crate::Options::table_store) that has the tables. Logs that are in the folder count, from the number on
/// that the edits name; none has to be there.
///
/// The manifest and its name are durable when this returns. After an error no database is there, or a whole one whose name
/// may not be durable.
///
/// # Errors
///
/// [`InvalidArgument`](crate::ErrorKind::InvalidArgument) if the folder holds a database;
/// [`Locked`](crate::ErrorKind::Locked) if it is in use; those of [`fold_edits`]; those of the file system.
pub fn restore_manifest<E: AsRef<[u8]>>(
    env: &Env,
    folder: impl AsRef<Path>,
    edits: impl IntoIterator<Item = E>,
) -> Result<()> {
    let (fs, dir) = (&env.file_system, folder.as_ref());
    let whole = fold(edits)?;
    let made = missing_folders(&**fs, dir)?;
    fs.create_dir(dir, Site::DbDirCreate)?;
    let _lock = fs.lock(&FileName::Lock.in_dir(dir), Site::LockCreate)?;
    match fs.metadata(&FileName::Current.in_dir(dir)) {
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(error),
        Ok(_) => {
            return Err(Error::invalid_argument("holds a database already").in_file(dir));
        }
    }
    let has_logs = fs.list(dir)?.iter().any(|name| is_log(name));
    // Without the logs that it names, a manifest would speak of a loss.
    let log_number = if has_logs { whole.log_number } else { Some(FileNumber(0)) };
    let number = whole.next_file.unwrap_or(FileNumber(1));
    let next_file = Some(FileNumber(number.0.saturating_add(1)));
    let first = VersionEdit { log_number, next_file, ..whole };
    sync_parents(&**fs, dir, made)?;
    ManifestLog::create(fs, dir, number, &first)?.close()
}

fn fold<E: AsRef<[u8]>>(edits: impl IntoIterator<Item = E>) -> Result<VersionEdit> {
    let mut fold = Fold::default();
    for edit in edits {
        fold.add(VersionEdit::decode(edit.as_ref())?)?;
    }
    fold.finish()
}

fn is_log(name: &str) -> bool {
    matches!(FileName::parse(name), Some(FileName::Wal(_)))
}
