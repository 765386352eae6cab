//! LevelDB's policy, with four changes: tables are chosen by least overlap with the next level
//! instead of round robin, neighbours go together where that rewrites less, several plans may run
//! side by side, and tables full of deletions are compacted for their own sake, so that space
//! returns. Where merges may be away, level 0 also goes first once it fills.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use crate::base::slot::{Area, LEVELS, Level, Slot};
use crate::compaction::Plan;
use crate::compaction::closure::{Closed, close_places, hull, range_of};
use crate::compaction::policy::{CompactionPolicy, PickView, PolicyEvent};
use crate::compaction::sliced::best_slice;
use crate::compaction::stretch::{Limits, stretches};
use crate::compaction::turns::Turns;
use crate::format::filename::FileNumber;
use crate::version::table_meta::TableMeta;
use crate::version::{KeyRange, Place};

/// Limits of the shape, after options were resolved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeveledSettings {
    pub(crate) l0_trigger: usize,
    /// The same, if tables there are larger than level 1 should be.
    pub(crate) l0_trigger_if_large: usize,
    /// From so many tables on level 0 goes first, and no other merge takes tables of level 1: it would have to wait for that.
    pub(crate) l0_first: usize,
    pub(crate) level1_bytes: u64,
    pub(crate) level_growth: u64,
    pub(crate) table_bytes: u64,
}

impl LeveledSettings {
    pub(crate) fn level_limit(&self, level: Level) -> u64 {
        let growth = self.level_growth.saturating_pow(u32::from(level.number().saturating_sub(1)));
        self.level1_bytes.saturating_mul(growth)
    }

    /// The same, once nobody writes. More than any level has if nothing is put off.
    pub(crate) fn l0_trigger_once_quiet(&self) -> usize {
        let trigger = self.l0_trigger + self.l0_trigger / 2;
        if trigger < self.l0_trigger_if_large { trigger } else { usize::MAX }
    }

    /// A move or an output table must not overlap more of the level below.
    pub(crate) fn grandparent_limit(&self) -> u64 {
        10 * self.table_bytes
    }

    fn expanded_limit(&self) -> u64 {
        25 * self.table_bytes
    }
}

/// Share of deletions, in percent, from which a table is compacted for its own sake. Lower values
/// rewrite live data for little; basho's LevelDB found eager triggers to do more harm than good.
const DELETIONS_PERCENT: u64 = 50;
/// Tables with fewer deletions hide too little to matter.
const DELETIONS_MIN: u64 = 64;
/// Tables that one merge takes where it has the choice: all of level 0's are open at once, and
/// repair may leave any number of them there.
const INPUTS_MAX: usize = 128;

/// How a table of a level is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Picking {
    /// By what its merge rewrites.
    LeastOverlap,
    /// In turn, as in LevelDB.
    Cursor,
}

pub(crate) struct Leveled {
    settings: LeveledSettings,
    picking: Picking,
    /// By level.
    turns: [Turns; LEVELS],
    /// In the order of the events; until the table has left its slot, so that a plan that could not
    /// start, or failed, is made again.
    seeks_spent: Vec<(Slot, FileNumber)>,
    /// Up to this table, level 0 is to be merged for the sake of scans.
    scans_spent: Option<FileNumber>,
}

impl Leveled {
    pub(crate) fn new(settings: LeveledSettings) -> Self {
        Leveled::picking(settings, Picking::LeastOverlap)
    }

    pub(crate) fn picking(settings: LeveledSettings, picking: Picking) -> Self {
        let turns = Default::default();
        Leveled { settings, picking, turns, seeks_spent: Vec::new(), scans_spent: None }
    }

    /// Levels by how far they are past their limit, the worst first.
    fn scores(&self, view: &PickView<'_>) -> Vec<(f64, Level)> {
        let mut scores: Vec<(f64, Level)> = Vec::with_capacity(LEVELS);
        for level in Level::all().filter(|level| *level != Level::LAST) {
            let score = match level {
                Level::ZERO => self.level0_score(view),
                _ => idle_bytes(view, level) as f64 / self.settings.level_limit(level) as f64,
            };
            if score >= 1.0 {
                scores.push((score, level));
            }
        }
        scores.sort_by(|a, b| b.0.total_cmp(&a.0));
        scores
    }

    /// By tables, because each read may have to look into all of them.
    pub(crate) fn level0_score(&self, view: &PickView<'_>) -> f64 {
        let sizes = || idle_tables(view, Slot::L0).map(|(_, table)| table.size);
        let (tables, bytes) = (sizes().count(), sizes().sum::<u64>());
        let are_large = bytes > self.settings.level1_bytes.saturating_mul(tables as u64);
        let LeveledSettings { l0_trigger, l0_trigger_if_large, .. } = self.settings;
        tables as f64 / if are_large { l0_trigger_if_large } else { l0_trigger } as f64
    }

    fn pick_level(&mut self, view: &PickView<'_>, level: Level) -> Option<Plan> {
        let to = Slot::tree(level.deeper()?);
        if level == Level::ZERO {
            return self.plan_level0(view);
        }
        if self.picking == Picking::Cursor {
            return self.pick_in_turn(view, level, to);
        }
        // The SST log counts too, for databases that another policy has filled.
        let slots = Slot::all().filter(|slot| slot.level == level);
        let excess = idle_bytes(view, level).saturating_sub(self.settings.level_limit(level));
        let limits = Limits { excess, merge: self.settings.expanded_limit() };
        let choices = slots.flat_map(|from| stretches(view, from, to, limits)).map(Reverse);
        // Mostly the first will do: to sort them all would take long in a level of many tables.
        let mut choices: BinaryHeap<_> = choices.collect();
        let in_turn = std::iter::from_fn(|| choices.pop());
        in_turn.map(|Reverse(stretch)| stretch.places()).find_map(|seed| self.plan(view, &seed, to))
    }

    fn pick_in_turn(&mut self, view: &PickView<'_>, level: Level, to: Slot) -> Option<Plan> {
        let from = Slot::tree(level);
        let tables = view.version.slot(from);
        let mut turns = self.turns[level.index()].of(view.order, tables);
        let (position, plan) = turns.find_map(|position| {
            let plan = self.plan(view, &[Place { slot: from, position }], to);
            Some((position, plan?))
        })?;
        self.turns[level.index()].take(&tables[position], &tables[position]);
        Some(plan)
    }

    /// A merge of level 0.
    pub(crate) fn plan_level0(&self, view: &PickView<'_>) -> Option<Plan> {
        self.plan(view, &level0_seed(view)?, Slot::tree(Level::ZERO.deeper()?))
    }

    /// What is done when no level is too large.
    pub(crate) fn pick_for_others(&mut self, view: &PickView<'_>) -> Option<Plan> {
        self.pick_deletions(view)
            .or_else(|| self.pick_seeks(view))
            .or_else(|| self.pick_for_scans(view))
    }

    /// What another policy has left in SST logs goes down, the deepest first: there the least comes along.
    fn pick_logged(&self, view: &PickView<'_>) -> Option<Plan> {
        let logged = view.version.filled_slots().filter(|(slot, _)| slot.area == Area::SstLog);
        let mut levels: Vec<Level> = logged.map(|(slot, _)| slot.level).collect();
        levels.reverse();
        let table_bytes = self.settings.table_bytes;
        levels.into_iter().find_map(|level| best_slice(view, level, table_bytes))
    }

    /// Completes a seed; `None` if it may not start beside the running jobs.
    fn plan(&self, view: &PickView<'_>, seed: &[Place], to: Slot) -> Option<Plan> {
        let closed = close_places(view.order, view.version, seed, to)?;
        if !view.in_flight.admits(view.order, &closed, to) {
            return None;
        }
        if self.may_move(view, &closed, to) {
            return Some(Plan::Move { tables: numbers(&closed), to });
        }
        let closed = self.expand(view, closed, to);
        Some(Plan::Merge { inputs: numbers(&closed), to })
    }

    /// A table that meets nothing in the target may change its level as it is, unless it would
    /// overlap too much of the level below and so make a later merge dear.
    fn may_move(&self, view: &PickView<'_>, closed: &Closed, to: Slot) -> bool {
        let [(_, table)] = &closed.tables[..] else { return false };
        let below = to.level.deeper().map_or(0, |level| overlap_bytes(view, table, level));
        closed.may_move(view.order, to) && below <= self.settings.grandparent_limit()
    }

    /// Takes further tables of the upper level along where that adds nothing to read in the target.
    fn expand(&self, view: &PickView<'_>, closed: Closed, to: Slot) -> Closed {
        let in_target =
            |closed: &Closed| closed.tables.iter().filter(|(place, _)| place.slot == to).count();
        let from = closed.tables[0].0.slot;
        let (low, high) = hull(view.order, closed.metas());
        let more = view.version.meeting(view.order, from, KeyRange::closed(low, high));
        let mut seed: Vec<Place> = closed.tables.iter().map(|(place, _)| *place).collect();
        seed.extend(more.map(|(place, _)| place));
        seed.sort_unstable();
        seed.dedup();
        let Some(wider) = close_places(view.order, view.version, &seed, to) else {
            return closed;
        };
        let bytes: u64 = wider.metas().map(|table| table.size).sum();
        let free = in_target(&wider) == in_target(&closed)
            && bytes <= self.settings.expanded_limit()
            && wider.tables.len() <= closed.tables.len().max(INPUTS_MAX)
            && view.in_flight.admits(view.order, &wider, to);
        if free { wider } else { closed }
    }

    fn pick_deletions(&self, view: &PickView<'_>) -> Option<Plan> {
        view.version
            .placed()
            .filter(|(_, table)| is_mostly_deletions(table))
            .find_map(|(place, table)| self.plan_deletions(view, place, table))
    }

    /// A step down, like any other table, while something deeper may hold its keys; once nothing
    /// does, a rewrite in place, in which its deletions go. Straight to the level that holds the
    /// keys would be shorter, but nothing bounds what one table overlaps there.
    fn plan_deletions(&self, view: &PickView<'_>, place: Place, table: &TableMeta) -> Option<Plan> {
        let hides = view.version.next_meeting(view.order, place.slot, range_of(table)).is_some();
        if hides || !place.slot.is_sorted() {
            return self.plan(view, &[place], Slot::tree(place.slot.level.deeper()?));
        }
        // The rewrite would keep what some read does not see yet, and be picked again.
        if !table.stats()?.all_see(view.oldest_read) {
            return None;
        }
        let closed = close_places(view.order, view.version, &[place], place.slot)?;
        let admitted = view.in_flight.admits(view.order, &closed, place.slot);
        admitted.then(|| Plan::Merge { inputs: numbers(&closed), to: place.slot })
    }

    fn pick_seeks(&mut self, view: &PickView<'_>) -> Option<Plan> {
        let place = |(slot, number): (Slot, FileNumber)| {
            let position = view.version.slot(slot).iter().position(|table| table.number == number);
            position.map(|position| Place { slot, position })
        };
        self.seeks_spent.retain(|spent| place(*spent).is_some());
        self.seeks_spent.iter().find_map(|spent| {
            let place = place(*spent)?;
            self.plan(view, &[place], Slot::tree(place.slot.level.deeper()?))
        })
    }

    fn pick_for_scans(&mut self, view: &PickView<'_>) -> Option<Plan> {
        let is_meant = |table: &Arc<TableMeta>| Some(table.number) <= self.scans_spent;
        if !view.version.slot(Slot::L0).iter().any(is_meant) {
            self.scans_spent = None;
            return None;
        }
        self.pick_level(view, Level::ZERO)
    }
}

impl CompactionPolicy for Leveled {
    fn pick(&mut self, view: &PickView<'_>) -> Option<Plan> {
        let mut scores = self.scores(view);
        if idle_tables(view, Slot::L0).count() >= self.settings.l0_first {
            scores.retain(|(_, level)| level.number() != 1);
            scores.sort_by_key(|(_, level)| *level != Level::ZERO);
        }
        scores
            .into_iter()
            .find_map(|(_, level)| self.pick_level(view, level))
            .or_else(|| self.pick_for_others(view))
            .or_else(|| self.pick_logged(view))
    }

    fn observe(&mut self, event: PolicyEvent) {
        match event {
            // The last level has nowhere to go.
            PolicyEvent::SeeksSpent { slot, table } if slot.level != Level::LAST => {
                self.seeks_spent.push((slot, table));
            }
            PolicyEvent::SeeksSpent { .. } => {}
            PolicyEvent::ScansSpent { newest } => self.scans_spent = Some(newest),
            // Logs that another policy has left are merged as it is.
            PolicyEvent::LogPaid { .. } => {}
        }
    }
}

pub(crate) fn is_idle(view: &PickView<'_>, table: &TableMeta) -> bool {
    !view.in_flight.is_busy(table.number)
}

/// What counts of the idle tables of a slot.
pub(crate) fn bytes_idle(view: &PickView<'_>, slot: Slot) -> u64 {
    idle_tables(view, slot).map(|(_, table)| table.live_bytes()).sum()
}

fn idle_tables<'v>(
    view: &PickView<'v>,
    slot: Slot,
) -> impl Iterator<Item = (Place, &'v Arc<TableMeta>)> {
    let in_flight = view.in_flight;
    let tables = view.version.slot(slot).iter().enumerate();
    let placed = tables.map(move |(position, table)| (Place { slot, position }, table));
    placed.filter(move |(_, table)| !in_flight.is_busy(table.number))
}

/// Of the whole level, its SST log included.
fn idle_bytes(view: &PickView<'_>, level: Level) -> u64 {
    let slots = Slot::all().filter(|slot| slot.level == level);
    slots.map(|slot| bytes_idle(view, slot)).sum()
}

/// The oldest idle table of level 0 and all that overlap it, however indirectly: they would follow
/// one by one, each rewriting the same tables of level 1. Of very many, the oldest.
fn level0_seed(view: &PickView<'_>) -> Option<Vec<Place>> {
    let mut idle: Vec<_> = idle_tables(view, Slot::L0).collect();
    let (oldest, _) = *idle.last()?;
    idle.sort_by(|(_, a), (_, b)| view.order.compare(a.smallest.user(), b.smallest.user()));
    let mut group: Vec<Place> = Vec::new();
    let mut reach: &[u8] = &[];
    for (place, table) in &idle {
        if view.order.compare(table.smallest.user(), reach).is_gt() || group.is_empty() {
            if group.contains(&oldest) {
                break;
            }
            group.clear();
            reach = table.largest.user();
        } else if view.order.compare(table.largest.user(), reach).is_gt() {
            reach = table.largest.user();
        }
        group.push(*place);
    }
    group.sort_unstable();
    Some(group.split_off(group.len().saturating_sub(INPUTS_MAX)))
}

fn overlap_bytes(view: &PickView<'_>, table: &TableMeta, level: Level) -> u64 {
    let tables = view.version.meeting(view.order, Slot::tree(level), range_of(table));
    tables.map(|(_, table)| table.size).sum()
}

fn is_mostly_deletions(table: &TableMeta) -> bool {
    table.stats().is_some_and(|stats| {
        stats.deletions >= DELETIONS_MIN
            && stats.deletions * 100 >= stats.entries * DELETIONS_PERCENT
    })
}

pub(crate) fn numbers(closed: &Closed) -> Vec<FileNumber> {
    closed.tables.iter().map(|(_, table)| table.number).collect()
}

#[cfg(test)]
mod tests;
