//! Closing: no more writes, no more background work, the log synced.

use std::sync::Arc;

use crate::base::error::Result;
use crate::base::event::Event;
use crate::base::sync::atomic::Ordering;
use crate::base::sync::{Mutex, Rank};
use crate::db::background::Lanes;
use crate::db::background::away::AwayJob;
use crate::db::core::Core;
use crate::db::write::committer::Committer;
use crate::db::write::queue::{Request, Turn};

/// What all clones of a handle share: a database with its lanes, closed when the last one goes.
pub(crate) struct Opened {
    core: Arc<Core>,
    lanes: Mutex<Lanes>,
}

impl Opened {
    pub(crate) fn new(core: Arc<Core>, lanes: Lanes) -> Self {
        Opened { core, lanes: Mutex::new(Rank::Lanes, lanes) }
    }

    #[inline]
    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    pub(crate) fn close(&self) -> Result<()> {
        let closed = self.core.stop();
        self.lanes.lock().join();
        self.core.drop_spare_log();
        closed
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            self.core.tell_background_error(&error, false);
        }
    }
}

impl Core {
    /// Ends writing and tells the lanes to end; the caller joins them. Only the first call does
    /// anything.
    pub(crate) fn stop(&self) -> Result<()> {
        self.install_what_is_back();
        let mut state = self.state.lock();
        if std::mem::replace(&mut state.closing, true) {
            return Ok(());
        }
        self.failed.store(true, Ordering::Release); // As in `fail`.
        let away = state.away.take_all();
        drop(state);
        self.cancelled.store(true, Ordering::Relaxed);
        self.entrance.close();
        away.into_iter().for_each(AwayJob::leave);
        self.changed.notify_all();
        self.ring_for_work();
        self.graveyard.close();
        let synced = self.sync_log();
        self.listeners.tell(&Event::Closed);
        let failed = self.state.lock().failed.clone();
        failed.map_or(synced, Err)
    }

    /// Syncs what is in the logs.
    fn sync_log(&self) -> Result<()> {
        let Some(queue) = &self.queue else { return Ok(()) };
        let nothing = Request { body: &[], count: 0, sync: true };
        let Turn::Lead(mut committer) = queue.join(nothing) else { return Ok(()) };
        let synced = self.sync_committer(&mut committer);
        queue.finish(committer, &[], &Ok(()));
        synced
    }

    fn sync_committer(&self, committer: &mut Committer) -> Result<()> {
        if !committer.is_poisoned() {
            return committer.sync(self);
        }
        if self.state.lock().failed.is_some() {
            return Ok(()); // Which is told instead.
        }
        // The disk was full. If it still is, nobody may take what was not synced for safe.
        self.heal(committer)
    }
}
