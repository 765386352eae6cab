//! Where blocks lie in a table, and the footer that says where to begin. Read and written by the
//! table's builder and reader.
//!
//! **Layout.** A handle is two varint64s: offset, size. The footer:
//!
//! | offset | size | field |
//! | ---: | ---: | --- |
//! | 0 | up to 40 | metaindex handle, then index handle, then zeros |
//! | 40 | 8 | magic number, little-endian |

use crate::base::coding::{Reader, VARINT64_BYTES_MAX, put_fixed64, put_varint64};
use crate::base::error::{Error, Result};
use crate::format::table::TRAILER_BYTES;

const MAGIC: u64 = 0xdb47_7524_8b80_fb57;
const HANDLE_BYTES_MAX: usize = 2 * VARINT64_BYTES_MAX;
const MAGIC_AT: usize = 2 * HANDLE_BYTES_MAX;
/// Bytes of a footer.
pub(crate) const FOOTER_BYTES: usize = MAGIC_AT + size_of::<u64>();
const _: () = assert!(FOOTER_BYTES == 48);

/// The place of a block, its trailer not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlockHandle {
    pub(crate) offset: u64,
    pub(crate) size: u64,
}

impl BlockHandle {
    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        put_varint64(out, self.offset);
        put_varint64(out, self.size);
    }

    /// `None` if the bytes are no handle. Bytes behind it are left alone: the format allows them.
    #[inline]
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        Some(BlockHandle { offset: reader.varint64()?, size: reader.varint64()? })
    }

    /// Where the trailer ends of a block that is known to lie within its file.
    #[inline]
    pub(crate) fn end(self) -> u64 {
        self.offset.saturating_add(self.size).saturating_add(TRAILER_BYTES as u64)
    }

    /// Where the block's trailer ends, if that is not past `file_bytes`. Checked before anything
    /// is allocated for a block.
    #[inline]
    pub(crate) fn end_within(self, file_bytes: u64) -> Option<u64> {
        let end = self.offset.checked_add(self.size)?.checked_add(TRAILER_BYTES as u64)?;
        (end <= file_bytes).then_some(end)
    }
}

/// The last bytes of every table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) metaindex: BlockHandle,
    pub(crate) index: BlockHandle,
}

impl Footer {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        self.metaindex.encode(out);
        self.index.encode(out);
        out.resize(start + MAGIC_AT, 0);
        put_fixed64(out, MAGIC);
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let short = || Error::corruption("file is too short to be an sstable");
        let (handles, magic) = bytes.split_at_checked(MAGIC_AT).ok_or_else(short)?;
        if Reader::new(magic).fixed64().ok_or_else(short)? != MAGIC {
            return Err(Error::corruption("not an sstable (bad magic number)"));
        }
        let mut reader = Reader::new(handles);
        let mut handle = || BlockHandle::decode(&mut reader);
        match (handle(), handle()) {
            (Some(metaindex), Some(index)) => Ok(Footer { metaindex, index }),
            _ => Err(Error::corruption("bad block handle in footer")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn footers_round_trip_at_both_extremes() {
        let small = BlockHandle { offset: 0, size: 8 };
        let large = BlockHandle { offset: u64::MAX, size: u64::MAX };
        for (metaindex, index) in [(small, small), (large, large), (small, large)] {
            let footer = Footer { metaindex, index };
            let mut bytes = Vec::new();
            footer.encode(&mut bytes);
            assert_eq!(bytes.len(), FOOTER_BYTES);
            assert_eq!(Footer::decode(&bytes).unwrap(), footer);
        }
    }

    #[test]
    fn bad_footers_are_refused() {
        let handle = BlockHandle { offset: 1, size: 2 };
        let mut bytes = Vec::new();
        Footer { metaindex: handle, index: handle }.encode(&mut bytes);
        assert!(Footer::decode(&bytes[1..]).unwrap_err().message().contains("too short"));
        let mut wrong = bytes.clone();
        wrong[47] ^= 1;
        assert!(Footer::decode(&wrong).unwrap_err().message().contains("magic"));
        bytes[..MAGIC_AT].fill(0xff);
        assert!(Footer::decode(&bytes).unwrap_err().message().contains("handle"));
    }

    #[test]
    fn handles_past_the_end_are_caught() {
        let fits = BlockHandle { offset: 10, size: 85 };
        assert_eq!(fits.end_within(100), Some(100));
        assert_eq!(fits.end_within(99), None);
        assert_eq!(BlockHandle { offset: u64::MAX, size: 1 }.end_within(u64::MAX), None);
    }
}
