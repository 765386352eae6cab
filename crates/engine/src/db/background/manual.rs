//! Work that a caller asks for and waits for: flush, compaction of a range, waiting for rest.
//! It runs on the caller's thread, through the same doors as the lanes' work.

use std::sync::Arc;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::slot::{Area, Level, Slot};
use crate::base::sync::atomic::Ordering;
use crate::compaction::policy::Compaction;
use crate::compaction::{Plan, closure};
use crate::db::background::away::Waits;
use crate::db::background::compact::{Accepted, Ran};
use crate::db::core::Core;
use crate::db::state::State;
use crate::db::write::queue::{Request, Turn};
use crate::db::write::read_only;
use crate::format::filename::FileNumber;
use crate::version::{KeyRange, Version};

/// Tables of the upper level that one step of a range compaction takes, at most: small enough that
/// level 0 is served in between.
const STEP_TABLES: usize = 16;
/// A range that has no more than this goes down by one job: level 0 has to wait for all of it.
const AT_ONCE_BYTES: u64 = 1 << 30;

impl Core {
    /// Writes all that memory holds as tables, and returns when they are durable.
    pub(crate) fn flush_all(&self) -> Result<()> {
        self.try_again();
        self.make_memtable_immutable()?;
        loop {
            let state = self.state.lock();
            if let Some(error) = state.refusal() {
                return Err(error);
            }
            if state.immutables.is_empty() {
                return Ok(());
            }
            if let Some(error) = &state.retrying {
                return Err(error.clone());
            }
            self.wait_for_background(state)?;
        }
    }

    /// Goes through the writers' queue: only a leader may switch the memtable.
    fn make_memtable_immutable(&self) -> Result<()> {
        let queue = self.queue.as_ref().ok_or_else(read_only)?;
        let nothing = Request { body: &[], count: 0, sync: false };
        loop {
            // Done: a leader took the empty request along, which is not what it is for.
            let Turn::Lead(mut committer) = queue.join(nothing) else { continue };
            let switched = self.switch_for_flush(&mut committer);
            queue.finish(committer, &[], &Ok(()));
            return switched;
        }
    }

    fn switch_for_flush(
        &self,
        committer: &mut crate::db::write::committer::Committer,
    ) -> Result<()> {
        self.make_room(committer, 0)?;
        if committer.inserter.table().is_empty() {
            return Ok(());
        }
        self.wait_for_space()?;
        self.switch_memtable(committer)
    }

    /// Compacts every table that meets the range, down to the deepest level that holds any of it; there, tables whose
    /// deletions hide nothing are rewritten without them. A small range goes down at once if it can, so that each entry is
    /// written once; a large one level by level: most of it lies in the deepest anyway.
    pub(crate) fn compact_range(&self, range: KeyRange<'_>) -> Result<()> {
        self.flush_all()?;
        if !self.compact_at_once(range)? {
            self.compact_by_levels(range)?;
        }
        self.drop_deletions(range)?;
        self.settle(range)
    }

    /// Takes a small range all the way down by one job. False if it is not small, or if merges are in its way: lanes may always begin
    /// another one somewhere in it, and to wait for a moment without any might take for ever.
    fn compact_at_once(&self, range: KeyRange<'_>) -> Result<bool> {
        let accepted = {
            let mut state = self.state.lock();
            if let Some(error) = state.refusal() {
                return Err(error);
            }
            let version = Arc::clone(&state.version);
            let Some(plan) = self.all_the_way(&version, range) else { return Ok(true) };
            if !self.is_small(&version, &plan) {
                return Ok(false);
            }
            self.accept(&mut state, &plan)
        };
        let Some(accepted) = accepted else { return Ok(false) };
        self.run_for_caller(accepted)?;
        Ok(true)
    }

    fn is_small(&self, version: &Version, plan: &Plan) -> bool {
        let Plan::Merge { inputs, to } = plan else { return false };
        let closed = closure::close(&self.settings.order.user, version, inputs, *to);
        let bytes = closed.map(|closed| closed.metas().map(|table| table.size).sum::<u64>());
        bytes.is_some_and(|bytes| bytes <= AT_ONCE_BYTES)
    }

    /// Takes what the range has above its deepest level down there.
    fn all_the_way(&self, version: &Version, range: KeyRange<'_>) -> Option<Plan> {
        let order = &self.settings.order.user;
        let met = || version.tables().filter(|(_, table)| range.meets(order, table));
        let deepest = met().map(|(slot, _)| slot).max()?;
        let to = match deepest.is_sorted() {
            true => deepest,
            // Level 0 is never the last, and neither is a log.
            false => Slot::tree(deepest.level.deeper()?),
        };
        let above = met().filter(|(slot, _)| *slot < to);
        let inputs: Vec<FileNumber> = above.map(|(_, table)| table.number).collect();
        (!inputs.is_empty()).then_some(Plan::Merge { inputs, to })
    }

    fn compact_by_levels(&self, range: KeyRange<'_>) -> Result<()> {
        let mut level = Level::ZERO;
        while let Some(deeper) = level.deeper() {
            if !self.meets_deeper(range, level) {
                break;
            }
            for from in Slot::all().filter(|slot| slot.level == level) {
                self.compact_level(range, from, Slot::tree(deeper))?;
            }
            level = deeper;
        }
        Ok(())
    }

    pub(super) fn current_version(&self) -> Arc<Version> {
        Arc::clone(&self.view.load().version)
    }

    /// True if tables of the range lie deeper than `level`'s tree, or in level 0, which is never the last.
    fn meets_deeper(&self, range: KeyRange<'_>, level: Level) -> bool {
        let order = &self.settings.order.user;
        self.current_version().tables().any(|(slot, table)| {
            let below = slot > Slot::tree(level) || (level == Level::ZERO && slot.level == level);
            below && range.meets(order, table)
        })
    }

    /// Pushes what `from` holds of the range down. Tables that arrive meanwhile are left alone.
    fn compact_level(&self, range: KeyRange<'_>, from: Slot, to: Slot) -> Result<()> {
        let order = &self.settings.order.user;
        let mut left: Vec<FileNumber> = {
            let version = self.current_version();
            let tables = version.overlapping(order, from, range);
            tables.iter().map(|table| table.number).collect()
        };
        if from == Slot::L0 {
            let plan = Plan::Merge { inputs: left, to };
            self.run_plan(|version, _| still_there(&plan, version))?;
            return Ok(());
        }
        while !left.is_empty() {
            let rest = left.split_off(left.len().min(STEP_TABLES));
            let plan = Plan::Merge { inputs: left, to };
            self.run_plan(|version, _| still_there(&plan, version))?;
            left = rest;
        }
        Ok(())
    }

    /// Rewrites, in place, tables with deletions under which nothing lies.
    fn drop_deletions(&self, range: KeyRange<'_>) -> Result<()> {
        let order = &self.settings.order.user;
        let oldest = self.snapshots.oldest(|| self.visible_seqno());
        let version = self.current_version();
        for (slot, table) in version.tables().filter(|(slot, _)| slot.is_sorted()) {
            let own = closure::range_of(table);
            let bottom = version.next_meeting(order, slot, own).is_none();
            if !bottom || !range.meets(order, table) {
                continue;
            }
            self.look_into(table);
            if table.stats().is_some_and(|stats| stats.deletions > 0 && stats.all_see(oldest)) {
                let plan = Plan::Merge { inputs: vec![table.number], to: slot };
                self.run_plan(|version, _| still_there(&plan, version))?;
            }
        }
        Ok(())
    }

    /// Runs what `plan` says of the current version, when the running jobs admit it. False if there is nothing to run.
    pub(super) fn run_plan(&self, plan: impl Fn(&Version, &State) -> Option<Plan>) -> Result<bool> {
        loop {
            let mut state = self.state.lock();
            if let Some(error) = state.refusal() {
                return Err(error);
            }
            let version = Arc::clone(&state.version);
            let Some(plan) = plan(&version, &state) else { return Ok(false) };
            if let Some(accepted) = self.accept(&mut state, &plan) {
                drop(state);
                return self.run_for_caller(accepted).map(|()| true);
            }
            if state.in_flight.is_empty() {
                return Ok(false); // Not a matter of waiting: its tables are gone.
            }
            self.wait_for_background(state)?;
        }
    }

    fn run_for_caller(&self, accepted: Accepted) -> Result<()> {
        // On as many threads as he has given the database for that: its caller waits for it.
        let threads = self.options.compaction_lanes;
        let ran = self.run(accepted, threads, Waits::Caller).and_then(|ran| match ran {
            Ran::Here => Ok(()),
            Ran::Away(job) => self.await_job(job, threads),
        });
        if let Err(error) = &ran {
            self.note_background_failure(error.clone());
        } else {
            self.note_background_success();
        }
        ran
    }

    /// Merges what SST logs hold, and begins a manifest that knows of none. No log is filled any more until the database
    /// is opened again.
    pub(crate) fn drain_logs(&self) -> Result<()> {
        if self.queue.is_none() {
            return Err(read_only());
        }
        self.state.lock().policy = Compaction::Leveled.policy(self.settings.leveled);
        self.tells_hotness.store(false, Ordering::Relaxed);
        self.wait_for_rest()?;
        let version = self.current_version();
        if let Some((slot, table)) = version.tables().find(|(slot, _)| slot.area == Area::SstLog) {
            let message = format!("table {} is still in {slot}; compact all keys", table.number);
            return Err(Error::new(ErrorKind::Incompatible, message));
        }
        self.renew_manifest()
    }

    /// Waits until there is nothing to flush, compact or remove.
    pub(crate) fn wait_for_rest(&self) -> Result<()> {
        self.try_again();
        loop {
            self.ring_for_work(); // A plan may have become possible without any lane's doing.
            let mut state = self.state.lock();
            if let Some(error) = state.refusal() {
                return Err(error);
            }
            if let Some(error) = &state.retrying {
                return Err(error.clone());
            }
            let busy = !state.immutables.is_empty() || !state.in_flight.is_empty();
            if !busy && self.next_plan(&mut state).is_none() {
                return Ok(());
            }
            self.wait_for_background(state)?;
        }
    }
}

/// The plan without the tables that are gone; `None` if none is left.
fn still_there(plan: &Plan, version: &Version) -> Option<Plan> {
    let Plan::Merge { inputs, to } = plan else { return Some(plan.clone()) };
    let there = |number: &FileNumber| version.find(*number).is_some_and(|(slot, _)| slot <= *to);
    let inputs: Vec<FileNumber> = inputs.iter().copied().filter(there).collect();
    (!inputs.is_empty()).then_some(Plan::Merge { inputs, to: *to })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::handle::Db;
    use crate::db::options::{Background, Options};
    use crate::env::Env;
    use crate::format::table::compress::Compression;

    /// As ranges do that are large, or that merges are in the way of.
    #[test]
    fn ranges_go_down_level_by_level() {
        let options = Options {
            create_if_missing: true,
            env: Env::memory(),
            background: Background::ByHand,
            write_buffer_size: 16 << 10,
            max_file_size: 8 << 10,
            level1_bytes: 32 << 10,
            level_growth: 3,
            compression: Compression::None,
            unclamped: true,
            ..Options::default()
        };
        let db = Db::open("db", options).unwrap();
        let key = |nth: u32| format!("{:04}", nth * 7_919 % 2_000);
        for nth in 0..8_000 {
            db.put(key(nth), nth.to_string().repeat(20)).unwrap();
            if nth == 5_000 {
                db.wait_for_background().unwrap();
            }
        }
        db.delete("0007").unwrap();
        db.flush().unwrap();
        assert!(db.levels().len() >= 3, "{:?}", db.levels());
        let merges = db.metrics().merges;
        let all = KeyRange { from: None, to: None };
        db.core().compact_by_levels(all).unwrap();
        assert!(db.metrics().merges > merges + 1);
        assert_eq!(db.levels().len(), 1);
        for nth in 6_000..8_000 {
            let found = db.get(key(nth)).unwrap();
            let expected = nth.to_string().repeat(20).into_bytes();
            assert_eq!(found, (key(nth) != "0007").then_some(expected));
        }
    }
}
