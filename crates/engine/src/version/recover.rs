//! CURRENT -> manifest -> version: what the database was when its last edit became durable.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use crate::base::comparator::InternalOrder;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::key::SeqNo;
use crate::base::slot::Slot;
use crate::env::fs::{FileSystem, read_whole};
use crate::format::filename::{FileName, FileNumber};
use crate::format::manifest::current::parse_current;
use crate::format::manifest::edit::VersionEdit;
use crate::format::manifest::reader::ManifestReader;
use crate::version::Version;
use crate::version::builder::{Change, VersionBuilder};
use crate::version::check;
use crate::version::graveyard::Graveyard;
use crate::version::table_meta::TableMeta;

/// CURRENT holds one file name; anything longer is not ours to read into memory.
const CURRENT_BYTES_MAX: u64 = 256;

/// File numbers that a database must have left: more than any will ever use. One that is opened
/// without them would soon name files that it cannot open again.
pub(crate) const NUMBERS_LEFT_MIN: u64 = 1 << 40;

/// A manifest's content.
pub(crate) struct Recovered {
    pub(crate) version: Version,
    pub(crate) manifest: FileNumber,
    pub(crate) next_file: FileNumber,
    pub(crate) log_number: FileNumber,
    pub(crate) prev_log_number: FileNumber,
    pub(crate) last_seqno: SeqNo,
    /// The last edit was bad, and left out.
    pub(crate) torn: bool,
}

impl Recovered {
    /// True if recovery must replay the log of that number.
    pub(crate) fn needs_wal(&self, number: FileNumber) -> bool {
        number >= self.log_number
            || (self.prev_log_number != FileNumber(0) && number == self.prev_log_number)
    }

    /// No log before this one is needed.
    pub(crate) fn oldest_log(&self) -> FileNumber {
        match self.prev_log_number {
            FileNumber(0) => self.log_number,
            before => before.min(self.log_number),
        }
    }
}

pub(crate) fn recover(
    fs: &dyn FileSystem,
    dir: &Path,
    order: &InternalOrder,
    graveyard: &Arc<Graveyard>,
) -> Result<Recovered> {
    let current = FileName::Current.in_dir(dir);
    let text = read_current(fs, dir)?;
    let manifest = parse_current(&text).map_err(|error| error.at(0).in_file(&current))?;
    recover_manifest(fs, dir, order, graveyard, manifest).map_err(|error| {
        if error.is_not_found() {
            let message = "CURRENT points to a non-existent file";
            error.because(ErrorKind::Corruption, message)
        } else {
            error
        }
    })
}

/// CURRENT as it stands.
pub(crate) fn read_current(fs: &dyn FileSystem, dir: &Path) -> Result<Vec<u8>> {
    read_whole(fs, &FileName::Current.in_dir(dir), CURRENT_BYTES_MAX)
}

/// As [`recover`], from a manifest that CURRENT need not name. For repair.
pub(crate) fn recover_manifest(
    fs: &dyn FileSystem,
    dir: &Path,
    order: &InternalOrder,
    graveyard: &Arc<Graveyard>,
    manifest: FileNumber,
) -> Result<Recovered> {
    let path = FileName::Manifest(manifest).in_dir(dir);
    let file = fs.open(&path)?;
    let mut reader = ManifestReader::new(file);
    let base = Version::default();
    let mut replay = Replay::new(order, graveyard, &base);
    while let Some(edit) = reader.next()? {
        replay.apply(edit).map_err(|error| error.in_file(&path))?;
    }
    let torn = reader.torn_tail();
    let finished = replay.finish(manifest, torn.is_some()).map_err(|error| match torn {
        Some(offset) => error.at(offset),
        None => error,
    });
    finished.map_err(|error| error.in_file(&path))
}

/// As [`recover`], from the records of a manifest that lies elsewhere. All of them count: who keeps them tells a torn one.
pub(crate) fn recover_edits<'a>(
    order: &InternalOrder,
    graveyard: &Arc<Graveyard>,
    edits: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Recovered> {
    let base = Version::default();
    let mut replay = Replay::new(order, graveyard, &base);
    for edit in edits {
        replay.apply(VersionEdit::decode(edit)?)?;
    }
    replay.finish(FileNumber(0), false)
}

struct Replay<'a> {
    order: &'a InternalOrder,
    graveyard: &'a Arc<Graveyard>,
    builder: VersionBuilder<'a>,
    log_number: Option<FileNumber>,
    prev_log_number: Option<FileNumber>,
    next_file: Option<FileNumber>,
    last_seqno: Option<SeqNo>,
}

impl<'a> Replay<'a> {
    fn new(order: &'a InternalOrder, graveyard: &'a Arc<Graveyard>, base: &'a Version) -> Self {
        Replay {
            order,
            graveyard,
            builder: VersionBuilder::new(order, base),
            log_number: None,
            prev_log_number: None,
            next_file: None,
            last_seqno: None,
        }
    }

    fn apply(&mut self, edit: VersionEdit) -> Result<()> {
        if let Some(stored) = &edit.comparator {
            check_comparator(stored, self.order.user.name())?;
        }
        self.log_number = edit.log_number.or(self.log_number);
        self.prev_log_number = edit.prev_log_number.or(self.prev_log_number);
        self.next_file = edit.next_file.or(self.next_file);
        self.last_seqno = edit.last_seqno.or(self.last_seqno);
        let added = edit.added.into_iter();
        let added = added
            .map(|(slot, table)| (slot, Arc::new(TableMeta::recovered(table, self.graveyard))));
        let change = Change { added: added.collect::<Vec<(Slot, _)>>(), removed: edit.removed };
        self.builder.apply(change)
    }

    fn finish(self, manifest: FileNumber, torn: bool) -> Result<Recovered> {
        let missing = |name| Error::corruption(format!("no {name} entry in descriptor"));
        let version = self.builder.finish()?;
        check::check(self.order, &version)?;
        check_files(&version)?;
        let next_file = self.next_file.ok_or_else(|| missing("meta-nextfile"))?;
        // Numbers in use must lie below; a manifest that says otherwise would have us overwrite.
        let greatest = version.tables().map(|(_, table)| table.number.0).max().unwrap_or(0);
        let log_number = self.log_number.ok_or_else(|| missing("meta-lognumber"))?;
        let prev_log_number = self.prev_log_number.unwrap_or(FileNumber(0));
        let used = greatest.max(log_number.0).max(prev_log_number.0).max(manifest.0);
        let named = used.max(next_file.0);
        if named > FileNumber::MAX.0 - NUMBERS_LEFT_MIN {
            return Err(Error::corruption(format!("file number {named} is out of range")));
        }
        Ok(Recovered {
            version,
            manifest,
            next_file: FileNumber(next_file.0.max(used + 1)),
            log_number,
            prev_log_number,
            last_seqno: self.last_seqno.ok_or_else(|| missing("last-sequence-number"))?,
            torn,
        })
    }
}

/// Leaves room to add to any recovered size.
const TOTAL_BYTES_MAX: u64 = u64::MAX >> 1;

/// Checks what no install can break: each table stands in one slot, and all sizes together are one
/// that a disk can have, so that sums of sizes never overflow.
fn check_files(version: &Version) -> Result<()> {
    let mut numbers = HashSet::new();
    let mut bytes = 0u64;
    for (slot, table) in version.tables() {
        if !numbers.insert(table.number) {
            let message = format!("table {} stands in {slot} and in another slot", table.number);
            return Err(Error::corruption(message));
        }
        bytes = bytes.saturating_add(table.size);
        if bytes > TOTAL_BYTES_MAX {
            let message = format!("table {} cannot have {} bytes", table.number, table.size);
            return Err(Error::corruption(message));
        }
    }
    Ok(())
}

fn check_comparator(stored: &str, given: &str) -> Result<()> {
    if stored == given {
        return Ok(());
    }
    let message = format!("{stored} does not match existing comparator : {given}");
    Err(Error::new(ErrorKind::Incompatible, message))
}

#[cfg(test)]
mod tests;
