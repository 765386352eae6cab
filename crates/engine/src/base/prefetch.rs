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
