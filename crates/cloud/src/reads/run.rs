//! One run: a reader that goes through a table, what it holds, and how far it should read ahead.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use siltstone::Access;

use super::flight::Flight;

/// The first window of a scan, which is what a short one needs, and how many times the one before each further one is.
const SCANS: (u64, u64) = (32 << 10, 4);
/// The same of a merge, which mostly goes on.
const MERGES: (u64, u64) = (1 << 20, 2);
/// A run that leaves out no more than this goes on: it passes over blocks that are in memory.
const GAP_BYTES_MAX: u64 = 64 << 10;
/// A window this large is worth a thread that gets the next one meanwhile.
const AHEAD_BYTES_MIN: u64 = 128 << 10;
/// So many windows are on their way to a scan while it uses one: of 2 MiB each it takes a few at a time, for some come
/// late, ..
const SCANS_AHEAD_MAX: usize = 3;
/// .. and of 8 MiB two.
const MERGES_AHEAD_MAX: usize = 2;

/// How long windows of a kind of reader are at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Most {
    pub(super) window: u64,
    /// Now, since memory is shared.
    pub(super) span: u64,
}

/// Names a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RunId(pub(super) u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Forward,
    Backward,
}

pub(super) struct Run {
    pub(super) id: RunId,
    pub(super) table: u64,
    pub(super) access: Access,
    way: Way,
    /// What was read last.
    last: Range<u64>,
    /// Where what may be read ahead of the table ends.
    end: u64,
    /// How large the next window is.
    span: u64,
    /// How many windows it has used, with the one that it uses or waits for.
    windows: usize,
    /// What it holds, from this offset on.
    start: u64,
    held: Bytes,
    /// What it waits for.
    awaited: Range<u64>,
    /// The next windows, on their way or landed, in order.
    ahead: VecDeque<Ahead>,
    pub(super) used_at: u64,
}

struct Ahead {
    flight: Arc<Flight>,
    bytes: Range<u64>,
}

impl Run {
    pub(super) fn new(id: RunId, table: u64, access: Access, read: &Range<u64>) -> Self {
        Run {
            id,
            table,
            access,
            way: Way::Forward,
            last: read.clone(),
            end: u64::MAX,
            span: first_span(access),
            windows: 0,
            start: read.start,
            held: Bytes::new(),
            awaited: read.start..read.start,
            ahead: VecDeque::new(),
            used_at: 0,
        }
    }

    /// The same reader at the beginning of another table, as fast as it was in the one that it has read.
    pub(super) fn moved_on(&self, id: RunId, table: u64, read: &Range<u64>) -> Self {
        let (span, windows) = (self.span, self.windows);
        Run { span, windows, ..Run::new(id, table, self.access, read) }
    }

    /// Whether its table has been read to the end, but for what is in the tail.
    pub(super) fn is_through(&self) -> bool {
        self.way == Way::Forward && self.end.saturating_sub(self.last.end) <= GAP_BYTES_MAX
    }

    pub(super) fn has(&self, offset: u64) -> bool {
        offset.checked_sub(self.start).is_some_and(|at| at < self.held.len() as u64)
    }

    /// What it holds from the beginning of a read on.
    pub(super) fn read(&mut self, read: &Range<u64>) -> Option<Bytes> {
        let from = usize::try_from(read.start.checked_sub(self.start)?).ok()?;
        let held = self.held.slice(from..);
        self.last = read.start..read.end.min(read.start + held.len() as u64);
        Some(held)
    }

    /// What is read now is not among what it holds, and perhaps somewhere else.
    pub(super) fn pass_by(&mut self, read: &Range<u64>) {
        if let Some(way) = self.way_to(read) {
            self.turn(way);
            self.last = read.clone();
        }
    }

    pub(super) fn has_ahead(&self, extent: u32) -> bool {
        self.ahead.iter().any(|ahead| ahead.flight.covers(extent))
    }

    /// Which way a read goes on from the last one, if it does.
    pub(super) fn way_to(&self, read: &Range<u64>) -> Option<Way> {
        let is_near = |gap: Option<u64>| gap.is_some_and(|gap| gap <= GAP_BYTES_MAX);
        if read.start == self.last.start {
            Some(self.way) // It was passed on to here.
        } else if is_near(read.start.checked_sub(self.last.end)) {
            Some(Way::Forward)
        } else if is_near(self.last.start.checked_sub(read.end)) {
            Some(Way::Backward)
        } else {
            None
        }
    }

    pub(super) fn turn(&mut self, way: Way) {
        if self.way != way {
            (self.way, self.span, self.windows) = (way, first_span(self.access), 0);
        }
    }

    /// The window for a read that misses, within the first `end` bytes of the table.
    pub(super) fn plan(&mut self, read: &Range<u64>, end: u64, most: &Most) -> Range<u64> {
        let span = self.span.min(most.span).max(read.end - read.start);
        let bytes = match self.way {
            Way::Forward => read.start..read.start.saturating_add(span).min(end.max(read.end)),
            Way::Backward => read.end.saturating_sub(span)..read.end,
        };
        (self.last, self.end) = (read.clone(), end);
        self.wait_for(bytes.clone());
        self.grow(most);
        bytes
    }

    fn wait_for(&mut self, bytes: Range<u64>) {
        self.windows += 1;
        self.awaited = bytes;
    }

    /// What it waits for is somewhat more, since it comes in whole extents.
    pub(super) fn wait_to(&mut self, end: u64) {
        self.awaited.end = end;
    }

    pub(super) fn hold(&mut self, start: u64, bytes: Bytes) {
        let end = start + bytes.len() as u64;
        (self.start, self.held, self.awaited) = (start, bytes, end..end);
    }

    /// The window on its way that brings an extent. Those before it were passed over.
    pub(super) fn take_ahead(&mut self, extent: u32) -> Option<Arc<Flight>> {
        let at = self.ahead.iter().position(|ahead| ahead.flight.covers(extent))?;
        let Ahead { flight, bytes } = self.ahead.drain(..=at).next_back()?;
        self.wait_for(bytes);
        Some(flight)
    }

    pub(super) fn add_ahead(&mut self, flight: Arc<Flight>, bytes: Range<u64>) {
        self.ahead.push_back(Ahead { flight, bytes });
    }

    /// The next window to read ahead, if it is worth it and takes no more than there is room.
    pub(super) fn next(&mut self, most: &Most, room: u64) -> Option<Range<u64>> {
        let from = self.ahead.back().map_or(self.awaited.end, |ahead| ahead.bytes.end);
        let span = self.span.min(most.span);
        let is_worth_it = self.way == Way::Forward
            && span >= AHEAD_BYTES_MIN
            && self.ahead.len() < self.ahead_max()
            && from < self.end
            && span <= room;
        if !is_worth_it {
            return None;
        }
        self.grow(most);
        Some(from..from.saturating_add(span).min(self.end))
    }

    /// A scan that is short is over with its first window, and one that is rather short with its second: so one more is on its way
    /// from the second on, two from the third, and so on. Merges are not short.
    fn ahead_max(&self) -> usize {
        match self.access {
            Access::Merge => MERGES_AHEAD_MAX,
            _ => SCANS_AHEAD_MAX.min(self.windows.saturating_sub(1)),
        }
    }

    fn grow(&mut self, most: &Most) {
        let (_, times) = growth(self.access);
        self.span = (times * self.span).min(most.window);
    }

    pub(super) fn memory(&self) -> u64 {
        let ahead = self.ahead.iter().map(|ahead| ahead.bytes.end - ahead.bytes.start);
        self.held.len() as u64 + (self.awaited.end - self.awaited.start) + ahead.sum::<u64>()
    }
}

fn first_span(access: Access) -> u64 {
    growth(access).0
}

fn growth(access: Access) -> (u64, u64) {
    match access {
        Access::Merge => MERGES,
        _ => SCANS,
    }
}
