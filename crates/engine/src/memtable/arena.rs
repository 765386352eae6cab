//! The memory of one memtable: chunks that only grow in number, freed together or left to a [`Pool`]. The skip list
//! allocates its nodes here.
//!
//! **Invariants.**
//! - I1: memory handed out is aligned to [`Arena::ALIGN`], overlaps nothing handed out before, and stays
//!   where it is until the [`Arena`] is dropped.
//! - I2: every chunk is on the list that starts at `newest`.
//!
//! **Concurrency.** There is one [`Bump`] per arena, and allocating takes it by `&mut`: so one
//! thread allocates at a time, without a lock. Any thread may ask for the size.

#![expect(unsafe_code, reason = "raw memory for nodes whose size is known only at run time")]

use std::ptr::NonNull;
use std::sync::Arc;

use crate::base::prefetch::prefetch_behind;
use crate::base::sync::lockless::{AtomicPtr, AtomicUsize, Ordering::Relaxed};
use crate::memtable::pool::{self, CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, Piece, Pool, chunk_after};

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

const _: () =
    assert!(align_of::<Chunk>() == pool::ALIGN && size_of::<Chunk>().is_multiple_of(pool::ALIGN));

impl Arena {
    /// What all memory is aligned to.
    pub(super) const ALIGN: usize = pool::ALIGN;

    pub(super) fn new(pool: Option<Arc<Pool>>) -> (Self, Bump) {
        let newest = AtomicPtr::new(std::ptr::null_mut());
        let arena = Arena { pool, newest, used_bytes: AtomicUsize::new(0) };
        let bump =
            Bump { at: std::ptr::null_mut(), left_bytes: 0, next_chunk_bytes: CHUNK_BYTES_MIN };
        (arena, bump)
    }

    pub(super) fn pool(&self) -> Option<&Arc<Pool>> {
        self.pool.as_ref()
    }

    /// The bytes handed out, rounded up to the alignment. The unused end of a chunk does not count:
    /// the write buffer is then used up in entries, not in steps of a chunk.
    pub(super) fn used_bytes(&self) -> usize {
        self.used_bytes.load(Relaxed)
    }

    /// The memory of a chunk of its own, uninitialised.
    fn grow(&self, bytes: usize) -> NonNull<u8> {
        let whole = bytes.checked_add(size_of::<Chunk>()).expect("an entry fits in memory");
        self.hold(match &self.pool {
            Some(pool) => pool.take(whole),
            None => Piece::new(whole),
        })
    }

    /// Makes the piece a chunk, and returns its memory behind the head.
    fn hold(&self, piece: Piece) -> NonNull<u8> {
        let bytes = piece.bytes() - size_of::<Chunk>();
        let chunk = piece.into_start().cast::<Chunk>();
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
        let bytes =
            bytes.max(1).checked_next_multiple_of(pool::ALIGN).expect("an entry fits in memory");
        // One allocating thread: a plain store of the sum does, no atomic addition.
        arena.used_bytes.store(arena.used_bytes.load(Relaxed) + bytes, Relaxed);
        if bytes > self.left_bytes {
            return self.allocate_slowly(arena, bytes);
        }
        let memory = self.at;
        self.left_bytes -= bytes;
        // SAFETY: at least `bytes` bytes are left in the chunk behind `at`, which the arena keeps.
        self.at = unsafe { self.at.add(bytes) };
        prefetch_behind(self.at);
        NonNull::new(memory).expect("with bytes left there is a chunk")
    }

    #[cold]
    fn allocate_slowly(&mut self, arena: &Arena, bytes: usize) -> NonNull<u8> {
        // A large entry gets a chunk of its own, and the rest of the current one stays in use. The others fit into whatever comes: where
        // a huge chunk is due and none is ready, it is one of these.
        if bytes > self.next_chunk_bytes.min(CHUNK_BYTES_MAX) / 4 {
            return arena.grow(bytes);
        }
        let piece = match &arena.pool {
            Some(pool) => pool.take_chunk(self.next_chunk_bytes),
            None => Piece::new(self.next_chunk_bytes),
        };
        let chunk_bytes = piece.bytes() - size_of::<Chunk>();
        let memory = arena.hold(piece);
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

impl Drop for Arena {
    fn drop(&mut self) {
        let mut next = self.newest.load(Relaxed);
        while let Some(chunk) = NonNull::new(next) {
            // SAFETY: by I2 this is a chunk that `grow` wrote, and each is visited once.
            let Chunk { older, bytes } = unsafe { chunk.read() };
            // SAFETY: by I2 `grow` has taken it out of a piece of that size, head included; `&mut self` says that no one
            // uses it.
            let piece = unsafe { Piece::from_start(chunk.cast(), bytes + size_of::<Chunk>()) };
            match &self.pool {
                Some(pool) => pool.give(piece),
                None => drop(piece),
            }
            next = older;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const ALIGN: usize = Arena::ALIGN;

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

    /// Once an arena wants huge chunks, and none is ready, it gets smaller ones.
    #[test]
    fn an_entry_as_large_as_the_chunk_at_hand_gets_its_own() {
        let pool = Pool::for_memtables_of(64 << 20);
        for less in 0..3 * size_of::<Chunk>() {
            let (arena, mut bump) = Arena::new(Some(Arc::clone(&pool)));
            let mut allocate = |bytes| {
                // SAFETY: the two were made together.
                let memory = unsafe { bump.allocate(&arena, bytes) };
                // SAFETY: `bytes` bytes were just handed out.
                unsafe { memory.write_bytes(1, bytes) };
                bump.left_bytes
            };
            while arena.used_bytes() <= 9 << 20 {
                allocate(CHUNK_BYTES_MIN / 4);
            }
            assert!(allocate(CHUNK_BYTES_MAX - less) < CHUNK_BYTES_MAX);
        }
    }

    #[test]
    fn a_pool_keeps_all_chunks_of_a_memtable() {
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
            assert_eq!(pool.pieces(), chunks, "of {bytes} bytes");
        }
    }
}
