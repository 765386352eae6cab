//! Replays a manifest. The version set at open, the checker and the tools call it.
//!
//! Unlike a WAL, a manifest may not lose a record in its middle: the edits behind it would be
//! applied to a shape that never was. Only its end may be cut short, because the crash that did it
//! came before that edit was synced and so before anything relied on it.

use std::sync::Arc;

use super::VersionEdit;
use crate::base::error::{Error, Result};
use crate::env::fs::RandomAccessFile;
use crate::format::record::{RecordReader, Step};

/// The edits of a manifest, in order.
pub(crate) struct ManifestReader {
    records: RecordReader,
    record: Vec<u8>,
    torn_tail: Option<u64>,
}

impl ManifestReader {
    pub(crate) fn new(file: Arc<dyn RandomAccessFile>) -> Self {
        ManifestReader { records: RecordReader::new(file), record: Vec::new(), torn_tail: None }
    }

    /// The next edit, or `None` behind the last whole one.
    ///
    /// # Errors
    ///
    /// Corruption that names file and offset. The reader is of no further use then.
    pub(crate) fn next(&mut self) -> Result<Option<VersionEdit>> {
        match self.records.next(&mut self.record)? {
            Step::Record { offset, after_zeros: true, .. } => {
                Err(self.corruption(offset, "manifest has a hole of zeros before this record"))
            }
            Step::Record { offset, .. } => VersionEdit::decode(&self.record)
                .map(Some)
                .map_err(|error| error.at(offset).in_file(self.records.file().path())),
            Step::Damage(damage) => Err(self.corruption(damage.offset, damage.reason)),
            Step::TornTail { offset, .. } => {
                self.torn_tail = Some(offset);
                Ok(None)
            }
            Step::End => Ok(None),
        }
    }

    /// Where the file ends within an edit, once `next` has met that end. Such a manifest must not
    /// be appended to.
    pub(crate) fn torn_tail(&self) -> Option<u64> {
        self.torn_tail
    }

    fn corruption(&self, offset: u64, reason: &str) -> Error {
        Error::corruption(reason).at(offset).in_file(self.records.file().path())
    }
}
