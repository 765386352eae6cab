//! Brings blocks from a file into memory: read, check, decompress. Point reads fetch one block at a
//! time through the thread's scratch memory, iterators through a [`Readahead`] of their own.

use std::cell::Cell;
use std::ops::Range;

use crate::base::checksum;
use crate::base::coding::Reader;
use crate::base::error::{Error, Result};
use crate::base::prefetch::CACHE_LINE_BYTES;
use crate::env::fs::{Access, RandomAccessFile};
use crate::format::table::TRAILER_BYTES;
use crate::format::table::compress;
use crate::format::table::handle::BlockHandle;
use crate::format::table::spare;

/// Scratch memory larger than this is given back after use.
const SCRATCH_BYTES_MAX: usize = 1 << 20;
/// A scan reads what scans [usually](super::reach) need, then one more block. Who goes on from there mostly wants more than one, so
/// that readahead starts with this, four blocks of those that users have most, ..
const SPAN_BYTES_MIN: usize = 10 << 10;
/// .. and doubles up to this.
pub(crate) const SPAN_BYTES_MAX: usize = 128 << 10;

thread_local! {
    /// Stored blocks before they are decompressed.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Whether checksums are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verify {
    Yes,
    No,
}

impl From<bool> for Verify {
    fn from(verify: bool) -> Self {
        if verify { Verify::Yes } else { Verify::No }
    }
}

/// Reads a block of `file` into `out`, reusing its memory. Errors name file and offset.
pub(crate) fn fetch(
    file: &dyn RandomAccessFile,
    handle: BlockHandle,
    (access, verify): (Access, Verify),
    out: &mut Vec<u8>,
) -> Result<()> {
    let len = stored_bytes(file, handle)?;
    let mut scratch = SCRATCH.take();
    let stored = room_in_step(&mut scratch, len, handle.offset);
    let stored = &mut scratch[stored];
    let result = read_checked(file, handle.offset, (access, verify), stored).and_then(
        |(id, content_bytes)| {
            let content = stored.get(..content_bytes).unwrap_or_default();
            compress::decompress(id, content, out).map_err(|error| error.at(handle.offset))
        },
    );
    if scratch.len() <= SCRATCH_BYTES_MAX {
        SCRATCH.set(scratch);
    }
    result.map_err(|error| error.in_file(file.path()))
}

/// Reads a block for a get, as it is stored, into `out`, reusing its memory, and checks it; returns its type byte and
/// where its content lies there. Errors name file and offset.
pub(crate) fn fetch_stored(
    file: &dyn RandomAccessFile,
    handle: BlockHandle,
    verify: Verify,
    out: &mut Vec<u8>,
) -> Result<(u8, Range<usize>)> {
    let len = stored_bytes(file, handle)?;
    let room = room_in_step(out, len, handle.offset);
    let start = room.start;
    let checked = read_checked(file, handle.offset, (Access::Get, verify), &mut out[room]);
    let checked = checked.map(|(id, content_bytes)| (id, start..start + content_bytes));
    checked.map_err(|error| error.in_file(file.path()))
}

/// Where in `buffer`, which grows as needed, to read `len` bytes to that lie at `offset` of a file: each as far from the start
/// of a line of the processor's cache as in a map of the file. To copy from lines that are not near takes two and a half
/// times as long where every load has parts of two (2 KiB: 270 ns instead of 110).
fn room_in_step(buffer: &mut Vec<u8>, len: usize, offset: u64) -> Range<usize> {
    if buffer.len() < len + CACHE_LINE_BYTES {
        buffer.resize(len + CACHE_LINE_BYTES, 0);
    }
    let in_line = (offset % CACHE_LINE_BYTES as u64) as usize;
    let start = in_line.wrapping_sub(buffer.as_ptr().addr()) % CACHE_LINE_BYTES;
    start..start + len
}

/// A block's length with its trailer; an error if it would end past the file's end.
fn stored_bytes(file: &dyn RandomAccessFile, handle: BlockHandle) -> Result<usize> {
    let end = handle.end_within(file.len());
    let len = end.and_then(|end| usize::try_from(end - handle.offset).ok());
    len.ok_or_else(|| {
        let message = format!("block of {} bytes ends past the end of the file", handle.size);
        Error::corruption(message).at(handle.offset).in_file(file.path())
    })
}

/// Reads a stored block and checks it: its type byte, and how long its content is.
fn read_checked(
    file: &dyn RandomAccessFile,
    offset: u64,
    (access, verify): (Access, Verify),
    stored: &mut [u8],
) -> Result<(u8, usize)> {
    read_exactly(file, offset, access, stored)?;
    let mut checked = check(stored, verify).map(|(id, content)| (id, content.len()));
    if checked.is_err() && file.drop_copy(offset, stored.len()) {
        read_exactly(file, offset, access, stored)?;
        checked = check(stored, verify).map(|(id, content)| (id, content.len()));
    }
    checked.map_err(|error| error.at(offset))
}

fn read_exactly(
    file: &dyn RandomAccessFile,
    offset: u64,
    access: Access,
    buf: &mut [u8],
) -> Result<()> {
    if file.read_for(buf, offset, access)? < buf.len() {
        return Err(Error::corruption("truncated block read").at(offset));
    }
    Ok(())
}

/// Checks a stored block against its trailer and decompresses it into `out`.
pub(crate) fn unpack(stored: &[u8], verify: Verify, out: &mut Vec<u8>) -> Result<()> {
    let (id, content) = check(stored, verify)?;
    compress::decompress(id, content, out)
}

/// Checks a stored block against its trailer; its type byte and its content.
fn check(stored: &[u8], verify: Verify) -> Result<(u8, &[u8])> {
    let truncated = || Error::corruption("truncated block read");
    let content_bytes = stored.len().checked_sub(TRAILER_BYTES).ok_or_else(truncated)?;
    let (content, trailer) = stored.split_at_checked(content_bytes).ok_or_else(truncated)?;
    let mut trailer = Reader::new(trailer);
    let id = trailer.u8().ok_or_else(truncated)?;
    let expected = trailer.fixed32().ok_or_else(truncated)?;
    if verify == Verify::Yes {
        let covered = stored.get(..=content_bytes).ok_or_else(truncated)?;
        if checksum::mask(checksum::crc32c(covered)) != expected {
            return Err(Error::corruption("block checksum mismatch"));
        }
    }
    Ok((id, content))
}

/// How far an iterator reads ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ahead {
    /// More and more, once blocks are asked for one after the other.
    #[default]
    WhenSequential,
    /// So many bytes from the start, past the block cache: for merges and checks.
    Always(usize),
}

/// Reads a file's blocks in larger pieces. One iterator owns it.
pub(crate) struct Readahead {
    ahead: Ahead,
    verify: Verify,
    /// What is `filled` are the bytes of the file from `start` on. It never shrinks: to grow again it would have to be
    /// cleared.
    buffer: Vec<u8>,
    filled: Range<usize>,
    start: u64,
    /// Where the next block starts if the scan is sequential.
    expected: u64,
    /// How much to read at the next miss, if sequential, ..
    span: usize,
    /// .. and at most.
    span_max: usize,
}

impl Readahead {
    pub(crate) fn new(ahead: Ahead, verify: Verify) -> Self {
        let (span, span_max) = match ahead {
            Ahead::WhenSequential => (0, SPAN_BYTES_MAX),
            Ahead::Always(span) => (span, span),
        };
        let buffer = Vec::new();
        Readahead { ahead, verify, buffer, filled: 0..0, start: 0, expected: 0, span, span_max }
    }

    /// A block was had without a read.
    pub(crate) fn pass_over(&mut self, handle: BlockHandle) {
        self.expected = handle.end();
    }

    /// As the free function [`fetch`].
    pub(crate) fn fetch(
        &mut self,
        file: &dyn RandomAccessFile,
        handle: BlockHandle,
    ) -> Result<Vec<u8>> {
        let (id, content) = self.stored(file, handle, 0, |bytes| bytes)?;
        let unpacked = self.unpack(id, content, Vec::new());
        unpacked.map_err(|error| error.at(handle.offset).in_file(file.path()))
    }

    /// Unpacks what [`stored`](Self::stored) brought, reusing the memory of `out`. Errors name nothing.
    pub(crate) fn unpack(
        &self,
        id: u8,
        content: Range<usize>,
        mut out: Vec<u8>,
    ) -> Result<Vec<u8>> {
        compress::decompress(id, self.buffer.get(content).unwrap_or_default(), &mut out)?;
        Ok(out)
    }

    /// Whether the block begins where the last one ended.
    fn follows(&self, handle: BlockHandle) -> bool {
        handle.offset == self.expected
    }

    /// Has a block as it is stored in the buffer, checked: its type byte, and where its content lies there. From its beginning on
    /// the scan will most probably need `probable` bytes; beyond, `useful` tells how many of those that might be read are worth it.
    pub(crate) fn stored(
        &mut self,
        file: &dyn RandomAccessFile,
        handle: BlockHandle,
        probable: usize,
        useful: impl FnOnce(usize) -> usize,
    ) -> Result<(u8, Range<usize>)> {
        let len = stored_bytes(file, handle)?;
        let goes_on = self.follows(handle) || self.ahead != Ahead::WhenSequential;
        self.pass_over(handle);
        if !goes_on {
            self.span = 0;
        }
        if self.buffered(handle.offset, len).is_none() {
            let wanted = match goes_on && probable <= len {
                _ if file.is_in_memory() => len,
                true => useful(self.reach(len)).max(len),
                false => probable.clamp(len, SPAN_BYTES_MAX.max(len)),
            };
            self.fill(file, handle.offset, (len, wanted))
                .map_err(|error| error.in_file(file.path()))?;
        }
        let mut checked = self.checked(handle.offset, len);
        if checked.is_err() && file.drop_copy(handle.offset, len) {
            self.fill(file, handle.offset, (len, len))
                .map_err(|error| error.in_file(file.path()))?;
            checked = self.checked(handle.offset, len);
        }
        checked.map_err(|error| error.at(handle.offset).in_file(file.path()))
    }

    /// Checks a block in the buffer: its type byte, and where its content lies there.
    fn checked(&self, offset: u64, len: usize) -> Result<(u8, Range<usize>)> {
        let truncated = || Error::corruption("truncated block read");
        let (at, stored) = self.buffered(offset, len).ok_or_else(truncated)?;
        let (id, content) = check(stored, self.verify)?;
        Ok((id, at..at + content.len()))
    }

    /// How much to read for a block of so many bytes where a scan goes on: the block, and more each time.
    fn reach(&mut self, len: usize) -> usize {
        let wanted = self.span;
        self.span = (2 * self.span).clamp(SPAN_BYTES_MIN, self.span_max);
        wanted.max(len)
    }

    /// Lends the buffer with what it holds. It must come back before the next read, or all is read anew.
    pub(crate) fn lend(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    /// Takes back what was lent.
    pub(crate) fn take_back(&mut self, buffer: Vec<u8>) {
        if !buffer.is_empty() {
            self.buffer = buffer;
        }
    }

    /// True until blocks have been read one after the other for some time.
    pub(crate) fn is_short(&self) -> bool {
        self.span <= SPAN_BYTES_MIN
    }

    /// Where in the buffer these bytes of the file lie, and they themselves.
    fn buffered(&self, offset: u64, len: usize) -> Option<(usize, &[u8])> {
        let at = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        let at = at.checked_add(self.filled.start)?;
        Some((at, self.buffer.get(..self.filled.end)?.get(at..at.checked_add(len)?)?))
    }

    /// Reads so many bytes that must be, and up to so many that are wanted.
    fn fill(
        &mut self,
        file: &dyn RandomAccessFile,
        offset: u64,
        (must, wanted): (usize, usize),
    ) -> Result<()> {
        let rest = usize::try_from(file.len().saturating_sub(offset)).unwrap_or(usize::MAX);
        let wanted = wanted.min(rest);
        if self.buffer.is_empty() {
            self.buffer = spare::take();
        }
        let room = room_in_step(&mut self.buffer, wanted, offset);
        let at = room.start;
        (self.start, self.filled) = (offset, 0..0);
        let access = match self.ahead {
            Ahead::WhenSequential => Access::Scan,
            Ahead::Always(_) => Access::Merge,
        };
        let read = match file.read_for(&mut self.buffer[room], offset, access) {
            // What lies behind the block may be what cannot be read.
            Err(_) if must < wanted => {
                file.read_for(&mut self.buffer[at..at + must], offset, access)
            }
            read => read,
        };
        self.filled = at..at + read?;
        Ok(())
    }
}

impl Drop for Readahead {
    fn drop(&mut self) {
        spare::give(std::mem::take(&mut self.buffer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_to_where_they_lie_in_a_line() {
        let mut buffer = Vec::new();
        for (len, offset) in [(100, 0), (2000, 1), (2000, 63), (2000, 64), (5, 1 << 40 | 77)] {
            let room = room_in_step(&mut buffer, len, offset);
            assert_eq!(room.len(), len);
            let address = buffer[room].as_ptr().addr();
            assert_eq!(address % CACHE_LINE_BYTES, offset as usize % CACHE_LINE_BYTES);
        }
        assert!(buffer.len() <= 2000 + CACHE_LINE_BYTES, "it grows by what is needed");
    }
}
