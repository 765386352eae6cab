//! Scans that go on: many entries in one go, where nothing has to be decided about any of them (see [`Stride`](crate::format::table::Stride)).

use crate::base::error::Result;
use crate::base::iter::InternalIterator;
use crate::db::read::iterator::{DbIterator, Stand};
use crate::format::table::Answers;

/// Steps one by one after a seek: many scans end there.
const SINGLE_STEPS: u8 = 2;
/// As many entries a scan then takes at once, ..
const ENTRIES_MIN: usize = 8;
/// .. and twice as many each time, up to what a usual block has.
const ENTRIES_MAX: usize = 64;
/// After so many failures in a row their price no longer shows.
const FAILURES_MAX: u8 = 5;

/// How many entries a scan takes at once, and when it tries to.
pub(super) struct Pace {
    entries: usize,
    /// Single steps to go.
    singles: u8,
    /// Tries in a row that led nowhere.
    failures: u8,
}

impl Pace {
    pub(super) fn new() -> Self {
        Pace { entries: ENTRIES_MIN, singles: SINGLE_STEPS, failures: 0 }
    }

    /// Asked at each step: how many entries to take at once, if so.
    #[inline]
    fn entries(&mut self) -> Option<usize> {
        if self.singles > 0 {
            self.singles -= 1;
            return None;
        }
        Some(self.entries)
    }

    fn succeeded(&mut self) {
        self.entries = (2 * self.entries).min(ENTRIES_MAX);
        self.failures = 0;
    }

    /// One failure is the end of a block. Where sources mesh, or keys have versions, there are many.
    fn failed(&mut self) {
        self.singles = (1 << self.failures) - 1;
        self.failures = FAILURES_MAX.min(self.failures + 1);
    }
}

impl DbIterator {
    /// Steps on by filling the stride; false if it cannot be, and nothing has happened.
    #[inline]
    pub(super) fn run(&mut self, way: Stand) -> bool {
        if self.stand != way {
            let turns = way == Stand::Forward || self.stand == Stand::Forward;
            if turns {
                self.pace = Pace::new();
            }
            return false;
        }
        let Some(entries) = self.pace.entries() else { return false };
        let (stride, seqno) = (&mut self.stride, self.seqno);
        let has_run = self.merged.run_on(|source, others| {
            let answers = Answers { seqno, others, entries };
            match way {
                Stand::Forward => source.run_forward(stride, &answers),
                Stand::Backward | Stand::Before => source.run_backward(stride, &answers),
            }
        });
        match has_run {
            true => self.pace.succeeded(),
            false => self.pace.failed(),
        }
        has_run
    }

    /// From the stride's end that lies this way: brings `merged` to where the iterator stands.
    #[inline]
    pub(super) fn leave_stride(&mut self, way: Stand) -> Result<()> {
        let Some(key) = self.stride.key() else { return Ok(()) };
        let is_there = self.stand == way;
        let left = if is_there { Ok(()) } else { self.merged.seek(key) };
        self.stride.clear();
        if !is_there {
            self.stand = Stand::Forward;
            self.pace = Pace::new();
        }
        left
    }
}
