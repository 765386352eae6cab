//! Compaction: from a policy's plan to an installed edit.

use std::sync::Arc;
use std::time::Duration;

use crate::base::error::Result;
use crate::base::event::Event;
use crate::base::slot::{Area, Slot};
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::compaction::Plan;
use crate::compaction::accept;
use crate::compaction::closure::Closed;
use crate::compaction::executor::JobContext;
use crate::compaction::hot_map::{HotMap, KeyHash};
use crate::compaction::job::{Job, Output};
use crate::compaction::policy::PickView;
use crate::compaction::remains::remains;
use crate::db::background::away::{AwayJob, Waits};
use crate::db::background::homecoming::{is_near_level0, is_of_level0};
use crate::db::background::install::refused;
use crate::db::background::{Precedence, Worked};
use crate::db::core::Core;
use crate::db::state::State;
use crate::format::filename::FileNumber;
use crate::version::builder::Change;
use crate::version::table_meta::{TableMeta, TableStats};

/// Keys of a table in an SST log of which it is known where they lie.
const MARKS: usize = 32;

/// An accepted plan.
pub(crate) enum Accepted {
    Move { job: u64, closed: Closed, to: Slot },
    Merge(Arc<Job>),
}

/// What a lane may do.
enum Task {
    /// Begin this.
    Begin(Accepted),
    /// Go on with this, which is back.
    GoOn(AwayJob),
    /// Run this here, which is not.
    BringHome(AwayJob),
}

/// What has become of an accepted plan.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ran {
    /// It is installed.
    Here,
    /// The job of this number is with the service.
    Away(u64),
}

/// A merge that has begun.
pub(crate) struct Begun {
    pub(crate) at: Duration,
    /// Inputs of which something stays, as they are from its end on.
    remaining: Vec<(Slot, Arc<TableMeta>)>,
}

impl Task {
    /// Whether writers may be slowed down until it is done.
    fn relieves_writers(&self) -> bool {
        let job = match self {
            Task::Begin(Accepted::Merge(job)) => job,
            Task::GoOn(back) | Task::BringHome(back) => &back.job,
            Task::Begin(Accepted::Move { .. }) => return false,
        };
        is_of_level0(job)
    }
}

impl Core {
    /// Runs the most pressing compaction, if there is one that may start; first, goes on with one that is back.
    pub(crate) fn try_compact(&self) -> Worked {
        let service = self.options.compaction_service.as_deref();
        let waits_its_turn = service.is_some_and(|service| service.tells_beginnings());
        let task = {
            let mut state = self.state.lock();
            if state.failed.is_some() || state.closing {
                return Worked::Idle;
            }
            match state.away.take_back() {
                Some(back) => Some(Task::GoOn(back)),
                None => match self.pick(&mut state, waits_its_turn) {
                    Some(accepted) => Some(Task::Begin(accepted)),
                    None => self.take_back_for_writers(&mut state).map(Task::BringHome),
                },
            }
        };
        let Some(task) = task else { return self.serve_others() };
        self.ring_for_work(); // Another plan may start beside this one.
        let threads = match task.relieves_writers() {
            true => self.options.compaction_lanes,
            false => 1,
        };
        let ran = match task {
            Task::Begin(accepted) => self.run(accepted, threads, Waits::Nobody),
            Task::GoOn(back) => self.go_on(back, threads).map(|()| Ran::Here),
            Task::BringHome(mut away) => {
                // Whatever the service makes of it, it runs here.
                let told = self.watch_job(|| {
                    away.bring_home();
                    Ok(())
                });
                self.go_on(away, threads).and(told).map(|()| Ran::Here)
            }
        };
        match ran {
            Ok(Ran::Here) => {
                self.note_background_success();
                Worked::Yes
            }
            // Nothing has succeeded yet.
            Ok(Ran::Away(_)) => Worked::Yes,
            Err(error) => self.note_background_failure(error),
        }
    }

    /// `waits_its_turn` says whether one that would wait for a worker is not begun while another one does.
    fn pick(&self, state: &mut State, waits_its_turn: bool) -> Option<Accepted> {
        let plan = self.next_plan(state)?;
        let accepted = self.accept(state, &plan)?;
        let waits = |job: &Job, state: &State| {
            let now = self.env.clock.now();
            let rests = is_near_level0(job) && state.away.rest.lasts(now);
            let level0 = self.level0_tables.load(Ordering::Relaxed) as usize;
            let wants_level0 = level0 >= self.settings.level0.compact;
            state.away.enough_wait(now, wants_level0) && !is_of_level0(job) && !rests
        };
        if let Accepted::Merge(job) = &accepted
            && waits_its_turn
            && waits(job, state)
        {
            state.in_flight.end(job.id);
            return None;
        }
        Some(accepted)
    }

    /// With nothing else to do, takes a part in a compaction that somebody waits for, or makes a filter that reads have
    /// asked for.
    fn serve_others(&self) -> Worked {
        if self.with_context(1, |context| self.executor.help(context)) {
            return Worked::Yes;
        }
        let goes_on = || !self.cancelled.load(Ordering::Relaxed);
        if self.tables.make_a_filter(&goes_on) { Worked::Yes } else { self.look_into_a_table() }
    }

    /// With nothing else to do, learns how many deletions one more table holds: the manifest does not
    /// say, and without knowing it a reopened database would keep the space of what was deleted.
    fn look_into_a_table(&self) -> Worked {
        let version = Arc::clone(&self.view.load().version);
        // As many as may be open anyway; a database of far more tables has better things to read.
        let mut tables = version.tables().take(self.settings.open_tables_max);
        let is_unknown = |(slot, meta): &(Slot, &Arc<TableMeta>)| {
            let lacks_marks = slot.area == Area::SstLog && meta.marks().is_none();
            lacks_marks || !meta.was_looked_into()
        };
        let Some((slot, meta)) = tables.find(is_unknown) else { return Worked::Idle };
        self.look_into(meta);
        if slot.area == Area::SstLog {
            self.mark(meta);
        }
        Worked::Yes
    }

    /// Learns what a table holds, if that is not known yet. One that cannot be opened is for its
    /// readers to complain about.
    pub(crate) fn look_into(&self, meta: &TableMeta) {
        if !meta.was_looked_into() {
            let opened = meta.open(&self.tables).ok();
            let properties = opened.as_ref().and_then(|table| table.properties());
            meta.learn_stats(properties.map(TableStats::from));
        }
    }

    /// Learns where a table's bytes lie among its keys: slices are chosen by it.
    fn mark(&self, meta: &TableMeta) {
        if meta.marks().is_none() {
            let opened = meta.open(&self.tables).ok();
            meta.learn_marks(|| opened.map_or_else(Vec::new, |table| table.marks(MARKS)));
        }
    }

    /// What the policy would do next.
    pub(crate) fn next_plan(&self, state: &mut State) -> Option<Plan> {
        let view = PickView {
            version: &state.version,
            order: &self.settings.order.user,
            in_flight: &state.in_flight,
            oldest_read: self.snapshots.oldest(|| self.visible_seqno()),
        };
        state.policy.pick(&view)
    }

    /// Plan -> job, if it may begin.
    pub(crate) fn accept(&self, state: &mut State, plan: &Plan) -> Option<Accepted> {
        let order = &self.settings.order.user;
        let accept::Accepted { closed, to, moves } =
            accept::accept(order, &state.version, &state.in_flight, plan)?;
        let id = state.new_job();
        state.in_flight.begin(order, id, &closed, to);
        if moves {
            return Some(Accepted::Move { job: id, closed, to });
        }
        let snapshots = self.snapshots.with_visible(|| self.visible_seqno());
        let limits = self.settings.job;
        let job = Job::new(id, order, &state.version, &closed, (to, snapshots, limits));
        Some(Accepted::Merge(Arc::new(job)))
    }

    /// Runs an accepted plan, on so many threads at most, and installs it, after which its tables are free; or hands it
    /// over to the service. After an error they are free, too.
    pub(crate) fn run(&self, accepted: Accepted, threads: usize, waits: Waits) -> Result<Ran> {
        let id = match &accepted {
            Accepted::Move { job, .. } => *job,
            Accepted::Merge(job) => job.id,
        };
        let ran = match accepted {
            Accepted::Move { job, closed, to } => {
                self.watch_job(|| self.run_move(job, &closed, to))
            }
            Accepted::Merge(job) => {
                let taker = self.watch_job(|| Ok(self.taker(&job, waits)));
                if let Ok(Some(taker)) = taker {
                    return self.give_away(&job, taker, waits).map(|()| Ran::Away(id));
                }
                taker.and_then(|_| self.watch_job(|| self.run_merge(&job, threads)))
            }
        };
        if ran.is_err() {
            self.state.lock().in_flight.end(id);
        }
        ran.map(|()| Ran::Here)
    }

    fn run_move(&self, job: u64, closed: &Closed, to: Slot) -> Result<()> {
        let tables = || closed.tables.iter();
        if to.area == Area::SstLog {
            tables().for_each(|(_, table)| self.mark(table));
        }
        let change = Change {
            removed: tables().map(|(place, table)| (place.slot, table.number)).collect(),
            added: tables().map(|(_, table)| (to, Arc::clone(table))).collect(),
        };
        self.install(change, None, |state| state.in_flight.end(job))?;
        self.counters.moves.add(1);
        self.listeners.tell(&Event::CompactionFinished {
            job,
            target_level: to.level.number(),
            moved: true,
            outputs: tables().map(|(_, table)| table.number.0).collect(),
            bytes_read: 0,
            bytes_written: 0,
            elapsed: Duration::ZERO,
        });
        Ok(())
    }

    fn run_merge(&self, job: &Arc<Job>, threads: usize) -> Result<()> {
        let begun = self.begin_merge(job)?;
        self.merge_here(job, threads, begun)
    }

    /// Nothing is written yet if this fails.
    pub(crate) fn begin_merge(&self, job: &Job) -> Result<Begun> {
        let at = self.env.clock.now();
        self.tell_started(job);
        let remaining = self.with_context(1, |context| remains(job, context))?;
        Ok(Begun { at, remaining })
    }

    pub(crate) fn merge_here(&self, job: &Arc<Job>, threads: usize, begun: Begun) -> Result<()> {
        self.merges.fetch_add(1, Ordering::Relaxed);
        let merges = Leaving(&self.merges);
        self.let_residents_go();
        let at = self.env.clock.now();
        let output = self.with_context(threads, |context| self.executor.execute(job, context))?;
        drop(merges);
        self.note_here(job, at);
        if !job.accepts(&self.settings.order, &output) {
            return Err(refused(job.id));
        }
        self.install_output(job, &output, begun)
    }

    /// Puts a checked output in the place of the job's inputs.
    pub(crate) fn install_output(&self, job: &Job, output: &Output, begun: Begun) -> Result<()> {
        self.bring_near(job, output);
        let elapsed = self.env.clock.now().saturating_sub(begun.at);
        self.install(self.change_of(job, output, begun.remaining), None, |state| {
            state.in_flight.end(job.id);
            let stats = &mut state.level_stats[job.to.level.index()];
            stats.elapsed += elapsed;
            stats.bytes_read += output.bytes_read;
            stats.bytes_written += output.bytes_written;
        })?;
        self.counters.merges.add(1);
        self.counters.compaction_bytes_read.add(output.bytes_read);
        self.counters.compaction_bytes_written.add(output.bytes_written);
        self.counters.compaction_bytes_largest.raise_to(output.bytes_written);
        self.counters.entries_dropped.add(output.entries_dropped);
        self.listeners.tell(&Event::CompactionFinished {
            job: job.id,
            target_level: job.to.level.number(),
            moved: false,
            outputs: output.tables.iter().map(|table| table.number.0).collect(),
            bytes_read: output.bytes_read,
            bytes_written: output.bytes_written,
            elapsed,
        });
        Ok(())
    }

    /// Of a lane; who waits for a merge by hand stays where he is.
    fn merge_makes_way(&self) {
        self.make_way(true);
        if self.env.threads.place().is_some() {
            self.go_behind(Precedence::Second);
        }
    }

    pub(crate) fn with_context<R>(
        &self,
        threads: usize,
        run: impl FnOnce(&JobContext<'_>) -> R,
    ) -> R {
        let hotness = |keys: &[KeyHash]| {
            self.hot_map.as_ref().map_or(0, |map| mean_weight(&map.lock(), keys))
        };
        run(&JobContext {
            order: &self.settings.order,
            cache: &self.tables,
            store: &self.store,
            bottom_table: &self.settings.bottom_table,
            upper_table: &self.settings.upper_table,
            new_number: &|| self.new_file_number(),
            tells_numbers: self.options.compaction_service.is_none(),
            cancelled: &self.cancelled,
            threads,
            make_way: &|| self.merge_makes_way(),
            hotness: self.hot_map.as_ref().map(|_| &hotness as _),
            call_for_help: &|| self.ring_for_work(),
            finished: &|_| Ok(()),
        })
    }

    fn tell_started(&self, job: &Job) {
        let inputs = job.input_tables().map(|(slot, table)| (slot.level.number(), table.number.0));
        let target_level = job.to.level.number();
        let inputs = inputs.collect();
        self.listeners.tell(&Event::CompactionStarted { job: job.id, inputs, target_level });
    }

    fn change_of(
        &self,
        job: &Job,
        output: &Output,
        remaining: Vec<(Slot, Arc<TableMeta>)>,
    ) -> Change {
        let removed = job.input_tables().map(|(slot, table)| (slot, table.number));
        let hotness = output.hotness.iter().copied().chain(std::iter::repeat(0));
        let written = |(built, hotness)| {
            (job.to, Arc::new(TableMeta::written_with(built, hotness, &self.graveyard)))
        };
        let added = output.tables.iter().zip(hotness).map(written).chain(remaining);
        Change { removed: removed.collect::<Vec<(Slot, FileNumber)>>(), added: added.collect() }
    }
}

/// Counts a merge as over, however it ends.
struct Leaving<'a>(&'a AtomicU64);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// In thousandths.
fn mean_weight(map: &HotMap, keys: &[KeyHash]) -> u64 {
    let weights: u64 = keys.iter().map(|key| map.weight(*key)).sum();
    weights * 1000 / (keys.len() as u64).max(1)
}
