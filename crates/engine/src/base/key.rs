//! Internal keys: a user key followed by an eight-byte tag.
//!
//! **Layout.** `user key | tag`, where the little-endian `tag = seqno << 8 | kind`. Kinds: 0 is a
//! deletion, 1 a value. A lookup seeks `(key, seqno, 1)`: the highest kind, so that it finds every
//! entry of that sequence number.

use std::cmp::Ordering;
use std::fmt;

use crate::base::escape::Escaped;

/// Bytes of the tag behind each user key.
pub(crate) const TAG_BYTES: usize = 8;
/// The greatest sequence number the format can hold.
pub(crate) const SEQNO_MAX: SeqNo = SeqNo((1 << 56) - 1);
/// The tag that sorts before all others of the same user key.
pub(crate) const SEEK_TAG_MAX: u64 = SEQNO_MAX.0 << 8 | ValueKind::Value as u64;

/// The number of a write: later writes have greater ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeqNo(pub u64);

impl SeqNo {
    /// The number `count` writes later.
    #[must_use]
    pub(crate) fn plus(self, count: u64) -> Self {
        SeqNo(self.0 + count)
    }
}

impl fmt::Display for SeqNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What an entry says about its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ValueKind {
    /// The key was deleted.
    Deletion = 0,
    /// The key has a value.
    Value = 1,
}

impl ValueKind {
    #[inline]
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(ValueKind::Deletion),
            1 => Some(ValueKind::Value),
            _ => None,
        }
    }
}

#[inline]
pub(crate) fn pack_tag(seqno: SeqNo, kind: ValueKind) -> u64 {
    seqno.0 << 8 | kind as u64
}

/// The user key of an internal key; of bytes too short to be one, nothing.
#[inline]
pub(crate) fn user_key(internal: &[u8]) -> &[u8] {
    &internal[..internal.len().saturating_sub(TAG_BYTES)]
}

/// The tag of an internal key; of bytes too short to be one, zero.
#[inline]
pub(crate) fn tag_of(internal: &[u8]) -> u64 {
    internal.last_chunk::<TAG_BYTES>().map_or(0, |tag| u64::from_le_bytes(*tag))
}

#[inline]
pub(crate) fn split(internal: &[u8]) -> (&[u8], u64) {
    (user_key(internal), tag_of(internal))
}

#[inline]
pub(crate) fn seqno_of(internal: &[u8]) -> SeqNo {
    SeqNo(tag_of(internal) >> 8)
}

/// The first eight bytes of a user key as an integer, zeros behind a short key. It orders as the
/// keys do bytewise, but keys with the same integer may differ.
#[inline]
pub(crate) fn leading_bytes(user: &[u8]) -> u64 {
    if let Some(first) = user.first_chunk::<8>() {
        return u64::from_be_bytes(*first);
    }
    let mut padded = [0; 8];
    padded[..user.len()].copy_from_slice(user);
    u64::from_be_bytes(padded)
}

/// Keys up to this length are all in their [`leading_words`].
pub(crate) const LEADING_BYTES: usize = size_of::<u128>();

/// As [`leading_bytes`], the first sixteen of an internal key's user key.
#[inline]
pub(crate) fn leading_words(internal: &[u8]) -> u128 {
    let user_bytes = internal.len().saturating_sub(TAG_BYTES);
    match internal.first_chunk() {
        Some(first) if user_bytes >= LEADING_BYTES => u128::from_be_bytes(*first),
        // The tag's bytes go.
        Some(first) => u128::from_be_bytes(*first) & first_bytes(user_bytes),
        None => u128::from(leading_bytes(&internal[..user_bytes])) << 64,
    }
}

/// The bits of [`leading_words`] that are of the first `bytes` bytes.
#[inline]
pub(crate) fn first_bytes(bytes: usize) -> u128 {
    // To look it up takes two loads; to shift two words by a number that is not known, and choose, ten instructions.
    FIRST_BYTES[bytes.min(LEADING_BYTES)]
}

static FIRST_BYTES: [u128; LEADING_BYTES + 1] = {
    let mut bits = [u128::MAX; LEADING_BYTES + 1];
    let mut bytes = 0;
    while bytes < LEADING_BYTES {
        bits[bytes] = !(u128::MAX >> (8 * bytes));
        bytes += 1;
    }
    bits
};

/// What of an internal key is mostly enough to know, in registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyHead {
    /// Its [`leading_words`]; 0 in custom orders.
    pub(crate) leading: u128,
    pub(crate) tag: u64,
    pub(crate) user_len: usize,
}

impl KeyHead {
    /// `is_bytewise` is the order of user keys. A key without a tag has one of an unknown kind.
    #[inline]
    pub(crate) fn of(internal: &[u8], is_bytewise: bool) -> Self {
        let Some((user, tag)) = internal.split_last_chunk() else {
            return KeyHead { tag: u64::MAX, ..KeyHead::default() };
        };
        let leading = if is_bytewise { leading_words(internal) } else { 0 };
        KeyHead { leading, tag: u64::from_le_bytes(*tag), user_len: user.len() }
    }

    /// Makes it the head of a key that has the first `shared` bytes of its own and then the first `suffix` bytes of `rest`,
    /// a tag at least; false if there are not so many, or if it shares some of the tag. Keys are rebuilt in pieces, and who
    /// reads a piece together with what was there before waits until it has arrived in the processor's cache: so the key
    /// itself is not looked at.
    #[inline(always)]
    pub(crate) fn rebuild(
        &mut self,
        shared: usize,
        (rest, suffix): (&[u8; 2 * LEADING_BYTES], usize),
        is_bytewise: bool,
    ) -> bool {
        let tag = rest.get(..suffix).and_then(|suffix| suffix.last_chunk::<TAG_BYTES>());
        let (Some(tag), Some(first)) = (tag, rest.first_chunk()) else { return false };
        if shared > self.user_len {
            return false;
        }
        let user_len = shared + suffix - TAG_BYTES;
        if is_bytewise {
            if shared < LEADING_BYTES {
                let own = u128::from_be_bytes(*first) >> (8 * shared);
                self.leading = self.leading & first_bytes(shared) | own;
            }
            self.leading &= first_bytes(user_len);
        }
        (self.tag, self.user_len) = (u64::from_le_bytes(*tag), user_len);
        true
    }

    /// Where this key lies beside one with the same leading words, in a bytewise order; `None` if there is more of them to compare.
    #[inline]
    pub(crate) fn among_same_leading(&self, other: &KeyHead) -> Option<Ordering> {
        let is_whole = self.user_len.max(other.user_len) <= LEADING_BYTES;
        // What a shorter one lacks are zeros in the longer.
        is_whole.then(|| self.user_len.cmp(&other.user_len).then(other.tag.cmp(&self.tag)))
    }

    pub(crate) fn seqno(self) -> SeqNo {
        SeqNo(self.tag >> 8)
    }

    pub(crate) fn kind(self) -> Option<ValueKind> {
        ValueKind::from_byte(self.tag as u8)
    }
}

/// An internal key taken apart; `None` if it is too short or of an unknown kind.
#[inline]
pub(crate) fn parse(internal: &[u8]) -> Option<ParsedKey<'_>> {
    let (user, tag) = internal.split_last_chunk::<TAG_BYTES>()?;
    let tag = u64::from_le_bytes(*tag);
    Some(ParsedKey { user, seqno: SeqNo(tag >> 8), kind: ValueKind::from_byte(tag as u8)? })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ParsedKey<'a> {
    pub(crate) user: &'a [u8],
    pub(crate) seqno: SeqNo,
    pub(crate) kind: ValueKind,
}

/// As LevelDB's dumps and logs show it: `'user' @ 42 : 1`.
impl fmt::Display for ParsedKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' @ {} : {}", Escaped(self.user), self.seqno, self.kind as u8)
    }
}

/// An owned internal key; a lookup's seek target, or a table's bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct InternalKey(Vec<u8>);

impl InternalKey {
    pub(crate) fn new(user: &[u8], seqno: SeqNo, kind: ValueKind) -> Self {
        let mut bytes = Vec::with_capacity(user.len() + TAG_BYTES);
        bytes.extend_from_slice(user);
        bytes.extend_from_slice(&pack_tag(seqno, kind).to_le_bytes());
        InternalKey(bytes)
    }

    /// Where a search for `user` as of `seqno` starts.
    pub(crate) fn seek_to(user: &[u8], seqno: SeqNo) -> Self {
        InternalKey::new(user, seqno, ValueKind::Value)
    }

    /// `None` unless the bytes hold a tag.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        (bytes.len() >= TAG_BYTES).then(|| InternalKey(bytes.to_vec()))
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    #[cfg(test)]
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    pub(crate) fn user(&self) -> &[u8] {
        user_key(&self.0)
    }

    #[cfg(test)]
    pub(crate) fn seqno(&self) -> SeqNo {
        seqno_of(&self.0)
    }
}

/// User keys up to about this length make no allocation for their search.
const INLINE_BYTES: usize = 120;

/// The internal key a search starts at, on the stack where it fits.
pub(crate) enum SeekKey {
    Inline([u8; INLINE_BYTES], usize),
    Heap(Vec<u8>),
}

impl SeekKey {
    #[inline]
    pub(crate) fn new(user: &[u8], seqno: SeqNo) -> Self {
        let tag = pack_tag(seqno, ValueKind::Value).to_le_bytes();
        let len = user.len() + tag.len();
        if len > INLINE_BYTES {
            return SeekKey::Heap([user, &tag].concat());
        }
        let mut bytes = [0; INLINE_BYTES];
        bytes[..user.len()].copy_from_slice(user);
        bytes[user.len()..len].copy_from_slice(&tag);
        SeekKey::Inline(bytes, len)
    }

    #[inline]
    pub(crate) fn as_bytes(&self) -> &[u8] {
        match self {
            SeekKey::Inline(bytes, len) => &bytes[..*len],
            SeekKey::Heap(bytes) => bytes,
        }
    }
}

impl fmt::Display for InternalKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match parse(&self.0) {
            Some(key) => key.fmt(f),
            None => write!(f, "(bad){}", Escaped(&self.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::comparator::{InternalOrder, UserOrder};

    #[test]
    fn keys_round_trip() {
        for user in [&b""[..], b"k", b"hello", b"longggggggggggggggggggggg"] {
            for seqno in [1, 2, 3, (1 << 8) - 1, 1 << 8, (1 << 32) + 1, SEQNO_MAX.0] {
                for kind in [ValueKind::Value, ValueKind::Deletion] {
                    let key = InternalKey::new(user, SeqNo(seqno), kind);
                    let parsed = parse(key.as_bytes()).unwrap();
                    assert_eq!(parsed, ParsedKey { user, seqno: SeqNo(seqno), kind });
                }
            }
        }
    }

    #[test]
    fn leading_bytes_never_contradict_the_order() {
        let keys =
            [&b""[..], b"\0", b"\0\0", b"a", b"a\0", b"a\0b", b"abcdefgh", b"abcdefghi", b"b"];
        assert!(keys.is_sorted());
        assert!(keys.is_sorted_by_key(|key| leading_bytes(key)));
        assert!(leading_bytes(b"abcdefg") < leading_bytes(b"abcdefgh"));
        assert_eq!(leading_bytes(b"a"), 0x61 << 56);
    }

    #[test]
    fn leading_words_are_the_first_sixteen_bytes() {
        let long = b"abcdefghijklmnopqrst";
        for len in 0..long.len() {
            let user = &long[..len];
            let mut padded = [0; LEADING_BYTES];
            padded[..len.min(LEADING_BYTES)].copy_from_slice(&user[..len.min(LEADING_BYTES)]);
            let key = InternalKey::new(user, SEQNO_MAX, ValueKind::Value);
            assert_eq!(leading_words(key.as_bytes()), u128::from_be_bytes(padded), "{len}");
        }
        assert_eq!(leading_words(b"short"), 0);
    }

    #[test]
    fn heads_are_rebuilt_as_keys_are() {
        let old: Vec<u8> = (1..=40).collect();
        let rest: [u8; 2 * LEADING_BYTES] = std::array::from_fn(|at| 0xff - at as u8);
        for is_bytewise in [true, false] {
            for old_len in TAG_BYTES..=old.len() {
                let old = &old[..old_len];
                for (shared, suffix) in
                    (0..=old_len).flat_map(|shared| (0..=rest.len()).map(move |n| (shared, n)))
                {
                    let key = [&old[..shared], &rest[..suffix]].concat();
                    let mut head = KeyHead::of(old, is_bytewise);
                    let rebuilt = head.rebuild(shared, (&rest, suffix), is_bytewise);
                    assert_eq!(rebuilt, shared <= old_len - TAG_BYTES && suffix >= TAG_BYTES);
                    if rebuilt {
                        assert_eq!(head, KeyHead::of(&key, is_bytewise), "{shared} and {suffix}");
                    }
                }
            }
            assert!(!KeyHead::of(&old, is_bytewise).rebuild(3, (&rest, 33), is_bytewise));
        }
    }

    #[test]
    fn heads_with_the_same_leading_words_tell_the_order_of_short_keys() {
        let order = InternalOrder { user: UserOrder::Bytewise };
        let users =
            [&b""[..], b"\0", b"\0\0", b"k", b"k\0", b"0123456789abcdef", b"0123456789abcdefg"];
        let keys = users.iter().flat_map(|user| {
            [1, 2].map(|seqno| InternalKey::new(user, SeqNo(seqno), ValueKind::Value))
        });
        let keys: Vec<InternalKey> = keys.collect();
        let mut told = 0;
        for (a, b) in keys.iter().flat_map(|a| keys.iter().map(move |b| (a, b))) {
            let head = |key: &InternalKey| KeyHead::of(key.as_bytes(), true);
            let (head_a, head_b) = (head(a), head(b));
            if head_a.leading == head_b.leading
                && let Some(order_of_heads) = head_a.among_same_leading(&head_b)
            {
                assert_eq!(order_of_heads, order.compare(a.as_bytes(), b.as_bytes()), "{a} {b}");
                told += 1;
            }
        }
        assert_eq!(told, 36 + 16 + 4, "none of seventeen bytes");
    }

    #[test]
    fn short_and_unknown_keys_are_refused() {
        assert_eq!(parse(b""), None);
        assert_eq!(parse(&[0; 7]), None);
        assert_eq!(parse(&[2, 0, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(InternalKey::from_bytes(&[0; 7]), None);
    }

    #[test]
    fn keys_are_shown_as_leveldb_shows_them() {
        let key = InternalKey::new(b"The \"key\"\x01'\xff", SeqNo(42), ValueKind::Value);
        assert_eq!(key.to_string(), r#"'The "key"\x01'\xff' @ 42 : 1"#);
        let bad = InternalKey::from_bytes(b"\xff\0\0\0\0\0\0k").unwrap();
        assert_eq!(bad.to_string(), r"(bad)\xff\x00\x00\x00\x00\x00\x00k");
    }
}
