//! Scans whose iterators have ended, kept for the next ones. Short scans take a sixth of their time to make and drop what they are made
//! of: each counts the tables, memtables and caches that it holds, and has memory of its own.
//!
//! **Invariants.**
//! - K1: what is kept holds no block, and no memory but lists of sources and entries.
//! - K2: what is kept is of the view of the moment, or is about to be dropped by who published the next one, or by who keeps it.
//!
//! **Concurrency.** Each thread has a place, which it may share with others; who finds it taken does without. Whoever publishes
//! numbers the view first, and empties the places then; whoever keeps looks at the number once more afterwards. One of the two sees
//! the other.

#[cfg(all(test, not(loom)))]
mod tests;

use crate::base::sync::{Mutex, Rank, this_thread};
use crate::db::options::ReadOptions;
use crate::db::read::iterator::scan::Scan;
use crate::db::super_version::{SuperVersion, View};

const PLACES: usize = 8;

/// What sources depend on of a read's options.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asked {
    verify_checksums: bool,
    fill_cache: bool,
}

impl Asked {
    pub(crate) fn of(options: &ReadOptions) -> Self {
        let ReadOptions { verify_checksums, fill_cache, .. } = *options;
        Asked { verify_checksums, fill_cache }
    }
}

#[derive(Default)]
pub(crate) struct KeptScans([Place; PLACES]);

#[repr(align(128))] // Threads that scan do not write to each other's lines.
struct Place(Mutex<Option<Box<Scan>>>);

impl Default for Place {
    fn default() -> Self {
        Place(Mutex::new(Rank::Leaf, None))
    }
}

impl KeptScans {
    #[inline]
    fn place(&self) -> &Mutex<Option<Box<Scan>>> {
        // Threads' numbers differ in bits of the middle.
        let mixed = this_thread().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.0[(mixed >> 32) as usize % PLACES].0
    }

    /// What an earlier scan has left, if it was asked the same. It may be of an earlier view.
    #[inline]
    pub(crate) fn take(&self, asked: Asked) -> Option<Box<Scan>> {
        let kept = self.place().lock_soon()?.take()?;
        (kept.asked() == asked).then_some(kept)
    }

    /// Keeps a scan whose iterator has ended, if there is nothing in its place.
    #[inline]
    pub(crate) fn keep(&self, mut scan: Box<Scan>, view: &View<SuperVersion>) {
        let number = scan.view();
        if number != view.number() {
            return;
        }
        scan.rest();
        let place = self.place();
        let Some(mut kept) = place.lock_soon() else { return };
        if kept.is_none() {
            *kept = Some(scan);
        }
        drop(kept);
        if number != view.number() {
            let outdated = place.lock().take();
            drop(outdated);
        }
    }

    /// The view has changed.
    pub(crate) fn clear(&self) {
        for Place(place) in &self.0 {
            let outdated = place.lock().take();
            drop(outdated); // Without the lock.
        }
    }
}
