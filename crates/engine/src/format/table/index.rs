//! A table's index in memory: which data block may hold a key. Parsed once when the table is
//! opened, searched by every read.
//!
//! **Layout.** The index block is kept as it is, each entry at a restart point, so that entry `i`
//! is found without a scan. Beside it, for the bytewise order, lie the first eight bytes of each
//! user key past what all of them share, as big-endian integers: most searches touch nothing else
//! until they know the block.
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

pub(crate) struct Index {
    order: InternalOrder,
    block: Block,
    /// What the user keys of all entries begin with.
    common: Vec<u8>,
    /// Empty unless the order is bytewise.
    prefixes: Vec<u64>,
}

impl Index {
    /// Takes the content of an index block; `file_bytes` bounds its handles.
    pub(crate) fn parse(bytes: Vec<u8>, order: &InternalOrder, file_bytes: u64) -> Result<Self> {
        let block = Block::new(bytes)?;
        let (mut entries, mut keys) = (0, Vec::new());
        block.for_each(|key, value| {
            entries += 1;
            keys.push((key.to_vec(), value.to_vec()));
            check_entry(key, value, file_bytes)
        })?;
        // Every known writer puts a restart point at each index entry. Should another not, its
        // index is laid out again.
        let block = if block.restarts() == entries && all_restarts_whole(&block) {
            block
        } else {
            let entries = keys.iter().map(|(key, value)| (&key[..], &value[..]));
            Block::new(BlockBuilder::build(1, entries))?
        };
        let (mut common, mut prefixes) = (Vec::new(), Vec::new());
        if matches!(order.user, UserOrder::Bytewise) {
            let mut users = keys.iter().map(|(key, _)| user_key(key));
            let first = users.next().unwrap_or_default();
            let shared = users.fold(first.len(), |len, user| len.min(common_prefix(first, user)));
            common = first.get(..shared).unwrap_or_default().to_vec();
            let past_common = |key| user_key(key).get(shared..).unwrap_or_default();
            prefixes = keys.iter().map(|(key, _)| prefix(past_common(key))).collect();
        }
        let entries = keys.len();
        debug_assert!(prefixes.is_empty() || prefixes.len() == entries);
        Ok(Index { order: order.clone(), block, common, prefixes })
    }

    /// Count of data blocks.
    pub(crate) fn len(&self) -> usize {
        if self.block.entries_end() == 0 { 0 } else { self.block.restarts() }
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
        let Some(rest) = user.strip_prefix(&self.common[..]) else {
            let at = if user < &self.common[..] { 0 } else { self.len() };
            return (at, at);
        };
        let wanted = prefix(rest);
        let left = self.prefixes.partition_point(|&prefix| prefix < wanted);
        let equal = self.prefixes[left..].partition_point(|&prefix| prefix == wanted);
        (left, left + equal)
    }

    /// The separator of a block.
    pub(crate) fn key(&self, index: usize) -> &[u8] {
        self.block.restart_key(index).unwrap_or_default()
    }

    /// Where the block lies. An error if `index` is not below `len()`.
    #[inline]
    pub(crate) fn handle(&self, index: usize) -> Result<BlockHandle> {
        let entry = self.block.entry_at(self.block.restart(index)).ok_or_else(bad_index)?;
        BlockHandle::decode(&mut Reader::new(self.block.slice(entry.value))).ok_or_else(bad_index)
    }

    /// Memory that it takes.
    pub(crate) fn memory(&self) -> usize {
        self.block.memory() + self.prefixes.capacity() * size_of::<u64>()
    }
}

fn check_entry(key: &[u8], value: &[u8], file_bytes: u64) -> Result<()> {
    let handle = BlockHandle::decode(&mut Reader::new(value)).ok_or_else(bad_index)?;
    if key.len() < TAG_BYTES || handle.end_within(file_bytes).is_none() {
        return Err(bad_index());
    }
    Ok(())
}

fn all_restarts_whole(block: &Block) -> bool {
    let mut at = 0;
    (0..block.restarts()).all(|index| {
        let here = block.restart(index) == at && block.restart_key(index).is_ok();
        at = block.entry_at(at).map_or(usize::MAX, |entry| entry.value.end);
        here
    })
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
