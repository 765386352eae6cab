//! A file's bytes in memory: mapped, and locked there. Made by [`Resident::keep`] for tables that are read a lot.
//!
//! **Why locked.** Under a map an error of the disk is a signal, and ends the process. What is locked was read when it was
//! locked, with errors that are told, and is not read again: the system may not take it away. What is left is somebody
//! who cuts the file short under us, as with LevelDB's maps of tables; nobody but us has business in the folder.
//!
//! **Invariant.** The map lives as long as the value, so a reader that was about to copy when the bytes were let go
//! copies all the same: from pages that were in memory a moment ago.
#![expect(unsafe_code, reason = "memory maps, and copies from them")]

use std::ffi::c_void;
use std::fs::File;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mlock, mmap, munlock, munmap};

/// Locked and unlocked at a time: a call keeps other threads from the map of the process's memory, a writer among them that
/// asks for some. A multiple of all systems' pages.
const PART_BYTES: usize = if cfg!(test) { 8 << 10 } else { 256 << 10 };

/// A file that may be kept in memory.
#[derive(Default)]
pub(super) struct Resident {
    map: OnceLock<Option<Map>>,
    is_kept: AtomicBool,
}

/// All of a file, mapped to be read.
struct Map {
    memory: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory belongs to the value, and is only read.
unsafe impl Send for Map {}
// SAFETY: as above, by any number of threads.
unsafe impl Sync for Map {}

impl Resident {
    /// Has the first `len` bytes of the file, which are all of it, in memory from now on; false if the system refuses.
    pub(super) fn keep(&self, file: &File, len: u64) -> bool {
        let map = self.map.get_or_init(|| Map::of(file, len));
        let is_kept = map.as_ref().is_some_and(Map::lock);
        self.is_kept.store(is_kept, Ordering::Release);
        is_kept
    }

    /// Gives the memory back.
    pub(super) fn let_go(&self) {
        if self.is_kept.swap(false, Ordering::Relaxed)
            && let Some(Some(map)) = self.map.get()
        {
            map.unlock();
        }
    }

    pub(super) fn is_kept(&self) -> bool {
        self.is_kept.load(Ordering::Relaxed)
    }

    /// Copies the bytes from `offset` on, if all of `buf` can be had from memory.
    #[inline]
    pub(super) fn read_at(&self, buf: &mut [u8], offset: u64) -> bool {
        if !self.is_kept.load(Ordering::Acquire) {
            return false;
        }
        let Some(Some(map)) = self.map.get() else { return false };
        let Ok(offset) = usize::try_from(offset) else { return false };
        if offset.checked_add(buf.len()).is_none_or(|end| end > map.bytes) {
            return false;
        }
        // SAFETY: within the map, as was just checked; `buf` is nobody else's.
        unsafe {
            ptr::copy_nonoverlapping(map.memory.as_ptr().add(offset), buf.as_mut_ptr(), buf.len());
        }
        true
    }
}

impl Map {
    fn of(file: &File, len: u64) -> Option<Self> {
        let bytes = usize::try_from(len).ok().filter(|bytes| *bytes > 0)?;
        // SAFETY: the system chooses fresh addresses; nothing of ours is there.
        let memory = unsafe {
            mmap(ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::SHARED, file, 0).ok()?
        };
        Some(Map { memory: NonNull::new(memory.cast())?, bytes })
    }

    /// Reads all pages in, and has them stay.
    fn lock(&self) -> bool {
        // SAFETY: the memory is ours, and this changes none of its bytes.
        let is_locked = self.parts().all(|(part, bytes)| unsafe { mlock(part, bytes) }.is_ok());
        if !is_locked {
            self.unlock(); // A part may be.
        }
        is_locked
    }

    /// The pages stay in the system's cache, but no longer count as ours.
    fn unlock(&self) {
        for (part, bytes) in self.parts() {
            // SAFETY: the memory is ours; of a file's shared map this changes no byte that is read.
            let _ = unsafe { munlock(part, bytes) };
            // SAFETY: as above.
            let _ = unsafe { madvise(part, bytes, Advice::LinuxDontNeed) };
        }
    }

    /// All of the memory, bit by bit.
    fn parts(&self) -> impl Iterator<Item = (*mut c_void, usize)> {
        (0..self.bytes).step_by(PART_BYTES).map(|at| {
            // SAFETY: within the map.
            let part = unsafe { self.memory.add(at) };
            (part.as_ptr().cast(), PART_BYTES.min(self.bytes - at))
        })
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: mapped by `of` with this length, and nobody else knows the memory.
        let _ = unsafe { munmap(self.memory.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "as the module above")]
mod tests {
    use std::io::{Read, Seek, Write};

    use super::*;

    fn file(bytes: &[u8]) -> File {
        let path =
            std::env::temp_dir().join(format!("resident-{}-{}", std::process::id(), bytes.len()));
        let mut file = File::create_new(&path).unwrap();
        file.write_all(bytes).unwrap();
        let opened = File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        opened
    }

    /// Of this process, in kibibytes: a line of its status.
    fn locked() -> u64 {
        let mut status = String::new();
        let mut file = File::open("/proc/self/status").unwrap();
        file.rewind().unwrap();
        file.read_to_string(&mut status).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmLck:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    #[test]
    fn what_is_kept_is_locked_and_read_from_there() {
        let bytes: Vec<u8> = (0..50_000_u32).flat_map(|number| number.to_le_bytes()).collect();
        // Fewer than any system's limit.
        let bytes = &bytes[..40_001];
        let file = file(bytes);
        let resident = Resident::default();
        let mut found = vec![0; 3000];
        assert!(!resident.read_at(&mut found, 0));
        for _ in 0..2 {
            assert!(resident.keep(&file, bytes.len() as u64));
            assert!(resident.is_kept() && locked() >= 40);
            for at in [0, 1, 4095, 37_001] {
                assert!(resident.read_at(&mut found, at as u64));
                assert_eq!(found, bytes[at..at + 3000]);
            }
            for at in [37_002, 40_001, 1 << 40, u64::MAX] {
                assert!(!resident.read_at(&mut found, at), "{at}");
            }
            resident.let_go();
            assert!(!resident.is_kept() && !resident.read_at(&mut found, 0));
        }
    }

    #[test]
    fn an_empty_file_is_not_mapped() {
        let resident = Resident::default();
        assert!(!resident.keep(&file(b""), 0));
        resident.let_go();
    }

    /// Readers that come while it is kept and let go find the same.
    #[test]
    fn readers_do_not_notice() {
        let bytes = [7; 20_000];
        let file = file(&bytes);
        let resident = Resident::default();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut found = [0; 20_000];
                for _ in 0..20_000 {
                    if resident.read_at(&mut found, 0) {
                        assert_eq!(found, bytes);
                    }
                }
            });
            while !reader.is_finished() {
                assert!(resident.keep(&file, bytes.len() as u64));
                resident.let_go();
            }
        });
    }
}
