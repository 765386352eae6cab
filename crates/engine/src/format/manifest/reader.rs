//! Replays a manifest. The version set at open, the checker and the tools call it.
//!
//! Unlike a WAL, a manifest may not lose a record in its middle: the edits behind it would be
//! applied to a shape that never was. Only its last edit may be missing or bad: each is synced before
//! the next is appended, so a crash leaves the last one alone torn, in any way, and nothing relied on
//! it yet. What a *damaged* last edit was relied on for shows elsewhere: the files that it had replaced
//! are gone.

use std::sync::Arc;

use super::edit::VersionEdit;
use crate::base::error::{Error, Result};
use crate::env::fs::RandomAccessFile;
use crate::format::record::reader::{RecordReader, Step};
use crate::format::record::resync::find_record;

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
            Step::Damage(damage) => self.end_at(damage.offset, damage.reason),
            // A damaged length looks like a torn tail.
            Step::TornTail { offset, .. } => self.end_at(offset, "a record is cut short"),
            Step::End => Ok(None),
        }
    }

    /// The end, if no other edit begins behind the bad one at `offset`.
    fn end_at(&mut self, offset: u64, reason: &str) -> Result<Option<VersionEdit>> {
        if find_record(self.records.file(), offset + 1)?.is_some() {
            return Err(self.corruption(offset, reason));
        }
        self.torn_tail = Some(offset);
        Ok(None)
    }

    /// Where the last edit begins, if it is not whole, once `next` has come to the end. Such a manifest
    /// must not be appended to.
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

    /// Whatever a crash leaves of an append that was not synced: nothing had relied on it.
    #[test]
    fn a_bad_last_edit_is_a_torn_one() {
        let bytes = manifest([edit(1), edit(2)]);
        let first = manifest([edit(1)]).len();
        for at in first..bytes.len() {
            for filler in [0, 0xa5] {
                let mut damaged = bytes.clone();
                damaged[at..].fill(filler);
                assert_eq!(replay(&damaged), (vec![edit(1)], None), "{filler} from {at} on");
            }
        }
    }

    #[test]
    fn a_damaged_length_does_not_hide_the_edits_behind_it() {
        let mut bytes = manifest([edit(1), edit(2), edit(3)]);
        bytes[9 + 4] = 0xff;
        let expected = "Corruption: db/MANIFEST-000002 at byte 9: a record is cut short";
        assert_eq!(replay(&bytes), (vec![edit(1)], Some(expected.into())));
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
