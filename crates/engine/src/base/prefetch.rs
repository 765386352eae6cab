//! Hints to the processor about memory that is looked at soon.
#![cfg_attr(
    all(target_arch = "x86_64", not(any(miri, loom))),
    expect(unsafe_code, reason = "an instruction of the processor's own")
)]

/// What memory comes near in.
pub(crate) const CACHE_LINE_BYTES: usize = 64;

/// Brings memory near, before it is looked at. A hint, of any address: unlike a load it is waited for by nothing that
/// follows, locked instructions among it.
#[inline]
pub(crate) fn prefetch<T>(at: *const T) {
    #[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: it reads nothing that the program sees, and fails on no address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }
    let _ = at;
}

/// As [`prefetch`], of so many bytes.
#[inline]
pub(crate) fn prefetch_span(start: *const u8, bytes: usize) {
    (0..bytes).step_by(CACHE_LINE_BYTES).for_each(|at| prefetch(start.wrapping_add(at)));
}

/// What a small entry and the next one take of memory that is filled from one end to the other.
const FILLED_BYTES: usize = 192;

/// For who has just written up to `end`, and will write on there a while from now: a store waits for its line, and the next locked
/// instruction for the store.
#[inline]
pub(crate) fn prefetch_behind(end: *const u8) {
    // The line of `end` itself was written to.
    prefetch_span(end.wrapping_add(CACHE_LINE_BYTES), FILLED_BYTES);
}

/// Memory that is wanted a while from now, brought near a few lines at a time: all at once would be waited for by what is wanted now.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// Addresses; nothing is read through them.
    at: usize,
    until: usize,
}

impl Stream {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let at = bytes.as_ptr().addr();
        Stream { at, until: at + bytes.len() }
    }

    /// Goes on as another one that has only begun, which then has nothing left; if it has something.
    #[inline]
    pub(crate) fn take_over(&mut self, other: &mut Stream) {
        if other.at < other.until {
            *self = std::mem::take(other);
        }
    }

    /// Brings the next two lines near.
    #[inline(always)]
    pub(crate) fn go_on(&mut self) {
        if self.at < self.until {
            prefetch(std::ptr::without_provenance::<u8>(self.at));
            prefetch(std::ptr::without_provenance::<u8>(self.at + CACHE_LINE_BYTES));
            self.at += 2 * CACHE_LINE_BYTES;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_ends_behind_its_last_line() {
        for lines in 0..10 {
            let bytes = vec![0; lines * CACHE_LINE_BYTES];
            let mut stream = Stream::of(&bytes);
            (0..lines.div_ceil(2)).for_each(|_| {
                assert!(stream.at < stream.until);
                stream.go_on();
            });
            let end = stream.at;
            stream.go_on();
            assert!(stream.at == end && end >= stream.until);
        }
    }
}
