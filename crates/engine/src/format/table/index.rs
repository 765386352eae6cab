//! A table's index in memory: which data block may hold a key. Parsed once when the table is
//! opened, searched by every read.
//!
//! **Layout.** The index block is kept as it is, each entry at a restart point, so that entry `i`
//! is found without a scan. Beside it lie the handles, and for the bytewise order the first eight bytes
//! of each user key past what all of them share, as big-endian integers: most reads touch nothing else.
//!
//! **Invariants.** `parse` has checked that every key has a tag and every handle ends within the
//! file. The order of keys is checked by `verify` alone; an unsorted index misses, no more.

use crate::base::coding::Reader;
use crate::base::comparator::{InternalOrder, UserOrder};
use crate::base::error::{Error, Result};
use crate::base::key::{TAG_BYTES, user_key};
use crate::format::table::block::Block;
use crate::format::table::block_builder::{BlockBuilder, common_prefix};
use crate::format::table::handle::BlockHandle;

/// An index that has to be laid out anew may unfold to this much and no more: hostile keys that
/// share all their bytes would fill any memory. All known writers make indexes that need it not.
const LAID_OUT_BYTES_MAX: usize = 32 << 20;

pub(crate) struct Index {
    order: InternalOrder,
    block: Block,
    /// What the user keys of all entries begin with.
    common: Vec<u8>,
    /// Empty unless the order is bytewise.
    prefixes: Vec<u64>,
    handles: Vec<BlockHandle>,
}

impl Index {
    /// Takes the content of an index block; `file_bytes` bounds its handles.
    pub(crate) fn parse(bytes: Vec<u8>, order: &InternalOrder, file_bytes: u64) -> Result<Self> {
        let block = Block::new(bytes)?;
        let mut handles = Vec::new();
        let mut first = None;
        let mut shared = 0;
        block.for_each(|key, value| {
            let handle = check_entry(key, value, file_bytes)?;
            let user = user_key(key);
            let first = first.get_or_insert_with(|| user.to_vec());
            let is_first = handles.is_empty();
            shared = if is_first { user.len() } else { shared.min(common_prefix(first, user)) };
            handles.push(handle);
            Ok(())
        })?;
        handles.shrink_to_fit();
        let is_plain = every_entry_restarts(&block, handles.len());
        let block = if is_plain { block } else { lay_out(&block)? };
        let (common, prefixes) = Default::default();
        let mut index = Index { order: order.clone(), block, common, prefixes, handles };
        if matches!(order.user, UserOrder::Bytewise) {
            index.common = first.unwrap_or_default();
            index.common.truncate(shared);
            let past_common = |at| user_key(index.key(at)).get(shared..).unwrap_or_default();
            index.prefixes = (0..index.len()).map(|at| prefix(past_common(at))).collect();
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
        let (mut left, mut right) = match self.order.user {
            UserOrder::Bytewise => self.narrow(user_key(target)),
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

    /// The entries whose prefix is that of `user`: all before are less, all after greater.
    fn narrow(&self, user: &[u8]) -> (usize, usize) {
        let Some(past_common) = user.strip_prefix(&self.common[..]) else {
            let at = if user < &self.common[..] { 0 } else { self.len() };
            return (at, at);
        };
        let wanted = prefix(past_common);
        let left = self.prefixes.partition_point(|&prefix| prefix < wanted);
        let (_, rest) = self.prefixes.split_at(left);
        // Mostly none is equal; and searching again would cost as much as the search before.
        let equal = match rest.first() {
            Some(&first) if first == wanted => rest.partition_point(|&prefix| prefix == wanted),
            _ => 0,
        };
        (left, left + equal)
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

    /// True if an internal key surely lies behind the separator before the block, and before its own.
    /// False if only the keys themselves can tell.
    #[inline]
    pub(crate) fn surely_surround(&self, index: usize, key: &[u8]) -> bool {
        let Some(past_common) = user_key(key).strip_prefix(&self.common[..]) else { return false };
        let wanted = prefix(past_common);
        let is_before = self.prefixes.get(index).is_some_and(|own| wanted < *own);
        is_before && index.checked_sub(1).is_none_or(|before| self.prefixes[before] < wanted)
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

/// The first eight bytes as an integer that orders as they do; missing ones count as zero, so
/// unequal keys may have equal prefixes, and greater keys never lesser ones.
#[inline]
fn prefix(key: &[u8]) -> u64 {
    match key.first_chunk::<8>() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 8];
            bytes.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
            u64::from_be_bytes(bytes)
        }
    }
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
