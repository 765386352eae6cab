//! Background work: flush, compaction, removal of files. On lanes of its own, or step by step by
//! hand; either way through the same functions.
//!
//! One lane flushes and does nothing else, so that a flush never waits behind a merge; some lanes
//! compact; one removes files.

mod adopt;
pub(crate) mod away;
pub(crate) mod bell;
pub(crate) mod compact;
pub(crate) mod entrance;
pub(crate) mod flush;
mod homecoming;
pub(crate) mod install;
mod left;
pub(crate) mod manual;
mod nearness;
pub(crate) mod outlook;
pub(crate) mod quiet;
pub(crate) mod readers;
pub(crate) mod seat;
mod settle;
pub(crate) mod sweep;

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::base::error::{ErrorKind, Result};
use crate::db::core::Core;
use crate::db::options::Background;
use crate::env::threads::Lane;

/// A lane waits so many times so long before it tries again what failed: a tenth of a second.
const RETRY_NAPS: u32 = 20;
const RETRY_NAP: Duration = Duration::from_millis(5);

/// Steps of `nice` by which lanes that merge go behind the one that flushes ..
const BEHIND_FLUSHES: u32 = 5;
/// .. and all of them behind readers beside a writer: a flush then gets a fifth of what a reader does.
const BEHIND_READERS: u32 = 7;

/// What became of a look for work.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Worked {
    /// Something was done.
    Yes,
    /// There is nothing to do.
    Idle,
    /// It failed, and is worth another try later.
    Failed,
}

/// Who goes first where processors are few.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Precedence {
    /// Writers may wait for it.
    First,
    Second,
}

/// The running lanes; joined at close.
#[derive(Default)]
pub(crate) struct Lanes(Vec<Box<dyn Lane>>);

impl Lanes {
    pub(crate) fn start(core: &Arc<Core>) -> Result<Self> {
        let mut lanes = Lanes::default();
        if core.options.background == Background::ByHand || core.queue.is_none() {
            return Ok(lanes);
        }
        if let Some(processor) = core.env.threads.processor() {
            core.seat.keep_free(processor, core.env.clock.now());
        }
        lanes.spawn(core, "siltstone-flush".to_owned(), Precedence::First, |core| {
            core.try_flush()
        })?;
        for number in 0..core.options.compaction_lanes {
            let name = format!("siltstone-compact-{number}");
            lanes.spawn(core, name, Precedence::Second, |core| core.try_compact())?;
        }
        let (graveyard, weak) = (Arc::clone(&core.graveyard), Arc::downgrade(core));
        let sweep = move || {
            while let Some(graves) = graveyard.wait() {
                // Without a core nobody may touch the folder any more; the next open sweeps it.
                let Some(core) = Weak::upgrade(&weak) else { return };
                core.make_way(false);
                core.sweep(graves);
            }
        };
        lanes.0.push(core.env.threads.spawn("siltstone-sweep", Box::new(sweep))?);
        Ok(lanes)
    }

    fn spawn(
        &mut self,
        core: &Arc<Core>,
        name: String,
        precedence: Precedence,
        work: fn(&Core) -> Worked,
    ) -> Result<()> {
        let lane_core = Arc::clone(core);
        let lane = move || {
            lane_core.run_lane(precedence, work);
        };
        self.0.push(core.env.threads.spawn(&name, Box::new(lane))?);
        Ok(())
    }

    pub(crate) fn join(&mut self) {
        for lane in self.0.drain(..) {
            lane.join();
        }
    }
}

impl Core {
    /// A lane's life: work while there is some, sleep while there is none, end when closing.
    fn run_lane(&self, precedence: Precedence, work: fn(&Core) -> Worked) {
        loop {
            let seen = self.work.rings();
            self.make_way(false);
            self.go_behind(precedence);
            // Whatever panics here, a filter's policy for one, must not leave writers waiting for the lane.
            let worked = self.watch(|| work(self)).unwrap_or(Worked::Idle);
            let is_idle = worked == Worked::Idle && precedence == Precedence::Second;
            if is_idle && self.merges_once_quiet(seen) {
                continue;
            }
            let state = self.state.lock();
            if state.closing {
                return;
            }
            match worked {
                Worked::Yes => {}
                Worked::Failed => {
                    drop(state);
                    self.rest_after_failure(seen);
                }
                Worked::Idle => drop(self.work.wait_past(seen, state, |state| state.closing)),
            }
        }
    }

    /// Lets those go first who should.
    pub(crate) fn go_behind(&self, precedence: Precedence) {
        let behind_flushes = match precedence {
            Precedence::First => 0,
            Precedence::Second => BEHIND_FLUSHES,
        };
        let behind_readers = if self.readers.are_beside_writer() { BEHIND_READERS } else { 0 };
        if self.options.lanes_make_way {
            self.env.threads.lower_priority(behind_flushes + behind_readers);
        }
    }

    /// Sleeps before the next try, in short pieces: whoever rings wants it sooner. By the clock, not
    /// by a wait with a time-out, so that simulated time does what real time does.
    fn rest_after_failure(&self, seen: u64) {
        for _ in 0..RETRY_NAPS {
            if self.work.rings() != seen {
                return;
            }
            self.env.clock.sleep(RETRY_NAP);
        }
    }

    /// Does one piece of background work, if there is any: a flush before a compaction before
    /// removing files. Returns false if there was none.
    pub(crate) fn run_background_step(&self) -> Result<bool> {
        let worked = match self.try_flush() {
            Worked::Idle => self.try_compact(),
            worked => worked,
        };
        match worked {
            Worked::Yes => Ok(true),
            Worked::Failed => {
                let state = self.state.lock();
                Err(state.retrying.clone().or_else(|| state.refusal()).unwrap_or_else(|| {
                    crate::base::error::Error::new(ErrorKind::Io, "background work failed")
                }))
            }
            Worked::Idle => {
                let graves = self.graveyard.take();
                let any = !graves.is_empty();
                self.sweep(graves);
                Ok(any)
            }
        }
    }

    /// Wakes the lanes. Called after the state changed, without its lock.
    pub(crate) fn ring_for_work(&self) {
        self.work.ring(&self.state);
    }

    /// What a failed background job means: retry, or the end of writing (rule R6).
    pub(crate) fn note_background_failure(&self, error: crate::base::error::Error) -> Worked {
        if error.kind() == ErrorKind::Closed {
            return Worked::Idle;
        }
        self.make_space(error.kind());
        let retries = matches!(error.kind(), ErrorKind::NoSpace | ErrorKind::Io);
        // A manifest whose append failed has ended writing already, whatever it failed of.
        let ended = self.state.lock().failed.is_some();
        self.tell_background_error(&error, retries && !ended);
        if !retries {
            self.fail(error);
            return Worked::Idle;
        }
        {
            let mut state = self.state.lock();
            state.retrying = Some(error);
            state.ailing = true;
        }
        self.changed.notify_all();
        Worked::Failed
    }

    /// Has what failed before tried again now: who asks for work wants the answer of today.
    pub(crate) fn try_again(&self) {
        self.state.lock().retrying = None;
        self.ring_for_work();
    }

    /// Background work succeeded.
    pub(crate) fn note_background_success(&self) {
        let healed = {
            let mut state = self.state.lock();
            state.retrying = None;
            std::mem::take(&mut state.ailing)
        };
        if healed {
            self.listeners.tell(&crate::base::event::Event::Healed);
        }
        self.changed.notify_all();
        self.ring_for_work();
    }
}
