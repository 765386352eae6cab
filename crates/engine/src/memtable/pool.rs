//! Memory of memtables that are gone, for those to come. To give megabytes back to the system, and to ask for them again,
//! keeps all threads of the process from the map of its memory for milliseconds. So a database's memtables hand their
//! chunks on.
//!
//! **Concurrency.** Writers take, whoever drops a memtable gives, housekeeping stocks up: under a lock for a few instructions.

#![expect(unsafe_code, reason = "raw memory, given and taken as such")]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::base::huge::{self, HUGE_BYTES};
use crate::base::sync::atomic::AtomicBool;
use crate::base::sync::lockless::{AtomicUsize, Ordering::Relaxed};
use crate::base::sync::{Mutex, Rank};
use crate::memtable::skiplist::buckets::Heads;

/// Enough for nodes of pointers and integers.
pub(super) const ALIGN: usize = 8;
/// The first chunk is small, so that a small write buffer wastes little.
pub(super) const CHUNK_BYTES_MIN: usize = 16 << 10;
/// Chunks double up to this size.
pub(super) const CHUNK_BYTES_MAX: usize = 512 << 10;
/// Once an arena has so much, its chunks are huge pages. A search in a large list goes to a dozen places all over it, and
/// with small pages each has the processor look for its page as well. Small arenas do better with memory used before.
const USED_BYTES_HUGE: usize = 8 << 20;
/// Once it has so much, spare ones are made.
const USED_BYTES_SPARES: usize = USED_BYTES_HUGE / 4;
/// So many huge chunks are kept ready for a writer: it takes one in the time that another is made in.
const SPARES: usize = 2;

/// The size of the chunk after one of `bytes`, in an arena that has handed out `used`.
pub(super) fn chunk_after(bytes: usize, used: usize) -> usize {
    if used >= USED_BYTES_HUGE { HUGE_BYTES } else { (2 * bytes).min(CHUNK_BYTES_MAX) }
}

/// Chunks of memtables that are gone, for those to come.
pub(crate) struct Pool {
    chunks: Mutex<Vec<Piece>>,
    bytes_max: usize,
    /// What memtables have.
    lent_bytes: AtomicUsize,
    /// Of a hash table.
    heads: Mutex<Option<Heads>>,
    /// What is kept of either, and how many of the chunks are huge, by the last change: writers ask, and wait for no lock.
    chunk_bytes: AtomicUsize,
    head_bytes: AtomicUsize,
    huge_chunks: AtomicUsize,
    /// There are fewer huge chunks than should be, and nobody was asked for more.
    is_low: AtomicBool,
}

/// Memory with one owner, its content undefined.
pub(super) struct Piece {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a piece has no other owner, on whichever thread.
unsafe impl Send for Piece {}

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
        let [lent_bytes, chunk_bytes, head_bytes, huge_chunks] =
            std::array::from_fn(|_| AtomicUsize::new(0));
        let heads = Mutex::new(Rank::Leaf, None);
        let is_low = AtomicBool::new(false);
        Arc::new(Pool {
            chunks,
            bytes_max,
            lent_bytes,
            heads,
            chunk_bytes,
            head_bytes,
            huge_chunks,
            is_low,
        })
    }

    /// True once after a spare huge chunk was taken, and once before the first will be. To make the pages of one takes a
    /// tenth of a millisecond, and five or more of memory that was never used before: [`stock_up`](Self::stock_up) elsewhere.
    pub(crate) fn runs_low(&self) -> bool {
        self.is_low.load(Relaxed) && self.is_low.swap(false, Relaxed)
    }

    /// Makes huge chunks, and has the system make their pages.
    pub(crate) fn stock_up(&self) {
        while self.huge_chunks() < SPARES {
            let Some(huge) = Piece::huge() else { return };
            // SAFETY: it was just mapped, and is nobody else's.
            unsafe { huge::make_pages(huge.start) };
            self.keep(&mut self.chunks.lock(), huge);
        }
    }

    fn huge_chunks(&self) -> usize {
        self.huge_chunks.load(Relaxed)
    }

    /// Whether memtables are so large that spares are made for them.
    fn is_stocked_up(&self) -> bool {
        self.bytes_max > USED_BYTES_HUGE + SPARES * HUGE_BYTES
    }

    /// Called where an arena that has handed out so much has taken a chunk.
    pub(super) fn watch_spares(&self, used: usize) {
        if self.is_stocked_up() && used >= USED_BYTES_SPARES && self.huge_chunks() < SPARES {
            self.is_low.store(true, Relaxed);
        }
    }

    /// What memtables have, those that are gone included whose memory is kept.
    pub(crate) fn all_bytes(&self) -> usize {
        self.lent_bytes.load(Relaxed) + self.bytes() + self.head_bytes.load(Relaxed)
    }

    /// What is kept at the moment.
    pub(crate) fn bytes(&self) -> usize {
        self.chunk_bytes.load(Relaxed)
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn pieces(&self) -> usize {
        self.chunks.lock().len()
    }

    fn keep(&self, chunks: &mut Vec<Piece>, piece: Piece) {
        chunks.push(piece);
        self.count(chunks);
    }

    fn count(&self, chunks: &[Piece]) {
        self.chunk_bytes.store(held(chunks), Relaxed);
        let huge = chunks.iter().filter(|piece| piece.bytes == HUGE_BYTES).count();
        self.huge_chunks.store(huge, Relaxed);
    }

    /// A chunk of that size, its content undefined: a kept one, or a new one.
    pub(super) fn take(&self, bytes: usize) -> Piece {
        self.lend(self.take_kept(bytes).unwrap_or_else(|| Piece::new(bytes)))
    }

    /// A chunk to fill, of that size or another. Large memtables take a huge one wherever one is ready: others come from the
    /// system, and a writer waits for whoever has the map of memory. With none ready they take smaller ones, whose pages are
    /// made one by one, and not all at the cost of one put.
    pub(super) fn take_chunk(&self, bytes: usize) -> Piece {
        if !self.is_stocked_up() {
            return self.take(bytes);
        }
        match self.take_kept(HUGE_BYTES) {
            Some(huge) => self.lend(huge),
            None => self.take(bytes.min(CHUNK_BYTES_MAX)),
        }
    }

    fn lend(&self, piece: Piece) -> Piece {
        self.lent_bytes.fetch_add(piece.bytes, Relaxed);
        piece
    }

    fn take_kept(&self, bytes: usize) -> Option<Piece> {
        // To wait for who gives some back may take longer than to make another.
        let mut chunks = self.chunks.lock_soon()?;
        let at = chunks.iter().rposition(|piece| piece.bytes == bytes)?;
        let piece = chunks.swap_remove(at);
        self.count(&chunks);
        Some(piece)
    }

    /// Those of a table that is gone, all empty, if some are kept.
    pub(super) fn take_heads(&self) -> Option<Heads> {
        let mut kept = self.heads.lock_soon()?;
        self.head_bytes.store(0, Relaxed);
        kept.take()
    }

    pub(super) fn give_heads(&self, heads: Heads) {
        let old = {
            let mut kept = self.heads.lock();
            self.head_bytes.store(heads.memory(), Relaxed);
            kept.replace(heads)
        };
        drop(old); // Without the lock.
    }

    /// Takes back what was [taken](Self::take).
    pub(super) fn give(&self, piece: Piece) {
        self.lent_bytes.fetch_sub(piece.bytes, Relaxed);
        let mut chunks = self.chunks.lock();
        // Others are for one large entry.
        let is_usual = piece.bytes.is_power_of_two();
        if is_usual && held(&chunks) + piece.bytes <= self.bytes_max {
            self.keep(&mut chunks, piece);
        }
        // Otherwise it is dropped: an argument, it outlives the lock.
    }
}

fn held(chunks: &[Piece]) -> usize {
    chunks.iter().map(|piece| piece.bytes).sum()
}

impl Piece {
    /// Fresh memory, of which one byte at least is asked for.
    pub(super) fn new(bytes: usize) -> Self {
        if bytes == HUGE_BYTES {
            return Self::huge_or_larger(Self::huge());
        }
        let layout = layout(bytes);
        // SAFETY: the layout is not empty.
        let Some(start) = NonNull::new(unsafe { alloc(layout) }) else {
            handle_alloc_error(layout)
        };
        Piece { start, bytes: layout.size() }
    }

    /// Where there is no huge page, as much from the allocator, and a little more: by its size a piece knows whence it came.
    fn huge_or_larger(huge: Option<Self>) -> Self {
        huge.unwrap_or_else(|| Self::new(HUGE_BYTES + ALIGN))
    }

    /// A huge page, if the system has one more map to give.
    fn huge() -> Option<Self> {
        huge::map().map(|start| Piece { start, bytes: HUGE_BYTES })
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The memory, no longer owned.
    pub(super) fn into_start(self) -> NonNull<u8> {
        ManuallyDrop::new(self).start
    }

    /// # Safety
    /// `start` came from [`into_start`](Self::into_start) of a piece of so many bytes, and nobody uses it any more.
    pub(super) unsafe fn from_start(start: NonNull<u8>, bytes: usize) -> Self {
        Piece { start, bytes }
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        // SAFETY: had from there by `new` or `huge`, that long, and nobody else has it.
        unsafe {
            match self.bytes {
                HUGE_BYTES => huge::unmap(self.start),
                bytes => dealloc(self.start.as_ptr(), layout(bytes)),
            }
        }
    }
}

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes.max(1), ALIGN).expect("an entry fits in memory")
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::memtable::arena::Arena;

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
            let huge = (bytes - USED_BYTES_SPARES) / HUGE_BYTES;
            assert_eq!(asked > 0, stocks_up);
            assert!(!stocks_up || (huge..huge + SPARES + 2).contains(&taken), "{taken}");
        }
    }

    /// A system may have no more maps. What comes instead goes back to where it is from, and is not kept as a huge page.
    #[test]
    fn without_a_huge_page_the_allocator_has_as_much() {
        let pool = Pool::for_memtables_of(64 << 20);
        let piece = pool.lend(Piece::huge_or_larger(None));
        assert!(piece.bytes() > HUGE_BYTES);
        // SAFETY: the piece is this long, and nobody else's.
        unsafe { piece.start.write_bytes(1, piece.bytes()) };
        pool.give(piece);
        assert_eq!((pool.huge_chunks(), pool.all_bytes()), (0, 0));
        pool.give(pool.take(HUGE_BYTES));
        assert_eq!((pool.huge_chunks(), pool.bytes()), (1, HUGE_BYTES));
    }

    /// A writer must not wait for the system to make all pages of a huge chunk.
    #[test]
    fn without_a_spare_chunks_are_small() {
        let pool = Pool::for_memtables_of(64 << 20);
        let size_of_next = |bytes| {
            let piece = pool.take_chunk(bytes);
            let taken = piece.bytes();
            pool.give(piece);
            taken
        };
        assert_eq!(size_of_next(HUGE_BYTES), CHUNK_BYTES_MAX);
        assert_eq!(size_of_next(CHUNK_BYTES_MIN), CHUNK_BYTES_MIN);
        let (arena, mut bump) = Arena::new(Some(Arc::clone(&pool)));
        let mut use_bytes = |bytes| {
            let until = arena.used_bytes() + bytes;
            while arena.used_bytes() < until {
                // SAFETY: the two were made together.
                unsafe { bump.allocate(&arena, CHUNK_BYTES_MIN / 4) };
            }
        };
        use_bytes(USED_BYTES_HUGE + HUGE_BYTES);
        pool.stock_up();
        assert_eq!((size_of_next(CHUNK_BYTES_MIN), pool.huge_chunks()), (HUGE_BYTES, SPARES));
        use_bytes(SPARES * HUGE_BYTES);
        assert_eq!(pool.huge_chunks(), 0);
        use_bytes(HUGE_BYTES);
        drop(arena);
        assert_eq!(pool.huge_chunks(), SPARES, "no others were made");
    }

    #[test]
    fn chunks_go_from_one_arena_to_the_next() {
        let pool = Pool::new(3 * CHUNK_BYTES_MIN);
        let chunks = |pool: &Pool| pool.chunks.lock().iter().map(|piece| piece.bytes).collect();
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
