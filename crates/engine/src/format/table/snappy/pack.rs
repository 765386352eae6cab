//! Packs blocks into Snappy's raw format, which [`super`] describes. The table builder's codec calls it,
//! block after block.
//!
//! Where four bytes were seen last stands in a table of slots, by their hash. While nothing is found the
//! search goes on in steps that grow, so that data without repetitions costs little. Where copies have
//! been long it takes larger steps from the start: a long repetition is met in its middle as well as at
//! its beginning, and [going back](Window::common_before) finds the beginning.
//!
//! **Invariants.**
//! - K1: the output depends on the input alone: slots are emptied before each fragment.
//! - K2: a place that is looked up is at most `limit`, which is [`MARGIN`] bytes before the fragment's end;
//!   so is each place in a slot. Whole words can be read there without asking.
//! - K3: offsets fit 16 bits, for a fragment has [`FRAGMENT_BYTES`] and copies do not leave it.
#![expect(unsafe_code, reason = "words are read without bounds checks")]

#[cfg(test)]
mod tests;

use std::mem;

use crate::base::coding::write_varint32;

/// Inputs are cut into these, as by other writers of the format.
const FRAGMENT_BYTES: usize = 1 << 16;
const SLOTS_MAX: usize = 1 << 14;
/// Nothing is looked up in the last bytes of a fragment, nor in fragments that have no more.
const MARGIN: usize = 16;

/// The shortest copy that is made: what a slot is found by.
const WORD_BYTES: usize = 4;
/// The longest copy that one element holds.
const COPY_BYTES_MAX: usize = 64;
/// A copy with one byte of offset is shorter than this.
const NEAR_COPY_BYTES: usize = 12;
/// And its offset is less than this.
const NEAR_OFFSETS: usize = 1 << 11;
/// The longest literal whose length stands in the tag.
const SHORT_LITERAL_BYTES: usize = 60;
/// So much is copied for a short literal, whatever its length.
const LITERAL_PIECE: usize = 64;

const TAG_LITERAL: u8 = 0;
const TAG_COPY_NEAR: u32 = 1;
const TAG_COPY: u32 = 2;

/// How a search goes on from place to place.
struct Pace {
    /// So many places are looked up one after the other.
    dense: usize,
    /// Then the step is this, in 32nds of a byte. It grows by a byte for every 32.
    stride: usize,
}

const CAREFUL: Pace = Pace { dense: 16, stride: 48 };
/// The first steps are less than what was dense, or repetitions could be stepped over again and again.
const BRISK: Pace = Pace { dense: 8, stride: 160 };
/// From a mean of copies of 16 bytes on, searches are brisk.
const BRISK_MEAN_X4: usize = 4 * 16;

/// The room that an input of so many bytes is given. Copies shrink by a byte at least, which is what
/// a short literal before them grows by; long ones grow by three bytes at most. So this is far more than
/// needed, and usual for the format.
fn packed_bytes_max(len: usize) -> usize {
    32 + len + len / 6
}

/// Working memory, kept from block to block.
pub(crate) struct Packer {
    slots: Box<[u16; SLOTS_MAX]>,
}

impl Packer {
    pub(crate) fn new() -> Self {
        let slots = vec![0; SLOTS_MAX].into_boxed_slice();
        Packer { slots: slots.try_into().expect("it has this length") }
    }

    /// Packs `raw` into the start of `out`, which it may lengthen, and returns the packed length. `None`
    /// past 4 GiB, which the format cannot tell.
    pub(crate) fn pack(&mut self, raw: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        let len = u32::try_from(raw.len()).ok()?;
        let bytes_max = packed_bytes_max(raw.len());
        if out.len() < bytes_max {
            out.resize(bytes_max, 0);
        }
        let mut len = write_varint32(out, len);
        for fragment in raw.chunks(FRAGMENT_BYTES) {
            let out = &mut out[len..];
            // Small tables are emptied faster, and stay in the nearest cache.
            len += match fragment.len() {
                0..=0x400 => self.pack_fragment::<0x400>(fragment, out),
                0x401..=0x2000 => self.pack_fragment::<0x1000>(fragment, out),
                _ => self.pack_fragment::<SLOTS_MAX>(fragment, out),
            }
        }
        Some(len)
    }

    // Not inlined: three copies of the search in one function leave too few registers to each.
    #[inline(never)]
    fn pack_fragment<const SLOTS: usize>(&mut self, raw: &[u8], out: &mut [u8]) -> usize {
        let mut packed = Packed { out, len: 0 };
        let done = match raw.len().checked_sub(MARGIN) {
            Some(limit) => {
                let slots = self.slots.first_chunk_mut::<SLOTS>().expect("SLOTS_MAX is the most");
                slots.fill(0);
                Window { raw, limit, slots, mean_x4: 0 }.pack(&mut packed)
            }
            None => 0,
        };
        if done < raw.len() {
            packed.len = put_long_literal(packed.out, packed.len, &raw[done..]);
        }
        packed.len
    }
}

/// A fragment, and where its words were seen.
struct Window<'a, const SLOTS: usize> {
    raw: &'a [u8],
    /// The last place that is looked up (K2).
    limit: usize,
    slots: &'a mut [u16; SLOTS],
    /// Four times a moving mean of the lengths of copies.
    mean_x4: usize,
}

/// A place whose word was also seen before.
struct Match {
    at: usize,
    before: usize,
    /// Where the repetition begins: at `at`, or some bytes earlier.
    start: usize,
}

impl<const SLOTS: usize> Window<'_, SLOTS> {
    /// Packs all but a last literal, and returns where that begins.
    #[inline(always)]
    fn pack(&mut self, packed: &mut Packed<'_>) -> usize {
        let mut done = 0;
        // Slots are empty as if each word had been seen at 0, so the first place is known.
        let mut at = 1;
        while let Some(mut found) = self.search(at, done) {
            packed.put_literal(self.raw, done, found.start);
            // One repetition often ends where another begins: no literal lies between, not even of
            // no bytes.
            loop {
                // The next search waits for this alone: not for the beginning, nor for what is put.
                done = self.common_end(found.before + WORD_BYTES, found.at + WORD_BYTES);
                packed.put_copy(found.at - found.before, done - found.start);
                self.mean_x4 = self.mean_x4 - self.mean_x4 / 4 + (done - found.at);
                if done > self.limit {
                    return done;
                }
                // For later searches: what a repetition ends with is where the next one may begin.
                self.find(done - 1);
                match self.find(done) {
                    Some(before) => found = Match { at: done, before, start: done },
                    None => break,
                }
            }
            at = done + 1;
        }
        done
    }

    /// The next match from `at` on. Everything up to `done` is packed.
    #[inline(always)]
    fn search(&mut self, mut at: usize, done: usize) -> Option<Match> {
        let pace = if self.mean_x4 >= BRISK_MEAN_X4 { BRISK } else { CAREFUL };
        let dense_end = (at + pace.dense).min(self.limit + 1);
        while at < dense_end {
            if let Some(before) = self.find(at) {
                return Some(Match { at, before, start: at });
            }
            at += 1;
        }
        let mut stride = pace.stride;
        while at <= self.limit {
            if let Some(before) = self.find(at) {
                let start = at - self.common_before(before, at).min(at - done);
                return Some(Match { at, before, start });
            }
            let step = stride / 32;
            stride += step;
            at += step;
        }
        None
    }

    /// Where the word at `at` was seen before, if its slot still knows. Now it was seen here.
    #[inline(always)]
    fn find(&mut self, at: usize) -> Option<usize> {
        // Per byte, and still in release builds: it takes a fiftieth of the time, and what follows
        // rests on it.
        assert!(at <= self.limit, "K2");
        // SAFETY: K2, as was just seen.
        let word = unsafe { word(self.raw, at) };
        let slot = &mut self.slots[slot_of::<SLOTS>(word)];
        let before = usize::from(mem::replace(slot, at as u16));
        // SAFETY: K2. Slots hold 0, or what was `at`.
        let same = unsafe { self::word(self.raw, before) } == word;
        same.then_some(before)
    }

    /// The end of what is the same at `at` as at `before`.
    #[inline(always)]
    fn common_end(&self, mut before: usize, mut at: usize) -> usize {
        while at + 8 <= self.raw.len() {
            // SAFETY: eight bytes can be read at `at`, as was just seen, and `before` is less.
            let differs = unsafe { difference(self.raw, before, at) };
            if differs != 0 {
                return at + differs.trailing_zeros() as usize / 8;
            }
            (before, at) = (before + 8, at + 8);
        }
        while at < self.raw.len() && self.raw[before] == self.raw[at] {
            (before, at) = (before + 1, at + 1);
        }
        at
    }

    /// How many bytes before `at` are the same as before `before`: up to seven, since longer steps are
    /// taken only where repetitions are rare.
    #[inline(always)]
    fn common_before(&self, before: usize, at: usize) -> usize {
        if before < 8 {
            return 0;
        }
        // SAFETY: both are places that were looked up (K2), and at least 8, `before` being the less.
        let differs = unsafe { difference(self.raw, before - 8, at - 8) };
        (differs | 1).leading_zeros() as usize / 8
    }
}

/// The upper bits of a product depend on all bits of a word.
#[inline(always)]
fn slot_of<const SLOTS: usize>(word: u32) -> usize {
    // 2^32 divided by the golden ratio.
    (word.wrapping_mul(0x9e37_79b1) >> (32 - SLOTS.trailing_zeros())) as usize
}

/// # Safety
/// Four bytes can be read at `at`.
#[inline(always)]
unsafe fn word(raw: &[u8], at: usize) -> u32 {
    debug_assert!(at + 4 <= raw.len());
    // SAFETY: as the caller promises.
    u32::from_le(unsafe { raw.as_ptr().add(at).cast::<u32>().read_unaligned() })
}

/// What eight bytes in two places differ by; the first is the lowest.
///
/// # Safety
/// Eight bytes can be read at both.
#[inline(always)]
unsafe fn difference(raw: &[u8], before: usize, at: usize) -> u64 {
    debug_assert!(before.max(at) + 8 <= raw.len());
    // SAFETY: as the caller promises.
    let long = |at| unsafe { raw.as_ptr().add(at).cast::<u64>().read_unaligned() };
    u64::from_le(long(before) ^ long(at))
}

/// The output, and how much of it is written. What is behind that may be overwritten.
struct Packed<'a> {
    out: &'a mut [u8],
    len: usize,
}

impl Packed<'_> {
    /// Bytes as they are, from `start` to `end`; there may be none.
    #[inline(always)]
    fn put_literal(&mut self, raw: &[u8], start: usize, end: usize) {
        let len = end - start;
        let room = self.out[self.len..].first_chunk_mut::<{ 1 + LITERAL_PIECE }>();
        let piece = raw[start..].first_chunk::<LITERAL_PIECE>();
        // Without branches on the length, which no processor foretells.
        if len <= SHORT_LITERAL_BYTES
            && let (Some(room), Some(piece)) = (room, piece)
        {
            room[0] = (len as u8).wrapping_sub(1) << 2 | TAG_LITERAL;
            room[1..].copy_from_slice(piece);
            self.len += len + usize::from(len != 0);
        } else if len != 0 {
            self.len = put_long_literal(self.out, self.len, &raw[start..end]);
        }
    }

    /// A repetition of `len` bytes, `back` bytes after they were there first.
    #[inline(always)]
    fn put_copy(&mut self, back: usize, mut len: usize) {
        // What remains must be long enough for a copy.
        while len >= COPY_BYTES_MAX + WORD_BYTES {
            self.put_element(far_copy(back, COPY_BYTES_MAX), 3);
            len -= COPY_BYTES_MAX;
        }
        if len > COPY_BYTES_MAX {
            self.put_element(far_copy(back, COPY_BYTES_MAX - WORD_BYTES), 3);
            len -= COPY_BYTES_MAX - WORD_BYTES;
        }
        // A choice of values, where a branch would be foretold wrong half of the time.
        let is_near = len < NEAR_COPY_BYTES && back < NEAR_OFFSETS;
        let element = if is_near { near_copy(back, len) } else { far_copy(back, len) };
        self.put_element(element, 3 - usize::from(is_near));
    }

    /// The first `len` bytes of these count.
    #[inline(always)]
    fn put_element(&mut self, element: u32, len: usize) {
        let room = self.out[self.len..].first_chunk_mut().expect("packed_bytes_max leaves room");
        *room = element.to_le_bytes();
        self.len += len;
    }
}

/// A literal of any length but none, at `at`; returns where it ends.
// Not a method: what a call could change would have to lie in memory between any two elements.
#[inline(never)]
fn put_long_literal(out: &mut [u8], at: usize, bytes: &[u8]) -> usize {
    let code = bytes.len() - 1;
    let [low, high, ..] = code.to_le_bytes();
    let (header, header_len) = match code {
        0..SHORT_LITERAL_BYTES => ([low << 2 | TAG_LITERAL, 0, 0], 1),
        SHORT_LITERAL_BYTES..=0xff => ([60 << 2 | TAG_LITERAL, low, 0], 2),
        _ => ([61 << 2 | TAG_LITERAL, low, high], 3),
    };
    out[at..][..header_len].copy_from_slice(&header[..header_len]);
    let start = at + header_len;
    out[start..][..bytes.len()].copy_from_slice(bytes);
    start + bytes.len()
}

/// Kind 2: three bytes.
#[inline(always)]
fn far_copy(back: usize, len: usize) -> u32 {
    (back as u32) << 8 | (len as u32).wrapping_sub(1) << 2 | TAG_COPY
}

/// Kind 1: two bytes. Nonsense for lengths and offsets that it has no room for.
#[inline(always)]
fn near_copy(back: usize, len: usize) -> u32 {
    let (back, len) = (back as u32, len as u32);
    (back & 0xff) << 8 | back >> 8 << 5 | len.wrapping_sub(WORD_BYTES as u32) << 2 | TAG_COPY_NEAR
}
