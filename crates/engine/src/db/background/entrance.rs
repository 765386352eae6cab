//! The way in for those who run jobs elsewhere: they tell when one has begun, and how it has ended.
//!
//! **Concurrency.** They come in on any thread; closing waits until he who is inside has left, and lets in nobody after him.

use std::sync::{Arc, Weak};

use crate::base::sync::{Mutex, Rank};
use crate::compaction::service::JobOutcome;
use crate::db::core::Core;

/// The way in for those who run jobs elsewhere, and may outlive the database.
pub(crate) struct Entrance(Mutex<Option<Weak<Core>>>);

impl Default for Entrance {
    fn default() -> Self {
        Entrance(Mutex::new(Rank::Away, None))
    }
}

impl Entrance {
    pub(crate) fn open(&self, core: &Arc<Core>) {
        *self.0.lock() = Some(Arc::downgrade(core));
    }

    /// Afterwards nobody is inside, and nobody comes in.
    pub(crate) fn close(&self) {
        *self.0.lock() = None;
    }

    /// A job has ended. Called on any thread; what nobody wants any more is dropped, under no lock.
    pub(super) fn tell(&self, id: u64, outcome: JobOutcome) {
        let inside = self.0.lock();
        let core = inside.as_ref().and_then(Weak::upgrade);
        let unwanted = match &core {
            Some(core) => core.note_end(id, outcome),
            None => Some(outcome),
        };
        drop(core);
        drop(inside);
        drop(unwanted);
    }

    /// Somebody runs a job. Called on any thread.
    pub(super) fn tell_begun(&self, id: u64) {
        let inside = self.0.lock();
        if let Some(core) = inside.as_ref().and_then(Weak::upgrade) {
            core.note_begun(id);
        }
    }
}
