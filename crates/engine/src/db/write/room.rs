//! Room for a write: wait or slow down where the background is behind, and switch memtable and log
//! when the memtable is full. Run by the leader, which holds no lock here.

use std::sync::Arc;
use std::time::Duration;

use crate::base::error::Result;
use crate::base::event::{Event, StallCause};
use crate::base::slot::Slot;
use crate::base::sync::Guard;
use crate::base::sync::atomic::Ordering;
use crate::db::background::seat::Written;
use crate::db::core::Core;
use crate::db::state::{Logged, State};
use crate::db::write::committer::Committer;
use crate::db::write::wal::Wal;

impl Core {
    /// Returns when the memtable may take the write.
    pub(crate) fn make_room(&self, committer: &mut Committer, bytes: usize) -> Result<()> {
        if committer.is_poisoned() {
            self.refuse_if_failed()?;
            self.heal(committer)?;
        }
        self.slow_down(committer)?;
        self.look_about(committer);
        let table = committer.inserter.table();
        let full = table.memory() + bytes > self.settings.write_buffer_bytes;
        if full && !table.is_empty() {
            self.wait_for_space()?;
            self.switch_memtable(committer)?;
        }
        self.refuse_if_failed()
    }

    /// Whether the memtable takes so many bytes more, and nothing is in their way.
    pub(crate) fn has_room(&self, committer: &Committer, bytes: usize) -> bool {
        let filled = committer.inserter.table().memory();
        filled + bytes <= self.settings.write_buffer_bytes
            && self.pressure() <= 0.0
            && !committer.is_poisoned()
            && !self.has_failed()
    }

    /// How close level 0 is to stopping writes: 0 below the first limit, 1 at the last.
    pub(crate) fn pressure(&self) -> f64 {
        let limits = self.settings.level0;
        let tables = self.level0_tables.load(Ordering::Relaxed) as usize;
        let past = (tables + 1).saturating_sub(limits.slow_down) as f64;
        past / (limits.stop + 1 - limits.slow_down) as f64
    }

    fn slow_down(&self, committer: &mut Committer) -> Result<()> {
        let Some(delay) = committer.pace.charge(self.pressure()) else { return Ok(()) };
        if self.runs_by_hand() {
            return self.run_background_step().map(drop);
        }
        self.counters.stall_l0_slowdown_micros.add(delay.as_micros() as u64);
        self.doze(StallCause::L0Slowdown, delay);
        Ok(())
    }

    /// Now and then: tells lanes where writing goes on, and slows down where flushes are behind.
    #[inline]
    fn look_about(&self, committer: &mut Committer) {
        let filled = committer.inserter.table().memory();
        if committer.pace.fill.wants_look(filled) && !self.runs_by_hand() {
            self.keep_pace_with_flushes(committer, filled);
        }
    }

    #[cold]
    fn keep_pace_with_flushes(&self, committer: &mut Committer, filled: usize) {
        let now = self.env.clock.now();
        if let Some(processor) = self.env.threads.processor() {
            let (batches, bytes) = (&self.counters.batches_written, &self.counters.bytes_written);
            self.seat.note(processor, now, Written { batches: batches.get(), bytes: bytes.get() });
        }
        self.readers.look();
        self.let_residents_go();
        self.look_for_spare_log(filled, now, &committer.wal);
        if self.memory.runs_low() {
            self.graveyard.ask_for_memory();
        }
        // With as many waiting as may, all of them are to be flushed by the time this one is full; with fewer, some.
        let share = (self.backlog.waiting() + 1) as f64 / (self.settings.immutables_max + 1) as f64;
        let left = self.backlog.left(now).mul_f64(share.min(1.0));
        let room = self.settings.write_buffer_bytes;
        let Some(delay) = committer.pace.fill.charge(now, filled, room, left) else { return };
        self.counters.stall_flush_slowdown_micros.add(delay.as_micros() as u64);
        self.doze(StallCause::FlushSlowdown, delay);
    }

    /// Sleeps, and lends the processor to a lane for that time.
    fn doze(&self, cause: StallCause, delay: Duration) {
        self.seat.lend(self.env.clock.now(), delay);
        self.env.clock.sleep(delay);
        self.seat.claim(delay);
        self.listeners.tell(&Event::Stalled { cause, elapsed: delay });
    }

    /// Waits until another memtable may become immutable.
    pub(crate) fn wait_for_space(&self) -> Result<()> {
        let begin = self.env.clock.now();
        let mut cause = None;
        let waited = self.wait_out_obstacles(begin, &mut cause);
        if let Some(cause) = cause {
            let elapsed = self.env.clock.now().saturating_sub(begin);
            self.seat.claim(elapsed);
            self.note_stall(cause, elapsed);
        }
        waited
    }

    /// `cause` is the last one that was waited for.
    fn wait_out_obstacles(&self, begin: Duration, cause: &mut Option<StallCause>) -> Result<()> {
        loop {
            let state = self.state.lock();
            if let Some(error) = state.refusal() {
                return Err(error);
            }
            let Some(obstacle) = self.obstacle(&state) else { return Ok(()) };
            // What fails again and again (a full disk) must not hang the writer. By hand it is the
            // writer who tries again.
            if let Some(error) = &state.retrying
                && !self.runs_by_hand()
            {
                return Err(error.clone());
            }
            *cause = Some(obstacle);
            self.seat.lend(begin, Duration::MAX);
            self.wait_for_background(state)?;
        }
    }

    fn obstacle(&self, state: &State) -> Option<StallCause> {
        if state.immutables.len() >= self.settings.immutables_max {
            return Some(StallCause::MemtablesFull);
        }
        let tables = state.version.slot(Slot::L0).len();
        (tables >= self.settings.level0.stop).then_some(StallCause::L0Stop)
    }

    /// Sleeps until background work changes something; by hand, does a step of it, or waits for what is done elsewhere.
    pub(crate) fn wait_for_background(&self, state: Guard<'_, State>) -> Result<()> {
        if self.runs_by_hand() {
            drop(state);
            if !self.run_background_step()? {
                self.wait_for_service();
            }
        } else {
            drop(self.changed.wait(state));
        }
        Ok(())
    }

    fn note_stall(&self, cause: StallCause, elapsed: Duration) {
        let micros = elapsed.as_micros() as u64;
        match cause {
            StallCause::MemtablesFull => self.counters.stall_memtables_full_micros.add(micros),
            _ => self.counters.stall_l0_stop_micros.add(micros),
        }
        self.listeners.tell(&Event::Stalled { cause, elapsed });
    }

    /// Makes the memtable immutable and begins a new one with a log of its own. A failure to make
    /// the log changes nothing.
    pub(crate) fn switch_memtable(&self, committer: &mut Committer) -> Result<()> {
        let wal = self.next_log(committer.wal.number())?;
        let number = wal.number();
        let (table, inserter) = self.new_memtable();
        committer.let_go_of_flushed(self);
        self.leave_behind(std::mem::replace(&mut committer.wal, wal), &mut committer.older);
        let ended = std::mem::replace(&mut committer.inserter, inserter);
        committer.inserter.succeed(ended);
        let mut state = self.state.lock();
        let start = committer.next_seqno;
        let fresh = Logged { table: Arc::clone(&table), wal: number, start };
        let full = std::mem::replace(&mut state.memtable, fresh);
        state.immutables.push_back(full);
        state.wals.push(number);
        self.publish(&state);
        drop(state);
        self.ring_for_work();
        Ok(())
    }

    /// Keeps the log of a full memtable for as long as it may have to be synced.
    fn leave_behind(&self, mut wal: Wal, older: &mut Vec<Wal>) {
        if !wal.needs_sync() {
            let _ = wal.close(); // All of it is synced: a failing close loses nothing.
            return;
        }
        let map = wal.end_appends();
        older.push(wal);
        self.leave_to_housekeeping(map);
    }

    /// Has what takes a while to drop dropped elsewhere. By hand, housekeeping comes last, and may not come for long: then here.
    fn leave_to_housekeeping(&self, scrap: Option<impl Send + 'static>) {
        match scrap {
            Some(scrap) if !self.runs_by_hand() => self.graveyard.bury_scrap(Box::new(scrap)),
            scrap => drop(scrap),
        }
    }

    /// Asked once more when a leader has taken others along: they may have been told meanwhile that writing has ended.
    pub(crate) fn refuse_if_failed(&self) -> Result<()> {
        match self.has_failed() {
            false => Ok(()),
            true => self.state.lock().refusal().map_or(Ok(()), Err),
        }
    }
}
