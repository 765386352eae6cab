//! The order of user keys, and the order of internal keys built on it. Everything that sorts,
//! searches or cuts asks here.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use crate::base::key::{KeyHead, SEEK_TAG_MAX, split, tag_of, user_key};

/// A total order of keys. The name goes into every database and must not change while the order
/// does not: a database opens only with the comparator it was made with. Names that begin with
/// `leveldb.` are reserved.
///
/// Methods run on many threads at once, some under locks: they must not block, panic, or call the
/// database. A panic while writing, flushing or compacting ends writing until the next open.
pub trait Comparator: Send + Sync {
    /// The name that a database records, such as `"my.reverse"`.
    fn name(&self) -> &str;

    /// Orders `a` against `b`. Keys that compare equal are one key.
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering;

    /// May shorten `start` to any key in `[start, limit)`. Doing nothing is always right; shorter
    /// keys make indexes smaller.
    fn shortest_separator(&self, _start: &mut Vec<u8>, _limit: &[u8]) {}

    /// May shorten `key` to any key not less than it. Doing nothing is always right.
    fn short_successor(&self, _key: &mut Vec<u8>) {}
}

/// LevelDB's default order: unsigned bytes, shorter first.
#[derive(Clone, Copy, Debug, Default)]
pub struct BytewiseComparator;

impl Comparator for BytewiseComparator {
    fn name(&self) -> &str {
        "leveldb.BytewiseComparator"
    }

    #[inline]
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.cmp(b)
    }

    fn shortest_separator(&self, start: &mut Vec<u8>, limit: &[u8]) {
        let common = start.iter().zip(limit).take_while(|(a, b)| a == b).count();
        let (Some(&byte), Some(&limit_byte)) = (start.get(common), limit.get(common)) else {
            return; // One is a prefix of the other: nothing shorter lies between.
        };
        if byte < 0xff && byte + 1 < limit_byte {
            start.truncate(common);
            start.push(byte + 1);
        }
    }

    fn short_successor(&self, key: &mut Vec<u8>) {
        if let Some(at) = key.iter().position(|&byte| byte != 0xff) {
            key[at] += 1;
            key.truncate(at + 1);
        }
    }
}

/// The order of user keys, with the usual case inline: a virtual call per comparison would show in
/// every search.
#[derive(Clone)]
pub(crate) enum UserOrder {
    Bytewise,
    Custom(Arc<dyn Comparator>),
}

impl UserOrder {
    pub(crate) fn new(comparator: Option<Arc<dyn Comparator>>) -> Self {
        match comparator {
            Some(custom) if custom.name() != BytewiseComparator.name() => UserOrder::Custom(custom),
            _ => UserOrder::Bytewise,
        }
    }

    pub(crate) fn comparator(&self) -> &dyn Comparator {
        match self {
            UserOrder::Bytewise => &BytewiseComparator,
            UserOrder::Custom(custom) => &**custom,
        }
    }

    #[inline]
    pub(crate) fn is_bytewise(&self) -> bool {
        matches!(self, UserOrder::Bytewise)
    }

    pub(crate) fn name(&self) -> &str {
        self.comparator().name()
    }

    #[inline]
    pub(crate) fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            UserOrder::Bytewise => a.cmp(b),
            UserOrder::Custom(custom) => custom.compare(a, b),
        }
    }

    /// Whether the first user key, with the head of an internal key of it, is before the second. Keys are
    /// asked for where the heads do not tell.
    #[inline]
    pub(crate) fn is_before<'a, 'b>(
        &self,
        a: (KeyHead, impl FnOnce() -> &'a [u8]),
        b: (KeyHead, impl FnOnce() -> &'b [u8]),
    ) -> bool {
        // Custom orders have no leading words.
        match a.0.leading == b.0.leading {
            true => self.compare(a.1(), b.1()).is_lt(),
            false => a.0.leading < b.0.leading,
        }
    }
}

impl fmt::Debug for UserOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The order of internal keys: user keys up, then tags (sequence number and kind) down, so that the
/// newest version of a key comes first.
#[derive(Clone, Debug)]
pub(crate) struct InternalOrder {
    pub(crate) user: UserOrder,
}

impl InternalOrder {
    pub(crate) fn new(user: UserOrder) -> Self {
        InternalOrder { user }
    }

    #[inline]
    pub(crate) fn is_bytewise(&self) -> bool {
        self.user.is_bytewise()
    }

    /// Both keys must be at least eight bytes; decoders check before they hand keys out.
    #[inline]
    pub(crate) fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.user.compare(user_key(a), user_key(b)).then_with(|| tag_of(b).cmp(&tag_of(a)))
    }

    pub(crate) fn shortest_separator(&self, start: &mut Vec<u8>, limit: &[u8]) {
        let (user_start, _) = split(start);
        let mut shorter = user_start.to_vec();
        self.user.comparator().shortest_separator(&mut shorter, user_key(limit));
        self.replace_if_shorter(start, shorter);
    }

    pub(crate) fn short_successor(&self, key: &mut Vec<u8>) {
        let (user, _) = split(key);
        let mut shorter = user.to_vec();
        self.user.comparator().short_successor(&mut shorter);
        self.replace_if_shorter(key, shorter);
    }

    /// The shortened user key is later than the old one, so the earliest tag may be put behind it.
    fn replace_if_shorter(&self, key: &mut Vec<u8>, mut shorter: Vec<u8>) {
        let user = user_key(key);
        if shorter.len() < user.len() && self.user.compare(user, &shorter).is_lt() {
            shorter.extend_from_slice(&SEEK_TAG_MAX.to_le_bytes());
            *key = shorter;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::key::{InternalKey, SeqNo, ValueKind};

    fn key(user: &[u8], seqno: u64, kind: ValueKind) -> Vec<u8> {
        InternalKey::new(user, SeqNo(seqno), kind).into_bytes()
    }

    fn separator(start: &[u8], limit: &[u8]) -> Vec<u8> {
        let mut out = start.to_vec();
        InternalOrder::new(UserOrder::Bytewise).shortest_separator(&mut out, limit);
        out
    }

    #[test]
    fn newer_versions_come_first() {
        let order = InternalOrder::new(UserOrder::Bytewise);
        let older = key(b"foo", 99, ValueKind::Value);
        let newer = key(b"foo", 100, ValueKind::Deletion);
        assert!(order.compare(&newer, &older).is_lt());
        assert!(order.compare(&older, &key(b"fop", 1, ValueKind::Value)).is_lt());
    }

    #[test]
    fn separators_are_short_and_between() {
        let foo = key(b"foo", 100, ValueKind::Value);
        for same in [
            key(b"foo", 99, ValueKind::Value),
            key(b"foo", 101, ValueKind::Value),
            key(b"foo", 100, ValueKind::Deletion),
            key(b"bar", 99, ValueKind::Value),
            key(b"foobar", 200, ValueKind::Value),
        ] {
            assert_eq!(separator(&foo, &same), foo);
        }
        let mut shorter = b"g".to_vec();
        shorter.extend_from_slice(&SEEK_TAG_MAX.to_le_bytes());
        assert_eq!(separator(&foo, &key(b"hello", 200, ValueKind::Value)), shorter);
        let foobar = key(b"foobar", 100, ValueKind::Value);
        assert_eq!(separator(&foobar, &key(b"foo", 200, ValueKind::Value)), foobar);
    }

    #[test]
    fn successors_are_short_and_after() {
        let order = InternalOrder::new(UserOrder::Bytewise);
        let mut foo = key(b"foo", 100, ValueKind::Value);
        order.short_successor(&mut foo);
        assert_eq!(user_key(&foo), b"g");
        let mut high = key(&[0xff, 0xff], 100, ValueKind::Value);
        order.short_successor(&mut high);
        assert_eq!(high, key(&[0xff, 0xff], 100, ValueKind::Value));
    }
}
