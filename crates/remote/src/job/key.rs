//! Internal keys, as tables hold them: a user key and eight bytes of tag, in which the newer entry sorts first. Only what
//! is needed to check results; the merge itself is the runner's affair.

use std::cmp::Ordering;
use std::fmt;

use crate::job::invalid::Invalid;
use crate::job::limits::KEY_BYTES_MAX;

const TAG_BYTES: usize = 8;

/// The order of user keys, by which a database is sorted.
pub trait KeyOrder {
    /// How two user keys lie to each other. A total order that never changes.
    fn compare(&self, left: &[u8], right: &[u8]) -> Ordering;
}

/// The order of bytes: LevelDB's usual one.
#[derive(Clone, Copy, Debug, Default)]
pub struct BytewiseOrder;

impl BytewiseOrder {
    /// As specs call it.
    pub const NAME: &'static str = "leveldb.BytewiseComparator";
}

impl KeyOrder for BytewiseOrder {
    fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        left.cmp(right)
    }
}

/// A user key with its tag: sequence number (56 bits) and kind (8 bits), little-endian.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TaggedKey(Vec<u8>);

impl TaggedKey {
    /// Checks that there is a tag, and that the key is not too long.
    ///
    /// # Errors
    ///
    /// [`Invalid`] says which of both it is.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, Invalid> {
        if bytes.len() < TAG_BYTES || bytes.len() > KEY_BYTES_MAX {
            let why = format!("{} bytes, not 8 to {KEY_BYTES_MAX}", bytes.len());
            return Err(Invalid::new("internal key", why));
        }
        Ok(TaggedKey(bytes))
    }

    /// Of its parts. Of the sequence number 56 bits count.
    ///
    /// # Errors
    ///
    /// [`Invalid`] if the user key is too long.
    pub fn new(user: &[u8], seqno: u64, kind: u8) -> Result<Self, Invalid> {
        let tag = (seqno << 8 | u64::from(kind)).to_le_bytes();
        TaggedKey::from_bytes([user, &tag].concat())
    }

    /// All of it.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The user's part.
    pub fn user(&self) -> &[u8] {
        let (user, _) = self.0.split_at(self.0.len() - TAG_BYTES);
        user
    }

    fn tag(&self) -> u64 {
        let tag = self.0.last_chunk::<TAG_BYTES>().expect("checked when it was made");
        u64::from_le_bytes(*tag)
    }

    /// The sequence number.
    pub fn seqno(&self) -> u64 {
        self.tag() >> 8
    }

    /// The kind: 0 for deletions, 1 for values.
    pub fn kind(&self) -> u8 {
        let [kind, ..] = self.tag().to_le_bytes();
        kind
    }

    /// How two entries lie to each other: of one user key the newer comes first.
    pub fn compare(&self, order: &dyn KeyOrder, other: &TaggedKey) -> Ordering {
        order.compare(self.user(), other.user()).then_with(|| other.tag().cmp(&self.tag()))
    }
}

/// Only how long it is: keys are the user's.
impl fmt::Debug for TaggedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key of {} bytes @{}", self.user().len(), self.seqno())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_entries_of_one_key_come_first() {
        let key = |user: &str, seqno| TaggedKey::new(user.as_bytes(), seqno, 1).unwrap();
        let order = |left: &TaggedKey, right: &TaggedKey| left.compare(&BytewiseOrder, right);
        assert_eq!(order(&key("a", 1), &key("b", 9)), Ordering::Less);
        assert_eq!(order(&key("a", 9), &key("a", 1)), Ordering::Less);
        assert_eq!(order(&key("a", 9), &key("a", 9)), Ordering::Equal);
        assert_eq!((key("ab", 7).user(), key("ab", 7).seqno()), (&b"ab"[..], 7));
    }

    #[test]
    fn keys_without_a_tag_or_without_an_end_are_refused() {
        assert!(TaggedKey::from_bytes(vec![0; 7]).is_err());
        assert!(TaggedKey::from_bytes(vec![0; 8]).is_ok());
        assert!(TaggedKey::from_bytes(vec![0; KEY_BYTES_MAX + 1]).is_err());
    }

    #[test]
    fn keys_are_not_printed() {
        assert_eq!(format!("{:?}", TaggedKey::new(b"canary", 3, 1).unwrap()), "key of 6 bytes @3");
    }
}
