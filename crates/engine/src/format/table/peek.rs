//! Point reads of blocks that the cache will not keep: read, checked and unpacked in the thread's own
//! memory, and only as far as the key lies.

use std::cell::Cell;

use crate::format::table::key_buf::KeyBuf;

/// A thread keeps no larger buffers.
const KEPT_BYTES_MAX: usize = 256 << 10;

/// A thread's memory for one read.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) stored: Vec<u8>,
    pub(super) block: Vec<u8>,
    pub(super) key: KeyBuf,
}

thread_local! {
    static SCRATCH: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

/// Calls `read` with the thread's memory; within `read` a second call gets other memory.
pub(super) fn with_scratch<R>(read: impl FnOnce(&mut Scratch) -> R) -> R {
    let mut scratch = SCRATCH.take().unwrap_or_default();
    let result = read(&mut scratch);
    for buffer in [&mut scratch.stored, &mut scratch.block] {
        if buffer.capacity() > KEPT_BYTES_MAX {
            *buffer = Vec::new();
        }
    }
    if scratch.key.memory() > KEPT_BYTES_MAX {
        scratch.key = KeyBuf::new();
    }
    SCRATCH.set(Some(scratch));
    result
}
