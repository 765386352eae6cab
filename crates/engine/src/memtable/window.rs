//! Hints: integers beside the skip list's links that end most fruitless comparisons before they
//! touch the next node's memory. The skip list computes and compares them.
//!
//! A hint shows a key through a *window*: the seven bytes behind a *base*, which is what all keys of
//! the list had in common when the window was chosen. Keys without that base lie before or after
//! all that have it, and get the least or the greatest hint. So hints of one window never rise when
//! keys fall, whatever keys come later; they only tell less. The list moves the window as it grows.
//!
//! **Layout** of a hint: seven bytes of the key, big-endian, zeros behind a short one; then the
//! window's epoch. Epoch 0 has no window, and its one hint, 0, says nothing.

use crate::base::key::leading_bytes;

/// No hint.
pub(super) const UNKNOWN: u64 = 0;

/// Where hints look.
#[derive(Clone, Copy)]
pub(super) struct Window<'a> {
    pub(super) base: &'a [u8],
    /// Tells hints of this window from those of earlier ones; not 0.
    pub(super) epoch: u8,
}

impl Window<'_> {
    #[inline]
    pub(super) fn hint(&self, key: &[u8]) -> u64 {
        let shown = match key.strip_prefix(self.base) {
            Some(rest) => leading_bytes(rest) & !0xff,
            None if key < self.base => 0,
            None => !0xff,
        };
        shown | u64::from(self.epoch)
    }
}

/// True if the two hints prove that `a`'s key is after `b`'s.
#[inline]
pub(super) fn proves_after(a: u64, b: u64) -> bool {
    a > b && (a ^ b) & 0xff == 0
}

/// The bytes that both begin with.
pub(super) fn common_prefix<'a>(a: &'a [u8], b: &[u8]) -> &'a [u8] {
    &a[..a.iter().zip(b).take_while(|(a, b)| a == b).count()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hints_look_behind_the_base() {
        let window = Window { base: b"user", epoch: 3 };
        assert_eq!(window.hint(b"user1234567890"), 0x3132_3334_3536_3703);
        assert_eq!(window.hint(b"user12"), 0x3132_0000_0000_0003);
        assert_eq!(window.hint(b"user"), 3);
        assert_eq!(window.hint(b"use"), 3);
        assert_eq!(window.hint(b""), 3);
        assert_eq!(window.hint(b"zebra"), 0xffff_ffff_ffff_ff03);
        assert_eq!(window.hint(b"v"), 0xffff_ffff_ffff_ff03);
    }

    #[test]
    fn hints_of_two_windows_prove_nothing() {
        let old = Window { base: b"b", epoch: 1 };
        let new = Window { base: b"", epoch: 2 };
        assert!(!proves_after(old.hint(b"c"), new.hint(b"a")));
        assert!(!proves_after(new.hint(b"c"), old.hint(b"a")));
        assert!(!proves_after(UNKNOWN, UNKNOWN));
        assert!(!proves_after(new.hint(b"c"), UNKNOWN));
        assert!(proves_after(new.hint(b"c"), new.hint(b"a")));
    }

    fn key() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(prop_oneof![Just(0), Just(1), Just(0xff)], 0..12)
    }

    proptest! {
        #[test]
        fn a_proof_is_never_wrong(base in key(), a in key(), b in key()) {
            let window = Window { base: &base, epoch: 1 };
            if proves_after(window.hint(&a), window.hint(&b)) {
                prop_assert!(a > b);
            }
        }

        #[test]
        fn within_seven_bytes_every_difference_shows(a in key(), b in key()) {
            let window = Window { base: common_prefix(&a, &b), epoch: 1 };
            // Zero bytes at the end of a short key are the one thing a hint cannot tell.
            if a > b && a[window.base.len()] != 0 {
                prop_assert!(proves_after(window.hint(&a), window.hint(&b)));
            }
        }
    }
}
