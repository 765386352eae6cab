//! Jobs that are with the user's compaction service: given away, waited for by no lane, and installed by one once they are
//! back. What comes back is believed as far as it can be checked here; else the job runs here.
//!
//! **Invariants.**
//! - V1: a job that is away is in flight (A7): its tables are in place, and no other plan takes them, until its result is
//!   installed (R10), it has run here, or the database has closed.
//! - V2: a job's entry is taken out once: by a lane, by the caller who waits for it, or by closing. Who takes it ends the
//!   job.
//! - V3: tables that others have made get their numbers here, and are in the store under them, durably by name (R1),
//!   opened, and what they say about themselves, before an edit names them.
//!
//! **Concurrency.** Entries are the state's. Services are called under no lock. Who tells of an end comes in by the
//! [`Entrance`](crate::db::background::entrance::Entrance), and closing waits until he has left: nobody keeps the core alive, and with it the folder's lock, once it is
//! closed.

use std::sync::Arc;
use std::time::Duration;

use crate::base::error::Result;
use crate::base::event::Event;
use crate::base::slot::Slot;
use crate::compaction::job::{Job, Output};
use crate::compaction::service::completion::Completion;
use crate::compaction::service::spec::JobSpec;
use crate::compaction::service::{CompactionService, JobOutcome, JobSummary, Submitted};
use crate::db::background::compact::Begun;
use crate::db::background::homecoming::{Rest, is_near_level0, is_of_level0};
use crate::db::background::install::refused;
use crate::db::background::outlook::Outlook;
use crate::db::core::Core;

/// For so long others wait for one that waits. Where all who could run it are busy or gone, they wait together, and come home together.
const WAITS_ALONE: Duration = Duration::from_secs(1);
/// For so many that run another may wait.
const RUN_PER_WAITING: usize = 2;

/// The jobs that are away.
#[derive(Default)]
pub(crate) struct Away {
    jobs: Vec<AwayJob>,
    pub(crate) rest: Rest,
    pub(crate) outlook: Outlook,
}

/// One of them.
pub(crate) struct AwayJob {
    pub(crate) job: Arc<Job>,
    pub(crate) begun: Begun,
    waits: Waits,
    submitted: Option<Box<dyn Submitted>>,
    /// Since when somebody runs it.
    pub(crate) runs_since: Option<Duration>,
    /// Once it is back.
    outcome: Option<JobOutcome>,
}

/// Who goes on with a job that is back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waits {
    /// The caller who has asked for it.
    Caller,
    /// Nobody; any lane will do.
    Nobody,
}

impl Away {
    /// A job is about to be given away.
    pub(crate) fn begin(&mut self, job: &Arc<Job>, begun: Begun, waits: Waits) {
        let job = Arc::clone(job);
        let (submitted, runs_since, outcome) = (None, None, None);
        self.jobs.push(AwayJob { job, begun, waits, submitted, runs_since, outcome });
    }

    pub(crate) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Whether as many from below level 0 as there should be have nobody yet who runs them, and have not waited for long: one, and
    /// while level 0 wants no merge one more for each few that run. Several workers end at nearly the same time, and to hand a job
    /// over takes a request.
    pub(crate) fn enough_wait(&self, now: Duration, wants_level0: bool) -> bool {
        let (mut run, mut wait) = (0, 0);
        let is_out = |away: &&AwayJob| away.outcome.is_none() && !is_of_level0(&away.job);
        for away in self.jobs.iter().filter(is_out) {
            run += usize::from(away.runs_since.is_some());
            let is_new = now.saturating_sub(away.begun.at) < WAITS_ALONE;
            wait += usize::from(away.runs_since.is_none() && is_new);
        }
        are_enough(wait, if wants_level0 { 0 } else { run })
    }

    /// Takes out a job that is back, for a lane.
    pub(crate) fn take_back(&mut self) -> Option<AwayJob> {
        self.take(|away| away.outcome.is_some() && away.waits == Waits::Nobody)
    }

    /// The same of those that ran elsewhere, and well.
    pub(crate) fn take_done(&mut self) -> Option<AwayJob> {
        let is_done = |away: &AwayJob| matches!(away.outcome, Some(JobOutcome::Done(_)));
        self.take(|away| is_done(away) && away.waits == Waits::Nobody)
    }

    /// Takes out a job that is not, and that no caller waits for.
    pub(crate) fn take_unfinished(
        &mut self,
        is_meant: impl Fn(&AwayJob) -> bool,
    ) -> Option<AwayJob> {
        self.take(|away| away.outcome.is_none() && away.waits == Waits::Nobody && is_meant(away))
    }

    /// Takes out all of them.
    pub(crate) fn take_all(&mut self) -> Vec<AwayJob> {
        std::mem::take(&mut self.jobs)
    }

    /// True while a lane would have nothing to do but to wait.
    fn are_out(&self) -> bool {
        let mut of_lanes = self.jobs.iter().filter(|away| away.waits == Waits::Nobody).peekable();
        of_lanes.peek().is_some() && of_lanes.all(|away| away.outcome.is_none())
    }

    fn take(&mut self, is_meant: impl Fn(&AwayJob) -> bool) -> Option<AwayJob> {
        self.jobs.iter().position(is_meant).map(|at| self.jobs.swap_remove(at))
    }

    fn find(&mut self, id: u64) -> Option<&mut AwayJob> {
        self.jobs.iter_mut().find(|away| away.job.id == id)
    }
}

fn are_enough(wait: usize, run: usize) -> bool {
    wait > run / RUN_PER_WAITING
}

impl AwayJob {
    /// Nobody wants it any more.
    pub(crate) fn cancel(self) {
        if let Some(submitted) = self.submitted {
            submitted.cancel();
        }
    }

    /// It is to run here after all.
    pub(crate) fn bring_home(&mut self) {
        if let Some(submitted) = self.submitted.take() {
            submitted.cancel();
        }
        self.outcome = Some(JobOutcome::RunHere("writers wait for level 0".to_owned()));
    }

    /// The database closes.
    pub(crate) fn leave(self) {
        if let Some(submitted) = self.submitted {
            submitted.leave();
        }
    }
}

impl Core {
    /// The service that wants a job, if one does.
    pub(crate) fn taker(
        &self,
        job: &Job,
        waits: Waits,
    ) -> Option<(&dyn CompactionService, JobSummary)> {
        let service = self.options.compaction_service.as_deref()?;
        // Who asks for one by hand waits for nobody's writes.
        let is_paced = waits == Waits::Nobody && service.lets_go() && service.tells_beginnings();
        if is_near_level0(job) && self.stays_here(&self.state.lock(), job, is_paced) {
            return None;
        }
        let from = job.inputs.first().map_or(job.to, |(slot, _)| *slot);
        let pressure = if from == Slot::L0 { self.pressure() } else { 0.0 };
        let summary = JobSummary {
            from,
            to: job.to,
            tables: job.input_tables().count(),
            bytes: job.input_bytes(&self.settings.order.user),
            level0_pressure: (pressure * 1000.0) as u32,
            away: self.state.lock().away.jobs.len(),
            is_awaited: waits == Waits::Caller,
        };
        service.wants(&summary).then_some((service, summary))
    }

    /// Hands a job over. After an error it is not in flight any more.
    pub(crate) fn give_away(
        &self,
        job: &Arc<Job>,
        (service, summary): (&dyn CompactionService, JobSummary),
        waits: Waits,
    ) -> Result<()> {
        let id = job.id;
        let prepared = self.watch_job(|| {
            let begun = self.begin_merge(job)?;
            let settings = self.with_context(1, |context| context.table_settings(job).clone());
            Ok((begun, JobSpec::of(job, self.new_file_number(), &settings)))
        });
        let spec = {
            let mut state = self.state.lock();
            let refused = state.refusal().map_or(Ok(()), Err);
            let (begun, spec) = refused.and(prepared).inspect_err(|_| state.in_flight.end(id))?;
            state.away.begin(job, begun, waits);
            spec
        };
        self.send_away(id, |done| service.submit(spec, &summary, done))
    }

    /// Has a job that is an entry already submitted. After an error it is none any more, and not in flight.
    pub(crate) fn send_away(
        &self,
        id: u64,
        submit: impl FnOnce(Completion) -> Box<dyn Submitted>,
    ) -> Result<()> {
        let done = self.completion(id);
        let submitted = self.watch_job(|| Ok(submit(done)));
        // A panic, of which `done` may have told as well.
        let submitted = submitted.inspect_err(|_| self.drop_away(id))?;
        self.keep_submitted(id, submitted);
        Ok(())
    }

    fn completion(&self, id: u64) -> Completion {
        let (entrance, same) = (Arc::clone(&self.entrance), Arc::clone(&self.entrance));
        let on_end = move |outcome| entrance.tell(id, outcome);
        Completion::new(move || same.tell_begun(id), on_end)
    }

    pub(super) fn note_begun(&self, id: u64) {
        let now = self.env.clock.now();
        if let Some(away) = self.state.lock().away.find(id) {
            away.runs_since = Some(now);
        }
        self.ring_for_work(); // Another one may leave.
    }

    /// Returns what nobody wants any more.
    pub(super) fn note_end(&self, id: u64, outcome: JobOutcome) -> Option<JobOutcome> {
        let unwanted = match self.state.lock().away.find(id) {
            Some(away) => away.outcome.replace(outcome),
            None => Some(outcome),
        };
        self.changed.notify_all();
        self.ring_for_work();
        unwanted
    }

    fn keep_submitted(&self, id: u64, submitted: Box<dyn Submitted>) {
        let mut state = self.state.lock();
        let unwanted = match state.away.find(id) {
            Some(away) => away.submitted.replace(submitted),
            // Over already, or the database closes.
            None => Some(submitted),
        };
        let closing = state.closing;
        drop(state);
        match unwanted {
            // As those that closing has found.
            Some(submitted) if closing => submitted.leave(),
            Some(submitted) => submitted.cancel(),
            None => {}
        }
    }

    /// Ends a job that nobody goes on with, unless somebody else has its entry (V2).
    fn drop_away(&self, id: u64) {
        let mut state = self.state.lock();
        let dropped = state.away.take(|away| away.job.id == id);
        if dropped.is_some() {
            state.in_flight.end(id);
        }
        drop(state);
        dropped.into_iter().for_each(AwayJob::cancel);
    }

    /// Waits for a job, and goes on with it.
    pub(crate) fn await_job(&self, id: u64, threads: usize) -> Result<()> {
        let back = {
            let mut state = self.state.lock();
            loop {
                if let Some(error) = state.refusal() {
                    drop(state);
                    self.drop_away(id);
                    return Err(error);
                }
                let is_back = |away: &AwayJob| away.job.id == id && away.outcome.is_some();
                if let Some(back) = state.away.take(is_back) {
                    break back;
                }
                state = self.changed.wait(state);
            }
        };
        self.go_on(back, threads)
    }

    /// By hand, with nothing to do but to wait: waits.
    pub(crate) fn wait_for_service(&self) {
        let mut state = self.state.lock();
        while state.refusal().is_none() && state.away.are_out() {
            state = self.changed.wait(state);
        }
    }

    /// Installs what has come back, or runs the job here. Whatever comes of it, its tables are free afterwards.
    pub(crate) fn go_on(&self, back: AwayJob, threads: usize) -> Result<()> {
        let id = back.job.id;
        let ended = self.watch_job(|| {
            let AwayJob { job, begun, outcome, runs_since, .. } = back;
            self.check_inputs(&job)?;
            // Dropped once its tables are the database's: until then they are kept for it.
            let output = match &outcome {
                Some(JobOutcome::Done(finished)) => {
                    self.adopt(&job, &**finished).map_err(|error| error.to_string())
                }
                Some(JobOutcome::RunHere(why)) => Err(why.clone()),
                None => Err("nobody has told of its end".to_owned()),
            };
            match output {
                Ok(output) => self.install_adopted(&job, &output, (begun, runs_since)),
                Err(why) => {
                    self.counters.merges_come_home.add(1);
                    self.listeners.tell(&Event::CompactionCameHome { job: id, why });
                    self.merge_here(&job, threads, begun)
                }
            }
        });
        if ended.is_err() {
            self.state.lock().in_flight.end(id);
        }
        ended
    }

    /// Installs what has come back and is sound, and merges nothing here, whatever becomes of it.
    pub(crate) fn install_done(&self, back: AwayJob) {
        let id = back.job.id;
        let ended = self.watch_job(|| {
            let AwayJob { job, begun, outcome, runs_since, .. } = back;
            let Some(JobOutcome::Done(finished)) = &outcome else { return Err(refused(id)) };
            self.check_inputs(&job)?;
            let output = self.adopt(&job, &**finished)?;
            self.install_adopted(&job, &output, (begun, runs_since))
        });
        if ended.is_err() {
            self.state.lock().in_flight.end(id);
        }
    }

    fn install_adopted(
        &self,
        job: &Job,
        output: &Output,
        (begun, runs_since): (Begun, Option<Duration>),
    ) -> Result<()> {
        let since = begun.at;
        self.install_output(job, output, begun)?;
        self.counters.merges_away.add(1);
        self.note_back(job, (since, runs_since));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_run_the_more_wait() {
        for (run, most) in [(0, 1), (1, 1), (2, 2), (3, 2), (4, 3)] {
            assert!(are_enough(most, run) && !are_enough(most - 1, run), "{run}");
        }
    }
}
