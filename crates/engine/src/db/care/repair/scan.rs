//! Finds a table's data blocks without its index, which a truncated table has lost.
//!
//! Blocks follow each other from the file's start. Where one ends is not written anywhere, but a
//! checksum stands behind it: the end is where the checksum of all before matches. Behind the first
//! damaged block no start is known, so the search ends there.

use crate::base::checksum;
use crate::base::comparator::InternalOrder;
use crate::base::error::{Error, Result};
use crate::base::key;
use crate::env::fs::{RandomAccessFile, read_there};
use crate::format::table::TRAILER_BYTES;
use crate::format::table::block::Block;
use crate::format::table::fetch::{Verify, unpack};
use crate::format::table::handle::BlockHandle;

/// Larger blocks are not looked for: twice the largest block size, and a checksum a byte is dear.
const BLOCK_BYTES_MAX: usize = 8 << 20;
/// Read at once.
const PIECE_BYTES: usize = 64 << 10;
/// Greatest id of a compression.
const COMPRESSION_MAX: u8 = 2;

/// Data blocks from the start of a file on.
pub(super) struct Scanned {
    pub(super) blocks: Vec<BlockHandle>,
    /// What follows the last one is a sound block of another kind: no data block is missing.
    pub(super) complete: bool,
}

pub(super) fn find_blocks(file: &dyn RandomAccessFile, order: &InternalOrder) -> Result<Scanned> {
    let mut found = Scanned { blocks: Vec::new(), complete: false };
    let mut last_key = Vec::new();
    let mut window = Window { file, start: 0, bytes: Vec::new() };
    while let Some(stored) = window.next_block()? {
        let mut content = Vec::new();
        let entries = unpack(stored, Verify::Yes, &mut content)
            .and_then(|()| Block::new(content))
            .and_then(|block| check_entries(&block, order, &mut last_key));
        // The blocks behind the data have other keys, or none.
        if !matches!(entries, Ok(1..)) {
            found.complete = true;
            break;
        }
        let size = (stored.len() - TRAILER_BYTES) as u64;
        let stored = stored.len();
        found.blocks.push(BlockHandle { offset: window.start, size });
        window.pass(stored);
    }
    Ok(found)
}

/// Counts entries, which must be those of a data block that may follow `last_key`.
fn check_entries(block: &Block, order: &InternalOrder, last_key: &mut Vec<u8>) -> Result<u64> {
    let mut entries = 0;
    block.for_each(|key, _| {
        let ascends = last_key.is_empty() || order.compare(last_key, key).is_le();
        if key::parse(key).is_none() || !ascends {
            return Err(Error::corruption("no entry of a data block"));
        }
        last_key.clear();
        last_key.extend_from_slice(key);
        entries += 1;
        Ok(())
    })?;
    Ok(entries)
}

/// The file from `start` on, as far as it was read.
struct Window<'a> {
    file: &'a dyn RandomAccessFile,
    start: u64,
    bytes: Vec<u8>,
}

impl Window<'_> {
    /// The block at `start` with its trailer; `None` if there is no sound one.
    fn next_block(&mut self) -> Result<Option<&[u8]>> {
        // Of the first `covered` bytes.
        let (mut crc, mut covered) = (0, 0);
        while covered < BLOCK_BYTES_MAX {
            if self.bytes.len() < covered + TRAILER_BYTES && !self.read_on()? {
                return Ok(None);
            }
            let Some(&id) = self.bytes.get(covered) else { return Ok(None) };
            crc = checksum::extend(crc, &[id]);
            covered += 1;
            let trailer = self.bytes.get(covered..).and_then(|rest| rest.first_chunk());
            let Some(trailer) = trailer else { continue };
            if id <= COMPRESSION_MAX && checksum::mask(crc) == u32::from_le_bytes(*trailer) {
                return Ok(self.bytes.get(..covered + size_of::<u32>()));
            }
        }
        Ok(None)
    }

    /// Reads another piece; false at the file's end.
    fn read_on(&mut self) -> Result<bool> {
        let len = self.bytes.len();
        self.bytes.resize(len + PIECE_BYTES, 0);
        let piece = self.bytes.get_mut(len..).unwrap_or_default();
        let read = read_there(self.file, piece, self.start + len as u64);
        self.bytes.truncate(len + *read.as_ref().unwrap_or(&0));
        read.map(|read| read > 0)
    }

    fn pass(&mut self, bytes: usize) {
        self.bytes.drain(..bytes);
        self.start += bytes as u64;
    }
}
