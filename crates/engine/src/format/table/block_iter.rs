//! Moves over one block, both ways. Table iterators keep one and hand it block after block.
//!
//! Going forward allocates nothing: the key is rebuilt in place. Going backward, entries cannot be
//! read from their end, so a restart interval is parsed once and kept while it is walked.

use std::ops::Range;
use std::sync::Arc;

use crate::base::comparator::InternalOrder;
use crate::base::error::Result;
use crate::base::iter::InternalIterator;
use crate::base::key::TAG_BYTES;
use crate::format::table::block::{Block, Entry, bad_entry};
use crate::format::table::cache::CachedBlock;

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

    fn invalidate(&mut self) {
        self.valid = false;
        self.interval.clear();
    }

    /// Moves to the entry that starts at `at`, whose predecessor's key is in `self.key`.
    #[inline]
    fn step_to(&mut self, at: usize) -> Result<()> {
        self.valid = false;
        let Some(CachedBlock { block }) = self.block.as_deref() else { return Ok(()) };
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
        let Some(CachedBlock { block }) = self.block.as_deref() else { return Ok(()) };
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
        let Some(CachedBlock { block }) = self.block.as_deref() else { return Ok(()) };
        if let Some((at, entry)) = block.find(&self.order, target, &mut self.key)? {
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

    fn parse(&mut self, block: &Block, start: usize, until: usize) -> Result<()> {
        let mut at = start;
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

    fn pop(&mut self) -> Option<(Parsed, &[u8])> {
        let parsed = self.entries.pop()?;
        let key = self.keys.get(parsed.key.clone()).unwrap_or_default();
        Some((parsed, key))
    }
}
