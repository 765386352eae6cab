//! One uncompressed block and the search in it. [`BlockIter`](super::block_iter::BlockIter) moves
//! over it; point reads call [`Block::find`] alone.
//!
//! **Layout.**
//!
//! | part | encoding |
//! | --- | --- |
//! | entries | each: varint32 shared, varint32 suffix length, varint32 value length, suffix, value |
//! | restart points | fixed32 each: where an entry starts that shares nothing |
//! | restart count | fixed32 |
//!
//! A key is the first `shared` bytes of the key before it, and its suffix.
//!
//! **Invariants.** A block's bytes may be hostile: `entry_at` alone turns them into offsets, and
//! what it returns lies within the entries. An unsorted block yields wrong entries, never a panic.

use std::ops::Range;

use crate::base::coding::Reader;
use crate::base::comparator::InternalOrder;
use crate::base::error::{Error, Result};
use crate::base::key::{TAG_BYTES, split};
use crate::base::prefetch::{CACHE_LINE_BYTES, Stream, prefetch};
use crate::format::table::bytes::BlockBytes;
use crate::format::table::key_buf::KeyBuf;
use crate::format::table::matcher::{Matcher, Side};
use crate::format::table::spare;

const RESTART_BYTES: usize = size_of::<u32>();
/// Entries that are so long lie in no other's lines.
const FAR_BYTES: usize = 4 * CACHE_LINE_BYTES;
/// So many of them are asked for: a usual block has no more.
const HINTED_ENTRIES: usize = 4;

pub(crate) struct Block {
    bytes: BlockBytes,
    entries_end: usize,
    restarts: usize,
}

/// An entry's parts, as offsets within its block. The next entry starts at `value.end`.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) shared: usize,
    pub(crate) suffix: Range<usize>,
    pub(crate) value: Range<usize>,
}

impl Entry {
    /// The entry whose header begins `bytes`, which lie at `at` in a block whose entries end at `end`; `None`
    /// unless it ends there, too.
    #[inline(always)] // The next step of every scan and search.
    pub(crate) fn begun_by(bytes: &[u8], at: usize, end: usize) -> Option<Entry> {
        let (shared, suffix, value, header) = match *bytes {
            // Lengths below 128 take a byte each: all three, in most entries.
            [shared, suffix, value, ..] if (shared | suffix | value) < 0x80 => {
                (usize::from(shared), usize::from(suffix), usize::from(value), 3)
            }
            _ => {
                let mut reader = Reader::new(bytes);
                let mut length = || usize::try_from(reader.varint32()?).ok();
                let (shared, suffix, value) = (length()?, length()?, length()?);
                (shared, suffix, value, bytes.len() - reader.rest().len())
            }
        };
        let suffix_at = at + header;
        let value_at = suffix_at.checked_add(suffix)?;
        let value_end = value_at.checked_add(value)?;
        let whole = value_end <= end;
        whole.then_some(Entry { shared, suffix: suffix_at..value_at, value: value_at..value_end })
    }
}

impl Block {
    /// Takes the bytes of a block, without trailer, uncompressed.
    pub(crate) fn new(bytes: impl Into<BlockBytes>) -> Result<Self> {
        let bytes = bytes.into();
        let bad = || Error::corruption("bad block contents");
        let (rest, count) = bytes.split_last_chunk::<RESTART_BYTES>().ok_or_else(bad)?;
        let restarts = usize::try_from(u32::from_le_bytes(*count)).map_err(|_| bad())?;
        let restart_bytes = restarts.checked_mul(RESTART_BYTES).ok_or_else(bad)?;
        let before_restarts = rest.len().checked_sub(restart_bytes).ok_or_else(bad)?;
        // LevelDB reads a block without restart points as an empty one.
        let entries_end = if restarts == 0 { 0 } else { before_restarts };
        Ok(Block { bytes, entries_end, restarts })
    }

    /// The memory it holds.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.memory()
    }

    /// Gives the memory back for another block, if it is a vector.
    pub(crate) fn into_bytes(mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes).into_vector()
    }

    pub(crate) fn entries_end(&self) -> usize {
        self.entries_end
    }

    pub(crate) fn restarts(&self) -> usize {
        self.restarts
    }

    #[inline]
    pub(crate) fn slice(&self, range: Range<usize>) -> &[u8] {
        self.bytes.get(range).unwrap_or_default()
    }

    /// What begins at `at`.
    #[inline]
    pub(super) fn from(&self, at: usize) -> &[u8] {
        self.bytes.get(at..).unwrap_or_default()
    }

    /// Asks for an entry that is far from the one at hand, and for some behind it, if each is as long as `usual`.
    #[inline]
    pub(super) fn hint_entries(&self, at: usize, usual: usize) {
        let places = if usual < FAR_BYTES { 1 } else { HINTED_ENTRIES };
        for place in 0..places {
            let Some(byte) = self.bytes.get(at.saturating_add(place * usual)) else { break };
            prefetch(byte);
        }
    }

    /// All of it, to be brought near the processor bit by bit.
    pub(super) fn stream(&self) -> Stream {
        Stream::of(&self.bytes)
    }

    /// Brings an entry near the processor, or the beginning of a long one: all its lines at once.
    #[inline]
    pub(super) fn touch_entry(&self, at: usize) {
        for ahead in [CACHE_LINE_BYTES, 2 * CACHE_LINE_BYTES] {
            std::hint::black_box(self.bytes.get(at.saturating_add(ahead)).copied());
        }
    }

    /// Brings all of it near the processor, in the order that this foresees: interval by interval backward, and from entry
    /// to entry within each, is none. Costs as much as a few steps.
    pub(super) fn touch(&self) {
        let sum = self.bytes.iter().step_by(CACHE_LINE_BYTES).fold(0, |sum, byte| sum ^ byte);
        std::hint::black_box(sum);
    }

    /// The offset that a restart point names, whatever it is.
    #[inline]
    pub(crate) fn restart(&self, index: usize) -> usize {
        let at = self.entries_end + index * RESTART_BYTES;
        let bytes = self.bytes.get(at..).and_then(|rest| rest.first_chunk::<RESTART_BYTES>());
        bytes.map_or(usize::MAX, |bytes| u32::from_le_bytes(*bytes) as usize)
    }

    /// The restart point to parse from for entries before `until`; `None` if there are no such entries.
    pub(super) fn last_restart_before(&self, until: usize) -> Option<usize> {
        self.last_index_before(until).map(|index| self.restart(index))
    }

    /// The same for more than one entry, and so many bytes of them, if the block has them.
    pub(super) fn restart_well_before(&self, until: usize, bytes: usize) -> Option<usize> {
        let mut index = self.last_index_before(until)?.saturating_sub(1);
        while index > 0 && until.saturating_sub(self.restart(index)) < bytes {
            index -= 1;
        }
        Some(self.restart(index))
    }

    fn last_index_before(&self, until: usize) -> Option<usize> {
        let (mut left, mut right) = (0, self.restarts);
        while left < right {
            let middle = left + (right - left) / 2;
            if self.restart(middle) < until {
                left = middle + 1;
            } else {
                right = middle;
            }
        }
        left.checked_sub(1)
    }

    /// The entry that starts at `at`; `None` unless a whole one does.
    #[inline(always)]
    pub(crate) fn entry_at(&self, at: usize) -> Option<Entry> {
        Entry::begun_by(self.bytes.get(at..self.entries_end)?, at, self.entries_end)
    }

    /// Finds the first entry not less than `target` and makes `key` its key. Both orders of search
    /// find the same entry; the bytewise one rebuilds no keys on its way.
    #[inline]
    pub(crate) fn find(
        &self,
        order: &InternalOrder,
        target: &[u8],
        key: &mut KeyBuf,
    ) -> Result<Option<(usize, Entry)>> {
        if !order.is_bytewise() {
            return self.find_by_whole_keys(order, target, key);
        }
        let (user, tag) = split(target);
        let at = self.restart_before(|key| {
            let (entry_user, entry_tag) = split(key);
            entry_user.cmp(user).then(tag.cmp(&entry_tag)).is_lt()
        })?;
        self.find_from((at, Matcher::new(target)), order, target, key)
    }

    /// As [`find`](Self::find) in the bytewise order, from an entry on that is known not to lie behind the one sought, and a
    /// matcher that would have seen the entry before.
    #[inline]
    pub(crate) fn find_from(
        &self,
        (mut at, mut matcher): (usize, Matcher<'_>),
        order: &InternalOrder,
        target: &[u8],
        key: &mut KeyBuf,
    ) -> Result<Option<(usize, Entry)>> {
        while at < self.entries_end {
            let entry = self.entry_at(at).ok_or_else(bad_entry)?;
            let suffix = self.slice(entry.suffix.clone());
            match matcher.look(entry.shared, suffix) {
                Side::Before => at = entry.value.end,
                Side::NotBefore => {
                    set_key(key, target, &entry, self.from(entry.suffix.start));
                    return Ok(Some((at, entry)));
                }
                Side::Unclear => return self.find_by_whole_keys(order, target, key),
            }
        }
        Ok(None)
    }

    fn find_by_whole_keys(
        &self,
        order: &InternalOrder,
        target: &[u8],
        key: &mut KeyBuf,
    ) -> Result<Option<(usize, Entry)>> {
        let mut at = self.restart_before(|key| order.compare(key, target).is_lt())?;
        key.clear();
        while at < self.entries_end {
            let entry = self.entry_at(at).ok_or_else(bad_entry)?;
            self.rebuild_key(&entry, key)?;
            if order.compare(key.as_bytes(), target).is_ge() {
                return Ok(Some((at, entry)));
            }
            at = entry.value.end;
        }
        Ok(None)
    }

    /// Turns the key before `entry` into the key of `entry`.
    #[inline]
    pub(crate) fn rebuild_key(&self, entry: &Entry, key: &mut KeyBuf) -> Result<()> {
        rebuild_key(key, entry, self.from(entry.suffix.start))
    }

    /// The offset of the last restart point whose key is before the target, or of the first.
    #[inline]
    fn restart_before(&self, is_before: impl Fn(&[u8]) -> bool) -> Result<usize> {
        if self.restarts == 0 {
            return Ok(0);
        }
        let (mut left, mut right) = (0, self.restarts - 1);
        while left < right {
            let middle = left + (right - left).div_ceil(2);
            if is_before(self.restart_key(middle)?) {
                left = middle;
            } else {
                right = middle - 1;
            }
        }
        Ok(self.restart(left))
    }

    #[inline]
    pub(crate) fn restart_key(&self, index: usize) -> Result<&[u8]> {
        let entry = self.entry_at(self.restart(index)).ok_or_else(bad_entry)?;
        let key = self.slice(entry.suffix);
        if entry.shared != 0 || key.len() < TAG_BYTES {
            return Err(bad_entry());
        }
        Ok(key)
    }

    /// The first entry's key; `None` in an empty block.
    #[inline]
    pub(crate) fn first_key(&self) -> Result<Option<&[u8]>> {
        if self.entries_end == 0 {
            return Ok(None);
        }
        let entry = self.entry_at(0).ok_or_else(bad_entry)?;
        let key = self.slice(entry.suffix);
        if entry.shared != 0 || key.len() < TAG_BYTES {
            return Err(bad_entry());
        }
        Ok(Some(key))
    }

    /// True if there is no other key in the block.
    #[cold]
    pub(crate) fn all_keys_are(&self, key: &[u8]) -> bool {
        let differs = |found: &[u8], _: &[u8]| {
            if found == key { Ok(()) } else { Err(bad_entry()) }
        };
        self.for_each(differs).is_ok()
    }

    /// Fails unless every entry is whole, and the restart points are in order, the first one at the
    /// first entry and each at an entry that shares nothing: what searches and the way back rely on.
    pub(crate) fn check(&self) -> Result<()> {
        let (mut at, mut restarts) = (0, 0);
        while at < self.entries_end {
            let entry = self.entry_at(at).ok_or_else(bad_entry)?;
            if self.restart(restarts) == at && restarts < self.restarts {
                self.restart_key(restarts)?;
                restarts += 1;
            }
            at = entry.value.end;
        }
        // A block without entries has one restart point nevertheless, or none and nothing else.
        let found_all = match self.entries_end {
            0 => self.restarts <= 1 && self.bytes.len() == (self.restarts + 1) * RESTART_BYTES,
            _ => restarts == self.restarts,
        };
        let first_restarts = self.restarts == 0 || self.restart(0) == 0;
        if found_all && first_restarts { Ok(()) } else { Err(bad_restart()) }
    }

    /// All entries in turn, keys of any kind (a metaindex has no tags).
    pub(crate) fn for_each(&self, mut visit: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        let (mut at, mut key) = (0, Vec::new());
        while at < self.entries_end {
            let entry = self.entry_at(at).ok_or_else(bad_entry)?;
            if entry.shared > key.len() {
                return Err(bad_entry());
            }
            key.truncate(entry.shared);
            key.extend_from_slice(self.slice(entry.suffix));
            at = entry.value.end;
            visit(&key, self.slice(entry.value))?;
        }
        Ok(())
    }
}

/// Makes `key` that of an entry to which a [`Matcher`] led: it shares its beginning with the target, too. `rest` begins
/// with its suffix.
#[inline]
pub(crate) fn set_key(key: &mut KeyBuf, target: &[u8], entry: &Entry, rest: &[u8]) {
    key.set(target.get(..entry.shared).unwrap_or_default());
    key.rebuild(key.len(), rest, entry.suffix.len());
}

/// Turns the key before an entry into its own. `rest` begins with its suffix.
#[inline(always)]
pub(crate) fn rebuild_key(key: &mut KeyBuf, entry: &Entry, rest: &[u8]) -> Result<()> {
    let suffix = entry.suffix.len();
    if entry.shared > key.len() || suffix > rest.len() || entry.shared + suffix < TAG_BYTES {
        return Err(bad_entry());
    }
    key.rebuild(entry.shared, rest, suffix);
    Ok(())
}

/// The key of the first entry, if the beginning of a block holds it whole.
#[inline]
pub(crate) fn key_at_start(beginning: &[u8]) -> Option<&[u8]> {
    let mut reader = Reader::new(beginning);
    let (shared, suffix, _) = (reader.varint32()?, reader.varint32()?, reader.varint32()?);
    let key = reader.rest().get(..usize::try_from(suffix).ok()?)?;
    (shared == 0 && key.len() >= TAG_BYTES).then_some(key)
}

impl Drop for Block {
    fn drop(&mut self) {
        spare::give(std::mem::take(&mut self.bytes).into_vector());
    }
}

#[cold]
fn bad_restart() -> Error {
    Error::corruption("bad restart point in block")
}

#[cold]
pub(crate) fn bad_entry() -> Error {
    Error::corruption("bad entry in block")
}
