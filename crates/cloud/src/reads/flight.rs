//! A get under way, which others who want the same bytes wait for instead of asking again.
//!
//! I1: a flight lands once, whatever becomes of who flies it; who waits is always woken.

use std::ops::Range;
use std::sync::{Condvar, Mutex, PoisonError};

use bytes::Bytes;
use siltstone::Result;

/// Extents of one table on their way.
pub(super) struct Flight {
    pub(super) extents: Range<u32>,
    /// Nobody needs it yet.
    pub(super) is_ahead: bool,
    outcome: Mutex<Option<Result<Bytes>>>,
    landed: Condvar,
}

impl Flight {
    pub(super) fn new(extents: Range<u32>) -> Self {
        Flight { extents, is_ahead: false, outcome: Mutex::new(None), landed: Condvar::new() }
    }

    pub(super) fn ahead(extents: Range<u32>) -> Self {
        Flight { is_ahead: true, ..Flight::new(extents) }
    }

    pub(super) fn covers(&self, extent: u32) -> bool {
        self.extents.contains(&extent)
    }

    /// What a flight lands with first counts.
    pub(super) fn land(&self, outcome: Result<Bytes>) {
        // A clone and a comparison cannot panic: the value behind a poisoned lock is whole.
        let mut landed = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        landed.get_or_insert(outcome);
        self.landed.notify_all();
    }

    /// Waits for the bytes of all its extents. As long as the get may take, which has a deadline.
    pub(super) fn wait(&self) -> Result<Bytes> {
        let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match &*outcome {
                Some(landed) => return landed.clone(),
                None => {
                    outcome = self.landed.wait(outcome).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}
