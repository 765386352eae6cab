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
            Some(rest) => first_bytes(rest) & !0xff,
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

/// The first eight bytes as an integer that orders as they do, zeros behind a short key.
#[inline]
fn first_bytes(key: &[u8]) -> u64 {
    if let Some(first) = key.first_chunk::<8>() {
        return u64::from_be_bytes(*first);
    }
    let mut padded = [0; 8];
    padded[..key.len()].copy_from_slice(key);
    u64::from_be_bytes(padded)
}

pub(super) fn common_prefix<'a>(a: &'a [u8], b: &[u8]) -> &'a [u8] {
    &a[..a.iter().zip(b).take_while(|(a, b)| a == b).count()]
}
