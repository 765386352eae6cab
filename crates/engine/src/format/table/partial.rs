//! A block that is read for this once: unpacked as far as its reader has come. Point reads have one in their thread's
//! memory, iterators in their own.
//!
//! **Where entries end.** Only a block's last bytes tell, which may not be unpacked yet. But restart points
//! begin with the offset 0, and so look like an entry without a key, which no table has: there, and
//! wherever else something is strange, the answer is `None`, and the whole block must be looked at as ever.

use std::ops::Range;

use crate::base::error::Result;
use crate::base::key::TAG_BYTES;
use crate::format::table::block::{Block, Entry};
use crate::format::table::compress;
use crate::format::table::matcher::{Matcher, Side};
use crate::format::table::snappy::Unpacker;
use crate::format::table::spare;

/// Three varint32 are no longer.
const HEADER_BYTES_MAX: usize = 15;
/// Unpacked ahead of what is needed: entries and more, so that few steps are made.
const STEP_BYTES: usize = 384;

/// Made in buffers that are lent to it, so that none is allocated for it.
pub(super) struct PartialBlock {
    stored: Vec<u8>,
    /// What of `stored` is not unpacked yet.
    rest: Range<usize>,
    /// How long the whole block will be.
    len: usize,
    unpacked: Vec<u8>,
    /// Made of `unpacked`, once all is there.
    whole: Option<Block>,
}

impl PartialBlock {
    /// Of the bytes of a Snappy block, which lie within `stored` and are checked. What is in `unpacked` goes.
    pub(super) fn start(
        stored: Vec<u8>,
        content: Range<usize>,
        mut unpacked: Vec<u8>,
    ) -> Result<Self> {
        let unpacker =
            compress::start_snappy(stored.get(content.clone()).unwrap_or_default(), &mut unpacked)?;
        let (len, left) = (unpacker.len(), unpacker.left());
        Ok(PartialBlock {
            rest: content.end - left..content.end,
            len,
            stored,
            unpacked,
            whole: None,
        })
    }

    /// Finds the first entry not before the matcher's target, unpacked to its end.
    pub(super) fn find(&mut self, mut matcher: Matcher<'_>) -> Option<(usize, Entry)> {
        let mut at = 0;
        loop {
            let entry = self.begun_at(at)?;
            match matcher.look(entry.shared, self.slice(entry.suffix.clone())) {
                Side::Before => at = entry.value.end,
                Side::NotBefore => {
                    self.have(entry.value.clone())?;
                    return Some((at, entry));
                }
                Side::Unclear => return None,
            }
        }
    }

    /// The entry that starts at `at`, unpacked to its end.
    #[inline]
    pub(super) fn entry_at(&mut self, at: usize) -> Option<Entry> {
        let entry = self.begun_at(at)?;
        self.have(entry.value.clone())?;
        Some(entry)
    }

    /// The entry that starts at `at`, unpacked up to its value at least.
    #[inline]
    fn begun_at(&mut self, at: usize) -> Option<Entry> {
        let len = self.len;
        let entry = Entry::begun_by(self.have(at..at + HEADER_BYTES_MAX)?, at, len)?;
        if entry.shared + entry.suffix.len() < TAG_BYTES {
            return None;
        }
        self.have(entry.suffix.clone())?;
        Some(entry)
    }

    /// What is unpacked so far, and a step at least.
    pub(super) fn beginning(&mut self) -> &[u8] {
        self.have(0..1).unwrap_or_default()
    }

    /// What is unpacked from the start of the range on: to its end at least, or to the block's.
    #[inline]
    fn have(&mut self, range: Range<usize>) -> Option<&[u8]> {
        if range.end > self.unpacked.len() {
            if self.whole.is_some() {
                return None;
            }
            self.unpack_to(range.end + STEP_BYTES)?;
        }
        self.unpacked.get(range.start..)
    }

    #[inline(never)]
    fn unpack_to(&mut self, wanted: usize) -> Option<()> {
        let mut unpacker = Unpacker::resume(self.stored.get(self.rest.clone())?, self.len);
        let done = unpacker.unpack_to(&mut self.unpacked, wanted);
        // Where the input is broken, too: what was unpacked before shall not be unpacked again.
        self.rest.start = self.rest.end - unpacker.left();
        done
    }

    /// What is unpacked so far; nothing once it is asked to [complete](Self::complete).
    #[inline]
    pub(super) fn unpacked(&self) -> &[u8] {
        &self.unpacked
    }

    /// A part of what is unpacked.
    #[inline]
    pub(super) fn slice(&self, range: Range<usize>) -> &[u8] {
        match &self.whole {
            None => self.unpacked.get(range).unwrap_or_default(),
            Some(block) => block.slice(range),
        }
    }

    /// What is unpacked from `at` on.
    #[inline]
    pub(super) fn from(&self, at: usize) -> &[u8] {
        match &self.whole {
            None => self.unpacked.get(at..).unwrap_or_default(),
            Some(block) => block.from(at),
        }
    }

    /// The whole block, once it was asked to [complete](Self::complete). Entries lie where they did.
    #[inline]
    pub(super) fn whole(&self) -> Option<&Block> {
        self.whole.as_ref()
    }

    /// Unpacks the rest. After an error this is of no use any more.
    pub(super) fn complete(&mut self) -> Result<()> {
        if self.whole.is_none() {
            self.unpack_to(usize::MAX).ok_or_else(compress::corrupted_snappy)?;
            self.whole = Some(Block::new(std::mem::take(&mut self.unpacked))?);
        }
        Ok(())
    }

    /// Unpacks the rest, to take it out.
    pub(super) fn finish(&mut self) -> Result<Vec<u8>> {
        self.unpack_to(usize::MAX).ok_or_else(compress::corrupted_snappy)?;
        Ok(std::mem::take(&mut self.unpacked))
    }

    /// Gives back the buffer that was lent for the stored block. What is not unpacked yet, never will be.
    pub(super) fn take_stored(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.stored)
    }

    /// Gives back both buffers.
    pub(super) fn into_buffers(mut self) -> (Vec<u8>, Vec<u8>) {
        (self.take_stored(), std::mem::take(&mut self.unpacked))
    }
}

impl Drop for PartialBlock {
    fn drop(&mut self) {
        spare::give(self.take_stored());
        spare::give(std::mem::take(&mut self.unpacked));
    }
}
