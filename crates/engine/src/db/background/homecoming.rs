//! When jobs stay here, and when one that is away is taken back, since writers would have to wait for it: a worker may be slower than
//! they are, and what it has taken no other merge can have.

use std::time::Duration;

use crate::base::slot::Slot;
use crate::base::sync::atomic::Ordering;
use crate::compaction::job::Job;
use crate::db::background::away::AwayJob;
use crate::db::background::outlook::{Journey, Kind, Outlook};
use crate::db::core::Core;
use crate::db::state::State;

/// How near level 0 is to stopping writers before any job is taken back: half way from where they are slowed down. Not by its time:
/// once they stop, nothing would have anybody look at the clock again.
const PRESSING: f64 = 0.5;
/// A merge here does so much in a second at the least, ..
const BYTES_PER_SECOND: f64 = (64 << 20) as f64;
/// .. and begins within this. A job that waits for longer than it would take here is late, ..
const GRACE: Duration = Duration::from_millis(10);
/// .. and so is one that somebody runs, and takes so many times as long: what is done of it would be done in vain.
const TIMES_HERE: u32 = 2;

/// For how long jobs that may be in the way of level 0 stay here once one had to be taken back. Each time is
/// twice as long as the one before, until jobs have come back by themselves for as long again.
#[derive(Default)]
pub(crate) struct Rest {
    until: Duration,
    last: Duration,
}

impl Rest {
    const FIRST: Duration = Duration::from_secs(2);
    const LONGEST: Duration = Duration::from_secs(64);

    pub(crate) fn lasts(&self, now: Duration) -> bool {
        now < self.until
    }

    fn begin(&mut self, now: Duration) {
        if !self.lasts(now) {
            self.last = (2 * self.last).clamp(Self::FIRST, Self::LONGEST);
            self.until = now + self.last;
        }
    }

    /// A job was back in time.
    fn is_needless(&mut self, now: Duration) {
        if now > self.until + 2 * self.last {
            self.last = Duration::ZERO;
        }
    }
}

impl Core {
    /// Before the database closes: jobs that are back are installed, for who ran them elsewhere has forgotten them by now. One that
    /// cannot be is done again some time.
    pub(crate) fn install_what_is_back(&self) {
        loop {
            let back = {
                let mut state = self.state.lock();
                let is_over = state.closing || state.failed.is_some();
                if is_over { None } else { state.away.take_done() }
            };
            let Some(back) = back else { return };
            self.install_done(back);
        }
    }

    /// Whether a job that may be in the way of level 0 is not given away: for a while after one had to be taken back, or if it would be back
    /// too late, and would be done sooner here. Here it may wait for a processor that the writer has, and for inputs that are far away.
    pub(crate) fn stays_here(&self, state: &State, job: &Job, is_paced: bool) -> bool {
        let now = self.env.clock.now();
        if state.away.rest.lasts(now) {
            return true;
        }
        let bytes = job.input_bytes(&self.settings.order.user);
        let is_faster_here = || state.away.outlook.is_faster_here(now, kind_of(job), bytes);
        is_paced && !self.is_back_in_time(&state.away.outlook, job, now) && is_faster_here()
    }

    /// Whether a job that leaves now will be back before writers are slowed down. As many tables as one of level 0 takes may gather meanwhile:
    /// they make the next one larger, for which more would gather.
    fn is_back_in_time(&self, outlook: &Outlook, job: &Job, now: Duration) -> bool {
        let bytes = job.input_bytes(&self.settings.order.user);
        let tables = self.level0_tables.load(Ordering::Relaxed) as f64;
        let more = outlook.tables_until_back(now, kind_of(job), bytes);
        let grows = is_of_level0(job) && more > tables;
        !grows && tables + more < self.settings.level0.slow_down as f64
    }

    /// With nothing that could be begun here: a job that is away and may be in the way of level 0. One that is late, once level 0 is half
    /// way to where it slows writers down, so that a merge here is over before; any, once they are held back.
    pub(crate) fn take_back_for_writers(&self, state: &mut State) -> Option<AwayJob> {
        let service = self.options.compaction_service.as_deref()?;
        if !self.is_filling() || !service.lets_go() {
            return None;
        }
        let (now, presses) = (self.env.clock.now(), self.pressure() >= PRESSING);
        let is_meant =
            |away: &AwayJob| is_near_level0(&away.job) && (presses || self.is_late(away, now));
        let taken = state.away.take_unfinished(is_meant)?;
        state.away.rest.begin(now);
        Some(taken)
    }

    /// Half way to where writers are slowed down.
    pub(crate) fn is_filling(&self) -> bool {
        self.level0_tables.load(Ordering::Relaxed) as usize >= self.settings.level0.filling()
    }

    fn is_late(&self, away: &AwayJob, now: Duration) -> bool {
        let bytes = away.job.input_bytes(&self.settings.order.user);
        let here = GRACE + Duration::from_secs_f64(bytes as f64 / BYTES_PER_SECOND);
        match away.runs_since {
            Some(since) => now.saturating_sub(since) > TIMES_HERE * here,
            None => now.saturating_sub(away.begun.at) > here,
        }
    }

    /// A job has run here.
    pub(crate) fn note_here(&self, job: &Job, since: Duration) {
        if self.options.compaction_service.is_some() {
            let now = self.env.clock.now();
            let bytes = job.input_bytes(&self.settings.order.user);
            self.state.lock().away.outlook.ran_here(now, bytes, now.saturating_sub(since));
        }
    }

    /// A job has come back by itself.
    pub(crate) fn note_back(&self, job: &Job, (left, began): (Duration, Option<Duration>)) {
        let now = self.env.clock.now();
        let bytes = job.input_bytes(&self.settings.order.user);
        let began = began.unwrap_or(left);
        let journey =
            Journey { bytes, waited: began.saturating_sub(left), ran: now.saturating_sub(began) };
        let mut state = self.state.lock();
        state.away.outlook.came_back(now, kind_of(job), journey);
        if is_near_level0(job) {
            state.away.rest.is_needless(now);
        }
    }
}

fn kind_of(job: &Job) -> Kind {
    if is_of_level0(job) { Kind::OfLevel0 } else { Kind::Deeper }
}

/// Whether it merges tables of level 0.
pub(crate) fn is_of_level0(job: &Job) -> bool {
    job.inputs.iter().any(|(slot, _)| *slot == Slot::L0)
}

/// Whether merges of level 0 may have to wait for it.
pub(crate) fn is_near_level0(job: &Job) -> bool {
    job.inputs.iter().any(|(slot, _)| slot.level.number() <= 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_grow_until_a_job_is_in_time() {
        let seconds = Duration::from_secs;
        let mut rest = Rest::default();
        assert!(!rest.lasts(seconds(0)));
        rest.begin(seconds(10));
        rest.begin(seconds(11)); // Another one, within the same.
        assert!(rest.lasts(seconds(11)) && !rest.lasts(seconds(12)));
        rest.begin(seconds(20));
        assert!(rest.lasts(seconds(23)) && !rest.lasts(seconds(24)));
        (1..10).for_each(|turn| rest.begin(seconds(turn * 100)));
        assert!(rest.lasts(seconds(963)) && !rest.lasts(seconds(964)));
        rest.is_needless(seconds(1_000));
        rest.begin(seconds(1_001));
        assert!(rest.lasts(seconds(1_064)), "too soon to tell");
        rest.is_needless(seconds(1_999));
        rest.begin(seconds(2_000));
        assert!(!rest.lasts(seconds(2_002)));
    }
}
