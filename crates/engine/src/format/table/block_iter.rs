//! Moves over one block, both ways. Table iterators keep one and hand it block after block.
//!
//! Going forward allocates nothing: the key is rebuilt in place. Going backward, entries cannot be
//! read from their end, so a restart interval is parsed once and kept while it is walked.

use std::ops::Range;
use std::sync::Arc;

use crate::base::comparator::InternalOrder;
use crate::base::error::Result;
use crate::base::iter::InternalIterator;
use crate::base::key::KeyHead;
use crate::base::prefetch::{CACHE_LINE_BYTES, prefetch, prefetch_span};
use crate::format::table::block::{Block, bad_entry, rebuild_key, set_key};
use crate::format::table::cache::CachedBlock;
use crate::format::table::interval::Interval;
use crate::format::table::key_buf::KeyBuf;
use crate::format::table::matcher::Matcher;
use crate::format::table::partial::PartialBlock;
use crate::format::table::stride::{Answers, Stride};

/// A length that takes a byte is less.
const PLAIN_BYTES: u8 = 0x80;
/// A header of three such lengths.
const HEADER_BYTES_MIN: usize = 3;

/// A scan asks for what lies so far ahead: some seven usual entries, for a step takes a seventh of a miss.
const HINTED_BYTES: usize = 896;
/// A usual entry.
const FOUND_BYTES: usize = 128;

pub(crate) struct BlockIter {
    order: InternalOrder,
    block: Held,
    valid: bool,
    /// Where the current entry starts.
    at: usize,
    key: KeyBuf,
    value: Range<usize>,
    /// None until the first step back.
    interval: Option<Box<Interval>>,
}

/// What an iterator goes over. Partial blocks are boxed, as intervals are, for iterators are made all the time, and most
/// of them go over whole ones, and forward.
enum Held {
    Nothing,
    Whole(Arc<CachedBlock>),
    Partial(Box<PartialBlock>),
}

impl BlockIter {
    /// Over no block yet.
    pub(crate) fn new(order: InternalOrder) -> Self {
        BlockIter {
            order,
            block: Held::Nothing,
            valid: false,
            at: 0,
            key: KeyBuf::new(),
            value: 0..0,
            interval: None,
        }
    }

    /// Goes on to another block; not on an entry until the next seek.
    pub(crate) fn set_block(&mut self, block: Arc<CachedBlock>) {
        self.invalidate();
        self.block = Held::Whole(block);
    }

    /// As [`set_block`](Self::set_block), to one that is unpacked as far as this comes. In the bytewise order only.
    pub(super) fn set_partial(&mut self, block: PartialBlock) {
        self.invalidate();
        self.block = Held::Partial(Box::new(block));
    }

    pub(super) fn has_block(&self) -> bool {
        !matches!(self.block, Held::Nothing)
    }

    /// Lets go of the block. Returns what a partial one was lent.
    pub(crate) fn take_block(&mut self) -> Vec<u8> {
        self.invalidate();
        match std::mem::replace(&mut self.block, Held::Nothing) {
            Held::Partial(mut partial) => partial.take_stored(),
            Held::Whole(_) | Held::Nothing => Vec::new(),
        }
    }

    /// As [`Block::check`].
    pub(crate) fn check_block(&mut self) -> Result<()> {
        self.whole()?.map_or(Ok(()), Block::check)
    }

    fn invalidate(&mut self) {
        self.valid = false;
        self.forget_interval();
    }

    #[inline]
    fn forget_interval(&mut self) {
        if let Some(interval) = &mut self.interval {
            interval.clear();
        }
    }

    /// The block, if there is one, unpacked to its end. Entries stay where they are.
    #[inline]
    fn whole(&mut self) -> Result<Option<&Block>> {
        if matches!(&self.block, Held::Partial(partial) if partial.whole().is_none()) {
            self.complete()?;
        }
        Ok(self.block.whole())
    }

    /// A broken block is let go of: to seek again is to read it again.
    #[inline(never)]
    fn complete(&mut self) -> Result<()> {
        if let Held::Partial(mut partial) = std::mem::replace(&mut self.block, Held::Nothing) {
            partial.complete()?;
            self.block = Held::Partial(partial);
        }
        Ok(())
    }

    /// Moves to the entry that starts at `at`, whose predecessor's key is in `self.key`.
    #[inline(never)]
    fn step_to(&mut self, at: usize) -> Result<()> {
        self.valid = false;
        if let Held::Partial(partial) = &mut self.block {
            if let Some(entry) = partial.entry_at(at) {
                rebuild_key(&mut self.key, &entry, partial.from(entry.suffix.start))?;
                self.stand_on(at, entry.value);
                return Ok(());
            }
            self.whole()?;
        }
        let Some(block) = self.block.whole().filter(|block| at < block.entries_end()) else {
            return Ok(());
        };
        let entry = block.entry_at(at).ok_or_else(bad_entry)?;
        // This one's value is long, or it is the block's first.
        block.hint_entries(entry.value.end, entry.value.end - at);
        block.rebuild_key(&entry, &mut self.key)?;
        self.stand_on(at, entry.value);
        Ok(())
    }

    /// Moves to the next entry if it has nothing strange and is at hand; else false. Most steps are such ones.
    #[inline(always)]
    fn step_at_hand(&mut self, head: &mut KeyHead, is_bytewise: bool) -> bool {
        let at = self.value.end;
        let Some(entry) = self.block.at_hand().get(at..) else { return false };
        let [shared, suffix, value, rest @ ..] = entry else { return false };
        let is_plain = (shared | suffix | value) < PLAIN_BYTES;
        if is_plain {
            hint_ahead(entry);
        }
        let (shared, suffix, value) =
            (usize::from(*shared), usize::from(*suffix), usize::from(*value));
        let Some(piece) = rest.first_chunk() else { return false };
        if !is_plain
            || suffix + value > rest.len()
            // A suffix of a whole tag, so that restart points, which a partial block does not know, are no entries.
            || !head.rebuild(shared, (piece, suffix), is_bytewise)
            || !self.key.rebuild_of_piece(shared, piece, suffix)
        {
            return false;
        }
        let value_at = at + HEADER_BYTES_MIN + suffix;
        self.stand_on(at, value_at..value_at + value);
        true
    }

    /// How long the current entry is, or the last one of the block before.
    #[inline]
    pub(super) fn entry_bytes(&self) -> usize {
        self.value.end.saturating_sub(self.at)
    }

    #[inline]
    fn stand_on(&mut self, at: usize, value: Range<usize>) {
        self.at = at;
        self.value = value;
        self.valid = true;
    }

    /// Moves to the last entry that starts before `until`.
    #[inline(never)]
    fn step_before(&mut self, until: usize) -> Result<()> {
        self.invalidate();
        self.whole()?;
        let Some(block) = self.block.whole() else { return Ok(()) };
        let Some(start) = block.last_restart_before(until) else { return Ok(()) };
        let interval = self.interval.get_or_insert_default();
        if let Err(error) = interval.parse(block, start, until) {
            interval.clear();
            return Err(error);
        }
        self.step_back();
        Ok(())
    }

    /// Moves to the entry before within the parsed interval; false if there is none.
    #[inline]
    fn step_back(&mut self) -> bool {
        let Some(interval) = &mut self.interval else { return false };
        let Some((at, value)) = interval.pop(&mut self.key) else { return false };
        self.stand_on(at, value);
        true
    }

    /// To the last of the entries behind this one that `stride` can take; false if there are none.
    pub(super) fn run_forward(&mut self, stride: &mut Stride, answers: &Answers) -> bool {
        debug_assert!(self.valid);
        self.forget_interval();
        let Held::Whole(block) = &self.block else { return false };
        let filled = stride.fill_forward(block, self.value.end, &mut self.key, answers);
        let Some((at, value)) = filled else { return false };
        self.stand_on(at, value);
        true
    }

    /// To the first of the entries before this one that `stride` can take; false if there are none.
    pub(super) fn run_backward(&mut self, stride: &mut Stride, answers: &Answers) -> bool {
        debug_assert!(self.valid);
        let Held::Whole(block) = &self.block else { return false };
        let filled = stride.fill_backward(block, self.at, &mut self.key, answers);
        let Some((at, value)) = filled else { return false };
        self.forget_interval();
        self.stand_on(at, value);
        true
    }

    #[cfg(test)]
    pub(super) fn interval_memory(&self) -> usize {
        self.interval.as_ref().map_or(0, |interval| interval.memory())
    }

    /// Where the first entry not before `target` starts, and where its value lies. Its key is in `self.key`.
    #[inline]
    fn find(&mut self, target: &[u8]) -> Result<Option<(usize, Range<usize>)>> {
        if let Held::Partial(partial) = &mut self.block
            && let Some((at, entry)) = partial.find(Matcher::new(target))
        {
            set_key(&mut self.key, target, &entry, partial.from(entry.suffix.start));
            return Ok(Some((at, entry.value)));
        }
        self.whole()?;
        let (order, key) = (&self.order, &mut self.key);
        let Some(block) = self.block.whole() else { return Ok(None) };
        let found = match self.block.start(order, target) {
            Some(start) => {
                // The entry and those behind it come at once, while the search waits for the first of them.
                hint_steps(block, start.0);
                block.find_from(start, order, target, key)?
            }
            None => block.find(order, target, key)?.inspect(|(at, _)| hint_steps(block, *at)),
        };
        Ok(found.map(|(at, entry)| (at, entry.value)))
    }
}

impl Held {
    /// The entries that need no more unpacking, and perhaps something behind them.
    #[inline]
    fn at_hand(&self) -> &[u8] {
        match self {
            Held::Whole(cached) => cached.block.slice(0..cached.block.entries_end()),
            Held::Partial(partial) => partial.unpacked(),
            Held::Nothing => &[],
        }
    }

    /// Where a search may start; only cached blocks tell.
    #[inline]
    fn start<'a>(&self, order: &InternalOrder, target: &'a [u8]) -> Option<(usize, Matcher<'a>)> {
        match self {
            Held::Whole(cached) => cached.start(order, target),
            Held::Partial(_) | Held::Nothing => None,
        }
    }

    /// The block, if it is whole.
    #[inline]
    fn whole(&self) -> Option<&Block> {
        match self {
            Held::Whole(cached) => Some(&cached.block),
            Held::Partial(partial) => partial.whole(),
            Held::Nothing => None,
        }
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
        self.invalidate();
        let Some(block) = self.whole()? else { return Ok(()) };
        block.touch();
        let end = block.entries_end();
        self.step_before(end)
    }

    fn seek(&mut self, target: &[u8]) -> Result<()> {
        self.invalidate();
        if let Some((at, value)) = self.find(target)? {
            let is_large = value.len() >= usize::from(PLAIN_BYTES);
            self.stand_on(at, value);
            if is_large && let Some(block) = self.block.whole() {
                block.hint_entries(self.value.end, self.entry_bytes());
            }
        }
        Ok(())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        debug_assert!(self.valid);
        self.forget_interval();
        self.step_to(self.value.end)
    }

    #[inline(always)]
    fn next_with_head(&mut self, head: &mut KeyHead, is_bytewise: bool) -> Result<bool> {
        debug_assert!(self.valid);
        self.forget_interval();
        if self.step_at_hand(head, is_bytewise) {
            return Ok(true);
        }
        self.step_to(self.value.end)?;
        Ok(self.show_head(head, is_bytewise))
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        debug_assert!(self.valid);
        if self.step_back() {
            return Ok(());
        }
        self.step_before(self.at)
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.key.as_bytes()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        match &self.block {
            Held::Whole(cached) => cached.block.slice(self.value.clone()),
            Held::Partial(partial) => partial.slice(self.value.clone()),
            Held::Nothing => &[],
        }
    }

    #[inline]
    fn key_before(&self) -> Option<&[u8]> {
        self.interval.as_ref()?.last_key()
    }
}

/// Asks for what a search looks at that starts here, and for the first of what a scan steps to then; from there on it asks as it goes.
#[inline]
fn hint_steps(block: &Block, at: usize) {
    prefetch_span(block.from(at).as_ptr(), FOUND_BYTES + HINTED_BYTES);
}

/// Asks for as much as a usual step goes on, as far ahead as its miss takes.
#[inline(always)]
pub(super) fn hint_ahead(entry: &[u8]) {
    let ahead = entry.as_ptr().wrapping_add(HINTED_BYTES);
    prefetch(ahead);
    prefetch(ahead.wrapping_add(CACHE_LINE_BYTES));
}
