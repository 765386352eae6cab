//! Huge pages, each in a map of its own: for large memtables, and for [heaps](heap).
//!
//! A writer must not wait for who makes them, on another thread, and to make one takes a millisecond or more. What a writer
//! needs now and then is the process's map of memory: for a page of the log, for a larger heap. Whoever has it may wait for
//! others, and lose its processor meanwhile. So these maps are made such that it is held for moments only:
//! - Memory of the allocator's will not do: its pages are one range to the system, and to ask for huge ones parts it, which
//!   waits for all who are making pages there. A map of its own, between gaps, is a range where nobody is.
//! - The first page of a range needs the map of memory, and those that follow do not. So the first one is a small one.

#![expect(unsafe_code, reason = "memory maps")]

pub(crate) mod heap;

use std::ptr::{self, NonNull};

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

/// The size of a huge page where there are such, and the alignment of what is mapped.
pub(crate) const HUGE_BYTES: usize = 2 << 20;
/// What a system's pages are at least.
const PAGE_BYTES: usize = 4 << 10;
/// On either side, so that the system does not make one range of this and of what lies beside it. No system has larger pages.
const GAP_BYTES: usize = 64 << 10;
/// Of the same range as the memory, in front of it. Only one page of it is used.
const FRONT_BYTES: usize = 64 << 10;
const BEFORE_BYTES: usize = GAP_BYTES + FRONT_BYTES;
/// Room for all of it, wherever the memory has to begin.
const MAPPED_BYTES: usize = BEFORE_BYTES + 2 * HUGE_BYTES + GAP_BYTES;

/// Fresh memory, all zeros and without pages, or `None` if the system has none to give. Only [`unmap`] gives it back.
pub(crate) fn map() -> Option<NonNull<u8>> {
    let start = reserve()?;
    let access = MprotectFlags::READ | MprotectFlags::WRITE;
    // SAFETY: the memory and what lies in front of it were just reserved, and nobody else knows them.
    unsafe {
        let front = start.sub(FRONT_BYTES);
        if mprotect(front.as_ptr().cast(), FRONT_BYTES + HUGE_BYTES, access).is_err() {
            unmap(start);
            return None;
        }
        ask_for_huge_pages(front);
        front.write_volatile(0);
    }
    Some(start)
}

/// Has the system make the pages of a map: a tenth of a millisecond, and five or more where the memory was never used before.
///
/// # Safety
/// `start` came from [`map`], and nobody else has the memory.
pub(crate) unsafe fn make_pages(start: NonNull<u8>) {
    for at in (0..HUGE_BYTES).step_by(PAGE_BYTES) {
        // SAFETY: within the map, which is the caller's.
        unsafe { start.add(at).write_volatile(0) };
    }
}

/// # Safety
/// `start` came from [`map`], and nobody uses the memory any more.
pub(crate) unsafe fn unmap(start: NonNull<u8>) {
    let bytes = BEFORE_BYTES + HUGE_BYTES + GAP_BYTES;
    // SAFETY: all of it was reserved together, and the caller promises the rest.
    let _ = unsafe { munmap(start.sub(BEFORE_BYTES).as_ptr().cast(), bytes) };
}

/// Addresses of memory that is aligned, and of what lies around it. None of it may be used yet.
fn reserve() -> Option<NonNull<u8>> {
    let (none, private) = (ProtFlags::empty(), MapFlags::PRIVATE);
    // SAFETY: the system chooses fresh addresses; nothing of ours is there.
    let all = unsafe { mmap_anonymous(ptr::null_mut(), MAPPED_BYTES, none, private) };
    let all = NonNull::new(all.ok()?.cast::<u8>())?;
    let offset = (all.addr().get() + BEFORE_BYTES).next_multiple_of(HUGE_BYTES) - all.addr().get();
    // Less than `HUGE_BYTES`, and whole pages, as all that is cut off here.
    let surplus = offset - BEFORE_BYTES;
    // SAFETY: by the sums above the parts lie within what was mapped, and nobody else knows it.
    unsafe {
        let start = all.add(offset);
        let behind = start.add(HUGE_BYTES + GAP_BYTES);
        let _ = munmap(behind.as_ptr().cast(), HUGE_BYTES - surplus);
        if surplus > 0 {
            let _ = munmap(all.as_ptr().cast(), surplus);
        }
        Some(start)
    }
}

/// Systems without them, or with none left, do nothing.
fn ask_for_huge_pages(front: NonNull<u8>) {
    #[cfg(target_os = "linux")]
    {
        use rustix::mm::{Advice, madvise};
        let bytes = FRONT_BYTES + HUGE_BYTES;
        // SAFETY: the advice changes how the range is backed, nothing in it; and the range is ours.
        let _ = unsafe { madvise(front.as_ptr().cast(), bytes, Advice::LinuxHugepage) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = front;
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn each_is_aligned_fresh_and_apart() {
        let mut all: Vec<_> = (0..20).map(|_| map().unwrap()).collect();
        for start in &all {
            assert!(start.addr().get().is_multiple_of(HUGE_BYTES));
            // SAFETY: mapped above, and this long.
            let memory = unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), HUGE_BYTES) };
            assert!(memory.iter().all(|&byte| byte == 0));
            memory.fill(1);
        }
        all.sort();
        for (one, next) in all.iter().zip(&all[1..]) {
            assert!(next.addr().get() - one.addr().get() >= BEFORE_BYTES + HUGE_BYTES + GAP_BYTES);
        }
        // SAFETY: mapped above, and not used any more.
        all.into_iter().for_each(|start| unsafe { unmap(start) });
    }
}
