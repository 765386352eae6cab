//! The end of a table: footer, index and filter, which are read when the table is opened. One get should bring them, so
//! it is guessed how long they are, by what tables needed lately.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use bytes::Bytes;

use super::object::copy_from;
use crate::bucket::Purpose;

/// What every open reads.
pub(super) const TAIL_BYTES_MIN: u64 = 64 << 10;
/// Longer tails than this come in pieces, as they are asked for: a table of a GiB needs some 20 MiB.
pub(super) const TAIL_BYTES_MAX: u64 = 32 << 20;
/// A table that is open keeps so much of its tail. Its reader has its own copy of index and filter.
pub(super) const TAIL_BYTES_KEPT: u64 = 64 << 10;

/// Shares of a table are kept in such parts.
const WHOLE: u64 = 1 << 20;
/// As long as none was seen: values of a hundred bytes, with filters. A second request takes longer than half a mebibyte.
const SHARE_USUAL: u64 = WHOLE * 3 / 128;
/// No table's share counts as more: a footer that is damaged may point anywhere.
const SHARE_MAX: u64 = WHOLE / 4;

/// How large a share of recent tables was their tail. Index and filter grow with the table, so that the share is about the
/// same for all tables of a database.
#[derive(Default)]
pub(super) struct TailShare {
    share: AtomicU64,
    /// A table has been opened.
    is_known: AtomicBool,
}

impl TailShare {
    /// How much to read of a table's end: a sixteenth more than what was needed lately.
    pub(super) fn guess(&self, bytes: u64) -> u64 {
        let share = match self.is_known.load(Relaxed) {
            true => self.share.load(Relaxed),
            false => self.share.load(Relaxed).max(SHARE_USUAL),
        };
        let share = share + share / 16;
        let guess = u128::from(bytes) * u128::from(share) / u128::from(WHOLE);
        let guess = u64::try_from(guess).unwrap_or(u64::MAX);
        guess.clamp(TAIL_BYTES_MIN, TAIL_BYTES_MAX).min(bytes)
    }

    /// A table is opened. For tables that have grown plainer the share sinks, and for sixteen that are opened at once by less than
    /// the margin of guesses: who needs as much as before notes it again.
    pub(super) fn note_open(&self) {
        let share = self.share.load(Relaxed);
        self.share.store(share - share / 256, Relaxed);
    }

    /// A table is open, and what it needed is noted.
    pub(super) fn note_opened(&self) {
        self.is_known.store(true, Relaxed);
    }

    /// A table of `bytes` needed so much of its end.
    pub(super) fn note(&self, bytes: u64, needed: u64) {
        let share = u128::from(needed) * u128::from(WHOLE) / u128::from(bytes.max(1));
        let share = u64::try_from(share).unwrap_or(SHARE_MAX).min(SHARE_MAX);
        self.share.fetch_max(share + 1, Relaxed);
    }
}

/// What is in memory of a table's end.
pub(super) struct Tail {
    /// Where it begins in the table; at the table's end if nothing is.
    pub(super) start: u64,
    pub(super) bytes: Bytes,
    /// What opening the table is for.
    pub(super) purpose: Purpose,
}

impl Tail {
    /// Copies what it has from `offset` on.
    pub(super) fn copy(&self, buf: &mut [u8], offset: u64) -> usize {
        let at = offset.checked_sub(self.start).and_then(|at| usize::try_from(at).ok());
        copy_from(at.and_then(|at| self.bytes.get(at..)).unwrap_or_default(), buf)
    }

    /// Lets go of what is longer than an open table keeps.
    pub(super) fn trim(&mut self) {
        let len = self.bytes.len() as u64;
        if let Some(more) = len.checked_sub(TAIL_BYTES_KEPT).filter(|more| *more > 0) {
            let rest = self.bytes.get(more as usize..).unwrap_or_default();
            // A slice would keep all of the memory.
            (self.start, self.bytes) = (self.start + more, Bytes::copy_from_slice(rest));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_alike_are_opened_with_one_get_once_one_was_seen() {
        let share = TailShare::default();
        assert_eq!(share.guess(64 << 20), (1 << 20) + (608 << 10), "as usual");
        assert_eq!(share.guess(1 << 20), TAIL_BYTES_MIN);
        assert_eq!(share.guess(1000), 1000);
        for _ in 0..10_000 {
            share.note(64 << 20, 1_200_000);
            share.note_open();
            share.note_opened();
            let guess = share.guess(64 << 20);
            assert!((1_200_000..1_300_000).contains(&guess), "{guess}");
            assert!(share.guess(32 << 20) >= 600_000);
        }
        (0..1000).for_each(|_| share.note_open());
        assert_eq!(share.guess(64 << 20), TAIL_BYTES_MIN, "it forgets");
        share.note(0, 7);
        share.note(u64::MAX, u64::MAX);
        assert_eq!(share.guess(u64::MAX), TAIL_BYTES_MAX);
        assert!(share.guess(10 << 20) < 3 << 20, "not all of every table");
    }

    #[test]
    fn a_tail_is_cut_to_what_is_kept() {
        let body: Vec<u8> = (0..100_000u32).map(|at| at as u8).collect();
        let bytes = Bytes::from(body.clone());
        let mut tail = Tail { start: 5000, bytes, purpose: Purpose::Get };
        tail.trim();
        assert_eq!(tail.start + tail.bytes.len() as u64, 105_000);
        assert_eq!(tail.bytes.len() as u64, TAIL_BYTES_KEPT);
        let mut buf = [0; 10];
        assert_eq!(tail.copy(&mut buf, 5000), 0);
        assert_eq!(tail.copy(&mut buf, 104_995), 5);
        assert_eq!(buf[..5], body[99_995..]);
    }
}
