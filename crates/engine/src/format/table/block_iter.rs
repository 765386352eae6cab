//! Moves over one block, both ways. Table iterators keep one and hand it block after block.
//!
//! Going forward allocates nothing: the key is rebuilt in place. Going backward, entries cannot be
//! read from their end, so a restart interval is parsed once and kept while it is walked. Of an
//! interval whose keys would take too much memory only the end is kept, and what lies before is
//! parsed again when it is its turn: a hostile block of 64 KiB may unfold to gigabytes of keys.

use std::ops::Range;
use std::sync::Arc;

use crate::base::comparator::InternalOrder;
use crate::base::error::Result;
use crate::base::iter::InternalIterator;
use crate::base::key::TAG_BYTES;
use crate::format::table::block::{Block, Entry, bad_entry};
use crate::format::table::cache::CachedBlock;

/// Keys of an interval are held up to this size, or at least one.
const HELD_BYTES_MAX: usize = 4 << 20;
/// Keys of shorter intervals take less than that, however they share.
const SHORT_BYTES: usize = 4 << 10;

pub(crate) struct BlockIter {
    order: InternalOrder,
    block: Option<Arc<CachedBlock>>,
    valid: bool,
    /// Where the current entry starts.
    at: usize,
    key: Vec<u8>,
    value: Range<usize>,
    interval: Interval,
}

impl BlockIter {
    /// Over no block yet.
    pub(crate) fn new(order: InternalOrder) -> Self {
        BlockIter {
            order,
            block: None,
            valid: false,
            at: 0,
            key: Vec::new(),
            value: 0..0,
            interval: Interval::default(),
        }
    }

    /// Goes on to another block; not on an entry until the next seek.
    pub(crate) fn set_block(&mut self, block: Arc<CachedBlock>) {
        self.invalidate();
        self.block = Some(block);
    }

    /// Lets go of the block.
    pub(crate) fn take_block(&mut self) -> Option<Arc<CachedBlock>> {
        self.invalidate();
        self.block.take()
    }

    /// As [`Block::check`].
    pub(crate) fn check_block(&self) -> Result<()> {
        self.block.as_deref().map_or(Ok(()), |cached| cached.block.check())
    }

    fn invalidate(&mut self) {
        self.valid = false;
        self.interval.clear();
    }

    /// Moves to the entry that starts at `at`, whose predecessor's key is in `self.key`.
    #[inline]
    fn step_to(&mut self, at: usize) -> Result<()> {
        self.valid = false;
        let Some(CachedBlock { block, .. }) = self.block.as_deref() else { return Ok(()) };
        if at >= block.entries_end() {
            return Ok(());
        }
        let entry = block.entry_at(at).ok_or_else(bad_entry)?;
        block.rebuild_key(&entry, &mut self.key)?;
        self.at = at;
        self.value = entry.value;
        self.valid = true;
        Ok(())
    }

    /// Moves to the last entry that starts before `until`.
    fn step_before(&mut self, until: usize) -> Result<()> {
        self.invalidate();
        let Some(CachedBlock { block, .. }) = self.block.as_deref() else { return Ok(()) };
        let Some(start) = last_restart_before(block, until) else { return Ok(()) };
        if let Err(error) = self.interval.parse(block, start, until) {
            self.interval.clear();
            return Err(error);
        }
        self.step_back();
        Ok(())
    }

    /// Moves to the entry before within the parsed interval; false if there is none.
    fn step_back(&mut self) -> bool {
        let Some((parsed, key)) = self.interval.pop() else { return false };
        self.key.clear();
        self.key.extend_from_slice(key);
        self.at = parsed.at;
        self.value = parsed.value;
        self.valid = true;
        true
    }
}

impl InternalIterator for BlockIter {
    #[inline]
    fn valid(&self) -> bool {
        self.valid
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.invalidate();
        self.key.clear();
        self.step_to(0)
    }

    fn seek_to_last(&mut self) -> Result<()> {
        let end = self.block.as_deref().map_or(0, |cached| cached.block.entries_end());
        self.step_before(end)
    }

    fn seek(&mut self, target: &[u8]) -> Result<()> {
        self.invalidate();
        let Some(cached) = self.block.as_deref() else { return Ok(()) };
        if let Some((at, entry)) = cached.find(&self.order, target, &mut self.key)? {
            self.at = at;
            self.value = entry.value;
            self.valid = true;
        }
        Ok(())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        debug_assert!(self.valid);
        self.interval.clear();
        self.step_to(self.value.end)
    }

    fn prev(&mut self) -> Result<()> {
        debug_assert!(self.valid);
        if self.step_back() {
            return Ok(());
        }
        self.step_before(self.at)
    }

    #[inline]
    fn key(&self) -> &[u8] {
        &self.key
    }

    #[inline]
    fn value(&self) -> &[u8] {
        let block = self.block.as_deref();
        block.map_or(&[], |cached| cached.block.slice(self.value.clone()))
    }
}

/// The restart point to parse from for entries before `until`.
fn last_restart_before(block: &Block, until: usize) -> Option<usize> {
    let (mut left, mut right) = (0, block.restarts());
    while left < right {
        let middle = left + (right - left) / 2;
        if block.restart(middle) < until {
            left = middle + 1;
        } else {
            right = middle;
        }
    }
    left.checked_sub(1).map(|index| block.restart(index))
}

/// Entries of one restart interval, parsed, as a stack: the next one going backward is on top.
#[derive(Default)]
struct Interval {
    entries: Vec<Parsed>,
    keys: Vec<u8>,
}

struct Parsed {
    at: usize,
    /// Within the interval's keys.
    key: Range<usize>,
    value: Range<usize>,
}

impl Interval {
    #[inline]
    fn clear(&mut self) {
        self.entries.clear();
        self.keys.clear();
    }

    /// Holds the entries from `start` to `until`, or as many of the last ones as memory admits.
    fn parse(&mut self, block: &Block, start: usize, until: usize) -> Result<()> {
        let mut at = start;
        if until.saturating_sub(start) > SHORT_BYTES {
            at = self.skip_excess(block, start, until)?;
        }
        while at < until {
            let Entry { shared, suffix, value } = block.entry_at(at).ok_or_else(bad_entry)?;
            let before = self.entries.last().map_or(0..0, |parsed| parsed.key.clone());
            if shared > before.len() || shared + suffix.len() < TAG_BYTES {
                return Err(bad_entry());
            }
            let key_at = self.keys.len();
            self.keys.extend_from_within(before.start..before.start + shared);
            self.keys.extend_from_slice(block.slice(suffix));
            let next = value.end;
            self.entries.push(Parsed { at, key: key_at..self.keys.len(), value });
            at = next;
        }
        Ok(())
    }

    /// Passes over the entries that there is no memory for, holds the last of them, whose key the
    /// next one is built on, and returns where that one starts; `start` if there is room for all.
    fn skip_excess(&mut self, block: &Block, start: usize, until: usize) -> Result<usize> {
        let (mut at, mut key_bytes, mut held_bytes) = (start, 0, 0usize);
        while at < until {
            let entry = block.entry_at(at).ok_or_else(bad_entry)?;
            if entry.shared > key_bytes {
                return Err(bad_entry());
            }
            key_bytes = entry.shared + entry.suffix.len();
            held_bytes = held_bytes.saturating_add(key_bytes + size_of::<Parsed>());
            at = entry.value.end;
        }
        let mut excess = held_bytes.saturating_sub(HELD_BYTES_MAX);
        at = start;
        while excess > 0 && at < until {
            let entry = block.entry_at(at).ok_or_else(bad_entry)?;
            block.rebuild_key(&entry, &mut self.keys)?;
            excess = excess.saturating_sub(self.keys.len() + size_of::<Parsed>());
            let next = entry.value.end;
            if excess == 0 {
                self.entries.push(Parsed { at, key: 0..self.keys.len(), value: entry.value });
            }
            at = next;
        }
        Ok(at)
    }

    fn pop(&mut self) -> Option<(Parsed, &[u8])> {
        let parsed = self.entries.pop()?;
        let key = self.keys.get(parsed.key.clone()).unwrap_or_default();
        Some((parsed, key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::comparator::UserOrder;
    use crate::base::key::{InternalKey, SeqNo, ValueKind};
    use crate::format::table::block_builder::BlockBuilder;

    /// The keys of this block take 600 MiB when each stands for itself.
    #[test]
    fn a_small_block_of_long_shared_keys_is_walked_back_in_little_memory() {
        let key = |seqno| {
            let key = InternalKey::new(&[b'k'; 300 << 10], SeqNo(seqno), ValueKind::Value);
            key.as_bytes().to_vec()
        };
        let seqnos = || (1..=2000).rev();
        let mut builder = BlockBuilder::new(usize::MAX);
        seqnos().for_each(|seqno| builder.add(&key(seqno), b""));
        let bytes = builder.finish().to_vec();
        assert!(bytes.len() < 350 << 10);

        let mut iter = BlockIter::new(InternalOrder::new(UserOrder::Bytewise));
        iter.set_block(Arc::new(CachedBlock::new(Block::new(bytes).unwrap())));
        iter.seek_to_last().unwrap();
        for seqno in seqnos().rev() {
            assert!(iter.valid() && iter.key() == key(seqno), "entry {seqno}");
            assert!(iter.interval.keys.capacity() <= 4 * HELD_BYTES_MAX);
            iter.prev().unwrap();
        }
        assert!(!iter.valid());
    }
}
