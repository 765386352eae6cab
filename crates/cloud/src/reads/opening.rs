//! Opening a table: what lies behind its data is brought in one piece, and let go of once the table is read.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use siltstone::{Access, Result};

use super::counters::add;
use super::remote_table::{Core, Found};
use super::tables::Shared;
use super::tail::{TAIL_BYTES_KEPT, TAIL_BYTES_MAX, TAIL_BYTES_MIN};
use crate::bucket::Purpose;

/// A table up to this size comes whole: a second request would take longer than its bytes.
const WHOLE_BYTES: u64 = 1 << 20;

impl Shared {
    /// How much of its end is brought when a table of so many bytes is opened.
    pub(super) fn usual_tail(&self, bytes: u64) -> u64 {
        let start = match self.cache {
            // What is not the tail will be found there.
            Some(_) if bytes <= WHOLE_BYTES => 0,
            _ => bytes - self.tails.guess(bytes),
        };
        bytes - self.extents.start(self.extents.at(start))
    }
}

impl Core {
    /// Brings what tables usually need when they are opened.
    pub(super) fn load_usual_tail(self: &Arc<Self>, purpose: Purpose) -> Result<()> {
        self.tail().purpose = purpose;
        let usual = self.shared.usual_tail(self.object.bytes);
        self.shared.tails.note_open();
        let found = self.load_tail(self.object.bytes - usual)?;
        let counters = &self.shared.counters;
        add(&counters.opened, 1);
        add(&counters.opened_near, u64::from(found == Found::Near));
        Ok(())
    }

    /// Whoever opens the table needs it from `from` on. If that is before the tail, it is got with what probably lies before it.
    pub(super) fn go_on_opening(self: &Arc<Self>, from: u64) -> Result<()> {
        let (bytes, extents) = (self.object.bytes, self.shared.extents);
        let needed = bytes.saturating_sub(from);
        if needed > TAIL_BYTES_MIN {
            self.shared.tails.note(bytes, needed);
        }
        if from >= self.tail_start.load(Relaxed) {
            return Ok(());
        }
        add(&self.shared.counters.tails_too_short, 1);
        // The index is read first, and about as much again lies before it: a filter.
        let twice = extents.at(bytes.saturating_sub(needed.saturating_mul(2)));
        let once = extents.at(from);
        let tail = extents.at(self.tail_start.load(Relaxed));
        let is_cached = (once..tail).all(|extent| self.is_cached(extent));
        let start = extents.start(if is_cached { once } else { twice });
        // Longer ones come as they are read.
        if bytes - start <= TAIL_BYTES_MAX {
            self.load_tail(start)?;
        }
        Ok(())
    }

    /// The last bytes of the table are the tail, unless there is a longer one.
    pub(super) fn begin_with(&self, end: &Bytes) {
        let Some(start) = self.object.bytes.checked_sub(end.len() as u64) else { return };
        let mut tail = self.tail();
        if start < tail.start {
            (tail.start, tail.bytes) = (start, end.clone());
            self.tail_start.store(start, Relaxed);
        }
    }

    /// Has the tail begin at `start`, or before.
    fn load_tail(self: &Arc<Self>, start: u64) -> Result<Found> {
        let (old_start, old) = {
            let tail = self.tail();
            (tail.start, tail.bytes.clone())
        };
        let Some(more) = old_start.checked_sub(start).filter(|more| *more > 0) else {
            return Ok(Found::Near);
        };
        let mut bytes = vec![0; more as usize];
        let found = self.fill(&mut bytes, start, Access::Open)?;
        bytes.extend_from_slice(&old);
        let mut tail = self.tail();
        if start < tail.start {
            (tail.start, tail.bytes) = (start, Bytes::from(bytes));
            self.tail_start.store(start, Relaxed);
        }
        Ok(found)
    }

    /// The table is read: index and filter are in its reader's hands.
    pub(super) fn end_opening(&self) {
        self.shared.tails.note_opened();
        let kept_from = self.object.bytes.saturating_sub(TAIL_BYTES_KEPT);
        if self.tail_start.load(Relaxed) < kept_from {
            let mut tail = self.tail();
            tail.trim();
            self.tail_start.store(tail.start, Relaxed);
        }
    }
}
