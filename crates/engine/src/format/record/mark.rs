//! Sync marks: the evidence in a WAL that what stands before them was promised.
//!
//! Unsynced appends may survive a crash out of order, so a bad record before a good one can be an
//! honest crash. To tell it from damage, the first append after a sync is preceded by an empty
//! batch (rule R8). A bad record *before* such a mark means that synced bytes have changed.
//!
//! **Layout.** The payload of a mark is a batch's header and nothing else; LevelDB replays it as
//! the empty batch it is. It is one full record, or first and last over a block border.
//!
//! | offset | size | field | encoding |
//! |-------:|-----:|-------|----------|
//! | 0 | 8 | sequence number | little-endian |
//! | 8 | 4 | count: 0 | little-endian |

use super::{BLOCK_BYTES, FIRST, FULL, HEADER_BYTES, Header, LAST};
use crate::base::error::Result;
use crate::env::fs::{RandomAccessFile, read_there};

const PAYLOAD_BYTES: usize = 12;
const COUNT_BYTES: usize = 4;
/// A mark in one piece.
const MARK_BYTES: usize = HEADER_BYTES + PAYLOAD_BYTES;
/// A mark at most, with the header of its second part and the trailer of a block before it.
pub(crate) const MARK_SPAN_MAX: u64 = (MARK_BYTES + 2 * HEADER_BYTES) as u64;
/// What of a split mark may lie behind the border.
const SPILL_BYTES: usize = MARK_BYTES;

/// True if a logical record is a sync mark.
pub(crate) fn is_sync_mark(record: &[u8]) -> bool {
    record.len() == PAYLOAD_BYTES && record.ends_with(&[0; COUNT_BYTES])
}

/// The offset of the first sync mark at or behind `from`.
///
/// Behind damage the borders of records are unknown, so every byte is tried as a start. A value
/// that holds the image of a WAL can therefore pass for a mark; the cost of that rare mistake is an
/// error where a cut would have done, never a wrong answer.
pub(crate) fn find_sync_mark(file: &dyn RandomAccessFile, from: u64) -> Result<Option<u64>> {
    let mut window = vec![0; BLOCK_BYTES + SPILL_BYTES];
    let mut block_offset = from - from % BLOCK_BYTES as u64;
    let mut start = (from - block_offset) as usize;
    loop {
        let read = read_there(file, &mut window, block_offset)?;
        let found = window.get(..read).and_then(|window| mark_in_block(window, start));
        if let Some(at) = found {
            return Ok(Some(block_offset + at as u64));
        }
        if read <= BLOCK_BYTES {
            return Ok(None);
        }
        block_offset += BLOCK_BYTES as u64;
        start = 0;
    }
}

/// The first mark that starts in the block at the beginning of `window`, which reaches a little
/// into the next block.
fn mark_in_block(window: &[u8], start: usize) -> Option<usize> {
    let block = window.get(..BLOCK_BYTES).unwrap_or(window);
    let tail = window.get(BLOCK_BYTES..).unwrap_or_default();
    (start..block.len()).find(|&at| {
        let from_here = block.get(at..).unwrap_or_default();
        match from_here.len() {
            MARK_BYTES.. => payload_of(from_here, FULL).is_some_and(is_sync_mark),
            // A full mark no longer fits before the border. Where the file ends before the border,
            // `tail` is empty and so holds no last part.
            _ => is_split_mark(from_here, tail),
        }
    })
}

/// True if a mark's first part fills `head` and its last part begins `tail`.
fn is_split_mark(head: &[u8], tail: &[u8]) -> bool {
    let (Some(first), Some(last)) = (payload_of(head, FIRST), payload_of(tail, LAST)) else {
        return false;
    };
    let fills_block = HEADER_BYTES + first.len() == head.len();
    fills_block && is_sync_mark(&[first, last].concat())
}

/// The payload of the physical record of that kind at the start of `bytes`, if it is whole. Only
/// lengths that a mark can have are looked at, so that few checksums are computed.
fn payload_of(bytes: &[u8], kind: u8) -> Option<&[u8]> {
    let (header, rest) = Header::parse(bytes)?;
    if header.kind != kind || header.payload_bytes > PAYLOAD_BYTES {
        return None;
    }
    let payload = rest.get(..header.payload_bytes)?;
    header.vouches_for(payload).then_some(payload)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::key::SeqNo;
    use crate::format::batch;
    use crate::format::record::encoder::RecordEncoder;
    use crate::format::record::testing::ByteFile;

    fn find(bytes: &[u8], from: u64) -> Option<u64> {
        find_sync_mark(&*ByteFile::new("000003.log", bytes), from).unwrap()
    }

    /// A file of one record of `fill` bytes and a mark; with the offset of the mark.
    fn marked(fill: usize) -> (Vec<u8>, u64) {
        let mut encoder = RecordEncoder::new(0);
        let mut bytes = Vec::new();
        encoder.encode(&[&vec![b'x'; fill]], &mut bytes);
        let offset = match BLOCK_BYTES - bytes.len() % BLOCK_BYTES {
            trailer @ 0..HEADER_BYTES => bytes.len() + trailer,
            _ => bytes.len(),
        };
        encoder.encode(&[&batch::header(SeqNo(77), 0)], &mut bytes);
        (bytes, offset as u64)
    }

    #[test]
    fn marks_are_found_wherever_they_lie() {
        for fill in (0..40).chain(BLOCK_BYTES - 60..BLOCK_BYTES + 20).chain([100_000]) {
            let (bytes, offset) = marked(fill);
            for from in [0, 1, offset / 2, offset.saturating_sub(1), offset] {
                assert_eq!(find(&bytes, from), Some(offset), "fill {fill}, from {from}");
            }
            assert_eq!(find(&bytes, offset + 1), None);
            assert_eq!(find(&bytes, bytes.len() as u64 + 99), None);
        }
    }

    #[test]
    fn a_mark_needs_no_sound_bytes_before_it() {
        let (mut bytes, offset) = marked(40_000);
        bytes[..offset as usize].fill(0xa5);
        assert_eq!(find(&bytes, 0), Some(offset));
    }

    #[test]
    fn a_damaged_mark_is_none() {
        for fill in [3, BLOCK_BYTES - HEADER_BYTES - 12] {
            let (bytes, offset) = marked(fill);
            for at in offset as usize..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[at] ^= 0x10;
                assert_eq!(find(&damaged, 0), None, "byte {at}");
            }
            assert_eq!(find(&bytes[..bytes.len() - 1], 0), None);
        }
    }

    #[test]
    fn other_records_are_no_marks() {
        let mut bytes = Vec::new();
        let mut encoder = RecordEncoder::new(0);
        for record in [&batch::header(SeqNo(5), 1)[..], &[0; 11], &[0; 13], b"", b"0123456789ab"] {
            assert!(!is_sync_mark(record));
            encoder.encode(&[record], &mut bytes);
        }
        assert_eq!(find(&bytes, 0), None);
        assert!(is_sync_mark(&batch::header(SeqNo(5), 0)));
    }
}
