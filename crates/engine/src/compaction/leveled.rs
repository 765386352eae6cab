//! LevelDB's policy, with three changes: tables are chosen by least overlap with the next level
//! instead of round robin, several plans may run side by side, and tables full of deletions are
//! compacted for their own sake, so that space returns.

use std::collections::HashSet;
use std::sync::Arc;

use crate::base::slot::{LEVELS, Level, Slot};
use crate::compaction::Plan;
use crate::compaction::closure::{self, Closed, range_of};
use crate::compaction::policy::{CompactionPolicy, PickView, PolicyEvent};
use crate::format::filename::FileNumber;
use crate::version::Version;
use crate::version::table_meta::TableMeta;

/// Limits of the shape, after options were resolved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeveledSettings {
    pub(crate) l0_trigger: usize,
    pub(crate) level1_bytes: u64,
    pub(crate) level_growth: u64,
    pub(crate) table_bytes: u64,
}

impl LeveledSettings {
    pub(crate) fn level_limit(&self, level: Level) -> u64 {
        let growth = self.level_growth.saturating_pow(u32::from(level.number().saturating_sub(1)));
        self.level1_bytes.saturating_mul(growth)
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

pub(crate) struct Leveled {
    settings: LeveledSettings,
    seeks_spent: HashSet<FileNumber>,
}

impl Leveled {
    pub(crate) fn new(settings: LeveledSettings) -> Self {
        Leveled { settings, seeks_spent: HashSet::new() }
    }

    /// Levels by how far they are past their limit, the worst first.
    fn scores(&self, view: &PickView<'_>) -> Vec<(f64, Level)> {
        let idle = |table: &&Arc<TableMeta>| !view.in_flight.is_busy(table.number);
        let mut scores: Vec<(f64, Level)> = Vec::with_capacity(LEVELS);
        for level in Level::all().filter(|level| *level != Level::LAST) {
            let tables = view.version.level_tables(level).filter(idle);
            let score = if level == Level::ZERO {
                tables.count() as f64 / self.settings.l0_trigger as f64
            } else {
                let bytes: u64 = tables.map(|table| table.size).sum();
                bytes as f64 / self.settings.level_limit(level) as f64
            };
            if score >= 1.0 {
                scores.push((score, level));
            }
        }
        scores.sort_by(|a, b| b.0.total_cmp(&a.0));
        scores
    }

    fn pick_level(&self, view: &PickView<'_>, level: Level) -> Option<Plan> {
        let to = Slot::tree(level.deeper()?);
        if level == Level::ZERO {
            let seed = level0_seed(view)?;
            return self.plan(view, &seed, to);
        }
        let mut tables: Vec<(u64, FileNumber)> = view
            .version
            .slot(Slot::tree(level))
            .iter()
            .filter(|table| !view.in_flight.is_busy(table.number))
            .map(|table| (overlap_permille(view, table, to), table.number))
            .collect();
        tables.sort_unstable();
        tables.into_iter().find_map(|(_, table)| self.plan(view, &[table], to))
    }

    /// Completes a seed; `None` if it may not start beside the running jobs.
    fn plan(&self, view: &PickView<'_>, seed: &[FileNumber], to: Slot) -> Option<Plan> {
        let closed = closure::close(view.order, view.version, seed, to)?;
        if !view.in_flight.admits(view.order, &closed, to) {
            return None;
        }
        if self.may_move(view, &closed, to) {
            return Some(Plan::Move { tables: numbers(&closed), to });
        }
        let closed = self.expand(view, closed, to);
        Some(Plan::Merge { inputs: numbers(&closed), to })
    }

    /// Tables that meet nothing in the target may change their level as they are, unless they would
    /// overlap too much of the level below it and so make a later merge dear.
    fn may_move(&self, view: &PickView<'_>, closed: &Closed, to: Slot) -> bool {
        let [(place, table)] = &closed.tables[..] else { return false };
        let below = to.level.deeper().map_or(0, |level| overlap_bytes(view, table, level));
        place.slot != to && below <= self.settings.grandparent_limit()
    }

    /// Takes further tables of the upper level along where that adds nothing to read in the target.
    fn expand(&self, view: &PickView<'_>, closed: Closed, to: Slot) -> Closed {
        let target_tables =
            |closed: &Closed| closed.tables.iter().filter(|(place, _)| place.slot == to).count();
        let from = closed.tables[0].0.slot;
        let (low, high) =
            closure::hull(view.order, closed.tables.iter().map(|(_, table)| &**table));
        let range = crate::version::KeyRange::closed(low, high);
        let mut seed = numbers(&closed);
        let more = view.version.overlapping(view.order, from, range);
        seed.extend(more.iter().map(|table| table.number));
        seed.sort_unstable();
        seed.dedup();
        let Some(wider) = closure::close(view.order, view.version, &seed, to) else {
            return closed;
        };
        let bytes: u64 = wider.tables.iter().map(|(_, table)| table.size).sum();
        let free = target_tables(&wider) == target_tables(&closed)
            && bytes <= self.settings.expanded_limit()
            && view.in_flight.admits(view.order, &wider, to);
        if free { wider } else { closed }
    }

    fn pick_deletions(&self, view: &PickView<'_>) -> Option<Plan> {
        view.version
            .tables()
            .filter(|(_, table)| is_mostly_deletions(table))
            .find_map(|(slot, table)| self.plan_deletions(view, slot, table))
    }

    /// Down to the first deeper level that holds its keys, or, where none does, in place: there its
    /// deletions hide nothing and go.
    fn plan_deletions(&self, view: &PickView<'_>, slot: Slot, table: &TableMeta) -> Option<Plan> {
        let deeper = Slot::all().filter(|deeper| *deeper > slot && deeper.is_sorted());
        let mut meeting = deeper.filter(|deeper| {
            let range = range_of(table);
            view.version.slot(*deeper).iter().any(|other| range.meets(view.order, other))
        });
        let to = match meeting.next() {
            Some(to) => to,
            // With a snapshot alive the rewrite might drop nothing, and be picked again.
            None if view.has_snapshots || !slot.is_sorted() => return None,
            None => slot,
        };
        let closed = closure::close(view.order, view.version, &[table.number], to)?;
        let admitted = view.in_flight.admits(view.order, &closed, to);
        admitted.then(|| Plan::Merge { inputs: numbers(&closed), to })
    }

    fn pick_seeks(&mut self, view: &PickView<'_>) -> Option<Plan> {
        let spent: Vec<FileNumber> = self.seeks_spent.drain().collect();
        for number in spent {
            let Some((slot, _)) = view.version.find(number) else { continue };
            let Some(deeper) = slot.level.deeper() else { continue };
            if let Some(plan) = self.plan(view, &[number], Slot::tree(deeper)) {
                return Some(plan);
            }
        }
        None
    }
}

impl CompactionPolicy for Leveled {
    fn name(&self) -> &str {
        "leveled"
    }

    fn pick(&mut self, view: &PickView<'_>) -> Option<Plan> {
        let scores = self.scores(view);
        scores
            .into_iter()
            .find_map(|(_, level)| self.pick_level(view, level))
            .or_else(|| self.pick_deletions(view))
            .or_else(|| self.pick_seeks(view))
    }

    fn debt_bytes(&self, version: &Version) -> u64 {
        let past_limit = |level: Level| {
            version.level_bytes(level).saturating_sub(self.settings.level_limit(level))
        };
        Level::all()
            .filter(|level| *level > Level::ZERO && *level < Level::LAST)
            .map(past_limit)
            .sum()
    }

    fn observe(&mut self, event: PolicyEvent) {
        match event {
            PolicyEvent::SeeksSpent { table, .. } => {
                self.seeks_spent.insert(table);
            }
        }
    }
}

/// The oldest idle table of level 0 and all that overlap it, however indirectly: they would follow
/// one by one, each rewriting the same tables of level 1.
fn level0_seed(view: &PickView<'_>) -> Option<Vec<FileNumber>> {
    let tables = view.version.slot(Slot::L0);
    let oldest = tables.iter().rev().find(|table| !view.in_flight.is_busy(table.number))?;
    let mut taken: Vec<&Arc<TableMeta>> = vec![oldest];
    loop {
        let (low, high) = closure::hull(view.order, taken.iter().map(|table| &***table));
        let range = crate::version::KeyRange::closed(low, high);
        let meeting = view.version.overlapping(view.order, Slot::L0, range);
        let meeting: Vec<_> =
            meeting.into_iter().filter(|table| !view.in_flight.is_busy(table.number)).collect();
        if meeting.len() == taken.len() {
            return Some(taken.iter().map(|table| table.number).collect());
        }
        taken = meeting;
    }
}

fn overlap_bytes(view: &PickView<'_>, table: &TableMeta, level: Level) -> u64 {
    let tables = view.version.overlapping(view.order, Slot::tree(level), range_of(table));
    tables.iter().map(|table| table.size).sum()
}

/// Bytes to rewrite in the target for each byte that the table brings, in thousandths.
fn overlap_permille(view: &PickView<'_>, table: &TableMeta, to: Slot) -> u64 {
    overlap_bytes(view, table, to.level).saturating_mul(1000) / table.size.max(1)
}

fn is_mostly_deletions(table: &TableMeta) -> bool {
    table.stats().is_some_and(|stats| {
        stats.deletions >= DELETIONS_MIN
            && stats.deletions * 100 >= stats.entries * DELETIONS_PERCENT
    })
}

fn numbers(closed: &Closed) -> Vec<FileNumber> {
    closed.tables.iter().map(|(_, table)| table.number).collect()
}
