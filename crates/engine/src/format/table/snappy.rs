//! Snappy's raw format, unpacked piece by piece. A point read needs a block only as far as its key
//! lies, half of it on average, and no library stops on the way. [`pack`] writes the format.
//!
//! **Layout.** A varint32, the unpacked length; then elements, each a tag byte and what follows it. The
//! tag's low two bits are the kind.
//!
//! | kind | length | offset back |
//! | --- | --- | --- |
//! | 0, literal | the tag's high 6 bits + 1; from 61 on, the next 1 to 4 bytes + 1 | the bytes follow |
//! | 1, copy | bits 2 to 4 of the tag + 4 | bits 5 to 7 of the tag, then a byte |
//! | 2, copy | the tag's high 6 bits + 1 | fixed16 |
//! | 3, copy | the tag's high 6 bits + 1 | fixed32 |
//!
//! **Invariants.** The input may be hostile.
//! - S1: `out` has room for the unpacked length and [`ROOM`] bytes more; its first `len()` bytes are
//!   unpacked.
//! - S2: an element is looked at in [`fast`](Unpacker::fast) only if so many bytes follow its tag that
//!   the longest header and a copy of [`SLACK`] bytes behind it stay within the input.
#![expect(unsafe_code, reason = "copies of fixed size, past the end of what they are for")]

mod pack;

use std::ptr;

use crate::base::coding::Reader;
use crate::format::table::spare;

pub(crate) use pack::Packer;

/// The longest copy. Short ones are done as long ones.
const SLACK: usize = 64;
/// What may be written behind the end: a copy of a short pattern ends in a piece of 16.
const ROOM: usize = SLACK + 16;
/// What the fast loop wants of the input: a tag, a length of four bytes, and a copy.
const FAST_BYTES: usize = 1 + 4 + SLACK;

/// An input being unpacked, and how long its output will be.
pub(crate) struct Unpacker<'a> {
    rest: &'a [u8],
    len: usize,
}

/// One element's meaning.
#[derive(Clone, Copy)]
enum Element {
    Literal { len: usize },
    Copy { len: usize, back: usize },
}

impl<'a> Unpacker<'a> {
    /// Makes `out` ready, and empty. `None` if the output would be longer than `bytes_max`.
    pub(crate) fn start(stored: &'a [u8], bytes_max: usize, out: &mut Vec<u8>) -> Option<Self> {
        let mut reader = Reader::new(stored);
        let len = usize::try_from(reader.varint32()?).ok().filter(|len| *len <= bytes_max)?;
        spare::make_room(out, len + ROOM);
        Some(Unpacker { rest: reader.rest(), len })
    }

    /// Goes on where another stopped, which had `left` so many bytes of its input, the end of which `rest` is.
    pub(crate) fn resume(rest: &'a [u8], len: usize) -> Self {
        Unpacker { rest, len }
    }

    /// How many bytes of the input are left.
    pub(crate) fn left(&self) -> usize {
        self.rest.len()
    }

    /// How many bytes there will be.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Goes on until `out`, which [`start`](Self::start) made ready and nobody else has changed, holds
    /// `wanted` bytes or all. `None` if the input is broken, or ends too early or too late.
    pub(crate) fn unpack_to(&mut self, out: &mut Vec<u8>, wanted: usize) -> Option<()> {
        let wanted = wanted.min(self.len);
        assert!(out.capacity() >= self.len + ROOM, "S1");
        while out.len() < wanted {
            if self.rest.len() >= FAST_BYTES {
                self.fast(out, wanted)?;
            } else {
                self.careful(out)?;
            }
        }
        (out.len() < self.len || self.rest.is_empty()).then_some(())
    }

    /// Unpacks up to `wanted` bytes, or to where the input runs short.
    fn fast(&mut self, out: &mut Vec<u8>, wanted: usize) -> Option<()> {
        let base = out.as_mut_ptr();
        let (input, mut rest, mut done) = (self.rest, self.rest, out.len());
        // How long the literal is that ends where the next element begins. What is copied from there is copied from the input:
        // a processor cannot load what lies across two stores that are still on their way, and waits for both. In values that
        // compress most copies are such.
        let mut literal = 0;
        while done < wanted && rest.len() >= FAST_BYTES {
            let (element, header) = parse(rest.first_chunk::<5>()?);
            let tag_at = input.len() - rest.len();
            rest = &rest[header..];
            match element {
                Element::Literal { len } => {
                    if len > rest.len() || len > self.len - done {
                        return None;
                    }
                    // SAFETY: S1 and S2: `SLACK` bytes can be read behind the header and written behind
                    // `done`, and `len` is within both.
                    unsafe { copy_literal(rest.as_ptr(), base.add(done), len) };
                    literal = len;
                    rest = &rest[len..];
                    done += len;
                }
                Element::Copy { len, back } => {
                    // A copy is never longer than `SLACK`.
                    if back == 0 || back > done || len > self.len - done {
                        return None;
                    }
                    // SAFETY: by S2 `SLACK` bytes follow the tag, and more so what is before it, where `literal` bytes are of
                    // the input, too; `back` bytes before `done` are unpacked, and by S1 `ROOM` bytes behind can be written.
                    unsafe {
                        if back <= literal && len <= back {
                            copy_slack(input.as_ptr().add(tag_at - back), base.add(done));
                        } else {
                            copy_back(base.add(done), back, len);
                        }
                    }
                    literal = 0;
                    done += len;
                }
            }
        }
        self.rest = rest;
        // SAFETY: each element above has written the bytes that it counted.
        unsafe { out.set_len(done) };
        Some(())
    }

    /// One element near the input's end.
    fn careful(&mut self, out: &mut Vec<u8>) -> Option<()> {
        let mut head = [0; 5];
        let there = self.rest.len().min(head.len());
        head[..there].copy_from_slice(&self.rest[..there]);
        let (element, header) = parse(&head);
        let rest = self.rest.get(header..).filter(|_| there > 0)?;
        let room = self.len - out.len();
        match element {
            Element::Literal { len } => {
                out.extend_from_slice(rest.get(..len).filter(|_| len <= room)?);
                self.rest = &rest[len..];
            }
            Element::Copy { len, back } => {
                if back == 0 || len > room {
                    return None;
                }
                let from = out.len().checked_sub(back)?;
                (from..from + len).for_each(|at| out.push(out[at]));
                self.rest = rest;
            }
        }
        Some(())
    }
}

/// Unpacks all of `stored` into `out`.
pub(crate) fn unpack(stored: &[u8], bytes_max: usize, out: &mut Vec<u8>) -> Option<()> {
    let mut unpacker = Unpacker::start(stored, bytes_max, out)?;
    let len = unpacker.len();
    unpacker.unpack_to(out, len)
}

/// What a tag and the bytes behind it say, and how many bytes say it.
#[inline(always)]
fn parse(head: &[u8; 5]) -> (Element, usize) {
    let [tag, a, b, c, d] = *head;
    let six = usize::from(tag >> 2);
    match tag & 3 {
        0 if six < 60 => (Element::Literal { len: six + 1 }, 1),
        0 => {
            let extra = six - 59;
            let mask = u32::MAX >> (32 - 8 * extra);
            let len = (u32::from_le_bytes([a, b, c, d]) & mask) as usize + 1;
            (Element::Literal { len }, 1 + extra)
        }
        1 => {
            let back = usize::from(tag >> 5) << 8 | usize::from(a);
            (Element::Copy { len: 4 + (six & 7), back }, 2)
        }
        2 => (Element::Copy { len: six + 1, back: u16::from_le_bytes([a, b]).into() }, 3),
        _ => {
            let back = u32::from_le_bytes([a, b, c, d]) as usize;
            (Element::Copy { len: six + 1, back }, 5)
        }
    }
}

/// # Safety
/// `SLACK` bytes and `len` bytes can be read at `from` and written at `to`; they do not overlap.
#[inline(always)]
unsafe fn copy_literal(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: as the caller promises; each copy is of `SLACK` bytes or of `len`.
    unsafe {
        if len <= SLACK {
            copy_slack(from, to);
        } else {
            ptr::copy_nonoverlapping(from, to, len);
        }
    }
}

/// Repeats what is `back` bytes before `to`, for `len` bytes.
///
/// # Safety
/// `back` bytes before `to` can be read, and is not 0; `ROOM` bytes at `to` can be written; `len` is
/// at most `SLACK`.
#[inline(always)]
unsafe fn copy_back(to: *mut u8, back: usize, len: usize) {
    // SAFETY: as the caller promises. What is read behind `to` has just been written, or is past `len`
    // and counts for nothing.
    unsafe {
        let from = to.sub(back);
        if back >= 32 {
            copy_slack(from, to);
        } else if back >= 16 {
            (0..SLACK).step_by(16).for_each(|at| copy::<16>(from.add(at), to.add(at)));
        } else {
            // A short pattern is doubled until it can be copied in pieces of 16.
            let mut period = back;
            while period < 16 {
                ptr::copy_nonoverlapping(from, from.add(period), period);
                period *= 2;
            }
            let mut at = from.add(period);
            while at < to.add(len) {
                copy::<16>(at.sub(period), at);
                at = at.add(16);
            }
        }
    }
}

/// # Safety
/// `SLACK` bytes can be read at `from` and written at `to`; neither half overlaps with its copy.
#[inline(always)]
unsafe fn copy_slack(from: *const u8, to: *mut u8) {
    // SAFETY: as the caller promises.
    unsafe {
        copy::<32>(from, to);
        copy::<32>(from.add(32), to.add(32));
    }
}

/// # Safety
/// `BYTES` bytes can be read at `from` and written at `to`; they do not overlap.
#[inline(always)]
unsafe fn copy<const BYTES: usize>(from: *const u8, to: *mut u8) {
    // SAFETY: as the caller promises. Bytes that were never written may be among them: they are copied
    // as they are, and counted by nobody.
    unsafe { ptr::copy_nonoverlapping(from, to, BYTES) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pack(raw: &[u8]) -> Vec<u8> {
        snap::raw::Encoder::new().compress_vec(raw).unwrap()
    }

    fn unpacked(stored: &[u8]) -> Option<Vec<u8>> {
        let mut out = vec![0xa5; 7];
        unpack(stored, 1 << 20, &mut out).map(|()| out)
    }

    /// Text with repetitions near and far, of all periods.
    fn texts() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            proptest::collection::vec(any::<u8>(), 1..200),
            (proptest::collection::vec(any::<u8>(), 1..70), 1..12usize)
                .prop_map(|(piece, times)| piece.repeat(times)),
        ];
        proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn what_was_packed_comes_back(raw in texts()) {
            prop_assert!(unpacked(&pack(&raw)) == Some(raw));
        }

        #[test]
        fn a_part_is_a_beginning_of_the_whole(raw in texts(), wanted in 0..3000usize) {
            let (stored, mut out) = (pack(&raw), Vec::new());
            let mut unpacker = Unpacker::start(&stored, 1 << 20, &mut out).unwrap();
            prop_assert_eq!(unpacker.len(), raw.len());
            for wanted in [wanted / 2, wanted, wanted + 1] {
                unpacker.unpack_to(&mut out, wanted).unwrap();
                prop_assert!(out.len() >= wanted.min(raw.len()) && raw.starts_with(&out));
            }
            unpacker.unpack_to(&mut out, usize::MAX).unwrap();
            prop_assert!(out == raw);
        }

        /// The library is the judge of what is broken.
        #[test]
        fn broken_input_is_refused(
            raw in texts(),
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut stored = pack(&raw);
            for (at, byte) in changes {
                let at = at.index(stored.len());
                stored[at] = byte;
            }
            for stored in [&stored[..], &stored[..cut.index(stored.len())]] {
                let len = snap::raw::decompress_len(stored).ok().filter(|len| *len <= 1 << 20);
                let expected = len.and_then(|_| snap::raw::Decoder::new().decompress_vec(stored).ok());
                prop_assert!(unpacked(stored) == expected);
            }
        }
    }

    #[test]
    fn copies_of_every_period_and_length() {
        for back in 1..=80usize {
            for len in 1..=64usize {
                let total = back + len + 70;
                let mut stored = vec![total as u8 | 0x80, (total >> 7) as u8];
                stored.extend([60 << 2, back as u8 - 1]);
                stored.extend(1..=back as u8);
                stored.extend([(len as u8 - 1) << 2 | 2, back as u8, 0]);
                stored.extend([60 << 2, 69]);
                stored.extend([9; 70]);
                let found = unpacked(&stored).unwrap();
                assert!(
                    (0..len).all(|at| found[back + at] == (at % back) as u8 + 1),
                    "{back} {len}"
                );
            }
        }
    }

    /// A copy from before the last literal, across its borders and within it; behind it, and behind a copy.
    #[test]
    fn copies_from_everywhere_around_the_last_literal() {
        let literals: [Vec<u8>; 2] = [(1..=40).collect(), (101..=150).collect()];
        let raw = literals.concat();
        let copied = |out: &mut Vec<u8>, len: usize, back: usize| {
            (0..len).for_each(|_| out.push(out[out.len() - back]));
            [(len as u8 - 1) << 2 | 2, back as u8, 0]
        };
        for between in [0, 7] {
            for back in 1..=raw.len() {
                for len in 1..=64 {
                    let mut elements = vec![39 << 2];
                    elements.extend(&literals[0]);
                    elements.push(49 << 2);
                    elements.extend(&literals[1]);
                    let mut expected = raw.clone();
                    if between > 0 {
                        elements.extend(copied(&mut expected, between, 60));
                    }
                    elements.extend(copied(&mut expected, len, back));
                    elements.extend([60 << 2, 69]);
                    elements.extend([9; 70]);
                    expected.extend([9; 70]);
                    let total = expected.len();
                    let mut stored = vec![total as u8 | 0x80, (total >> 7) as u8];
                    stored.extend(elements);
                    assert_eq!(unpacked(&stored).unwrap(), expected, "{between} {back} {len}");
                }
            }
        }
    }

    #[test]
    fn an_output_longer_than_allowed_takes_no_memory() {
        let mut out = Vec::new();
        assert!(unpack(b"\xfe\xff\xff\xff\x0f\0a", 100, &mut out).is_none());
        assert_eq!(out.capacity(), 0);
    }
}
