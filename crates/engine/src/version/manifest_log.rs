//! The manifest being written: edits appended and synced one by one, and the switch of CURRENT to
//! a new manifest. Called under the manifest lock only.
//!
//! **Invariants.**
//! - M1 (rules R1, R4): a manifest is whole, synced and in a synced folder before CURRENT names it;
//!   CURRENT's rename is durable before anything it made obsolete goes.
//! - M2 (rule R6): after a failed append or sync nothing more is appended to that file. The edit in
//!   question may or may not be durable; only a new manifest settles it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::error::{Error, Result};
use crate::env::fs::{FileSystem, WritableFile};
use crate::env::site::Site;
use crate::format::filename::{FileName, FileNumber};
use crate::format::manifest::current::current_text;
use crate::format::manifest::edit::VersionEdit;
use crate::format::record::encoder::RecordEncoder;

/// A manifest smaller than this is not worth rewriting.
const ROTATE_BYTES_MIN: u64 = 1 << 20;
/// A manifest is rewritten when it has grown to this many times its snapshot: with a fixed limit, a
/// database whose snapshot is larger would rewrite it at every edit.
const ROTATE_GROWTH: u64 = 4;

pub(crate) struct ManifestLog {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    number: FileNumber,
    file: Box<dyn WritableFile>,
    encoder: RecordEncoder,
    bytes: u64,
    snapshot_bytes: u64,
    broken: bool,
}

impl ManifestLog {
    /// Writes a new manifest that begins with `snapshot`, and makes CURRENT name it.
    pub(crate) fn create(
        fs: &Arc<dyn FileSystem>,
        dir: &Path,
        number: FileNumber,
        snapshot: &VersionEdit,
    ) -> Result<Self> {
        let path = FileName::Manifest(number).in_dir(dir);
        let mut log = ManifestLog {
            fs: Arc::clone(fs),
            dir: dir.to_owned(),
            number,
            file: fs.create(&path, Site::ManifestCreate)?,
            encoder: RecordEncoder::new(0),
            bytes: 0,
            snapshot_bytes: 0,
            broken: false,
        };
        log.write(snapshot, Site::ManifestSnapshot)?;
        log.snapshot_bytes = log.bytes;
        fs.sync_dir(dir, Site::ManifestDirSync)?;
        log.name_in_current()?;
        Ok(log)
    }

    pub(crate) fn number(&self) -> FileNumber {
        self.number
    }

    /// Appends an edit and makes it durable.
    pub(crate) fn append(&mut self, edit: &VersionEdit) -> Result<()> {
        assert!(!self.broken, "M2: no append after a failed one");
        let written = self.write(edit, Site::ManifestAppend);
        self.broken = written.is_err();
        written
    }

    /// True if the next edit belongs into a new manifest.
    pub(crate) fn wants_rotation(&self) -> bool {
        self.broken || self.bytes > ROTATE_BYTES_MIN.max(self.snapshot_bytes * ROTATE_GROWTH)
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Closes a manifest that another has replaced, or that the database is done with. Everything in
    /// it was synced, so a failure here loses nothing and is only told.
    pub(crate) fn close(mut self) -> Result<()> {
        self.file.close(Site::ManifestClose)
    }

    fn write(&mut self, edit: &VersionEdit, site: Site) -> Result<()> {
        let mut payload = Vec::new();
        edit.encode(&mut payload)?;
        let mut records = Vec::with_capacity(payload.len() + 64);
        self.encoder.encode(&[&payload], &mut records);
        self.file.append(&records, site)?;
        self.bytes += records.len() as u64;
        self.file.sync(Site::ManifestSync)
    }

    fn name_in_current(&self) -> Result<()> {
        let temp = FileName::Temp(self.number).in_dir(&self.dir);
        let switched = self.switch_current(&temp);
        if switched.is_err() {
            // Best effort: the open that follows sweeps temporary files too.
            let _ = self.fs.remove_file(&temp, Site::TempRemove);
        }
        switched.map_err(|error: Error| error.in_file(&temp))
    }

    fn switch_current(&self, temp: &Path) -> Result<()> {
        let mut file = self.fs.create(temp, Site::CurrentCreate)?;
        file.append(current_text(self.number).as_bytes(), Site::CurrentAppend)?;
        file.sync(Site::CurrentSync)?;
        file.close(Site::CurrentClose)?;
        let current = FileName::Current.in_dir(&self.dir);
        self.fs.rename(temp, &current, Site::CurrentRename)?;
        self.fs.sync_dir(&self.dir, Site::CurrentDirSync)
    }
}
