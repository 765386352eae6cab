//! Keys rebuilt entry by entry from what they do not share: that of the entry that a reader stands on, and those of a
//! few entries one behind the other.
//!
//! Keys are short. To copy a few bytes costs less than to ask how many they are, so short ones are copied as pieces
//! of fixed size where there is room on both sides; what is behind a key means nothing.

use std::cell::RefCell;
use std::ops::Range;

use crate::base::sync::thread_local;

/// What is not longer is copied as a piece of this length.
pub(crate) const PIECE_BYTES: usize = 32;
pub(crate) type Piece = [u8; PIECE_BYTES];

/// Room for usual keys, and a piece behind them.
const SHORT_BYTES: usize = 96;

/// A key of any length. A usual one lies in the buffer itself: iterators are made all the time.
#[derive(Debug)]
pub(crate) struct KeyBuf {
    short: [u8; SHORT_BYTES],
    /// Instead of that, if a key was longer.
    long: Vec<u8>,
    len: usize,
}

impl KeyBuf {
    pub(crate) const fn new() -> Self {
        KeyBuf { short: [0; SHORT_BYTES], long: Vec::new(), len: 0 }
    }

    /// The key, and what is behind it.
    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        if self.long.is_empty() { &self.short } else { &self.long }
    }

    #[inline(always)]
    fn bytes_mut(&mut self) -> &mut [u8] {
        if self.long.is_empty() { &mut self.short } else { &mut self.long }
    }

    #[inline]
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.bytes().get(..self.len).unwrap_or_default()
    }

    /// The key, and what is behind it, where it is not longer and there is so much room.
    #[inline]
    pub(crate) fn beginning<const BYTES: usize>(&self) -> Option<&[u8; BYTES]> {
        self.bytes().first_chunk().filter(|_| self.len <= BYTES)
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// What it has allocated.
    pub(crate) fn memory(&self) -> usize {
        self.long.capacity()
    }

    /// Keeps the first `shared` bytes, which must be there, and puts behind them the first `suffix` bytes of `rest`,
    /// which goes on behind them if it can.
    #[inline(always)]
    pub(crate) fn rebuild(&mut self, shared: usize, rest: &[u8], suffix: usize) {
        debug_assert!(shared <= self.len && suffix <= rest.len());
        let piece = rest.first_chunk();
        if !piece.is_some_and(|piece| self.rebuild_of_piece(shared, piece, suffix)) {
            self.rebuild_in_any_length(shared, rest.get(..suffix).unwrap_or_default());
        }
    }

    /// As [`rebuild`](Self::rebuild), of the first `suffix` bytes of a piece; false if there is no room for it.
    #[inline(always)]
    pub(crate) fn rebuild_of_piece(&mut self, shared: usize, piece: &Piece, suffix: usize) -> bool {
        if shared > self.len || suffix > PIECE_BYTES {
            return false;
        }
        let room = self.bytes_mut().get_mut(shared..);
        let Some(to) = room.and_then(|to| to.first_chunk_mut::<PIECE_BYTES>()) else {
            return false;
        };
        *to = *piece;
        self.len = shared + suffix;
        true
    }

    #[inline(never)]
    fn rebuild_in_any_length(&mut self, shared: usize, suffix: &[u8]) {
        let len = shared + suffix.len();
        if self.bytes().len() < len {
            let mut long = self.bytes().get(..shared).unwrap_or_default().to_vec();
            long.resize(len + PIECE_BYTES, 0);
            self.long = long;
        }
        self.len = len;
        if let Some(to) = self.bytes_mut().get_mut(shared..len) {
            to.copy_from_slice(suffix);
        }
    }

    pub(crate) fn set(&mut self, key: &[u8]) {
        self.clear();
        self.rebuild(0, key, key.len());
    }
}

impl Default for KeyBuf {
    fn default() -> Self {
        KeyBuf::new()
    }
}

/// A thread keeps this much memory for its next key, and no more.
const KEY_BYTES_KEPT: usize = 64 << 10;

thread_local! {
    /// Where `get` rebuilds keys, so that a hit allocates nothing.
    static KEY: RefCell<KeyBuf> = const { RefCell::new(KeyBuf::new()) };
}

/// Calls `read` with the thread's memory for a key; within `read` a second call gets other memory.
#[inline]
pub(super) fn with_key<R>(read: impl FnOnce(&mut KeyBuf) -> R) -> R {
    KEY.with(|key| {
        let Ok(mut key) = key.try_borrow_mut() else { return read(&mut KeyBuf::new()) };
        let result = read(&mut key);
        if key.memory() > KEY_BYTES_KEPT {
            *key = KeyBuf::new();
        }
        result
    })
}

/// Keys one behind the other.
#[derive(Debug, Default)]
pub(crate) struct KeyList {
    /// At least as long as all keys.
    bytes: Vec<u8>,
    end: usize,
}

impl KeyList {
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.end = 0;
    }

    #[inline]
    pub(crate) fn get(&self, key: Range<usize>) -> &[u8] {
        self.bytes.get(key).unwrap_or_default()
    }

    /// What begins at `at`.
    #[inline]
    pub(crate) fn from(&self, at: usize) -> &[u8] {
        self.bytes.get(at..).unwrap_or_default()
    }

    #[cfg(test)]
    pub(crate) fn memory(&self) -> usize {
        self.bytes.capacity()
    }

    /// Puts a key behind the others: what is at `beginning`, then the first `suffix` bytes of `rest`, which goes on
    /// behind them if it can. Returns its place.
    #[inline(always)]
    pub(crate) fn push(
        &mut self,
        beginning: Range<usize>,
        rest: &[u8],
        suffix: usize,
    ) -> Range<usize> {
        debug_assert!(beginning.end <= self.end && suffix <= rest.len());
        let (at, shared) = (self.end, beginning.len());
        self.end = at + shared + suffix;
        if shared <= PIECE_BYTES
            && suffix <= PIECE_BYTES
            && let Some(ending) = rest.first_chunk::<PIECE_BYTES>()
            && let Some(room) = self.bytes.get_mut(beginning.start..at + 2 * PIECE_BYTES)
        {
            let (to, beginning) = (at - beginning.start, room.first_chunk().copied());
            let beginning: [u8; PIECE_BYTES] = beginning.unwrap_or_default();
            let places =
                room.get_mut(to..).and_then(|room| room.first_chunk_mut::<{ 2 * PIECE_BYTES }>());
            if let Some(places) = places {
                places[..PIECE_BYTES].copy_from_slice(&beginning);
                places[shared..shared + PIECE_BYTES].copy_from_slice(ending);
            }
        } else {
            self.push_in_any_length(at, beginning, rest.get(..suffix).unwrap_or_default());
        }
        at..self.end
    }

    #[inline(never)]
    fn push_in_any_length(&mut self, at: usize, beginning: Range<usize>, suffix: &[u8]) {
        let needed = self.end + 2 * PIECE_BYTES;
        if self.bytes.len() < needed {
            self.bytes.resize(needed.next_power_of_two(), 0);
        }
        let suffix_at = at + beginning.len();
        self.bytes.copy_within(beginning, at);
        if let Some(to) = self.bytes.get_mut(suffix_at..self.end) {
            to.copy_from_slice(suffix);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_all_lengths() {
        let text: Vec<u8> = (0..=255).collect();
        let (mut key, mut expected) = (KeyBuf::new(), Vec::new());
        for suffix in [0, 1, 8, 24, 31, 32, 33, 40, 100, 3, 0] {
            for rest in [suffix, suffix + 7, suffix + 100] {
                for shared in [0, 1, 5, expected.len() / 2, expected.len()] {
                    let shared = shared.min(expected.len());
                    key.rebuild(shared, &text[..rest], suffix);
                    expected.truncate(shared);
                    expected.extend_from_slice(&text[..suffix]);
                    assert_eq!((key.as_bytes(), key.len()), (&expected[..], expected.len()));
                }
            }
        }
        key.set(b"another");
        assert_eq!(key.as_bytes(), b"another");
        key.clear();
        assert_eq!(key.as_bytes(), b"");
    }

    #[test]
    fn a_list_of_keys_of_all_lengths() {
        let text: Vec<u8> = (0..=255).collect();
        let (mut keys, mut expected) = (KeyList::default(), Vec::<(Range<usize>, Vec<u8>)>::new());
        for suffix in [0, 1, 8, 24, 31, 32, 33, 40, 100, 3, 0] {
            for rest in [suffix, suffix + 7, suffix + 100] {
                for shared in [0, 1, 31, 32, 33, usize::MAX] {
                    let (place, before) = expected.last().cloned().unwrap_or_default();
                    let shared = shared.min(before.len());
                    let beginning = place.start..place.start + shared;
                    let place = keys.push(beginning, &text[..rest], suffix);
                    expected.push((place, [&before[..shared], &text[..suffix]].concat()));
                }
            }
        }
        for (place, key) in &expected {
            assert_eq!(
                (keys.get(place.clone()), &keys.from(place.start)[..key.len()]),
                (&key[..], &key[..])
            );
        }
    }
}
