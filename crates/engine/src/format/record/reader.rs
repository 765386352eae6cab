//! Reads logical records back and says exactly what it could not read. Recovery, the manifest
//! reader, repair and the dumps call it; what a fault means is their decision.
//!
//! It accepts and drops what LevelDB's reader does: behind a bad length or checksum nothing in the
//! block can be trusted, so reading resumes at the next block; a record cut short by the end of the
//! file is no damage, because a crash while appending leaves just that.
//!
//! **Invariants**
//!
//! - I1. A record is returned only if every fragment's checksum matched, and its fragments stood
//!   next to each other.
//! - I2. Each byte of the file is read once; memory is bounded by one block plus the file's own
//!   payload.

use std::ops::Range;
use std::sync::Arc;

use super::{BLOCK_BYTES, FIRST, FULL, HEADER_BYTES, Header, LAST, MIDDLE, ZERO};
use crate::base::error::Result;
use crate::env::fs::{RandomAccessFile, read_there};

const BROKEN: &str = "error in middle of record";
const UNFINISHED: &str = "partial record without end";

/// What [`RecordReader::next`] met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A whole record.
    Record {
        /// Where its first physical record starts.
        offset: u64,
        /// Where its last one ends.
        end: u64,
        /// True if zeros that no writer leaves between records were skipped since the record before
        /// (or the file's start): a hole, unless the caller knows that space was preallocated.
        after_zeros: bool,
    },
    /// Bytes that are no record. The next call goes on behind them.
    Damage(Damage),
    /// The file ends within a record, as after a crash, or in a log nothing but zeros follow it.
    /// A damaged length in the last block looks the same: who must tell asks
    /// [`find_sync_mark`](super::mark::find_sync_mark).
    TornTail {
        /// Where the incomplete record starts.
        offset: u64,
        /// Bytes from there to the end of the file.
        bytes: u64,
    },
    /// The end of the file.
    End,
}

/// A stretch of a file that the reader dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damage {
    /// Where the dropped bytes start.
    pub(crate) offset: u64,
    /// How many were dropped, counted as LevelDB counts: payload alone where the header was sound.
    pub(crate) bytes: u64,
    pub(crate) reason: &'static str,
}

/// Bytes behind a header of zeros.
const ZEROED_HEADER: &str = "zeroed header";

impl Damage {
    /// Where a record's header should be there are zeros, with bytes behind them.
    pub(crate) fn lacks_its_header(&self) -> bool {
        self.reason == ZEROED_HEADER
    }
}

/// Reads a file of records front to back.
pub(crate) struct RecordReader {
    file: Arc<dyn RandomAccessFile>,
    /// The block being read; shorter than a block only at the end of the file.
    block: Vec<u8>,
    block_offset: u64,
    /// The next unread byte in `block`.
    at: usize,
    /// No block follows.
    is_last_block: bool,
    zeros_skipped: bool,
    /// Where the record starts whose last fragment has not been met; `None` between records.
    open: Option<u64>,
    /// A second damage that the same bytes caused, to be told by the next call.
    pending: Option<Damage>,
    /// The file may be longer than what was written, and be written to.
    is_log: bool,
    /// The next block, if it was read already.
    ahead: Option<Vec<u8>>,
    /// Something but zeros was seen just before.
    written_to: u64,
}

/// One physical record, or why there is none.
enum Physical {
    Fragment {
        kind: u8,
        offset: u64,
        payload: Range<usize>,
    },
    Zeros,
    /// And where the bad record would end.
    Damage(Damage, u64),
    /// The end of the file, with the place where an unfinished header or payload starts.
    End {
        torn: Option<u64>,
    },
}

impl RecordReader {
    pub(crate) fn new(file: Arc<dyn RandomAccessFile>) -> Self {
        RecordReader {
            file,
            block: Vec::new(),
            block_offset: 0,
            at: 0,
            is_last_block: false,
            zeros_skipped: false,
            open: None,
            pending: None,
            is_log: false,
            ahead: None,
            written_to: 0,
        }
    }

    /// As [`new`](Self::new), of a log. Its file may be longer than what was written, with zeros behind:
    /// what is broken before them was cut short by a crash. And a live writer may fill them in,
    /// front to back, while they are read.
    pub(crate) fn of_log(file: Arc<dyn RandomAccessFile>) -> Self {
        RecordReader { is_log: true, ..RecordReader::new(file) }
    }

    /// The file being read.
    pub(crate) fn file(&self) -> &dyn RandomAccessFile {
        &*self.file
    }

    /// Reads the next logical record into `record`, which is empty unless the answer is a record.
    /// Fails only if the file cannot be read.
    pub(crate) fn next(&mut self, record: &mut Vec<u8>) -> Result<Step> {
        record.clear();
        self.open = None;
        if let Some(damage) = self.pending.take() {
            return Ok(Step::Damage(damage));
        }
        loop {
            match self.physical()? {
                Physical::Fragment { kind, offset, payload } => {
                    if let Some(step) = self.join(kind, offset, payload, record) {
                        return Ok(step);
                    }
                }
                Physical::Zeros => {
                    self.zeros_skipped = true;
                    if self.open.is_some()
                        && let Some(end) = self.written_end(self.position() - 1)?
                    {
                        record.clear();
                        return Ok(self.torn_before_zeros(self.open, end));
                    }
                    if let Some(damage) = self.abandon(record, BROKEN) {
                        return Ok(Step::Damage(damage));
                    }
                }
                Physical::Damage(damage, end) => {
                    if let Some(end) = self.written_end(end)? {
                        record.clear();
                        return Ok(self.torn_before_zeros(self.open.or(Some(damage.offset)), end));
                    }
                    if self.has_changed()? {
                        self.at = (damage.offset - self.block_offset) as usize;
                        continue;
                    }
                    self.pending = self.abandon(record, BROKEN);
                    return Ok(Step::Damage(damage));
                }
                Physical::End { torn } => {
                    record.clear();
                    let torn = self.open.or(torn);
                    return Ok(self.end(torn));
                }
            }
        }
    }

    /// Adds a fragment to the record being read. Returns what is to be told, if anything.
    fn join(
        &mut self,
        kind: u8,
        offset: u64,
        payload: Range<usize>,
        record: &mut Vec<u8>,
    ) -> Option<Step> {
        let bytes = payload.len() as u64;
        match (kind, self.open) {
            (FULL | FIRST, Some(_)) if !record.is_empty() => {
                // Tell of the unfinished record first; the next call reads this fragment again.
                self.at = payload.start - HEADER_BYTES;
                self.abandon(record, UNFINISHED).map(Step::Damage)
            }
            // An open record without bytes is no loss: old writers left an empty first fragment at
            // the end of a block and began the record anew in the next.
            (FULL, _) => {
                self.take(payload, record);
                Some(self.found(offset))
            }
            (FIRST, _) => {
                self.take(payload, record);
                self.open = Some(offset);
                None
            }
            (MIDDLE, Some(_)) => {
                self.take(payload, record);
                None
            }
            (LAST, Some(start)) => {
                self.take(payload, record);
                Some(self.found(start))
            }
            (MIDDLE | LAST, None) => {
                let reason = "missing start of fragmented record";
                Some(Step::Damage(Damage { offset, bytes, reason }))
            }
            _ => {
                let reason = "unknown record type";
                let dropped = self.abandon(record, reason);
                let bytes = bytes + dropped.map_or(0, |dropped| dropped.bytes);
                let offset = dropped.map_or(offset, |dropped| dropped.offset);
                Some(Step::Damage(Damage { offset, bytes, reason }))
            }
        }
    }

    fn take(&self, payload: Range<usize>, record: &mut Vec<u8>) {
        record.extend_from_slice(self.block.get(payload).unwrap_or_default());
    }

    /// Drops the record being read, if one is open, and says so.
    fn abandon(&mut self, record: &mut Vec<u8>, reason: &'static str) -> Option<Damage> {
        let bytes = record.len() as u64;
        record.clear();
        self.open.take().map(|offset| Damage { offset, bytes, reason })
    }

    fn found(&mut self, offset: u64) -> Step {
        let after_zeros = std::mem::take(&mut self.zeros_skipped);
        Step::Record { offset, end: self.position(), after_zeros }
    }

    fn end(&mut self, torn: Option<u64>) -> Step {
        // Later calls find nothing unread, and so no torn record either.
        self.at = self.block.len();
        match torn {
            Some(offset) => Step::TornTail { offset, bytes: self.position() - offset },
            None => Step::End,
        }
    }

    /// Nothing follows a torn record but zeros, from `end` on.
    fn torn_before_zeros(&mut self, torn: Option<u64>, end: u64) -> Step {
        self.block_offset = end;
        self.block.clear();
        self.ahead = None;
        self.is_last_block = true;
        self.end(torn)
    }

    /// Where what was written ends, if a log is longer than that, and it is at `limit` at the latest.
    fn written_end(&mut self, limit: u64) -> Result<Option<u64>> {
        let mut end = self.file.len();
        if !self.is_log || limit >= end || limit < self.written_to {
            return Ok(None);
        }
        let mut piece = vec![0; BLOCK_BYTES];
        loop {
            let from = end.saturating_sub(BLOCK_BYTES as u64);
            // At most a block.
            let piece = &mut piece[..(end - from) as usize];
            read_there(&*self.file, piece, from)?;
            match piece.iter().rposition(|&byte| byte != 0) {
                Some(last) => end = from + last as u64 + 1,
                None if from > 0 => {
                    end = from;
                    continue;
                }
                None => end = 0,
            }
            self.written_to = end;
            return Ok((end <= limit).then_some(end));
        }
    }

    /// Reads the block again, and tells whether a live writer has added to it.
    fn has_changed(&mut self) -> Result<bool> {
        if !self.is_log {
            return Ok(false);
        }
        let mut again = vec![0; self.block.len()];
        read_there(&*self.file, &mut again, self.block_offset)?;
        let changed = again != self.block;
        self.block = again;
        Ok(changed)
    }

    /// Zeros may be where a live writer goes on by now. The block behind is read first: if it is written
    /// then, so is this one.
    fn is_filled_in(&mut self) -> Result<bool> {
        if self.is_log && !self.is_last_block {
            let next = self.block_offset + BLOCK_BYTES as u64;
            let mut ahead = vec![0; BLOCK_BYTES];
            let read = read_there(&*self.file, &mut ahead, next)?;
            ahead.truncate(read);
            self.ahead = Some(ahead);
        }
        let changed = self.has_changed()?;
        if changed {
            self.ahead = None;
        }
        Ok(changed)
    }

    /// The offset in the file of the next unread byte.
    fn position(&self) -> u64 {
        self.block_offset + self.at as u64
    }

    fn physical(&mut self) -> Result<Physical> {
        loop {
            let offset = self.position();
            let unread = self.block.get(self.at..).unwrap_or_default();
            let Some((header, rest)) = Header::parse(unread) else {
                if self.is_last_block {
                    let is_trailer = BLOCK_BYTES - self.at < HEADER_BYTES;
                    let is_tail = self.is_log && unread.iter().all(|&byte| byte == 0);
                    let is_torn = !unread.is_empty() && !is_trailer && !is_tail;
                    let torn = is_torn.then_some(offset);
                    return Ok(Physical::End { torn });
                }
                self.read_block()?;
                continue;
            };
            let unread_bytes = unread.len() as u64;
            let damage = |reason| Damage { offset, bytes: unread_bytes, reason };
            let block_end = offset + unread_bytes;
            let Some(payload) = rest.get(..header.payload_bytes) else {
                if self.is_last_block {
                    return Ok(Physical::End { torn: Some(offset) });
                }
                self.at = self.block.len();
                return Ok(Physical::Damage(damage("bad record length"), block_end));
            };
            if header.kind == ZERO && header.payload_bytes == 0 {
                let is_hole = unread.iter().all(|&byte| byte == 0);
                if is_hole && self.is_filled_in()? {
                    continue;
                }
                self.at = self.block.len();
                // LevelDB passes over the rest of the block without looking at it. Where it holds
                // bytes, something was there: the same bytes are dropped, but said to be.
                return Ok(match is_hole {
                    true => Physical::Zeros,
                    // A zero behind it shows that the file was longer, if this block is its last.
                    false => Physical::Damage(damage(ZEROED_HEADER), block_end - 1),
                });
            }
            if !header.vouches_for(payload) {
                self.at = self.block.len();
                let end = offset + (HEADER_BYTES + header.payload_bytes) as u64;
                // No log ends with one of these: more was to follow, or is missing.
                let end = end - u64::from(matches!(header.kind, FIRST | MIDDLE | ZERO));
                return Ok(Physical::Damage(damage("checksum mismatch"), end));
            }
            let start = self.at + HEADER_BYTES;
            self.at = start + header.payload_bytes;
            return Ok(Physical::Fragment { kind: header.kind, offset, payload: start..self.at });
        }
    }

    fn read_block(&mut self) -> Result<()> {
        self.block_offset += self.block.len() as u64;
        self.at = 0;
        if let Some(ahead) = self.ahead.take() {
            self.block = ahead;
            self.is_last_block = self.block.len() < BLOCK_BYTES;
            return Ok(());
        }
        self.block.resize(BLOCK_BYTES, 0);
        let read = read_there(&*self.file, &mut self.block, self.block_offset);
        if read.is_err() {
            self.block.clear(); // Nothing in it is the file's.
        }
        let read = read?;
        self.block.truncate(read);
        self.is_last_block = read < BLOCK_BYTES;
        Ok(())
    }
}
