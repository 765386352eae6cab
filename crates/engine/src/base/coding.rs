//! LevelDB's integers and strings: little-endian fixed integers, varints, length-prefixed slices.
//! Encoders append to a `Vec<u8>`; decoding goes through [`Reader`], which never reads past its
//! slice and never panics.

/// Longest encoding of a `u32` varint.
pub(crate) const VARINT32_BYTES_MAX: usize = 5;
/// Longest encoding of a `u64` varint.
pub(crate) const VARINT64_BYTES_MAX: usize = 10;

pub(crate) fn put_fixed32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

pub(crate) fn put_fixed64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

#[inline]
pub(crate) fn put_varint32(out: &mut Vec<u8>, value: u32) {
    put_varint64(out, u64::from(value));
}

#[inline]
pub(crate) fn put_varint64(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Writes a varint at the start of `out` and returns its length; `out` must be long enough.
#[inline]
pub(crate) fn write_varint32(out: &mut [u8], mut value: u32) -> usize {
    let mut at = 0;
    while value >= 0x80 {
        out[at] = (value as u8) | 0x80;
        value >>= 7;
        at += 1;
    }
    out[at] = value as u8;
    at + 1
}

/// Appends the length as a varint32, then the bytes. Callers have checked that the length fits.
#[inline]
pub(crate) fn put_length_prefixed(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint32(out, length_u32(bytes));
    out.extend_from_slice(bytes);
}

/// A slice's length as the format stores it; writes reject longer keys and values at the door.
#[inline]
pub(crate) fn length_u32(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).expect("keys and values are limited to u32::MAX bytes on entry")
}

/// A bounds-checked cursor over encoded bytes. Each method returns `None`, leaving the cursor
/// anywhere, when the bytes are not a whole encoding.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    #[inline]
    pub(crate) fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(head)
    }

    pub(crate) fn fixed32(&mut self) -> Option<u32> {
        let (head, rest) = self.rest.split_first_chunk::<4>()?;
        self.rest = rest;
        Some(u32::from_le_bytes(*head))
    }

    pub(crate) fn fixed64(&mut self) -> Option<u64> {
        let (head, rest) = self.rest.split_first_chunk::<8>()?;
        self.rest = rest;
        Some(u64::from_le_bytes(*head))
    }

    /// As LevelDB reads it: at most five bytes, bits past the 32nd dropped.
    #[inline]
    pub(crate) fn varint32(&mut self) -> Option<u32> {
        let first = *self.rest.first()?;
        if first < 0x80 {
            self.rest = &self.rest[1..];
            return Some(u32::from(first));
        }
        self.varint(VARINT32_BYTES_MAX).map(|value| value as u32)
    }

    #[inline]
    pub(crate) fn varint64(&mut self) -> Option<u64> {
        self.varint(VARINT64_BYTES_MAX)
    }

    fn varint(&mut self, bytes_max: usize) -> Option<u64> {
        let mut value = 0u64;
        for (at, &byte) in self.rest.iter().take(bytes_max).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * at);
            if byte < 0x80 {
                self.rest = &self.rest[at + 1..];
                return Some(value);
            }
        }
        None
    }

    #[inline]
    pub(crate) fn length_prefixed(&mut self) -> Option<&'a [u8]> {
        let len = self.varint32()?;
        self.bytes(usize::try_from(len).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_integers_are_little_endian() {
        let mut out = Vec::new();
        put_fixed32(&mut out, 0x0403_0201);
        put_fixed64(&mut out, 0x0807_0605_0403_0201);
        assert_eq!(out, [1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7, 8]);
        let mut reader = Reader::new(&out);
        assert_eq!(reader.fixed32(), Some(0x0403_0201));
        assert_eq!(reader.fixed64(), Some(0x0807_0605_0403_0201));
        assert_eq!(reader.fixed32(), None);
    }

    #[test]
    fn varints_round_trip_around_every_power_of_two() {
        for shift in 0..64 {
            let power = 1u64 << shift;
            for value in [power - 1, power, power.wrapping_add(1)] {
                let mut out = Vec::new();
                put_varint64(&mut out, value);
                let bits = 64 - (value | 1).leading_zeros() as usize;
                assert_eq!(out.len(), bits.div_ceil(7));
                assert_eq!(Reader::new(&out).varint64(), Some(value));
                for cut in 0..out.len() {
                    assert_eq!(Reader::new(&out[..cut]).varint64(), None);
                }
                if let Ok(value) = u32::try_from(value) {
                    let mut array = [0; VARINT32_BYTES_MAX];
                    assert_eq!(write_varint32(&mut array, value), out.len());
                    assert_eq!(Reader::new(&out).varint32(), Some(value));
                }
            }
        }
    }

    #[test]
    fn overlong_varints_are_refused() {
        assert_eq!(Reader::new(&[0x81, 0x82, 0x83, 0x84, 0x85, 0x11]).varint32(), None);
        assert_eq!(Reader::new(&[0x85; 11]).varint64(), None);
    }

    #[test]
    fn length_prefixed_slices_check_their_length() {
        let mut out = Vec::new();
        for bytes in [&b""[..], b"foo", &[b'x'; 200]] {
            put_length_prefixed(&mut out, bytes);
        }
        let mut reader = Reader::new(&out);
        assert_eq!(reader.length_prefixed(), Some(&b""[..]));
        assert_eq!(reader.length_prefixed(), Some(&b"foo"[..]));
        assert_eq!(reader.length_prefixed(), Some(&[b'x'; 200][..]));
        assert!(reader.is_empty());
        assert_eq!(Reader::new(&[5, 1, 2]).length_prefixed(), None);
    }
}
