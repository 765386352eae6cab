//! A restart interval's entries, parsed, for those who walk a block backward.
//!
//! Of an interval whose keys would take too much memory only the end is held, and what lies before is
//! parsed again when it is its turn: a hostile block of 64 KiB may unfold to gigabytes of keys.

use std::ops::Range;

use crate::base::error::Result;
use crate::base::key::TAG_BYTES;
use crate::format::table::block::{Block, bad_entry};
use crate::format::table::key_buf::{KeyBuf, KeyList};

/// Keys of an interval are held up to this size, or at least one.
const HELD_BYTES_MAX: usize = 4 << 20;
/// Keys of shorter intervals take less than that, however they share.
const SHORT_BYTES: usize = 4 << 10;

/// A stack: the next entry going backward is on top.
#[derive(Default)]
pub(super) struct Interval {
    entries: Vec<Parsed>,
    keys: KeyList,
}

struct Parsed {
    at: usize,
    /// Within the interval's keys.
    key: Range<usize>,
    value: Range<usize>,
}

impl Interval {
    #[inline]
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.keys.clear();
    }

    /// Holds the entries from `start` to `until`, or as many of the last ones as memory admits. It is empty before.
    pub(super) fn parse(&mut self, block: &Block, start: usize, until: usize) -> Result<()> {
        let mut at = start;
        if until.saturating_sub(start) > SHORT_BYTES {
            at = self.skip_excess(block, start, until)?;
        }
        let mut before = self.entries.last().map_or(0..0, |parsed| parsed.key.clone());
        // Begins as the key before does. Mostly an older key: to read one that has just been stored in two pieces, the
        // processor waits until both have arrived.
        let mut base = before.clone();
        while at < until {
            let entry = block.entry_at(at).ok_or_else(bad_entry)?;
            let (shared, suffix) = (entry.shared, entry.suffix.len());
            if shared > before.len() || shared + suffix < TAG_BYTES {
                return Err(bad_entry());
            }
            if shared > base.len() {
                base = before;
            }
            base.end = base.start + shared;
            before = self.keys.push(base.clone(), block.from(entry.suffix.start), suffix);
            let next = entry.value.end;
            self.entries.push(Parsed { at, key: before.clone(), value: entry.value });
            at = next;
        }
        Ok(())
    }

    /// Passes over the entries that there is no memory for, holds the last of them, whose key the
    /// next one is built on, and returns where that one starts; `start` if there is room for all.
    #[cold]
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
        let mut key = KeyBuf::new();
        at = start;
        while excess > 0 && at < until {
            let entry = block.entry_at(at).ok_or_else(bad_entry)?;
            block.rebuild_key(&entry, &mut key)?;
            excess = excess.saturating_sub(key.len() + size_of::<Parsed>());
            let next = entry.value.end;
            if excess == 0 {
                let key = self.keys.push(0..0, key.as_bytes(), key.len());
                self.entries.push(Parsed { at, key, value: entry.value });
            }
            at = next;
        }
        Ok(at)
    }

    /// Takes the last entry: its key into `key`, and where it starts and its value lies.
    #[inline]
    pub(super) fn pop(&mut self, key: &mut KeyBuf) -> Option<(usize, Range<usize>)> {
        let parsed = self.entries.pop()?;
        key.clear();
        key.rebuild(0, self.keys.from(parsed.key.start), parsed.key.len());
        Some((parsed.at, parsed.value))
    }

    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        self.keys.memory()
    }

    /// The key of the entry that is next.
    #[inline]
    pub(super) fn last_key(&self) -> Option<&[u8]> {
        self.entries.last().map(|parsed| self.keys.get(parsed.key.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use crate::base::comparator::{InternalOrder, UserOrder};
    use crate::base::iter::InternalIterator;
    use crate::base::key::{InternalKey, SeqNo, ValueKind};
    use crate::format::table::block_builder::BlockBuilder;
    use crate::format::table::block_iter::BlockIter;
    use crate::format::table::cache::CachedBlock;

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
            assert!(iter.interval_memory() <= 4 * HELD_BYTES_MAX);
            iter.prev().unwrap();
        }
        assert!(!iter.valid());
    }
}
