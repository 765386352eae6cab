//! The record format that write-ahead logs and manifests share: logical records of any size, cut
//! into physical records that never cross a block border. Whoever owns the file encodes with
//! [`encoder::RecordEncoder`] and reads back with [`reader::RecordReader`].
//!
//! **Layout.** A file is a row of blocks of 32,768 bytes, the last one possibly shorter. A physical
//! record lies within one block:
//!
//! | offset | size | field | encoding |
//! |-------:|-----:|-------|----------|
//! | 0 | 4 | checksum of type and payload | masked CRC-32C, little-endian |
//! | 4 | 2 | length of the payload | little-endian |
//! | 6 | 1 | type: 1 full, 2 first, 3 middle, 4 last | byte |
//! | 7 | length | payload | bytes |
//!
//! Where fewer than seven bytes of a block are left they are zero: the trailer. With exactly seven
//! left, a record begins there as a first part without payload. Type 0 with length 0 marks space
//! that was allocated but never written.
//!
//! ```text
//! |-- block ------------------|-- block ------------------|-- block -----------|
//! | full | full | first ......| middle ...................| last | full |000000|
//! ```

pub(crate) mod encoder;
#[cfg(test)]
mod log_tests;
pub(crate) mod mark;
pub(crate) mod reader;
pub(crate) mod resync;
#[cfg(any(test, fuzzing))]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use crate::base::checksum;

/// Bytes of a block.
pub(crate) const BLOCK_BYTES: usize = 32_768;
/// Bytes of a physical record's header.
pub(crate) const HEADER_BYTES: usize = CRC_BYTES + LENGTH_BYTES + 1;

const CRC_BYTES: usize = 4;
const LENGTH_BYTES: usize = 2;
const _: () = assert!(HEADER_BYTES == 7);
// A length field can tell the largest payload that fits a block.
const _: () = assert!(BLOCK_BYTES - HEADER_BYTES <= u16::MAX as usize);

/// Space allocated but never written.
const ZERO: u8 = 0;
/// A logical record in one piece.
const FULL: u8 = 1;
const FIRST: u8 = 2;
const MIDDLE: u8 = 3;
const LAST: u8 = 4;

/// A physical record's header, as read.
#[derive(Clone, Copy)]
struct Header {
    masked_crc: u32,
    payload_bytes: usize,
    kind: u8,
}

impl Header {
    /// The header at the start of `bytes`, and what follows it; `None` if they are too few.
    fn parse(bytes: &[u8]) -> Option<(Header, &[u8])> {
        let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        let [crc_0, crc_1, crc_2, crc_3, length_0, length_1, kind] = *header;
        let header = Header {
            masked_crc: u32::from_le_bytes([crc_0, crc_1, crc_2, crc_3]),
            payload_bytes: usize::from(u16::from_le_bytes([length_0, length_1])),
            kind,
        };
        Some((header, rest))
    }

    fn vouches_for(&self, payload: &[u8]) -> bool {
        let crc = checksum::extend(checksum::crc32c(&[self.kind]), payload);
        checksum::mask(crc) == self.masked_crc
    }
}
