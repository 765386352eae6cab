//! A span of a log that is mapped, and stores into it. Whoever has it sees to it that the file is as long as what is ready.
#![expect(unsafe_code, reason = "memory maps, and stores into them")]

use std::fs::File;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::{Ordering, compiler_fence};

#[cfg(target_os = "linux")]
use rustix::mm::{Advice, madvise};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::base::prefetch::prefetch_behind;

pub(super) const SPAN_BYTES: u64 = 16 << 20;
/// No system has smaller pages.
const TOUCHED_BYTES: u64 = 4 << 10;

/// A mapped part of a file.
pub(super) struct Span {
    memory: NonNull<u8>,
    bytes: usize,
    /// Its place in the file.
    pub(super) start: u64,
    /// Up to this place of the file it has pages. Never behind the file's end.
    pub(super) has_pages_until: u64,
    /// Up to this place it is stored into without another look.
    pub(super) ready: u64,
    /// Pages before this place were given back.
    pub(super) kept: u64,
}

// SAFETY: the memory belongs to the value, on whichever thread it is.
unsafe impl Send for Span {}

impl Span {
    pub(super) fn map(file: &File, start: u64) -> io::Result<Self> {
        let bytes = usize::try_from(SPAN_BYTES).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the system chooses fresh addresses; nothing of ours is there.
        let memory =
            unsafe { mmap(ptr::null_mut(), bytes, access, MapFlags::SHARED, file, start)? };
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Span { memory, bytes, start, has_pages_until: start, ready: start, kept: start })
    }

    pub(super) fn end(&self) -> u64 {
        self.start + self.bytes as u64
    }

    /// Where a place of the file lies, which must be within, and how many bytes follow up to another.
    fn range(&self, from: u64, until: u64) -> (NonNull<u8>, usize) {
        assert!(self.start <= from && from <= until && until <= self.end());
        // SAFETY: within the map, as was just checked.
        let memory = unsafe { self.memory.add((from - self.start) as usize) };
        (memory, (until - from) as usize)
    }

    /// The file is as long as that by now. Makes all pages, writable and dirty, at once. The first sync then writes all of them;
    /// those that follow find blocks that were written before, and leave the file system nothing to note in its journal.
    pub(super) fn make_pages(&mut self, from: u64, until: u64) {
        self.has_pages_until = until;
        let (memory, bytes) = self.range(from, until);
        #[cfg(target_os = "linux")]
        // SAFETY: the memory is ours, and this changes none of its bytes. Systems that do not know it do nothing.
        let _ = unsafe { madvise(memory.as_ptr().cast(), bytes, Advice::LinuxPopulateWrite) };
        #[cfg(not(target_os = "linux"))]
        let _ = (memory, bytes);
    }

    /// The file holds zeros from `end`, where the next append goes, to `until`. Makes the pages by a store into each. One call for
    /// all of them would need the process's map of memory, and a writer waited for it, until a lane that had it was
    /// let run, for milliseconds.
    pub(super) fn touch_pages(&mut self, end: u64, until: u64) {
        self.has_pages_until = until;
        let page = end - end % TOUCHED_BYTES;
        for last in (page..until).step_by(TOUCHED_BYTES as usize).map(|at| at + TOUCHED_BYTES - 1) {
            let (memory, _) = self.range(last, last + 1);
            // SAFETY: within the map and the file, and behind all that was appended: nobody else stores there, and it is zero.
            unsafe { memory.write_volatile(0) };
        }
    }

    /// Gives the pages before a place of the file back, if they are so many. They stay in the system's cache.
    pub(super) fn give_back(&mut self, until: u64, bytes_min: u64) {
        if until < self.kept + bytes_min {
            return;
        }
        let (memory, bytes) = self.range(self.kept, until);
        #[cfg(target_os = "linux")]
        // SAFETY: the memory is ours; of a file's shared map this changes no byte that is read.
        let _ = unsafe { madvise(memory.as_ptr().cast(), bytes, Advice::LinuxDontNeed) };
        #[cfg(not(target_os = "linux"))]
        let _ = (memory, bytes);
        self.kept = until;
    }

    /// Stores `data` at the offset `at` of the file, unless it does not fit.
    #[inline]
    pub(super) fn store(&mut self, data: &[u8], at: u64) -> bool {
        let Some(from) = at.checked_sub(self.start) else { return false };
        if at + data.len() as u64 > self.ready {
            return false;
        }
        // SAFETY: between the start and what is ready, which lies within the map: it is there until the value is
        // dropped, and borrowed mutably here.
        unsafe { store_head_last(self.memory.add(from as usize), data) };
        prefetch_behind(self.memory.as_ptr().wrapping_add(from as usize + data.len()));
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

impl Drop for Span {
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
