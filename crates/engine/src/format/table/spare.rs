//! Memory of blocks that are gone, kept for blocks to come. A read that misses the cache mostly
//! pushes a block out of it, of about the size that it needs: taking that memory over spares an
//! allocation, and clearing what is overwritten anyway.

use std::cell::RefCell;

use crate::base::sync::thread_local;

/// Buffers kept by each thread, and the size of the largest worth keeping.
const BUFFERS_MAX: usize = 8;
const BUFFER_BYTES_MAX: usize = 64 << 10;

/// Sizes are multiples of it, so that blocks of about the same size fit in each other's memory.
const GRAIN_BYTES: usize = 128;
/// What a buffer may have more than a block's bytes to stay with it.
const LOOSE_BYTES: usize = 3 * GRAIN_BYTES;

thread_local! {
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// A buffer with any content, possibly none.
pub(super) fn take() -> Vec<u8> {
    SPARE.with(|spare| spare.borrow_mut().pop()).unwrap_or_default()
}

/// As [`take`], or what `other` has if this thread has none.
pub(super) fn take_or(other: impl FnOnce() -> Vec<u8>) -> Vec<u8> {
    SPARE.with(|spare| spare.borrow_mut().pop()).unwrap_or_else(other)
}

/// Empties a buffer that is to hold so many bytes. One that is too small is not made larger but anew: a vector grows to twice
/// its size, and the cache would hold as many blocks less.
pub(super) fn make_room(buffer: &mut Vec<u8>, bytes: usize) {
    buffer.clear();
    if buffer.capacity() < bytes {
        *buffer = Vec::with_capacity(bytes.next_multiple_of(GRAIN_BYTES));
    }
}

/// For a block that stays: the cache counts the memory that it holds, and a spare buffer may be far too large. A little is
/// left, for who unpacks a block of the same size into it later writes behind the end.
pub(super) fn fit(buffer: Vec<u8>) -> Vec<u8> {
    if buffer.capacity() <= buffer.len() + LOOSE_BYTES {
        return buffer;
    }
    let mut fitting = Vec::new();
    make_room(&mut fitting, buffer.len() + GRAIN_BYTES);
    fitting.extend_from_slice(&buffer);
    give(buffer);
    fitting
}

/// Keeps a buffer for [`take`].
pub(super) fn give(buffer: Vec<u8>) {
    if buffer.capacity() == 0 || buffer.capacity() > BUFFER_BYTES_MAX {
        return;
    }
    // A thread that is ending has no place for it any more.
    let _ = SPARE.try_with(|spare| {
        let mut spare = spare.borrow_mut();
        if spare.len() < BUFFERS_MAX {
            spare.push(buffer);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_buffer_does_not_grow_to_twice_its_size() {
        let mut buffer = Vec::with_capacity(4200);
        buffer.push(1);
        make_room(&mut buffer, 4200);
        assert_eq!((buffer.len(), buffer.capacity()), (0, 4200), "it has the room");
        make_room(&mut buffer, 4201);
        assert!((4201..4201 + 2 * GRAIN_BYTES).contains(&buffer.capacity()), "{buffer:?}");
    }

    #[test]
    fn what_stays_takes_little_more_than_it_needs() {
        while take().capacity() > 0 {}
        for (len, capacity) in [(4096, 4096), (4096, 4400), (4096, 4500), (4096, 9000), (1, 4096)] {
            let mut buffer = Vec::with_capacity(capacity);
            buffer.resize(len, 7);
            let fitting = fit(buffer);
            assert_eq!(fitting, vec![7; len]);
            assert!(fitting.capacity() <= len + LOOSE_BYTES, "{len} {capacity}");
            let is_tight = capacity <= len + LOOSE_BYTES;
            let spared = take().capacity();
            assert_eq!(spared, if is_tight { 0 } else { capacity }, "what was too large is spared");
        }
    }

    #[test]
    fn keeps_a_few_of_moderate_size() {
        while take().capacity() > 0 {}
        for _ in 0..BUFFERS_MAX + 3 {
            give(vec![1; 4096]);
        }
        give(vec![1; BUFFER_BYTES_MAX + 1]);
        for _ in 0..BUFFERS_MAX {
            assert_eq!(take().len(), 4096);
        }
        assert_eq!(take().capacity(), 0);
    }
}
