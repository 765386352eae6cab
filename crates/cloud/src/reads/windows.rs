//! How far readers that go through a table read ahead, and what they have read but not used yet. Iterators are not known
//! here: a reader that begins where another ended is taken for the same one, and is a *run*.
//!
//! I1: what runs hold, and what is on its way to them, is within the bound, but for what one reader has asked for. Runs share it: the
//! more there are, the less far each reads ahead; what was used longest ago goes first.
//!
//! **Concurrency.** One lock for the runs of all tables. Readers take it once for a window or a block of a scan, not for gets,
//! and no call is made under it.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use siltstone::Access;

use super::flight::Flight;
use super::object::copy_from;

/// The first window of a scan: what a short one needs, ..
const SCAN_BYTES_FIRST: u64 = 32 << 10;
/// .. and the second. Windows double from there.
const SCAN_BYTES_MIN: u64 = 64 << 10;
/// The first window of a merge, which mostly goes on.
const MERGE_BYTES_MIN: u64 = 1 << 20;
/// A run that leaves out no more than this goes on: it passes over blocks that are in memory.
const GAP_BYTES_MAX: u64 = 64 << 10;
/// A window this large is worth a thread that gets the next one meanwhile.
const AHEAD_BYTES_MIN: u64 = 128 << 10;
/// So many windows are on their way to a scan while it uses one: of 1 MiB each it takes four at a time to have more on its way than
/// waiting for their first bytes costs, ..
const SCANS_AHEAD_MAX: usize = 3;
/// .. and of 8 MiB two.
const MERGES_AHEAD_MAX: usize = 2;
/// More runs than this are not told apart.
const RUNS_MAX: usize = 128;
/// A run that nobody has used for so many uses of others counts no more when memory is shared out.
const USES_MAX: u64 = 512;

/// How far to read ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// For a user's scan.
    pub(super) scan_bytes_max: u64,
    /// For a merge.
    pub(super) merge_bytes_max: u64,
    /// For all together.
    pub(super) memory_max: u64,
}

/// Names a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RunId(u64);

/// What a run should get now: its reader waits for the first bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) run: RunId,
    pub(super) bytes: Range<u64>,
}

pub(super) struct Windows {
    limits: Limits,
    runs: Mutex<Runs>,
}

#[derive(Default)]
struct Runs {
    /// Last used last.
    runs: Vec<Run>,
    last_id: u64,
    uses: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Forward,
    Backward,
}

struct Run {
    id: RunId,
    table: u64,
    access: Access,
    way: Way,
    /// What was read last.
    last: Range<u64>,
    /// How large the next window is.
    span: u64,
    /// What it holds, from this offset on.
    start: u64,
    held: Bytes,
    /// The next windows, on their way or landed, in order.
    ahead: VecDeque<Ahead>,
    used_at: u64,
}

struct Ahead {
    flight: Arc<Flight>,
    bytes: Range<u64>,
}

impl Windows {
    pub(super) fn new(limits: Limits) -> Self {
        Windows { limits, runs: Mutex::default() }
    }

    fn runs(&self) -> MutexGuard<'_, Runs> {
        // Nothing that can panic is done between changes that belong together.
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies what runs hold of a table from `offset` on.
    pub(super) fn copy(&self, table: u64, access: Access, offset: u64, buf: &mut [u8]) -> usize {
        let held = self.runs().held(table, access, offset, buf.len() as u64);
        held.map_or(0, |held| copy_from(&held, buf))
    }

    /// A reader misses `read`. Which run that is, and what to get for it, within the first `end` bytes of the table.
    pub(super) fn plan(&self, table: u64, access: Access, read: &Range<u64>, end: u64) -> Plan {
        let mut runs = self.runs();
        let span_max = runs.span_max(access, &self.limits);
        let run = runs.go_on_or_begin(table, access, read);
        let span = run.span.min(span_max).max(read.end - read.start);
        let bytes = match run.way {
            Way::Forward => read.start..(read.start.saturating_add(span)).min(end.max(read.end)),
            Way::Backward => read.end.saturating_sub(span)..read.end,
        };
        run.last = read.clone();
        run.grow(&self.limits);
        Plan { run: run.id, bytes }
    }

    /// The window that was read ahead for the run that `read` belongs to, if it begins in it.
    pub(super) fn take_ahead(
        &self,
        table: u64,
        access: Access,
        extent: u32,
    ) -> Option<(RunId, Arc<Flight>)> {
        let mut runs = self.runs();
        let of_reader = |run: &&mut Run| run.table == table && run.access == access;
        for run in runs.runs.iter_mut().filter(of_reader) {
            let Some(at) = run.ahead.iter().position(|ahead| ahead.flight.covers(extent)) else {
                continue;
            };
            // Those before it were passed over.
            let found = run.ahead.drain(..=at).next_back()?;
            return Some((run.id, found.flight));
        }
        None
    }

    /// Gives a run what was got for it.
    pub(super) fn hold(&self, run: RunId, start: u64, bytes: Bytes) {
        let mut runs = self.runs();
        if let Some(run) = runs.find(run) {
            (run.start, run.held) = (start, bytes);
        }
        runs.shrink_to(self.limits.memory_max);
    }

    /// The next window to read ahead, behind those that the run has or that are on their way; `None` if there are enough.
    pub(super) fn next(&self, run: RunId, end: u64) -> Option<Range<u64>> {
        let mut runs = self.runs();
        let taken = runs.memory();
        let span_max = runs.access_of(run).map(|access| runs.span_max(access, &self.limits))?;
        let run = runs.find(run)?;
        let held_to = run.start + run.held.len() as u64;
        let from = run.ahead.back().map_or(held_to, |ahead| ahead.bytes.end);
        let span = run.span.min(span_max);
        let is_worth_it = run.way == Way::Forward
            && span >= AHEAD_BYTES_MIN
            && run.ahead.len() < ahead_max(run.access)
            && from < end
            && taken.saturating_add(span) <= self.limits.memory_max;
        if !is_worth_it {
            return None;
        }
        run.grow(&self.limits);
        Some(from..from.saturating_add(span).min(end))
    }

    /// That window is on its way.
    pub(super) fn add_ahead(&self, run: RunId, flight: Arc<Flight>, bytes: Range<u64>) {
        if let Some(run) = self.runs().find(run) {
            run.ahead.push_back(Ahead { flight, bytes });
        }
    }

    /// Lets go of what a table's runs hold.
    pub(super) fn forget(&self, table: u64) {
        self.runs().runs.retain(|run| run.table != table);
    }

    #[cfg(test)]
    pub(super) fn memory(&self) -> u64 {
        self.runs().memory()
    }
}

impl Runs {
    fn find(&mut self, id: RunId) -> Option<&mut Run> {
        self.runs.iter_mut().find(|run| run.id == id)
    }

    fn access_of(&self, id: RunId) -> Option<Access> {
        self.runs.iter().find(|run| run.id == id).map(|run| run.access)
    }

    /// What a run holds from `offset` on; its reader has read so far then.
    fn held(&mut self, table: u64, access: Access, offset: u64, len: u64) -> Option<Bytes> {
        let at = self
            .runs
            .iter()
            .position(|run| run.table == table && run.access == access && run.has(offset))?;
        let run = self.touch(at)?;
        let from = usize::try_from(offset - run.start).ok()?;
        let held = run.held.slice(from..);
        run.last = offset..offset + len.min(held.len() as u64);
        Some(held)
    }

    /// The run that `read` continues, or a new one.
    fn go_on_or_begin(&mut self, table: u64, access: Access, read: &Range<u64>) -> &mut Run {
        let goes_on = |run: &Run| run.table == table && run.access == access;
        let found = self
            .runs
            .iter()
            .enumerate()
            .rev()
            .filter(|(_, run)| goes_on(run))
            .find_map(|(at, run)| run.way_to(read).map(|way| (at, way)));
        if let Some((at, way)) = found {
            let run = &mut self.runs[at];
            if run.way != way {
                (run.way, run.span) = (way, first_span(access));
            }
        } else {
            self.begin(table, access, read);
        }
        let at = found.map_or(self.runs.len() - 1, |(at, _)| at);
        self.touch(at).expect("the place of a run just found or made")
    }

    fn begin(&mut self, table: u64, access: Access, read: &Range<u64>) {
        if self.runs.len() >= RUNS_MAX {
            self.runs.remove(0);
        }
        self.last_id += 1;
        self.runs.push(Run {
            id: RunId(self.last_id),
            table,
            access,
            way: Way::Forward,
            last: read.clone(),
            span: first_span(access),
            start: read.start,
            held: Bytes::new(),
            ahead: VecDeque::new(),
            used_at: self.uses,
        });
    }

    /// Makes a run the one that was used last.
    fn touch(&mut self, at: usize) -> Option<&mut Run> {
        self.uses += 1;
        self.runs.get_mut(at..)?.rotate_left(1);
        let run = self.runs.last_mut()?;
        run.used_at = self.uses;
        Some(run)
    }

    /// Each run may hold a window and have another one on its way.
    fn span_max(&self, access: Access, limits: &Limits) -> u64 {
        let in_use = |run: &&Run| self.uses - run.used_at < USES_MAX;
        let in_use = self.runs.iter().filter(in_use).count() as u64;
        let most = match access {
            Access::Merge => limits.merge_bytes_max,
            _ => limits.scan_bytes_max,
        };
        most.min(limits.memory_max / (2 * in_use.max(1)))
    }

    fn memory(&self) -> u64 {
        let of_run = |run: &Run| {
            let ahead = run.ahead.iter().map(|ahead| ahead.bytes.end - ahead.bytes.start);
            run.held.len() as u64 + ahead.sum::<u64>()
        };
        self.runs.iter().map(of_run).sum()
    }

    /// Whoever was used last keeps what it has: its reader is about to copy it.
    fn shrink_to(&mut self, memory_max: u64) {
        while self.memory() > memory_max && self.runs.len() > 1 {
            self.runs.remove(0);
        }
    }
}

impl Run {
    fn has(&self, offset: u64) -> bool {
        offset.checked_sub(self.start).is_some_and(|at| at < self.held.len() as u64)
    }

    /// Which way a read goes on from the last one, if it does.
    fn way_to(&self, read: &Range<u64>) -> Option<Way> {
        let is_near = |gap: Option<u64>| gap.is_some_and(|gap| gap <= GAP_BYTES_MAX);
        if is_near(read.start.checked_sub(self.last.end)) {
            Some(Way::Forward)
        } else if is_near(self.last.start.checked_sub(read.end)) {
            Some(Way::Backward)
        } else {
            None
        }
    }

    fn grow(&mut self, limits: &Limits) {
        let (least, most) = match self.access {
            Access::Merge => (MERGE_BYTES_MIN, limits.merge_bytes_max),
            _ => (SCAN_BYTES_MIN, limits.scan_bytes_max),
        };
        self.span = (2 * self.span).clamp(least.min(most), most);
    }
}

fn ahead_max(access: Access) -> usize {
    match access {
        Access::Merge => MERGES_AHEAD_MAX,
        _ => SCANS_AHEAD_MAX,
    }
}

fn first_span(access: Access) -> u64 {
    match access {
        Access::Merge => MERGE_BYTES_MIN,
        _ => SCAN_BYTES_FIRST,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits =
        Limits { scan_bytes_max: 1 << 20, merge_bytes_max: 8 << 20, memory_max: 64 << 20 };
    const END: u64 = 1 << 30;

    /// A reader that reads on through what it was given; the lengths of its windows.
    fn run(windows: &Windows, table: u64, access: Access, from: u64, turns: u32) -> Vec<u64> {
        let mut at = from;
        let lens = (0..turns).map(|_| {
            let plan = windows.plan(table, access, &(at..at + 4096), END);
            let len = plan.bytes.end - plan.bytes.start;
            windows.hold(plan.run, plan.bytes.start, Bytes::from(vec![0; len as usize]));
            while windows.copy(table, access, at, &mut [0; 4096]) > 0 {
                at += 4096;
            }
            len
        });
        lens.collect()
    }

    #[test]
    fn windows_double_for_who_goes_on() {
        let windows = Windows::new(LIMITS);
        let scan = run(&windows, 1, Access::Scan, 0, 8);
        assert_eq!(scan, [32, 64, 128, 256, 512, 1024, 1024, 1024].map(|kib| kib << 10));
        let merge = run(&windows, 2, Access::Merge, 4096, 5);
        assert_eq!(merge, [1, 2, 4, 8, 8].map(|mib| mib << 20));
        assert_eq!(
            run(&windows, 1, Access::Scan, END / 2, 1),
            [32 << 10],
            "elsewhere it begins anew"
        );
    }

    #[test]
    fn windows_go_backward_too() {
        let windows = Windows::new(LIMITS);
        let plan = |at: u64| windows.plan(7, Access::Scan, &(at..at + 100), END).bytes;
        assert_eq!(plan(1 << 20), (1 << 20)..(1 << 20) + (32 << 10));
        assert_eq!(plan((1 << 20) - 100), (1 << 20) - (32 << 10)..1 << 20);
        let at = (1 << 20) - (32 << 10) - 100;
        assert_eq!(plan(at), at + 100 - (64 << 10)..at + 100);
    }

    #[test]
    fn memory_is_shared_out() {
        let limits = Limits { memory_max: 16 << 20, ..LIMITS };
        let windows = Windows::new(limits);
        for turn in 0..20 {
            for table in 0..16 {
                run(&windows, table, Access::Merge, turn << 24, 2);
                assert!(windows.memory() <= limits.memory_max, "{}", windows.memory());
            }
        }
        (0..16).for_each(|table| windows.forget(table));
        assert_eq!(windows.memory(), 0);
        (0..1000).for_each(|table| drop(run(&windows, table, Access::Scan, 0, 1)));
        assert_eq!(windows.runs().runs.len(), RUNS_MAX);
    }

    #[test]
    fn windows_ahead_are_found_by_their_reader_only() {
        let windows = Windows::new(LIMITS);
        let plan = windows.plan(1, Access::Merge, &(0..4096), END);
        windows.hold(plan.run, 0, Bytes::from(vec![0; 1 << 20]));
        assert_eq!(windows.next(plan.run, END), Some(1 << 20..3 << 20));
        windows.add_ahead(plan.run, Arc::new(Flight::new(16..48)), 1 << 20..3 << 20);
        assert_eq!(windows.next(plan.run, END), Some(3 << 20..7 << 20));
        windows.add_ahead(plan.run, Arc::new(Flight::new(48..112)), 3 << 20..7 << 20);
        assert_eq!(windows.next(plan.run, END), None, "two at a time");
        assert_eq!(windows.memory(), 7 << 20);
        let takes = |table, access, extent| windows.take_ahead(table, access, extent).is_some();
        assert!(!takes(2, Access::Merge, 16) && !takes(1, Access::Scan, 16));
        assert!(!takes(1, Access::Merge, 112));
        assert!(takes(1, Access::Merge, 49) && !takes(1, Access::Merge, 49));
        assert!(!takes(1, Access::Merge, 17), "passed over");
        assert_eq!(windows.next(plan.run, 1 << 20), None, "there is nothing behind the end");
    }
}
