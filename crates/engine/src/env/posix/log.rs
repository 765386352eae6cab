//! A log file that is written through memory maps: an append is a copy into the page cache, with no
//! call to the system. Made by [`create`] where that is as safe as writing.
//!
//! **Windows.** A part of the file is mapped at a time, from the page with the log's end on. Its blocks
//! are allocated first: a store into a hole would end the process if the disk is full. What does not
//! fit in the window is written with a call, and the next window begins behind it; so is everything
//! once a window cannot be had, and what is long, for which a call costs less than the faults of its pages.
//! Windows grow, so that a small log takes little space.
//!
//! **Death of the process.** What was copied is the kernel's and stays. A record begins with its header,
//! which stands in eight bytes; they are stored last, in one piece, and without them the rest does not
//! count. So an append of one record is there whole or not at all; what a call writes may be there in part, from its
//! beginning on.
//!
//! **Invariant.** The window lies within the file: only this value changes its length, and only to
//! grow it, until the window is gone or nobody stores into it any more. (Who truncates somebody's log under them ends their process, as
//! with LevelDB's maps of tables.)
#![expect(unsafe_code, reason = "memory maps, and stores into them")]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};
use std::sync::atomic::{Ordering, compiler_fence};

use rustix::fs::{FallocateFlags, fallocate, fstatfs};
#[cfg(target_os = "linux")]
use rustix::mm::{Advice, madvise};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::base::error::{Error, Result};
use crate::env::fs::WritableFile;
use crate::env::site::Site;

/// Windows begin at multiples of this, the largest page of the systems we know.
const PAGE_BYTES: u64 = 64 << 10;
const WINDOW_BYTES_MIN: u64 = PAGE_BYTES;
const WINDOW_BYTES_MAX: u64 = 512 << 10;
/// Written at a time, in whose folios the page cache then has them.
static ZEROS: [u8; 256 << 10] = [0; 256 << 10];
/// What is longer is cheaper to write: a call, against two faults for each of its pages.
const STORED_BYTES_MAX: usize = 16 << 10;
/// File systems that write in place, by their numbers in `statfs`: ext2 to ext4, XFS, tmpfs. Elsewhere a
/// store may need a new block, and on a full disk or a lost network get none.
const WRITE_IN_PLACE: [i64; 3] = [0xef53, 0x5846_5342, 0x0102_1994];

/// Takes a new, empty file, open to read and write.
pub(super) fn create(file: File, path: &Path) -> MappedLog {
    let is_safe = fstatfs(&file).is_ok_and(|found| WRITE_IN_PLACE.contains(&found.f_type));
    MappedLog {
        file: Some(file),
        path: path.to_owned(),
        window: None,
        end: 0,
        allocated: 0,
        next_window_bytes: is_safe.then_some(WINDOW_BYTES_MIN),
        was_synced: false,
    }
}

pub(super) struct MappedLog {
    /// `None` once closed.
    file: Option<File>,
    path: PathBuf,
    window: Option<Window>,
    /// Where the next append goes.
    end: u64,
    /// The file's length; behind `end` it holds zeros.
    allocated: u64,
    /// `None` when no more windows are to be had.
    next_window_bytes: Option<u64>,
    /// Since the window was mapped.
    was_synced: bool,
}

impl MappedLog {
    fn open_file(&self) -> &File {
        self.file.as_ref().expect("no call follows close")
    }

    /// What is too long to be stored, leaves no room in the window, or has none.
    #[cold]
    fn append_by_call(&mut self, data: &[u8]) -> io::Result<()> {
        self.open_file().write_all_at(data, self.end)?;
        self.end += data.len() as u64;
        self.allocated = self.allocated.max(self.end);
        if self.window.as_ref().is_some_and(|window| window.has(self.end)) {
            return Ok(());
        }
        self.window = None;
        if data.len() <= STORED_BYTES_MAX
            && let Some(bytes) = self.next_window_bytes
        {
            let start = self.end - self.end % PAGE_BYTES;
            // Without a window all goes on as before, by calls.
            self.window = self.map(start, bytes).ok();
            let wider = (2 * bytes).min(WINDOW_BYTES_MAX);
            self.next_window_bytes = self.window.is_some().then_some(wider);
        }
        Ok(())
    }

    fn map(&mut self, start: u64, bytes: u64) -> io::Result<Window> {
        let file = self.file.as_ref().expect("no call follows close");
        self.allocated = self.allocated.max(start + bytes);
        fallocate(file, FallocateFlags::empty(), start, bytes)?;
        // Large folios are cheaper to make and to map, but a sync writes all of one that was stored into.
        if !std::mem::take(&mut self.was_synced) {
            write_zeros(file, self.end..start + bytes)?;
        }
        Window::map(file, start, bytes)
    }

    /// Cuts off what was allocated in vain. A log may keep it: readers pass over zeros.
    fn shrink(&mut self) {
        self.window = None;
        if let Some(file) = self.file.take()
            && self.allocated > self.end
        {
            let _ = file.set_len(self.end);
        }
    }
}

impl WritableFile for MappedLog {
    #[inline]
    fn append(&mut self, data: &[u8], _: Site) -> Result<()> {
        if data.len() <= STORED_BYTES_MAX
            && let Some(window) = &mut self.window
            && window.store(data, self.end)
        {
            self.end += data.len() as u64;
            return Ok(());
        }
        self.append_by_call(data).map_err(|cause| Error::io("append", &self.path, cause))
    }

    fn sync(&mut self, _: Site) -> Result<()> {
        self.was_synced = true;
        // It covers pages dirtied through maps.
        let synced = self.open_file().sync_data();
        synced.map_err(|cause| Error::io("sync", &self.path, cause))
    }

    /// Hands out the window: its pages count as the process's memory.
    fn end_appends(&mut self) -> Option<Box<dyn Send>> {
        let window = self.window.take()?;
        Some(Box::new(window))
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
        let len = usize::try_from(range.end - at).map_or(ZEROS.len(), |left| left.min(ZEROS.len()));
        file.write_all_at(&ZEROS[..len], at)?;
        at += len as u64;
    }
    Ok(())
}

/// A mapped part of a file.
struct Window {
    memory: NonNull<u8>,
    bytes: usize,
    /// Its place in the file.
    start: u64,
}

// SAFETY: the memory belongs to the value, on whichever thread it is.
unsafe impl Send for Window {}

impl Window {
    fn map(file: &File, start: u64, bytes: u64) -> io::Result<Self> {
        let bytes = usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the system chooses fresh addresses; nothing of ours is there.
        let memory =
            unsafe { mmap(ptr::null_mut(), bytes, access, MapFlags::SHARED, file, start)? };
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let window = Window { memory, bytes, start };
        window.populate();
        Ok(window)
    }

    /// Whether an offset of the file lies within.
    fn has(&self, at: u64) -> bool {
        at < self.start + self.bytes as u64
    }

    /// Makes all pages, writable and dirty, at once: one by one they cost a fault or two each, and twice what they cost
    /// together. The first sync of a window then writes all of it; those that follow find blocks that were written before,
    /// and leave the file system nothing to note in its journal.
    fn populate(&self) {
        #[cfg(target_os = "linux")]
        // SAFETY: the memory is ours, and this changes none of its bytes. Systems that do not know it do nothing.
        let _ =
            unsafe { madvise(self.memory.as_ptr().cast(), self.bytes, Advice::LinuxPopulateWrite) };
    }

    /// Stores `data` at the offset `at` of the file, unless it does not fit.
    #[inline]
    fn store(&mut self, data: &[u8], at: u64) -> bool {
        let from = (at - self.start) as usize;
        if data.len() > self.bytes - from {
            return false;
        }
        // SAFETY: `from` and the length of `data` lie within the window, as was just checked; it is
        // mapped until the value is dropped, and borrowed mutably here.
        unsafe { store_head_last(self.memory.add(from), data) };
        true
    }
}

/// Bytes that are stored at once: all of a record's header is among them.
type Head = [u8; 8];

/// Copies `data` to a place that holds zeros: its head last and in one store. Zeros that it begins with,
/// the trailer of a block before the record's header, do not count.
///
/// # Safety
/// `to` is valid for writes of the length of `data`, and overlaps it nowhere.
#[inline]
unsafe fn store_head_last(to: NonNull<u8>, data: &[u8]) {
    // SAFETY: the caller's promise.
    let Some((at, head)) = (unsafe { store_rest(to, data) }) else { return };
    // A process dies between two instructions: their order is all that counts.
    compiler_fence(Ordering::Release);
    // SAFETY: `data` has these bytes, so their place is valid for them; no alignment is asked for.
    unsafe { at.cast::<u64>().write_unaligned(u64::from_ne_bytes(head)) };
}

/// Copies all of `data` but its head, which is still to be stored then, and says where; if it is shorter
/// than one, all of it.
///
/// # Safety
/// As of [`store_head_last`].
#[inline]
unsafe fn store_rest(to: NonNull<u8>, data: &[u8]) -> Option<(NonNull<u8>, Head)> {
    let zeros = leading_zeros(data);
    let data = data.get(zeros..).unwrap_or_default();
    // SAFETY: as the caller promises; no more of `data` is passed over than there is.
    let to = unsafe { to.add(zeros) };
    let split = data.split_first_chunk();
    let (head, rest) = split.map_or((None, data), |(head, rest): (&Head, _)| (Some(*head), rest));
    let skipped = data.len() - rest.len();
    // SAFETY: as the caller promises; `rest` begins so many bytes into `data`.
    unsafe { ptr::copy_nonoverlapping(rest.as_ptr(), to.add(skipped).as_ptr(), rest.len()) };
    head.map(|head| (to, head))
}

/// How many bytes come before the first that is not zero.
#[inline]
fn leading_zeros(data: &[u8]) -> usize {
    match data {
        [0, ..] => data.iter().position(|byte| *byte != 0).unwrap_or(data.len()),
        _ => 0,
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length, and nobody else knows the memory.
        let _ = unsafe { munmap(self.memory.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::record::BLOCK_BYTES;
    use crate::format::record::HEADER_BYTES;
    use crate::format::record::encoder::RecordEncoder;

    /// A process that dies before it stores the head leaves no header, wherever in its block the record begins.
    #[test]
    fn a_record_without_its_head_has_no_header() {
        for offset in BLOCK_BYTES - 20..BLOCK_BYTES + 5 {
            for payload in [0, 1, 2, 300, 2 * BLOCK_BYTES] {
                let mut data = Vec::new();
                RecordEncoder::new(offset as u64).encode(&[&vec![7; payload]], &mut data);
                let trailer = Some(BLOCK_BYTES - offset % BLOCK_BYTES);
                let header = trailer.filter(|bytes| *bytes < HEADER_BYTES).unwrap_or_default();
                let mut place = vec![0; data.len()];
                let to = NonNull::from(place.as_mut_slice()).cast();
                // SAFETY: the place is as long as the data, and elsewhere.
                if unsafe { store_rest(to, &data) }.is_some() {
                    assert_eq!(place[..header + HEADER_BYTES], vec![0; header + HEADER_BYTES]);
                }
                // SAFETY: as above.
                unsafe { store_head_last(to, &data) };
                assert!(place == data, "{payload} bytes at {offset}");
            }
        }
    }

    #[test]
    fn zeros_that_data_begins_with_are_passed_over() {
        for zeros in 0..20 {
            for bytes in 0..20 {
                let data = [vec![0; zeros], vec![7; bytes]].concat();
                let mut place = vec![0; data.len()];
                assert_eq!(leading_zeros(&data), zeros);
                // SAFETY: the place is as long as the data, and elsewhere.
                unsafe { store_head_last(NonNull::from(place.as_mut_slice()).cast(), &data) };
                assert_eq!(place, data);
            }
        }
    }
}
