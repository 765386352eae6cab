//! An entry of a stride, and how it is parsed: its header and its key in a few copies of fixed lengths.

use std::ops::Range;

use crate::base::key::{SeqNo, TAG_BYTES, ValueKind, leading_words, user_key};
use crate::format::table::block::{Block, Entry};
use crate::format::table::block_iter::hint_ahead;
use crate::format::table::key_buf::{PIECE_BYTES, Piece};
use crate::format::table::stride::Answers;

/// A key is made of what it shares and what it does not: a piece each.
pub(super) const KEY_BYTES: usize = 2 * PIECE_BYTES;
/// A header of three lengths, the last of which takes a byte or two.
const HEADER_BYTES: Range<usize> = 3..5;
/// What is looked at of an entry.
const LOOK_BYTES: usize = HEADER_BYTES.end - 1 + PIECE_BYTES;
/// A length that takes a byte is less.
const ONE_BYTE: usize = 0x80;

/// A parsed entry.
#[derive(Clone)]
pub(super) struct Slot {
    /// What is behind the key means nothing.
    pub(super) key: [u8; KEY_BYTES],
    pub(super) key_len: usize,
    pub(super) value: Range<usize>,
}

impl Default for Slot {
    fn default() -> Self {
        Slot { key: [0; KEY_BYTES], key_len: 0, value: 0..0 }
    }
}

impl Slot {
    #[inline(always)]
    pub(super) fn key(&self) -> &[u8] {
        self.key.get(..self.key_len).unwrap_or_default()
    }

    /// Becomes the entry that starts at `at`, behind another one; `None` if it is not plain.
    #[inline(always)]
    pub(super) fn parse<'b>(
        &mut self,
        block: &'b Block,
        at: usize,
        before: &Slot,
        beginning: &mut Beginning,
    ) -> Option<Look<'b>> {
        let look = Look::at(block, at).filter(|look| look.shared + TAG_BYTES <= before.key_len)?;
        self.key[..PIECE_BYTES].copy_from_slice(beginning.shared_by(look.shared, before));
        self.key[look.shared..look.shared + PIECE_BYTES].copy_from_slice(look.piece);
        self.key_len = look.shared + look.suffix;
        self.value = look.value.clone();
        Some(look)
    }

    /// The same of any entry with a key that there is room for.
    #[inline(never)]
    pub(super) fn parse_any(&mut self, block: &Block, at: usize, before: &Slot) -> Option<()> {
        let Entry { shared, suffix, value } = block.entry_at(at)?;
        self.key_len = shared + suffix.len();
        self.key.get_mut(..shared)?.copy_from_slice(before.key().get(..shared)?);
        self.key.get_mut(shared..self.key_len)?.copy_from_slice(block.slice(suffix));
        self.value = value;
        Some(())
    }
}

/// A piece that begins as the key before does. Mostly it is of an older key: who reads one that has just been stored in two
/// pieces waits until both have arrived.
#[derive(Default)]
pub(super) struct Beginning {
    piece: Piece,
    bytes: usize,
}

impl Beginning {
    /// Begins, too, as the next key does, which shares so many bytes with the one before.
    #[inline(always)]
    fn shared_by(&mut self, shared: usize, before: &Slot) -> &Piece {
        if shared > self.bytes {
            self.piece.copy_from_slice(&before.key[..PIECE_BYTES]);
        }
        self.bytes = shared;
        &self.piece
    }
}

/// An entry's header, and what its suffix lies in.
pub(super) struct Look<'b> {
    shared: usize,
    suffix: usize,
    value: Range<usize>,
    piece: &'b Piece,
}

impl<'b> Look<'b> {
    /// At an entry that starts at `at`; `None` unless it is plain, and ends where the entries do, or before.
    #[inline(always)]
    fn at(block: &'b Block, at: usize) -> Option<Self> {
        let look = block.from(at).first_chunk::<LOOK_BYTES>()?;
        hint_ahead(look);
        let [shared, suffix, value, more] = [0, 1, 2, 3].map(|byte| usize::from(look[byte]));
        let (value, header) = match value < ONE_BYTE {
            true => (value, HEADER_BYTES.start),
            false if more < ONE_BYTE => {
                (value - ONE_BYTE + more * ONE_BYTE, HEADER_BYTES.start + 1)
            }
            false => return None,
        };
        // A length of more bytes is too much.
        if shared > PIECE_BYTES || !(TAG_BYTES + 1..=PIECE_BYTES).contains(&suffix) {
            return None;
        }
        let value_at = at + header + suffix;
        let value = value_at..value_at + value;
        let piece = look.get(header..)?.first_chunk()?;
        (value.end <= block.entries_end()).then_some(Look { shared, suffix, value, piece })
    }

    /// As far as its own block tells.
    #[inline(always)]
    pub(super) fn is_answer(&self, before: &Slot, slot: &Slot, answers: &Answers) -> bool {
        let suffix = self.piece.get(..self.suffix).unwrap_or_default();
        let tag = suffix.last_chunk().map_or(u64::MAX, |tag| u64::from_le_bytes(*tag));
        tag as u8 == ValueKind::Value as u8
            && SeqNo(tag >> 8) <= answers.seqno
            && self.is_greater(before, slot)
    }

    /// Whether its leading words are less than these, as those of the entry before are, with whom the first `matched` bytes are the
    /// same. Mostly what it shares tells: to read a key that has just been stored takes longer.
    #[inline(always)]
    pub(super) fn lies_before(&self, others: u128, slot: &Slot, matched: &mut usize) -> bool {
        if self.shared > *matched {
            return true;
        }
        let leading = leading_words(slot.key());
        *matched = (leading ^ others).leading_zeros() as usize / 8;
        leading < others
    }

    /// Whether its user key is greater than that of the entry before.
    #[inline(always)]
    fn is_greater(&self, before: &Slot, slot: &Slot) -> bool {
        let differs_in_user_key = self.shared + TAG_BYTES < before.key_len;
        (differs_in_user_key && self.piece[0] > before.key[self.shared])
            || is_greater(slot.key(), before.key())
    }
}

/// Where the first different bytes do not tell: at restart points, and among the versions of a key.
#[inline(never)]
fn is_greater(key: &[u8], before: &[u8]) -> bool {
    user_key(key) > user_key(before)
}
