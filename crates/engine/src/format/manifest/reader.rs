//! Replays a manifest. The version set at open, the checker and the tools call it.
//!
//! Unlike a WAL, a manifest may not lose a record in its middle: the edits behind it would be
//! applied to a shape that never was. Only its end may be cut short, because the crash that did it
//! came before that edit was synced and so before anything relied on it.

use std::sync::Arc;

use super::edit::VersionEdit;
use crate::base::error::{Error, Result};
use crate::env::fs::RandomAccessFile;
use crate::format::record::reader::{RecordReader, Step};

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::filename::FileNumber;
    use crate::format::record::BLOCK_BYTES;
    use crate::format::record::encoder::RecordEncoder;
    use crate::format::record::testing::{ByteFile, encode_all};

    fn edit(number: u64) -> VersionEdit {
        VersionEdit { next_file: Some(FileNumber(number)), ..Default::default() }
    }

    fn manifest(edits: impl IntoIterator<Item = VersionEdit>) -> Vec<u8> {
        encode_all(edits.into_iter().map(|edit| {
            let mut record = Vec::new();
            edit.encode(&mut record).unwrap();
            record
        }))
    }

    fn open(bytes: &[u8]) -> ManifestReader {
        ManifestReader::new(ByteFile::new("db/MANIFEST-000002", bytes))
    }

    /// The edits before the end or the first error, and that error.
    fn replay(bytes: &[u8]) -> (Vec<VersionEdit>, Option<String>) {
        let mut reader = open(bytes);
        let mut edits = Vec::new();
        loop {
            match reader.next() {
                Ok(Some(edit)) => edits.push(edit),
                Ok(None) => return (edits, None),
                Err(error) => return (edits, Some(error.to_string())),
            }
        }
    }

    #[test]
    fn edits_come_in_order() {
        let edits: Vec<VersionEdit> = (1..10_000).map(edit).collect();
        assert_eq!(replay(&manifest(edits.clone())), (edits, None));
        assert_eq!(replay(&[]), (vec![], None));
    }

    #[test]
    fn a_torn_last_edit_is_left_out_and_remembered() {
        let bytes = manifest([edit(1), edit(2)]);
        let first = manifest([edit(1)]).len();
        for len in first..=bytes.len() {
            let mut reader = open(&bytes[..len]);
            assert_eq!(reader.next().unwrap(), Some(edit(1)));
            let is_torn = len > first && len < bytes.len();
            if len == bytes.len() {
                assert_eq!(reader.next().unwrap(), Some(edit(2)));
            }
            assert_eq!(reader.next().unwrap(), None);
            assert_eq!(reader.torn_tail(), is_torn.then_some(first as u64));
        }
    }

    #[test]
    fn damage_anywhere_names_file_and_offset() {
        let mut bytes = manifest([edit(1), edit(2), edit(3)]);
        bytes[9 + 7] ^= 1;
        let expected = "Corruption: db/MANIFEST-000002 at byte 9: checksum mismatch";
        assert_eq!(replay(&bytes), (vec![edit(1)], Some(expected.into())));

        let bytes = encode_all([&b"\x03\x01"[..], b"\x08"]);
        let expected = "Corruption: db/MANIFEST-000002 at byte 9: VersionEdit: unknown tag";
        assert_eq!(replay(&bytes), (vec![edit(1)], Some(expected.into())));
    }

    #[test]
    fn zeros_may_follow_the_edits_but_not_part_them() {
        let mut bytes = manifest([edit(1)]);
        bytes.resize(BLOCK_BYTES, 0);
        assert_eq!(replay(&bytes), (vec![edit(1)], None));

        RecordEncoder::new(BLOCK_BYTES as u64).encode(&[b"\x03\x02"], &mut bytes);
        let expected = "Corruption: db/MANIFEST-000002 at byte 32768: \
                        manifest has a hole of zeros before this record";
        assert_eq!(replay(&bytes), (vec![edit(1)], Some(expected.into())));
    }
}
