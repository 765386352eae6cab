//! A table's index in memory: which data block may hold a key. Parsed once when the table is
//! opened, searched by every read.
//!
//! **Layout.** The index block is kept as it is, each entry at a restart point, so that entry `i`
//! is found without a scan. Beside it lie the handles, and for the bytewise order the keys'
//! [`Fences`]: most reads touch nothing else.
//!
//! **Invariants.** `parse` has checked that every key has a tag and every handle ends within the
//! file. The order of keys is checked by `verify` alone; an unsorted index misses, no more.

use std::ops::Range;

use crate::base::coding::Reader;
use crate::base::comparator::{InternalOrder, UserOrder};
use crate::base::error::{Error, Result};
use crate::base::fences::Fences;
use crate::base::key::{TAG_BYTES, user_key};
use crate::base::prefetch::prefetch_span;
use crate::format::table::block::Block;
use crate::format::table::block_builder::BlockBuilder;
use crate::format::table::handle::BlockHandle;

/// An index that has to be laid out anew may unfold to this much and no more: hostile keys that
/// share all their bytes would fill any memory. All known writers make indexes that need it not.
const LAID_OUT_BYTES_MAX: usize = 32 << 20;

pub(crate) struct Index {
    order: InternalOrder,
    block: Block,
    /// The user keys of all entries but the last, which writers shorten until it shares nothing with the others.
    /// Empty unless the order is bytewise.
    fences: Fences,
    handles: Vec<BlockHandle>,
}

impl Index {
    /// Takes the content of an index block; `file_bytes` bounds its handles.
    pub(crate) fn parse(bytes: Vec<u8>, order: &InternalOrder, file_bytes: u64) -> Result<Self> {
        let block = Block::new(bytes)?;
        let mut handles = Vec::new();
        block.for_each(|key, value| {
            handles.push(check_entry(key, value, file_bytes)?);
            Ok(())
        })?;
        handles.shrink_to_fit();
        let is_plain = every_entry_restarts(&block, handles.len());
        let block = if is_plain { block } else { lay_out(&block)? };
        let fences = Fences::default();
        let mut index = Index { order: order.clone(), block, fences, handles };
        if matches!(order.user, UserOrder::Bytewise) {
            let but_last = 0..index.len().saturating_sub(1);
            index.fences = Fences::new(but_last.map(|at| user_key(index.key(at))));
        }
        Ok(index)
    }

    /// Count of data blocks.
    pub(crate) fn len(&self) -> usize {
        self.handles.len()
    }

    /// The first block whose separator is not less than `target`: the only one where the first
    /// entry not less than `target` may lie, unless it is the next block's first. `len()` if none.
    #[inline]
    pub(crate) fn find(&self, target: &[u8]) -> usize {
        self.find_after(target, |_| {})
    }

    /// As [`find`](Self::find). Calls `hint` in between, in the bytewise order, with a few blocks of which it is most likely one.
    #[inline]
    pub(crate) fn find_after(&self, target: &[u8], hint: impl FnOnce(Range<usize>)) -> usize {
        let (mut left, mut right) = match self.order.user {
            UserOrder::Bytewise => {
                let around = self.fences.around_after(user_key(target), hint);
                let may_be_last = around.end == self.fences.len();
                (around.start, if may_be_last { self.len() } else { around.end })
            }
            UserOrder::Custom(_) => (0, self.len()),
        };
        while left < right {
            let middle = left + (right - left) / 2;
            if self.order.compare(self.key(middle), target).is_lt() {
                left = middle + 1;
            } else {
                right = middle;
            }
        }
        left
    }

    /// The separator of a block.
    pub(crate) fn key(&self, index: usize) -> &[u8] {
        self.block.restart_key(index).unwrap_or_default()
    }

    /// Where the block lies. An error if `index` is not below `len()`.
    #[inline]
    pub(crate) fn handle(&self, index: usize) -> Result<BlockHandle> {
        self.handles.get(index).copied().ok_or_else(bad_index)
    }

    /// Asks for the handles of blocks, so that they are near when one is wanted.
    #[inline]
    pub(crate) fn hint_handles(&self, blocks: Range<usize>) {
        let first = self.handles.as_ptr().wrapping_add(blocks.start);
        prefetch_span(first.cast(), blocks.len() * size_of::<BlockHandle>());
    }

    /// Of so many bytes from a block's beginning on, those that are of whole blocks.
    pub(crate) fn whole_blocks(&self, index: usize, bytes: usize) -> Option<usize> {
        let rest = self.handles.get(index..)?;
        let start = rest.first()?.offset;
        // One by one: neighbours lie in one line of the processor's cache, where a search would miss it often.
        let ends = rest.iter().map_while(|handle| handle.end().checked_sub(start));
        let last = ends.take_while(|end| *end <= bytes as u64).last()?;
        usize::try_from(last).ok()
    }

    /// How many bytes so many blocks take that follow each other, from the beginning of the one at `index` on; fewer blocks where
    /// the table ends.
    pub(crate) fn bytes_of(&self, index: usize, blocks: usize) -> Option<usize> {
        let last = (index + blocks).min(self.handles.len()).checked_sub(1)?;
        let start = self.handles.get(index)?.offset;
        usize::try_from(self.handles.get(last)?.end().checked_sub(start)?).ok()
    }

    /// True if an internal key surely lies behind the separator before the block, and before its own.
    /// False if only the keys themselves can tell.
    #[inline]
    pub(crate) fn surely_surround(&self, index: usize, key: &[u8]) -> bool {
        self.fences.surely_between(index, user_key(key))
    }
}

fn check_entry(key: &[u8], value: &[u8], file_bytes: u64) -> Result<BlockHandle> {
    let handle = BlockHandle::decode(&mut Reader::new(value)).ok_or_else(bad_index)?;
    if key.len() < TAG_BYTES || handle.end_within(file_bytes).is_none() {
        return Err(bad_index());
    }
    Ok(handle)
}

/// As every known writer has it.
fn every_entry_restarts(block: &Block, entries: usize) -> bool {
    let mut at = 0;
    block.restarts() == entries
        && (0..entries).all(|index| {
            let here = block.restart(index) == at && block.restart_key(index).is_ok();
            at = block.entry_at(at).map_or(usize::MAX, |entry| entry.value.end);
            here
        })
}

/// The same entries, each with a restart point.
fn lay_out(block: &Block) -> Result<Block> {
    let mut builder = BlockBuilder::new(1);
    block.for_each(|key, value| {
        if builder.estimated_bytes() + key.len() > LAID_OUT_BYTES_MAX {
            return Err(bad_index());
        }
        builder.add(key, value);
        Ok(())
    })?;
    Block::new(builder.finish().to_vec())
}

#[cold]
fn bad_index() -> Error {
    Error::corruption("bad entry in index block")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 140 KiB that would take 640 MiB with every key in full.
    #[test]
    fn an_index_that_would_unfold_to_fill_memory_is_refused() {
        let mut builder = BlockBuilder::new(usize::MAX);
        let key = [b'k'; 64 << 10];
        (0..10_000).for_each(|_| builder.add(&key, b"\0\x01"));
        let order = InternalOrder::new(UserOrder::Bytewise);
        let bytes = builder.finish().to_vec();
        assert!(bytes.len() < 140 << 10);
        assert!(Index::parse(bytes, &order, 1 << 20).is_err_and(|error| error.is_corruption()));

        // A small one in the same layout is read.
        let mut builder = BlockBuilder::new(usize::MAX);
        (0..10).for_each(|_| builder.add(&key, b"\0\x01"));
        let index = Index::parse(builder.finish().to_vec(), &order, 1 << 20).unwrap();
        assert_eq!((index.len(), index.find(&key)), (10, 0));
    }
}
