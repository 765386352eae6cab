//! The key of the entry that a reader stands on, rebuilt entry by entry from what they do not share.
//!
//! Suffixes are short. To copy a few bytes costs less than to ask how many they are, so short ones are copied as pieces
//! of fixed size where there is room on both sides; what is behind the key means nothing.

/// Suffixes up to this length are copied as pieces of it.
const PIECE_BYTES: usize = 32;

#[derive(Debug, Default)]
pub(crate) struct KeyBuf {
    /// At least as long as the key.
    bytes: Vec<u8>,
    len: usize,
}

impl KeyBuf {
    pub(crate) const fn new() -> Self {
        KeyBuf { bytes: Vec::new(), len: 0 }
    }

    #[inline]
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    pub(crate) fn memory(&self) -> usize {
        self.bytes.capacity()
    }

    /// Keeps the first `shared` bytes, which must be there, and puts behind them the first `suffix` bytes of `rest`,
    /// which goes on behind them if it can.
    #[inline(always)]
    pub(crate) fn rebuild(&mut self, shared: usize, rest: &[u8], suffix: usize) {
        debug_assert!(shared <= self.len && suffix <= rest.len());
        if suffix <= PIECE_BYTES
            && let Some(from) = rest.first_chunk::<PIECE_BYTES>()
            && let Some(to) = self.bytes.get_mut(shared..)
            && let Some(to) = to.first_chunk_mut::<PIECE_BYTES>()
        {
            *to = *from;
            self.len = shared + suffix;
        } else {
            self.rebuild_in_any_length(shared, rest.get(..suffix).unwrap_or_default());
        }
    }

    #[inline(never)]
    fn rebuild_in_any_length(&mut self, shared: usize, suffix: &[u8]) {
        self.len = shared + suffix.len();
        if self.bytes.len() < self.len {
            self.bytes.resize(self.len + PIECE_BYTES, 0);
        }
        if let Some(to) = self.bytes.get_mut(shared..self.len) {
            to.copy_from_slice(suffix);
        }
    }

    pub(crate) fn set(&mut self, key: &[u8]) {
        self.clear();
        self.rebuild(0, key, key.len());
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
}
