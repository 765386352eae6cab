//! Scans that go on: many entries in one go, where nothing has to be decided about any of them (see [`Stride`](crate::format::table::Stride)).

use std::cell::Cell;

use crate::base::error::Result;
use crate::base::iter::InternalIterator;
use crate::base::sync::thread_local;
use crate::db::read::iterator::scan::{Scan, Stand};
use crate::format::table::Answers;

/// Steps one by one where scans are not expected to go on for longer, ..
const SINGLE_STEPS: u16 = 4;
/// .. and where the last one that tried could not take several entries at once: most of its blocks are not in the cache, perhaps.
const SINGLE_STEPS_IN_VAIN: u16 = 16;
/// As many entries a scan takes at once when it is seen to go on, ..
const ENTRIES_MIN: u16 = 8;
/// .. or so many, from its first step on, if the last ones were as long, ..
const ENTRIES_EXPECTED_MAX: u16 = 16;
/// .. and twice as many each time, up to what a usual block has.
const ENTRIES_MAX: u16 = 64;
/// After so many failures in a row their price no longer shows.
const FAILURES_MAX: u8 = 5;

thread_local! {
    static LAST_SCANS: Cell<LastScans> = const { Cell::new(LastScans { steps: [0; 2], in_vain: false }) };
}

/// What a thread remembers of its scans.
#[derive(Clone, Copy, Default)]
struct LastScans {
    /// How many the last two took: what comes next is mostly no shorter than both.
    steps: [u16; 2],
    /// Whether the last one that tried to took no several entries at once.
    in_vain: bool,
}

/// How many entries a scan takes at once, and when it tries to.
pub(super) struct Pace {
    entries: u16,
    /// Single steps to go.
    singles: u16,
    /// Tries in a row that led nowhere.
    failures: u8,
    /// Steps before the stride that it is in.
    steps: u16,
    has_succeeded: bool,
}

impl Pace {
    /// Of a scan that begins.
    pub(super) fn new() -> Self {
        let LastScans { steps: [last, before], in_vain } =
            LAST_SCANS.try_with(Cell::get).unwrap_or_default();
        let expected = last.min(before).min(ENTRIES_EXPECTED_MAX);
        let (entries, singles) = match expected > SINGLE_STEPS {
            _ if in_vain => (ENTRIES_MIN, SINGLE_STEPS_IN_VAIN),
            true => (expected, 0),
            false => (ENTRIES_MIN, SINGLE_STEPS),
        };
        Pace { entries, singles, failures: 0, steps: 0, has_succeeded: false }
    }

    /// The scan has ended.
    fn note(&self) {
        if self.steps > 0 {
            // A thread that is ending has no place for it any more.
            let _ = LAST_SCANS.try_with(|scans| {
                let LastScans { steps: [last, _], in_vain } = scans.get();
                let fails = self.failures > 1 || in_vain; // One is the end of a block.
                scans.set(LastScans {
                    steps: [self.steps, last],
                    in_vain: fails && !self.has_succeeded,
                });
            });
        }
    }

    /// A stride lies behind.
    fn passed(&mut self, steps: usize) {
        self.steps = self.steps.saturating_add(u16::try_from(steps).unwrap_or(u16::MAX));
    }

    /// Asked at each step: how many entries to take at once, if so.
    #[inline]
    fn entries(&mut self) -> Option<usize> {
        self.steps = self.steps.saturating_add(1);
        if self.singles > 0 {
            self.singles -= 1;
            return None;
        }
        Some(usize::from(self.entries))
    }

    fn succeeded(&mut self) {
        self.entries = (2 * self.entries).min(ENTRIES_MAX);
        self.failures = 0;
        self.has_succeeded = true;
    }

    /// One failure is the end of a block. Where sources mesh, or keys have versions, there are many.
    fn failed(&mut self) {
        self.singles = (1 << self.failures) - 1;
        self.failures = FAILURES_MAX.min(self.failures + 1);
    }
}

impl Scan {
    /// Steps on by filling the stride; false if it cannot be: then the iterator stands where it did.
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
        if has_run {
            self.pace.succeeded();
            self.valid = true;
            self.sample();
        } else {
            self.pace.failed();
        }
        has_run
    }

    /// The scan ends here.
    pub(super) fn end_scan(&mut self) {
        self.pace.passed(self.stride.steps(self.stand == Stand::Forward));
        self.pace.note();
        self.stride.release();
    }

    /// Another one begins.
    pub(super) fn begin_scan(&mut self) {
        self.end_scan();
        self.pace = Pace::new();
    }

    /// From the stride's end that lies this way: brings `merged` to where the iterator stands.
    #[inline]
    pub(super) fn leave_stride(&mut self, way: Stand) -> Result<()> {
        let Some(key) = self.stride.key() else { return Ok(()) };
        let is_there = self.stand == way;
        let left = if is_there { Ok(()) } else { self.merged.seek(key) };
        self.pace.passed(self.stride.steps(self.stand == Stand::Forward));
        self.stride.clear();
        if !is_there {
            self.stand = Stand::Forward;
            self.pace = Pace::new();
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(steps: u16) {
        Pace { steps, ..Pace::new() }.note();
    }

    /// How many single steps a scan takes until it takes several entries at once, and how many.
    fn begun() -> (usize, usize) {
        let mut pace = Pace::new();
        let singles = std::iter::repeat_with(|| pace.entries()).take_while(Option::is_none).count();
        (singles, pace.entries().unwrap())
    }

    #[test]
    fn a_scan_is_expected_to_be_as_long_as_the_shorter_of_the_last_two() {
        let at_first = (usize::from(SINGLE_STEPS), usize::from(ENTRIES_MIN));
        assert_eq!(begun(), at_first);
        scan(10);
        assert_eq!(begun(), at_first);
        scan(12);
        assert_eq!(begun(), (0, 10));
        // Who only seeks tells nothing.
        scan(0);
        assert_eq!(begun(), (0, 10));
        scan(3);
        assert_eq!(begun(), at_first);
        scan(u16::MAX);
        scan(1_000);
        assert_eq!(begun(), (0, usize::from(ENTRIES_EXPECTED_MAX)));
    }

    #[test]
    fn who_could_not_take_several_entries_tries_later_until_it_can() {
        scan(10);
        scan(10);
        let mut pace = Pace { steps: 10, ..Pace::new() };
        pace.failed();
        pace.note();
        assert_eq!(begun(), (0, 10), "a block's end is one failure");
        pace.failed();
        pace.note();
        let in_vain = (usize::from(SINGLE_STEPS_IN_VAIN), usize::from(ENTRIES_MIN));
        assert_eq!(begun(), in_vain);
        scan(10);
        assert_eq!(begun(), in_vain, "that one did not try");
        let mut pace = Pace { steps: 10, ..Pace::new() };
        pace.failed();
        pace.succeeded();
        pace.note();
        assert_eq!(begun(), (0, 10));
    }

    #[test]
    fn what_fails_again_and_again_is_tried_less_and_less() {
        let mut pace = Pace { singles: 0, ..Pace::new() };
        let mut tried = Vec::new();
        for step in 0..100 {
            if pace.entries().is_some() {
                tried.push(step);
                pace.failed();
            }
        }
        assert_eq!(tried, [0, 1, 3, 7, 15, 31, 63, 95]);
        pace.singles = 0;
        let before = pace.entries();
        pace.succeeded();
        assert_eq!(pace.entries(), before.map(|entries| 2 * entries));
        pace.failed();
        assert!(pace.entries().is_some(), "a block's end is one failure");
    }
}
