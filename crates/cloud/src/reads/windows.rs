//! How far readers that go through a table read ahead, and what they have read but not used yet. Iterators are not known
//! here: a reader that begins where another ended is taken for the same one, and is a *run*.
//!
//! I1: what runs hold, and what is on its way to them, is within the bound, but for what one reader has asked for. Runs share it: the
//! more there are, the less far each reads ahead; what was used longest ago goes first.
//!
//! **Concurrency.** One lock for the runs of all tables. Readers take it once for a window or a block of a scan, not for gets,
//! and no call is made under it.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use siltstone::Access;

use super::flight::Flight;
use super::object::copy_from;
use super::run::{Most, Run, RunId};

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

/// What runs have of what is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Near {
    /// So many bytes, which were copied.
    Copied(usize),
    /// It was read ahead, and is to be [taken](Windows::take_ahead), wherever else it may be by now: else its run would end here.
    Ahead,
    /// Nothing. If it is found elsewhere, its run goes on behind it.
    Not,
}

enum Look {
    Held(Bytes),
    Ahead,
    Not,
}

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

impl Windows {
    pub(super) fn new(limits: Limits) -> Self {
        Windows { limits, runs: Mutex::default() }
    }

    fn runs(&self) -> MutexGuard<'_, Runs> {
        // Nothing that can panic is done between changes that belong together.
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies what runs hold of a table from `offset` on, which lies in this extent.
    pub(super) fn copy(
        &self,
        (table, access): (u64, Access),
        (offset, extent): (u64, u32),
        buf: &mut [u8],
    ) -> Near {
        let read = offset..offset + buf.len() as u64;
        let held = self.runs().look((table, access), &read, extent);
        match held {
            Look::Held(held) => Near::Copied(copy_from(&held, buf)),
            Look::Ahead => Near::Ahead,
            Look::Not => Near::Not,
        }
    }

    /// A reader misses `read`. Which run that is, and what to get for it, within the first `end` bytes of the table.
    pub(super) fn plan(&self, table: u64, access: Access, read: &Range<u64>, end: u64) -> Plan {
        let mut runs = self.runs();
        let most = runs.most(access, &self.limits);
        let run = runs.go_on_or_begin(table, access, read);
        Plan { run: run.id, bytes: run.plan(read, end, &most) }
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
        runs.runs
            .iter_mut()
            .filter(of_reader)
            .find_map(|run| run.take_ahead(extent).map(|flight| (run.id, flight)))
    }

    /// What a run waits for goes as far as this.
    pub(super) fn wait_to(&self, run: RunId, end: u64) {
        if let Some(run) = self.runs().find(run) {
            run.wait_to(end);
        }
    }

    /// Gives a run what was got for it.
    pub(super) fn hold(&self, run: RunId, start: u64, bytes: Bytes) {
        let mut runs = self.runs();
        if let Some(run) = runs.find(run) {
            run.hold(start, bytes);
        }
        runs.shrink_to(self.limits.memory_max);
    }

    /// The next window to read ahead, behind those that the run has or waits for; `None` if there are enough.
    pub(super) fn next(&self, run: RunId) -> Option<Range<u64>> {
        let mut runs = self.runs();
        let room = self.limits.memory_max.saturating_sub(runs.memory());
        let most = runs.access_of(run).map(|access| runs.most(access, &self.limits))?;
        runs.find(run)?.next(&most, room)
    }

    /// That window is on its way.
    pub(super) fn add_ahead(&self, run: RunId, flight: Arc<Flight>, bytes: Range<u64>) {
        if let Some(run) = self.runs().find(run) {
            run.add_ahead(flight, bytes);
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

    /// What runs have of what is read; the reader is there then.
    fn look(&mut self, of: (u64, Access), read: &Range<u64>, extent: u32) -> Look {
        let find = |runs: &[Run], has: &dyn Fn(&Run) -> bool| {
            runs.iter().position(|run| (run.table, run.access) == of && has(run))
        };
        if let Some(at) = find(&self.runs, &|run| run.has(read.start)) {
            let held = self.touch(at).and_then(|run| run.read(read));
            return held.map_or(Look::Not, Look::Held);
        }
        if find(&self.runs, &|run| run.has_ahead(extent)).is_some() {
            return Look::Ahead;
        }
        if let Some(at) = find(&self.runs, &|run| run.way_to(read).is_some()) {
            self.runs[at].pass_by(read);
        }
        Look::Not
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
            self.runs[at].turn(way);
        } else {
            self.begin(table, access, read);
        }
        let at = found.map_or(self.runs.len() - 1, |(at, _)| at);
        self.touch(at).expect("the place of a run just found or made")
    }

    /// A reader at the beginning of a table has mostly read the one before.
    fn begin(&mut self, table: u64, access: Access, read: &Range<u64>) {
        self.last_id += 1;
        let id = RunId(self.last_id);
        let came_here = |run: &Run| {
            read.start == 0 && run.table != table && run.access == access && run.is_through()
        };
        let before = self.runs.iter().rposition(came_here).map(|at| self.runs.remove(at));
        let run = before.map(|before| before.moved_on(id, table, read));
        if self.runs.len() >= RUNS_MAX {
            self.runs.remove(0);
        }
        self.runs.push(run.unwrap_or_else(|| Run::new(id, table, access, read)));
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
    fn most(&self, access: Access, limits: &Limits) -> Most {
        let in_use = |run: &&Run| self.uses - run.used_at < USES_MAX;
        let in_use = self.runs.iter().filter(in_use).count() as u64;
        let window = match access {
            Access::Merge => limits.merge_bytes_max,
            _ => limits.scan_bytes_max,
        };
        Most { window, span: window.min(limits.memory_max / (2 * in_use.max(1))) }
    }

    fn memory(&self) -> u64 {
        self.runs.iter().map(Run::memory).sum()
    }

    /// Whoever was used last keeps what it has: its reader is about to copy it.
    fn shrink_to(&mut self, memory_max: u64) {
        while self.memory() > memory_max && self.runs.len() > 1 {
            self.runs.remove(0);
        }
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
            let copy = |at| windows.copy((table, access), (at, u32::MAX), &mut [0; 4096]);
            while copy(at) != Near::Not {
                at += 4096;
            }
            len
        });
        lens.collect()
    }

    #[test]
    fn windows_grow_for_who_goes_on() {
        let windows = Windows::new(LIMITS);
        let scan = run(&windows, 1, Access::Scan, 0, 5);
        assert_eq!(scan, [32, 128, 512, 1024, 1024].map(|kib| kib << 10));
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
        assert_eq!(plan(at), at + 100 - (128 << 10)..at + 100);
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
        assert_eq!(windows.next(plan.run), Some(1 << 20..3 << 20), "while the first is on its way");
        windows.add_ahead(plan.run, Arc::new(Flight::new(16..48)), 1 << 20..3 << 20);
        windows.hold(plan.run, 0, Bytes::from(vec![0; 1 << 20]));
        assert_eq!(windows.next(plan.run), Some(3 << 20..7 << 20));
        windows.add_ahead(plan.run, Arc::new(Flight::new(48..112)), 3 << 20..7 << 20);
        assert_eq!(windows.next(plan.run), None, "two at a time");
        assert_eq!(windows.memory(), 7 << 20);
        let takes = |table, access, extent| windows.take_ahead(table, access, extent).is_some();
        assert!(!takes(2, Access::Merge, 16) && !takes(1, Access::Scan, 16));
        assert!(!takes(1, Access::Merge, 112));
        assert!(takes(1, Access::Merge, 49) && !takes(1, Access::Merge, 49));
        assert!(!takes(1, Access::Merge, 17), "passed over");
        let plan = windows.plan(3, Access::Merge, &(0..4096), 1 << 20);
        assert_eq!(windows.next(plan.run), None, "there is nothing behind the end");
    }

    #[test]
    fn short_scans_have_nothing_on_its_way() {
        let windows = Windows::new(LIMITS);
        let ahead = |run| {
            let more = || windows.next(run).map(|bytes| (Arc::new(Flight::ahead(0..1)), bytes));
            let lens = std::iter::from_fn(more).map(|(flight, bytes)| {
                windows.add_ahead(run, flight, bytes.clone());
                (bytes.end - bytes.start) >> 10
            });
            lens.collect::<Vec<_>>()
        };
        let plan = |at: u64| windows.plan(1, Access::Scan, &(at..at + 100), END);
        assert_eq!(ahead(plan(0).run), []);
        let second = plan(32 << 10);
        assert_eq!(second.bytes, 32 << 10..160 << 10);
        assert_eq!(ahead(second.run), [512]);
        assert!(windows.take_ahead(1, Access::Scan, 0).is_some());
        assert_eq!(ahead(second.run), [1024, 1024]);
    }

    #[test]
    fn the_next_table_is_read_as_fast_as_the_one_before() {
        let windows = Windows::new(LIMITS);
        let first = |table, access, at| run(&windows, table, access, at, 1)[0] >> 10;
        let begin = END - (3 << 20);
        run(&windows, 1, Access::Scan, begin, 5);
        assert_eq!(first(2, Access::Scan, 0), 32, "it has not come to the end");
        run(&windows, 1, Access::Scan, begin + (2720 << 10), 1);
        assert_eq!(first(3, Access::Merge, 0), 1 << 10, "another reader");
        assert_eq!(first(3, Access::Scan, 1 << 20), 32, "a seek");
        assert_eq!(first(1, Access::Scan, 0), 32, "the same table again");
        assert_eq!(first(4, Access::Scan, 0), 1 << 10);
        assert_eq!(first(5, Access::Scan, 0), 32, "one goes on, not two");
    }
}
