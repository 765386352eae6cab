//! Repair in the place of the damaged database, for those who cannot name another: LevelDB's
//! `RepairDB` has one path only.
//!
//! **Invariants.**
//! - K1: new files have numbers of their own. No file that is there is changed or replaced.
//! - K2: the rename of CURRENT is the switch. Before it the folder holds the damaged database, behind
//!   it the mended one; a crash leaves one of them.
//! - K3: before the switch, every file of the damaged database has a second name in a folder of its
//!   own, durably (its bytes are as durable as they were). Only behind the switch do the first ones go.

use std::path::{Path, PathBuf};

use super::report::RepairReport;
use super::survey::Survey;
use super::{Damaged, FIRST_FILE, RepairOptions, Saved, save_tables};
use crate::base::error::Result;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::db::background::install::snapshot_of;
use crate::db::care::checkpoint::copy_file;
use crate::db::open::files::Files;
use crate::db::open::recovery::LOST_FOLDER;
use crate::db::options::Options;
use crate::env::fs::FileSystem;
use crate::env::site::Site;
use crate::format::filename::{FileName, FileNumber};
use crate::format::manifest::edit::VersionEdit;
use crate::version::manifest_log::ManifestLog;

/// In the folder of what is kept, before a number that tells repairs apart.
pub(crate) const KEPT_PREFIX: &str = "repair-";

/// Mends the database in the folder `path`: as [`repair`](crate::repair), and then what was saved takes
/// its place. The files of the damaged database move to the folder `lost/repair-N` below `path`, whole
/// and openable as before; [`kept`](RepairReport::kept) tells which `N`. Remove it when nothing more is
/// to be saved from it. [`destroy`](crate::destroy) does, too.
///
/// Prefer [`repair`](crate::repair) where there is room for a choice. This one cannot be looked at before it
/// takes effect.
///
/// Until the switch, which is atomic and durable, a crash leaves the database as damaged as it was;
/// behind it, mended. Calling again is right at any time. Needs space for what is saved; the files kept
/// are linked, or copied on file systems without links.
///
/// # Errors
///
/// As [`repair`](crate::repair). After an error the damaged database is still there, unless the error
/// is that of the folder's sync behind the switch: then it is either of the two.
pub fn repair_in_place(path: impl AsRef<Path>, options: &Options) -> Result<RepairReport> {
    let damaged = Damaged::open(path.as_ref(), options)?;
    let survey = Survey::take(&damaged, &RepairOptions::default())?;
    let files = Files::list(&*damaged.fs, &damaged.dir)?;
    let first = FileNumber(files.next_number(&damaged.dir, FileNumber(FIRST_FILE))?);
    let next_file = AtomicU64::new(first.0);
    let new_number = || FileNumber(next_file.fetch_add(1, Ordering::Relaxed));

    let saved = save_tables(&damaged, survey, &damaged.dir, &new_number);
    let kept = saved.and_then(|saved| Ok((saved, keep(&damaged, first)?)));
    let (mut saved, kept) = kept.inspect_err(|_| remove_files(&damaged, |file| file >= first))?;
    saved.report.kept = Some(kept);
    switch(&damaged, &saved, &new_number)?;
    remove_files(&damaged, |file| file < first);
    Ok(saved.report)
}

/// Gives every file of the damaged database a second name (K3), and returns the folder.
fn keep(damaged: &Damaged, first_new: FileNumber) -> Result<PathBuf> {
    let Damaged { fs, dir, .. } = damaged;
    let lost = dir.join(LOST_FOLDER);
    let kept = free_folder(&**fs, &lost)?;
    fs.create_dir(&kept, Site::RepairKeep)?;
    for name in fs.list(dir)? {
        let is_old = match FileName::parse(&name) {
            Some(FileName::Current) => true,
            Some(FileName::Temp(_)) | None => false,
            Some(parsed) => parsed.number().is_some_and(|number| number < first_new),
        };
        if is_old {
            link_or_copy(&**fs, &dir.join(&name), &kept.join(&name))?;
        }
    }
    // The names of the folders, too. That of `lost` is synced with CURRENT's new name.
    fs.sync_dir(&kept, Site::RepairKeep)?;
    fs.sync_dir(&lost, Site::RepairKeep)?;
    Ok(kept)
}

fn free_folder(fs: &dyn FileSystem, lost: &Path) -> Result<PathBuf> {
    let mut number = 1;
    loop {
        let folder = lost.join(format!("{KEPT_PREFIX}{number}"));
        match fs.metadata(&folder) {
            Ok(_) => number += 1,
            Err(error) if error.is_not_found() => return Ok(folder),
            Err(error) => return Err(error),
        }
    }
}

fn link_or_copy(fs: &dyn FileSystem, from: &Path, to: &Path) -> Result<()> {
    if fs.hard_link(from, to, Site::RepairKeep).is_ok() {
        return Ok(());
    }
    // Should the link be there against its answer, writing through it would hit the file.
    match fs.remove_file(to, Site::TempRemove) {
        Err(error) if !error.is_not_found() => return Err(error),
        _ => {}
    }
    let copy = fs.create(to, Site::RepairKeep)?;
    copy_file(&*fs.open(from)?, copy).map_err(|error| error.in_file(to))
}

/// Makes the folder that of the mended database (K2).
fn switch(damaged: &Damaged, saved: &Saved, new_number: &dyn Fn() -> FileNumber) -> Result<()> {
    let Damaged { fs, dir, settings, .. } = damaged;
    // An empty log. Those before it are done with, should a crash leave them here.
    let wal = new_number();
    fs.create(&FileName::Wal(wal).in_dir(dir), Site::WalCreate)?.close(Site::WalClose)?;
    let manifest = new_number();
    let header = VersionEdit {
        log_number: Some(wal),
        prev_log_number: Some(FileNumber(0)),
        next_file: Some(FileNumber(manifest.0 + 1)),
        last_seqno: Some(saved.report.last_seqno),
        ..VersionEdit::default()
    };
    let snapshot = snapshot_of(&saved.version, settings.order.user.name(), header);
    // Syncs the folder before CURRENT takes its name, and again after.
    let named = ManifestLog::create(fs, dir, manifest, &snapshot)?;
    // All in it is durable: a failure to close loses nothing, and the switch is done.
    let _ = named.close();
    Ok(())
}

/// Removes numbered files. Best effort: opening removes what stays.
fn remove_files(damaged: &Damaged, which: impl Fn(FileNumber) -> bool) {
    for name in damaged.fs.list(&damaged.dir).unwrap_or_default() {
        if FileName::parse(&name).and_then(FileName::number).is_some_and(&which) {
            let _ = damaged.fs.remove_file(&damaged.dir.join(&name), Site::RepairRemove);
        }
    }
}
