//! A log file that is written through memory maps: an append is a copy into the page cache, with no
//! call to the system. Made by [`create`] where that is as safe as writing.
//!
//! **Spans and steps.** A long span of the file's offsets is mapped at a time, far past its end, which takes addresses and no
//! memory. It is made ready in steps: a step gets its blocks, for a store into a hole would end the process if the disk is full,
//! and then its pages. Steps are short, so that no single append pays for much, and ask for nothing that another thread
//! keeps the whole process from. One append sets a step's blocks aside, while half of the step before is still free, and a later one
//! gets its pages. Who makes a log before it is needed may have the zeros of many steps written. Of what was written long ago the
//! pages are given back. What is long is written with a call, which costs less than the faults of its pages; so is everything once
//! there is no span, or no room, to be had.
//!
//! **Syncs.** A sync makes the pages read-only that it writes back, mapped ones by a look at each map: the next store into them
//! faults. Where little is appended between syncs there is no span, but zeros that were written ahead, and a call for each append.
//!
//! **Death of the process.** What was copied is the kernel's and stays. A record begins with its header,
//! which stands in eight bytes; they are stored last, in one piece, and without them the rest does not
//! count. So an append of one record is there whole or not at all; what a call writes may be there in part, from its
//! beginning on.
//!
//! **Invariants.** What is ready lies within the file: only this value changes its length, and only to
//! grow it, until the span is gone or nobody stores into it any more. (Who truncates somebody's log under them ends their process, as
//! with LevelDB's maps of tables.) Where zeros follow what was appended, the file ends with a block of the format.

mod span;

#[cfg(test)]
mod tests;

use std::array;
use std::fs::File;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate, fstatfs};
use rustix::io::{pwritev, retry_on_intr};

use crate::base::error::{Error, Result};
use crate::env::fs::WritableFile;
use crate::env::posix::log::span::Span;
use crate::env::site::Site;

/// Spans begin at multiples of this, the largest page of the systems we know.
const PAGE_BYTES: u64 = 64 << 10;
/// A step of memory that was never used before takes a fifth of a millisecond, where the host of a machine has to find it.
const STEP_BYTES: u64 = 16 << 10;
/// A block of the format. LevelDB may go on at the end of a log that was not closed (`reuse_logs`), and reads no more of a block once
/// it finds zeros in it.
const BLOCK_BYTES: u64 = 32 << 10;
/// The length grows by so much.
const LENGTH_STEP_BYTES: u64 = 4 * BLOCK_BYTES;
/// Blocks that are taken at once. A small log takes fewer.
const RESERVE_BYTES_MAX: u64 = 2 << 20;
/// So many at most are taken at once for what is expected.
const EXPECTED_BYTES_MAX: u64 = 64 << 20;
/// A piece of what is written ahead, with other work between two: in large folios, which takes a fraction of what as many steps do.
const PIECE_BYTES: u64 = 256 << 10;
/// A folio of it. At the first store into each page the file system looks at all blocks of the page's folio, which another
/// processor has written: for the first page of 256 KiB that took 8 to 20 microseconds.
const CALL_BYTES: u64 = 64 << 10;
/// Of a log for which more is expected nothing is: the last one of a database that closes has all its zeros in vain.
const AHEAD_OF_BYTES_MAX: u64 = 16 << 20;
/// Of a log that is synced: after each step the next sync has blocks to note in the file system's journal.
const SYNCED_STEP_BYTES_MAX: u64 = 512 << 10;
/// Appended by calls, after a sync. It is some thirty calls, of 1 microsecond each, against the faults of two pages, of 3.
const BETWEEN_SYNCS_BYTES: u64 = 4 << 10;
static ZEROS: [u8; STEP_BYTES as usize] = [0; STEP_BYTES as usize];
/// Pages are given back when they are so many: they count as the process's memory. For a few of them it takes nearly as
/// long, 50 to 80 microseconds, for all processors have to be told.
const BEHIND_BYTES: u64 = 896 << 10;
/// Where a log's length is known, once on half of its way, but no later.
const BEHIND_BYTES_MAX: u64 = 2240 << 10;
/// What is longer is cheaper to write: a call, against two faults for each of its pages.
const STORED_BYTES_MAX: usize = 16 << 10;
/// File systems that write in place, by their numbers in `statfs`: ext2 to ext4, XFS, tmpfs. Elsewhere a
/// store may need a new block, and on a full disk or a lost network get none.
const WRITE_IN_PLACE: [i64; 3] = [0xef53, 0x5846_5342, 0x0102_1994];

/// Takes a new, empty file, open to read and write.
pub(super) fn create(file: File, path: &Path) -> MappedLog {
    let is_safe = fstatfs(&file).is_ok_and(|found| WRITE_IN_PLACE.contains(&found.f_type));
    // Now, for once the log is written to, others are at work on what was before it, and ask for maps as well.
    let span = if is_safe { Span::map(&file, 0).ok() } else { None };
    MappedLog {
        file: Some(file),
        path: path.to_owned(),
        may_map: span.is_some(),
        span,
        end: 0,
        allocated: 0,
        zeroed: 0,
        reserved: 0,
        ahead_max: 0,
        reserve_bytes: 4 * STEP_BYTES,
        behind_bytes: BEHIND_BYTES,
        was_synced: false,
        synced: 0,
        is_synced_often: false,
        synced_step_bytes: STEP_BYTES,
        will_be_removed: false,
    }
}

pub(super) struct MappedLog {
    /// `None` once closed.
    file: Option<File>,
    path: PathBuf,
    span: Option<Span>,
    /// Where the next append goes.
    end: u64,
    /// The file's length; behind `end` it holds zeros.
    allocated: u64,
    /// Zeros were written up to here, perhaps for pages that nobody has made yet.
    zeroed: u64,
    /// Blocks were asked for up to here, perhaps behind the file's length.
    reserved: u64,
    /// Zeros may be written up to here before anything is appended, if so much is likely.
    ahead_max: u64,
    /// As many are asked for next; none once they were refused.
    reserve_bytes: u64,
    /// So many pages are given back at once.
    behind_bytes: u64,
    /// False when no more is to be had.
    may_map: bool,
    /// Since the last step.
    was_synced: bool,
    /// What is before this place was synced.
    synced: u64,
    /// Then it has no span.
    is_synced_often: bool,
    /// Steps between syncs grow, so that a small log takes little space.
    synced_step_bytes: u64,
    will_be_removed: bool,
}

impl MappedLog {
    fn open_file(&self) -> &File {
        self.file.as_ref().expect("no call follows close")
    }

    /// What is too long to be stored, or finds no room that is ready.
    #[cold]
    fn append_slowly(&mut self, data: &[u8]) -> io::Result<()> {
        if self.is_synced_often {
            self.is_synced_often = self.end - self.synced < BETWEEN_SYNCS_BYTES;
            self.write_ahead(data.len() as u64);
        } else if data.len() <= STORED_BYTES_MAX && self.may_map {
            self.make_room(data.len() as u64).unwrap_or_else(|_| {
                // All goes on by calls.
                self.may_map = false;
                self.span = None;
            });
            if self.store(data) {
                return Ok(());
            }
        }
        self.open_file().write_all_at(data, self.end)?;
        self.end += data.len() as u64;
        self.allocated = self.allocated.max(self.end);
        Ok(())
    }

    #[inline]
    fn store(&mut self, data: &[u8]) -> bool {
        let Some(span) = &mut self.span else { return false };
        let fits = span.store(data, self.end);
        self.end += if fits { data.len() as u64 } else { 0 };
        fits
    }

    /// Goes on making the file ready, until so many bytes behind its end are.
    fn make_room(&mut self, bytes: u64) -> io::Result<()> {
        let needed = self.end + bytes;
        let mut span = match self.span.take().filter(|span| needed <= span.end()) {
            Some(span) => span,
            None => Span::map(self.open_file(), self.page())?,
        };
        span.give_back(self.page(), self.behind_bytes);
        while span.ready < needed {
            match self.was_synced {
                true => self.allocate_step(&mut span)?,
                false => self.half_a_step(&mut span)?,
            }
        }
        self.span = Some(span);
        Ok(())
    }

    /// The next step, of a log that is synced often, once so many bytes have no room in the last. The sync after the append writes its
    /// zeros, and those that follow find blocks that were written before.
    fn write_ahead(&mut self, bytes: u64) {
        let needed = self.end + bytes;
        if needed <= self.zeroed {
            return;
        }
        let until = self.end_of_synced_step(needed);
        self.zero_until(until);
    }

    /// Writes zeros from where there are none yet. False if that fails, and the file is as long as it was.
    fn zero_until(&mut self, until: u64) -> bool {
        let from = self.zeroed.max(self.end);
        let is_done = write_zeros(self.open_file(), from..until).is_ok();
        if is_done {
            self.zeroed = until;
            self.allocated = self.allocated.max(until);
        } else {
            // Where there is no room for zeros, there may be some for the record. What was set aside behind goes as well.
            let _ = self.open_file().set_len(self.allocated);
            self.reserved = self.reserved.min(self.allocated);
        }
        is_done
    }

    /// Each of a log's is longer than the one before.
    fn end_of_synced_step(&mut self, from: u64) -> u64 {
        let until = (from + self.synced_step_bytes).next_multiple_of(BLOCK_BYTES);
        self.synced_step_bytes = (2 * self.synced_step_bytes).min(SYNCED_STEP_BYTES_MAX);
        until
    }

    /// The next step, of a log that is synced now and then, with its pages.
    fn allocate_step(&mut self, span: &mut Span) -> io::Result<()> {
        self.was_synced = false;
        let from = span.has_pages_until.max(self.page());
        let until = self.end_of_synced_step(from).min(span.end());
        // A sync writes all of a folio that was stored into: zeros would bring large ones.
        fallocate(self.open_file(), FallocateFlags::empty(), from, until - from)?;
        self.zeroed = self.zeroed.max(until);
        self.allocated = self.allocated.max(until);
        span.make_pages(from, until);
        span.ready = until;
        Ok(())
    }

    /// Either of what a step takes: the pages for zeros that are there, or else the next zeros. Each is a call of some
    /// microseconds, and the next half comes due after half a step; as do calls for blocks and for length, between the two.
    fn half_a_step(&mut self, span: &mut Span) -> io::Result<()> {
        let from = span.has_pages_until.max(self.page());
        let zeroed = self.zeroed.min(span.end());
        if from < zeroed {
            let until = zeroed.min(from + STEP_BYTES);
            span.touch_pages(from.max(self.end), until);
            span.ready = if until < self.zeroed { until } else { until - STEP_BYTES / 2 };
            return Ok(());
        }
        let until = (from + STEP_BYTES).min(span.end());
        if self.reserve(until) {
            span.ready = span.has_pages_until.saturating_sub(STEP_BYTES / 4);
        } else if self.lengthen(until)? {
            span.ready = span.has_pages_until.saturating_sub(STEP_BYTES / 8);
        } else {
            // Blocks are set aside for what is written; and large folios are cheaper to make and to map.
            write_zeros(self.open_file(), from.max(self.end)..until)?;
            self.zeroed = until;
            span.ready = span.has_pages_until;
        }
        Ok(())
    }

    /// Makes the file long enough for a step. False if it is.
    fn lengthen(&mut self, until: u64) -> io::Result<bool> {
        if until <= self.allocated {
            return Ok(false);
        }
        let length = until.next_multiple_of(LENGTH_STEP_BYTES);
        self.open_file().set_len(length)?;
        self.allocated = length;
        Ok(true)
    }

    /// Takes blocks up to a place and for some steps behind it, if there are none: zeros are written to them in two thirds
    /// of the time. Where that fails, each step gets its own. False if nothing was to be done.
    fn reserve(&mut self, until: u64) -> bool {
        if self.reserve_bytes == 0 || until <= self.reserved {
            return false;
        }
        let (from, bytes) = (self.reserved.max(self.end), self.reserve_bytes);
        self.reserved = from + bytes;
        self.reserve_bytes = (4 * bytes).min(RESERVE_BYTES_MAX);
        // The file's length stays what it is: whoever reads a log reads no more for it.
        if fallocate(self.open_file(), FallocateFlags::KEEP_SIZE, from, bytes).is_err() {
            self.reserve_bytes = 0;
        }
        true
    }

    /// From where its pages begin that the next append goes to.
    fn page(&self) -> u64 {
        self.end - self.end % PAGE_BYTES
    }

    /// Cuts off what was allocated in vain. A log may keep it: readers pass over zeros.
    fn shrink(&mut self) {
        self.span = None;
        if let Some(file) = self.file.take()
            && !self.will_be_removed
            && self.allocated.max(self.reserved) > self.end
        {
            // Reserved blocks go, too, whatever its length was.
            let _ = file.set_len(self.end);
        }
    }
}

impl WritableFile for MappedLog {
    #[inline]
    fn append(&mut self, data: &[u8], _: Site) -> Result<()> {
        if data.len() <= STORED_BYTES_MAX && self.store(data) {
            return Ok(());
        }
        self.append_slowly(data).map_err(|cause| Error::io("append", &self.path, cause))
    }

    fn sync(&mut self, _: Site) -> Result<()> {
        self.was_synced = true;
        if self.may_map && self.end - self.synced <= BETWEEN_SYNCS_BYTES {
            self.is_synced_often = true;
            self.span = None;
        }
        self.synced = self.end;
        // It covers pages dirtied through maps.
        let synced = self.open_file().sync_data();
        synced.map_err(|cause| Error::io("sync", &self.path, cause))
    }

    /// Takes the blocks for all of them, and makes the first step. What fails now is tried again by the first append.
    fn expect_appends(&mut self, bytes: u64) {
        if self.may_map {
            self.ahead_max = if bytes > AHEAD_OF_BYTES_MAX { 0 } else { bytes };
            self.reserve_bytes = self.reserve_bytes.max(bytes.min(EXPECTED_BYTES_MAX));
            self.behind_bytes = (bytes / 2 + 2 * PAGE_BYTES).clamp(BEHIND_BYTES, BEHIND_BYTES_MAX);
            let _ = self.make_room(1);
        }
    }

    /// Writes zeros, so that appends find them.
    fn get_ahead(&mut self, bytes: u64) -> bool {
        let from = self.zeroed.max(self.end);
        let ahead = bytes.min(self.ahead_max).next_multiple_of(CALL_BYTES);
        let until = ((from + PIECE_BYTES) / PIECE_BYTES * PIECE_BYTES).min(ahead);
        if self.span.is_none() || until <= from {
            return false;
        }
        let is_done = self.zero_until(until);
        if !is_done {
            self.ahead_max = 0;
        }
        is_done && until < ahead
    }

    /// Hands out the span: its pages count as the process's memory, and to unmap them takes a while.
    fn end_appends(&mut self) -> Option<Box<dyn Send>> {
        let span = self.span.take()?;
        Some(Box::new(span))
    }

    fn expect_removal(&mut self) {
        self.will_be_removed = true;
    }

    fn close(&mut self, _: Site) -> Result<()> {
        self.shrink();
        Ok(())
    }
}

impl Drop for MappedLog {
    fn drop(&mut self) {
        self.shrink();
    }
}

fn write_zeros(file: &File, range: Range<u64>) -> io::Result<()> {
    let mut at = range.start;
    while at < range.end {
        let mut left = range.end - at;
        let slices: [IoSlice<'_>; (CALL_BYTES / STEP_BYTES) as usize] = array::from_fn(|_| {
            let len = left.min(STEP_BYTES);
            left -= len;
            IoSlice::new(&ZEROS[..len as usize])
        });
        match retry_on_intr(|| pwritev(file, &slices, at))? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            wrote => at += wrote as u64,
        }
    }
    Ok(())
}
