//! The write-ahead log being written: batches framed as records, and sync marks. Its file is the file
//! system's affair: [`create_log`](FileSystem::create_log) may hand out one that is mapped.
//!
//! **Invariants.**
//! - W1 (rule R2): the log's name is durable before its first sync is reported.
//! - W2 (rule R8): the first append after a sync is preceded by a sync mark, an empty batch. A bad
//!   record before a mark is damage to promised bytes; one after the last mark is a crash's tail.
//! - W3 (rule R6): after a failed append or sync nothing more is appended; the log is poisoned.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::error::Result;
use crate::base::key::SeqNo;
use crate::env::fs::{FileSystem, WritableFile};
use crate::env::site::Site;
use crate::format::batch;
use crate::format::filename::{FileName, FileNumber};
use crate::format::record::encoder::RecordEncoder;

/// Where logs are made, and how.
pub(crate) struct LogPlace<'a> {
    pub(crate) fs: &'a Arc<dyn FileSystem>,
    pub(crate) dir: &'a Path,
    pub(crate) maps: bool,
}

/// One log file.
pub(crate) struct Wal {
    number: FileNumber,
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    file: Box<dyn WritableFile>,
    encoder: RecordEncoder,
    buffer: Vec<u8>,
    /// Appended so far.
    bytes: u64,
    mark_due: bool,
    unsynced: bool,
    named: bool,
    poisoned: bool,
}

/// A buffer larger than this, left by one large batch, is given back.
const BUFFER_KEPT_MAX: usize = 1 << 20;

impl Wal {
    /// A new, empty log.
    pub(crate) fn create(place: &LogPlace<'_>, number: FileNumber) -> Result<Self> {
        Wal::create_as(FileName::Wal(number), place, number)
    }

    /// As [`create`](Self::create), with room made for so many bytes, where the file system can.
    pub(crate) fn create_ahead(
        place: &LogPlace<'_>,
        number: FileNumber,
        bytes: u64,
    ) -> Result<Self> {
        let mut wal = Wal::create(place, number)?;
        wal.file.expect_appends(bytes);
        Ok(wal)
    }

    /// Goes on with that; see [`WritableFile::get_ahead`].
    pub(crate) fn get_ahead(&mut self, bytes: u64) -> bool {
        self.file.get_ahead(bytes)
    }

    /// A new log under a temporary name, which recovery does not read, until
    /// [`take_name`](Self::take_name).
    pub(crate) fn create_hidden(place: &LogPlace<'_>, hidden: FileNumber) -> Result<Self> {
        Wal::create_as(FileName::Temp(hidden), place, hidden)
    }

    fn create_as(name: FileName, place: &LogPlace<'_>, number: FileNumber) -> Result<Self> {
        let path = name.in_dir(place.dir);
        let file = match place.maps {
            true => place.fs.create_log(&path, Site::WalCreate)?,
            false => place.fs.create(&path, Site::WalCreate)?,
        };
        Ok(Wal {
            number,
            fs: Arc::clone(place.fs),
            dir: place.dir.to_owned(),
            file,
            encoder: RecordEncoder::new(0),
            buffer: Vec::new(),
            bytes: 0,
            mark_due: false,
            unsynced: false,
            named: false,
            poisoned: false,
        })
    }

    pub(crate) fn number(&self) -> FileNumber {
        self.number
    }

    pub(crate) fn is_poisoned(&self) -> bool {
        self.poisoned
    }

    /// Bytes appended so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether anybody wanted it to be durable so far.
    pub(crate) fn was_synced(&self) -> bool {
        self.named
    }

    pub(crate) fn needs_sync(&self) -> bool {
        self.unsynced || !self.named
    }

    /// Appends one batch, given in parts, and returns the bytes written. `seqno` is the batch's.
    pub(crate) fn append(&mut self, seqno: SeqNo, parts: &[&[u8]]) -> Result<u64> {
        let mut bytes = 0;
        if std::mem::take(&mut self.mark_due) {
            bytes += self.append_record(&[&batch::header(seqno, 0)])?;
        }
        bytes += self.append_record(parts)?;
        Ok(bytes)
    }

    /// One record, one append: a file that is there whole or not at all, append by append, has no
    /// whole record behind a missing one.
    fn append_record(&mut self, parts: &[&[u8]]) -> Result<u64> {
        assert!(!self.poisoned, "W3: no append after a failure");
        self.buffer.clear();
        self.encoder.encode(parts, &mut self.buffer);
        self.unsynced = true;
        let appended = self.file.append(&self.buffer, Site::WalAppend);
        self.poisoned = appended.is_err();
        let bytes = self.buffer.len() as u64;
        self.bytes += bytes;
        if self.buffer.capacity() > BUFFER_KEPT_MAX {
            self.buffer = Vec::new();
        }
        appended.map(|()| bytes)
    }

    /// Makes all appended batches durable, and the log's name (W1).
    pub(crate) fn sync(&mut self, site: Site) -> Result<()> {
        assert!(!self.poisoned, "W3: no sync after a failure");
        let synced = self.sync_unchecked(site);
        self.poisoned = synced.is_err();
        synced
    }

    fn sync_unchecked(&mut self, site: Site) -> Result<()> {
        if !self.named {
            self.fs.sync_dir(&self.dir, Site::WalDirSync)?;
            self.named = true;
        }
        if self.unsynced {
            self.file.sync(site)?;
            self.unsynced = false;
            self.mark_due = true;
        }
        Ok(())
    }

    /// Appends a mark that nothing needs to be synced for. It tells recovery that no number below
    /// `next` is missing.
    pub(crate) fn append_mark(&mut self, next: SeqNo) -> Result<()> {
        self.append(next, &[&batch::header(next, 0)]).map(|_| ())
    }

    /// Makes a hidden log durable and then known to recovery, as `number`: whole, or not at all. A
    /// log that has the name is replaced.
    pub(crate) fn take_name(&mut self, number: FileNumber) -> Result<()> {
        self.file.sync(Site::WalSyncRelog)?;
        let (hidden, name) = (FileName::Temp(self.number), FileName::Wal(number));
        self.fs.rename(&hidden.in_dir(&self.dir), &name.in_dir(&self.dir), Site::WalRename)?;
        self.fs.sync_dir(&self.dir, Site::WalDirSync)?;
        self.number = number;
        self.unsynced = false;
        self.named = true;
        Ok(())
    }

    /// Says that no append follows; see [`WritableFile::end_appends`].
    pub(crate) fn end_appends(&mut self) -> Option<Box<dyn Send>> {
        self.file.end_appends()
    }

    /// The file of a log that is not needed any more: its name is removed, or will be.
    pub(crate) fn into_unneeded_file(mut self) -> Box<dyn WritableFile> {
        self.file.expect_removal();
        self.file
    }

    /// Ends the log without syncing it.
    pub(crate) fn close(mut self) -> Result<()> {
        self.file.close(Site::WalClose)
    }
}
