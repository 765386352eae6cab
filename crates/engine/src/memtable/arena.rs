//! The memory of one memtable: chunks that only grow in number, freed together. The skip list
//! allocates its nodes here.
//!
//! To give megabytes back to the system, and to ask for them again, keeps all threads of the process from the map of its
//! memory for milliseconds. So a database's memtables hand their chunks on, by a [`Pool`].
//!
//! **Invariants.**
//! - I1: memory handed out is aligned to [`Arena::ALIGN`], overlaps nothing handed out before, and stays
//!   where it is until the [`Arena`] is dropped.
//! - I2: every chunk is on the list that starts at `newest`.
//!
//! **Concurrency.** There is one [`Bump`] per arena, and allocating takes it by `&mut`: so one
//! thread allocates at a time, without a lock. Any thread may ask for the size.

#![expect(unsafe_code, reason = "raw memory for nodes whose size is known only at run time")]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::base::sync::atomic::AtomicBool;
use crate::base::sync::lockless::{AtomicPtr, AtomicUsize, Ordering::Relaxed};
use crate::base::sync::{Mutex, Rank};

/// Enough for nodes of pointers and integers.
const ALIGN: usize = 8;
/// The first chunk is small, so that a small write buffer wastes little.
const CHUNK_BYTES_MIN: usize = 16 << 10;
/// Chunks double up to this size, with their heads.
const CHUNK_BYTES_MAX: usize = 512 << 10;
/// Once an arena has so much, its chunks are huge pages. A search in a large list goes to a dozen places all over it, and
/// with small pages each has the processor look for its page as well. Small arenas do better with memory used before.
const USED_BYTES_HUGE: usize = 8 << 20;
const HUGE_BYTES: usize = 2 << 20;
/// Once it has so much, spare ones are made.
const USED_BYTES_SPARES: usize = USED_BYTES_HUGE / 4;
/// So many huge chunks are kept ready for a writer: it takes one in the time that another is made in.
const SPARES: usize = 2;
/// What a system's pages are at least.
const PAGE_BYTES: usize = 4 << 10;

/// Chunks of memtables that are gone, for those to come.
pub(crate) struct Pool {
    chunks: Mutex<Vec<Kept>>,
    bytes_max: usize,
    /// There are fewer huge chunks than should be, and nobody was asked for more.
    is_low: AtomicBool,
}

/// A chunk without an arena, and its size with its head.
struct Kept {
    chunk: NonNull<Chunk>,
    bytes: usize,
}

// SAFETY: a kept chunk has no other owner, on whichever thread.
unsafe impl Send for Kept {}

/// Owns the chunks.
pub(super) struct Arena {
    pool: Option<Arc<Pool>>,
    newest: AtomicPtr<Chunk>,
    used_bytes: AtomicUsize,
}

/// The right to allocate: the unused end of the current chunk.
pub(super) struct Bump {
    at: *mut u8,
    left_bytes: usize,
    next_chunk_bytes: usize,
}

// SAFETY: a `Bump` is the only user of the memory it points to, wherever it is.
unsafe impl Send for Bump {}

/// The head of a chunk; the memory handed out follows it.
#[repr(C, align(8))]
struct Chunk {
    older: *mut Chunk,
    bytes: usize,
}

const _: () = assert!(align_of::<Chunk>() == ALIGN && size_of::<Chunk>().is_multiple_of(ALIGN));

impl Arena {
    /// What all memory is aligned to.
    pub(super) const ALIGN: usize = ALIGN;

    pub(super) fn new(pool: Option<Arc<Pool>>) -> (Self, Bump) {
        let newest = AtomicPtr::new(std::ptr::null_mut());
        let arena = Arena { pool, newest, used_bytes: AtomicUsize::new(0) };
        let bump =
            Bump { at: std::ptr::null_mut(), left_bytes: 0, next_chunk_bytes: CHUNK_BYTES_MIN };
        (arena, bump)
    }

    /// The bytes handed out, rounded up to the alignment. The unused end of a chunk does not count:
    /// the write buffer is then used up in entries, not in steps of a chunk.
    pub(super) fn used_bytes(&self) -> usize {
        self.used_bytes.load(Relaxed)
    }

    /// A new chunk's memory behind its head, uninitialised.
    fn grow(&self, bytes: usize) -> NonNull<u8> {
        let layout = chunk_layout(bytes);
        let kept = self.pool.as_ref().and_then(|pool| pool.take(layout.size()));
        let chunk = kept.unwrap_or_else(|| Kept::new(layout).chunk);
        // `Relaxed`: only the owner of the `Bump` changes the list, and only `drop` reads it.
        let older = self.newest.load(Relaxed);
        // SAFETY: the memory is nobody else's, aligned as its layout asks, and holds at least the head.
        unsafe { chunk.write(Chunk { older, bytes }) };
        self.newest.store(chunk.as_ptr(), Relaxed);
        // SAFETY: `bytes` bytes follow the head in the same allocation.
        unsafe { chunk.add(1).cast() }
    }
}

impl Bump {
    /// Memory of at least `bytes` bytes, uninitialised, that lives as long as `arena`.
    ///
    /// # Safety
    /// `arena` is the one that this value was made with.
    #[inline]
    pub(super) unsafe fn allocate(&mut self, arena: &Arena, bytes: usize) -> NonNull<u8> {
        let bytes = bytes.max(1).checked_next_multiple_of(ALIGN).expect("an entry fits in memory");
        // One allocating thread: a plain store of the sum does, no atomic addition.
        arena.used_bytes.store(arena.used_bytes.load(Relaxed) + bytes, Relaxed);
        if bytes > self.left_bytes {
            return self.allocate_slowly(arena, bytes);
        }
        let memory = self.at;
        self.left_bytes -= bytes;
        // SAFETY: at least `bytes` bytes are left in the chunk behind `at`, which the arena keeps.
        self.at = unsafe { self.at.add(bytes) };
        NonNull::new(memory).expect("with bytes left there is a chunk")
    }

    #[cold]
    fn allocate_slowly(&mut self, arena: &Arena, bytes: usize) -> NonNull<u8> {
        // A large entry gets a chunk of its own, and the rest of the current one stays in use.
        if bytes > self.next_chunk_bytes / 4 {
            return arena.grow(bytes);
        }
        let chunk_bytes = self.next_chunk_bytes - size_of::<Chunk>();
        let memory = arena.grow(chunk_bytes);
        if let Some(pool) = &arena.pool {
            pool.watch_spares(arena.used_bytes());
        }
        self.next_chunk_bytes = chunk_after(self.next_chunk_bytes, arena.used_bytes());
        self.left_bytes = chunk_bytes - bytes;
        // SAFETY: the chunk holds `chunk_bytes`, of which `bytes` are a part.
        self.at = unsafe { memory.as_ptr().add(bytes) };
        memory
    }
}

/// The size of the chunk after one of `bytes`, in an arena that has handed out `used`.
fn chunk_after(bytes: usize, used: usize) -> usize {
    if used >= USED_BYTES_HUGE { HUGE_BYTES } else { (2 * bytes).min(CHUNK_BYTES_MAX) }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let mut next = self.newest.load(Relaxed);
        while let Some(chunk) = NonNull::new(next) {
            // SAFETY: by I2 this is a chunk that `grow` wrote, and each is visited once.
            let Chunk { older, bytes } = unsafe { chunk.read() };
            // `&mut self` says that no one uses it.
            let kept = Kept { chunk, bytes: chunk_layout(bytes).size() };
            match &self.pool {
                Some(pool) => pool.give(kept),
                None => kept.free(),
            }
            next = older;
        }
    }
}

impl Pool {
    /// Keeps all chunks of a memtable of so many bytes, with their unused ends.
    pub(crate) fn for_memtables_of(bytes: usize) -> Arc<Self> {
        let (mut all, mut next) = (0, CHUNK_BYTES_MIN);
        while all <= bytes + bytes / 32 {
            all += next;
            next = chunk_after(next, all);
        }
        Self::new(all)
    }

    /// Keeps so many bytes at most.
    fn new(bytes_max: usize) -> Arc<Self> {
        let chunks = Mutex::new(Rank::Leaf, Vec::new());
        Arc::new(Pool { chunks, bytes_max, is_low: AtomicBool::new(false) })
    }

    /// True once after a spare huge chunk was taken, and once before the first will be. To make the pages of one takes a
    /// tenth of a millisecond, and five or more of memory that was never used before: [`stock_up`](Self::stock_up) elsewhere.
    pub(crate) fn runs_low(&self) -> bool {
        self.is_low.load(Relaxed) && self.is_low.swap(false, Relaxed)
    }

    /// Makes huge chunks, and has the system make their pages.
    pub(crate) fn stock_up(&self) {
        while self.huge_chunks() < SPARES {
            let kept = Kept::new(chunk_layout(HUGE_BYTES - size_of::<Chunk>()));
            for at in (0..HUGE_BYTES).step_by(PAGE_BYTES) {
                // SAFETY: within the chunk, which is nobody else's yet.
                unsafe { kept.chunk.cast::<u8>().add(at).write(0) };
            }
            self.chunks.lock().push(kept);
        }
    }

    fn huge_chunks(&self) -> usize {
        self.chunks.lock().iter().filter(|kept| kept.bytes == HUGE_BYTES).count()
    }

    /// Called where an arena that has handed out so much has taken a chunk.
    fn watch_spares(&self, used: usize) {
        let goes_on = self.bytes_max > USED_BYTES_HUGE + SPARES * HUGE_BYTES;
        if goes_on && used >= USED_BYTES_SPARES && self.huge_chunks() < SPARES {
            self.is_low.store(true, Relaxed);
        }
    }

    /// What is kept at the moment.
    pub(crate) fn bytes(&self) -> usize {
        held(&self.chunks.lock())
    }

    /// A chunk of that size, its content undefined.
    fn take(&self, bytes: usize) -> Option<NonNull<Chunk>> {
        let mut chunks = self.chunks.lock();
        let at = chunks.iter().rposition(|kept| kept.bytes == bytes)?;
        Some(chunks.swap_remove(at).chunk)
    }

    fn give(&self, kept: Kept) {
        let mut chunks = self.chunks.lock();
        // Others are for one large entry.
        let is_usual = kept.bytes.is_power_of_two();
        if is_usual && held(&chunks) + kept.bytes <= self.bytes_max {
            return chunks.push(kept);
        }
        drop(chunks);
        kept.free();
    }
}

fn held(chunks: &[Kept]) -> usize {
    chunks.iter().map(|kept| kept.bytes).sum()
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.chunks.lock().drain(..).for_each(Kept::free);
    }
}

impl Kept {
    /// Fresh memory.
    fn new(layout: Layout) -> Self {
        // SAFETY: the layout is not empty, for it holds the head.
        let Some(chunk) = NonNull::new(unsafe { alloc(layout) }.cast::<Chunk>()) else {
            handle_alloc_error(layout);
        };
        if layout.size() == HUGE_BYTES {
            ask_for_a_huge_page(chunk.cast());
        }
        Kept { chunk, bytes: layout.size() }
    }

    fn free(self) {
        let layout = chunk_layout(self.bytes - size_of::<Chunk>());
        // SAFETY: allocated with this layout, and nobody else has it.
        unsafe { dealloc(self.chunk.as_ptr().cast(), layout) };
    }
}

/// A head and `bytes` behind it. Of the size of a huge page it lies as such.
fn chunk_layout(bytes: usize) -> Layout {
    let bytes = bytes.checked_add(size_of::<Chunk>());
    let layout = bytes.and_then(|bytes| {
        let align = if bytes == HUGE_BYTES { HUGE_BYTES } else { ALIGN };
        Layout::from_size_align(bytes, align).ok()
    });
    layout.expect("an entry fits in memory")
}

/// For a chunk of that size and alignment. Systems without them, or with none left, do nothing.
fn ask_for_a_huge_page(chunk: NonNull<u8>) {
    #[cfg(target_os = "linux")]
    {
        use rustix::mm::{Advice, madvise};
        // SAFETY: the advice changes how the range is backed, nothing in it; and the range is a chunk of ours.
        let _ = unsafe { madvise(chunk.as_ptr().cast(), HUGE_BYTES, Advice::LinuxHugepage) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = chunk;
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Fills each piece with its own byte, and looks for overlaps when all are filled.
    #[test]
    fn pieces_are_aligned_and_apart() {
        let (arena, mut bump) = Arena::new(None);
        let mut pieces = Vec::new();
        let mut sum = 0;
        assert_eq!(arena.used_bytes(), sum);
        for round in 0_usize..3000 {
            let bytes = match round % 100 {
                0 => round * 31,
                1 => 0,
                _ => 1 + round * 7 % 300,
            };
            // SAFETY: the two were made together.
            let memory = unsafe { bump.allocate(&arena, bytes) };
            assert_eq!(memory.as_ptr().addr() % ALIGN, 0);
            // SAFETY: `bytes` bytes were just handed out.
            unsafe { memory.write_bytes(round as u8, bytes) };
            pieces.push((memory, bytes, round as u8));
            sum += bytes.max(1).next_multiple_of(ALIGN);
            assert_eq!(arena.used_bytes(), sum);
        }
        for (memory, bytes, filling) in pieces {
            // SAFETY: handed out and filled above; the arena is alive.
            let piece = unsafe { std::slice::from_raw_parts(memory.as_ptr(), bytes) };
            assert!(piece.iter().all(|&byte| byte == filling));
        }
    }

    #[test]
    fn a_large_piece_leaves_the_current_chunk_in_use() {
        let (arena, mut bump) = Arena::new(None);
        // SAFETY: the two were made together.
        let first = unsafe { bump.allocate(&arena, 32) };
        // SAFETY: the two were made together.
        unsafe { bump.allocate(&arena, 10 * CHUNK_BYTES_MAX) };
        // SAFETY: the two were made together.
        let second = unsafe { bump.allocate(&arena, 32) };
        assert_eq!(second.as_ptr().addr(), first.as_ptr().addr() + 32);
    }

    #[test]
    fn a_pool_that_runs_low_is_stocked_up() {
        for (bytes, stocks_up) in [(64 << 20, true), (8 << 20, false)] {
            let pool = Pool::for_memtables_of(bytes);
            let (arena, mut bump) = Arena::new(Some(Arc::clone(&pool)));
            let (mut asked, mut taken) = (0, 0);
            while arena.used_bytes() < bytes {
                // SAFETY: the two were made together.
                unsafe { bump.allocate(&arena, CHUNK_BYTES_MIN / 4) };
                if pool.runs_low() {
                    assert!(!pool.runs_low(), "once");
                    asked += 1;
                    taken += SPARES - pool.huge_chunks();
                    pool.stock_up();
                    assert_eq!(pool.bytes(), SPARES * HUGE_BYTES);
                }
            }
            let huge = (bytes - USED_BYTES_HUGE) / HUGE_BYTES;
            assert_eq!(asked > 0, stocks_up);
            assert!(!stocks_up || (huge..huge + SPARES + 2).contains(&taken), "{taken}");
        }
    }

    #[test]
    fn a_pool_keeps_all_of_a_memtable() {
        for bytes in [64 << 10, 4 << 20, 16 << 20] {
            let pool = Pool::for_memtables_of(bytes);
            let (arena, mut bump) = Arena::new(Some(Arc::clone(&pool)));
            let mut chunks = 0;
            while arena.used_bytes() < bytes {
                let left = bump.left_bytes;
                // SAFETY: the two were made together.
                unsafe { bump.allocate(&arena, 170) };
                chunks += usize::from(bump.left_bytes > left);
            }
            drop(arena);
            assert_eq!(pool.chunks.lock().len(), chunks, "of {bytes} bytes");
        }
    }

    #[test]
    fn chunks_go_from_one_arena_to_the_next() {
        let pool = Pool::new(3 * CHUNK_BYTES_MIN);
        let chunks = |pool: &Pool| pool.chunks.lock().iter().map(|kept| kept.bytes).collect();
        let fill = || {
            let (arena, mut bump) = Arena::new(Some(Arc::clone(&pool)));
            // A piece with a chunk of its own, and three chunks of the usual sizes.
            for bytes in [5000, 3000, 4000, 4000, 4000, 4000, 4000, 7000, 7000, 7000, 7000, 7000] {
                // SAFETY: the two were made together.
                unsafe { bump.allocate(&arena, bytes).write_bytes(7, bytes) };
            }
            arena
        };
        drop(fill());
        let kept: Vec<usize> = chunks(&pool);
        assert_eq!(kept, [2 * CHUNK_BYTES_MIN, CHUNK_BYTES_MIN], "all that it may keep");
        let again = fill();
        assert_eq!(chunks(&pool), Vec::<usize>::new(), "taken again");
        drop(again);
        assert_eq!(chunks(&pool), kept);
    }
}
