//! Point reads of blocks that the cache will not keep: read, checked and unpacked in the thread's own
//! memory, and only as far as the key lies.
//!
//! **Where entries end.** Only a block's last bytes tell, which may not be unpacked yet. But restart points
//! begin with the offset 0, and so look like an entry without a key, which no table has: there, and
//! wherever else something is strange, the search gives up, and the whole block is searched as ever.

use std::cell::Cell;

use crate::base::key::TAG_BYTES;
use crate::format::table::block::{Entry, Matcher, Side};
use crate::format::table::snappy::Unpacker;

/// Three varint32 are no longer.
const HEADER_BYTES_MAX: usize = 15;
/// Unpacked ahead of what is needed: entries and more, so that few steps are made.
const STEP_BYTES: usize = 384;
/// A thread keeps no larger buffers.
const KEPT_BYTES_MAX: usize = 256 << 10;

/// A thread's memory for one read.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) stored: Vec<u8>,
    pub(super) block: Vec<u8>,
    pub(super) key: Vec<u8>,
}

thread_local! {
    static SCRATCH: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

/// Calls `read` with the thread's memory; within `read` a second call gets other memory.
pub(super) fn with_scratch<R>(read: impl FnOnce(&mut Scratch) -> R) -> R {
    let mut scratch = SCRATCH.take().unwrap_or_default();
    let result = read(&mut scratch);
    for buffer in [&mut scratch.stored, &mut scratch.block, &mut scratch.key] {
        if buffer.capacity() > KEPT_BYTES_MAX {
            *buffer = Vec::new();
        }
    }
    SCRATCH.set(Some(scratch));
    result
}

/// Unpacks into `block` until it finds the first entry not before the matcher's target, whole. `None` if
/// the search must go on in the whole block.
pub(super) fn find(
    unpacker: &mut Unpacker<'_>,
    block: &mut Vec<u8>,
    mut matcher: Matcher<'_>,
) -> Option<Entry> {
    let mut at = 0;
    loop {
        let header = have(unpacker, block, at, HEADER_BYTES_MAX)?;
        let entry = Entry::begun_by(header, at, unpacker.len())?;
        if entry.shared + entry.suffix.len() < TAG_BYTES {
            return None;
        }
        let suffix = have(unpacker, block, entry.suffix.start, entry.suffix.len())?;
        match matcher.look(entry.shared, suffix.get(..entry.suffix.len())?) {
            Side::Before => at = entry.value.end,
            Side::NotBefore => {
                have(unpacker, block, entry.value.start, entry.value.len())?;
                return Some(entry);
            }
            Side::Unclear => return None,
        }
    }
}

/// The unpacked bytes from `at` on: so many, or all there are.
#[inline]
fn have<'a>(
    unpacker: &mut Unpacker<'_>,
    block: &'a mut Vec<u8>,
    at: usize,
    bytes: usize,
) -> Option<&'a [u8]> {
    if at + bytes > block.len() {
        unpacker.unpack_to(block, at + bytes + STEP_BYTES)?;
    }
    block.get(at..)
}
