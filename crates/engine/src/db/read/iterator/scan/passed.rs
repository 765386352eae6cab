//! Comparisons of user keys that mostly need no look at the keys.

use crate::base::comparator::UserOrder;
use crate::base::key::{KeyHead, LEADING_BYTES};

/// A user key whose entries are to be passed over, and all before them.
#[derive(Default)]
pub(super) struct Passed {
    /// Of its head, as is the length.
    leading: u128,
    user_len: usize,
    /// Not set if the leading words say all of it.
    key: Vec<u8>,
}

impl Passed {
    #[inline]
    pub(super) fn set<'k>(
        &mut self,
        order: &UserOrder,
        head: KeyHead,
        key: impl FnOnce() -> &'k [u8],
    ) {
        (self.leading, self.user_len) = (head.leading, head.user_len);
        if head.user_len > LEADING_BYTES || !order.is_bytewise() {
            self.key.clear();
            self.key.extend_from_slice(key());
        }
    }

    /// Whether a key is not behind this one.
    #[inline]
    pub(super) fn covers<'k>(
        &self,
        order: &UserOrder,
        head: KeyHead,
        key: impl FnOnce() -> &'k [u8],
    ) -> bool {
        match order {
            UserOrder::Bytewise if head.leading != self.leading => head.leading < self.leading,
            // Zeros, of which the leading words cannot tell, make a key longer, and so greater.
            UserOrder::Bytewise if self.user_len <= LEADING_BYTES => head.user_len <= self.user_len,
            _ => order.compare(key(), &self.key).is_le(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::base::comparator::{BytewiseComparator, Comparator};
    use crate::base::key::{InternalKey, SEQNO_MAX};

    /// A comparator that the engine does not know for the bytewise order.
    struct Foreign;

    impl Comparator for Foreign {
        fn name(&self) -> &str {
            "test.foreign"
        }
        fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
            BytewiseComparator.compare(a, b)
        }
    }

    #[test]
    fn is_the_order_of_keys() {
        let long = "sixteen bytes are";
        let keys = ["", "\0", "\0\0", "a", "a\0", "a\0\0", "b", &long[..16], long];
        let more = [&[long, "\0"].concat()[..], &[long, "z"].concat(), "sixteen bytes as"];
        let keys: Vec<&str> = keys.into_iter().chain(more).collect();
        for order in [UserOrder::Bytewise, UserOrder::Custom(Arc::new(Foreign))] {
            let head = |key: &str| {
                let internal = InternalKey::seek_to(key.as_bytes(), SEQNO_MAX);
                KeyHead::of(internal.as_bytes(), order.is_bytewise())
            };
            let mut passed = Passed::default();
            for a in &keys {
                passed.set(&order, head(a), || a.as_bytes());
                for b in &keys {
                    let bytes = b.as_bytes();
                    assert_eq!(passed.covers(&order, head(b), || bytes), b <= a, "{b:?} {a:?}");
                    let before = order.is_before((head(b), || bytes), (head(a), || a.as_bytes()));
                    assert_eq!(before, b < a, "{b:?} {a:?}");
                }
            }
        }
    }
}
