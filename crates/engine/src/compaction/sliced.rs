//! Log-assisted compaction by slices: a level that is too large moves tables into its SST log, which copies nothing, and
//! the log is merged into the next level where that rewrites least for what it brings down.
//!
//! **Idea.** Merging a table into the next level rewrites all that it overlaps there, some ten times as much. Gathered in
//! a log, tables share that, and what was overwritten meanwhile goes for nothing. Parking tables beside a level is L2SM's
//! ("Less is More", Huang et al., ICDE 2021); that the next level decides what is merged is LDC's (ICDE 2019): a merge takes
//! *all* that the log holds of a range of keys ([`slice`]), so that it never has to take more for the sake of order.
//!
//! **What it costs.** Reads ask the log beside each level, and space: logs hold [`LOG_PERCENT`] of what the trees hold.
//! Where reads have paid as much as a slice costs it is merged for their sake, so that a database that is only read comes to have
//! no logs ([`PolicyEvent::LogPaid`]).

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use crate::base::comparator::UserOrder;
use crate::base::slot::{Area, LEVELS, Level, Slot};
use crate::compaction::Plan;
use crate::compaction::closure::{Closed, close_places, range_of};
use crate::compaction::leveled::{Leveled, LeveledSettings, bytes_idle, is_idle, numbers};
use crate::compaction::parts::Part;
use crate::compaction::policy::{CompactionPolicy, PickView, PolicyEvent};
use crate::compaction::slice;
use crate::compaction::turns::Turns;
use crate::version::table_meta::TableMeta;
use crate::version::{Place, Version};

/// What all logs together may hold, of what the trees hold.
const LOG_PERCENT: u64 = 10;
/// A level's log may hold so many times what the one before it may. With equal logs a few bytes less are written, and
/// reads ask more tables; with more, the other way round.
const LOG_GROWTH: u64 = 5;
/// However little there is, so many tables do not make a log too large.
const LOG_TABLES_MIN: u64 = 4;
/// More tables of a log shall not lie on top of each other: each is a source of scans.
const DEPTH_MAX: usize = 2;
/// Tables of the next level that a slice may rewrite.
pub(crate) const SLICE_TABLES_MAX: usize = 25;
/// Tables that change their place at once: each time costs a sync of the manifest.
const MOVED_MAX: usize = 64;
/// Neighbours go along that bring so much for what they cost, in percent of the best.
const NEIGHBOUR_PERCENT: u64 = 80;

pub(crate) struct Sliced {
    settings: LeveledSettings,
    /// Of level 0, of tables full of deletions, and of what reads ask for.
    leveled: Leveled,
    /// By level.
    turns: [Turns; LEVELS],
    /// Levels whose logs are to be merged by a slice, for the sake of reads. Until that slice begins.
    logs_paid: BTreeSet<Level>,
}

/// What may be done next.
#[derive(Clone, Copy, Debug)]
enum Work {
    MergeLevel0,
    /// Move a table of a level into its log.
    Evict(Level),
    /// Merge a slice of its log: where that rewrites least ..
    Slice(Level),
    /// .. or where too many tables lie on top of each other.
    Flatten(Level),
}

impl Sliced {
    pub(crate) fn new(settings: LeveledSettings) -> Self {
        Sliced {
            settings,
            leveled: Leveled::new(settings),
            turns: Default::default(),
            logs_paid: BTreeSet::new(),
        }
    }

    /// What is past its limit, the worst first.
    fn work(&self, view: &PickView<'_>) -> Vec<Work> {
        let mut work = vec![(self.leveled.level0_score(view), Work::MergeLevel0)];
        for level in levels_with_logs() {
            let tree = bytes_idle(view, Slot::tree(level)) as f64;
            work.push((tree / self.settings.level_limit(level) as f64, Work::Evict(level)));
            let log = log_of(level);
            let tables = view.version.shared_slot(log);
            if !tables.is_empty() {
                let bytes = bytes_idle(view, log) as f64;
                let fill = bytes / log_limit(view.version, level, self.settings.table_bytes) as f64;
                work.push((fill, Work::Slice(level)));
                let depth = tables.runs(view.order).len() as f64 / (DEPTH_MAX + 1) as f64;
                work.push((depth, Work::Flatten(level)));
            }
        }
        work.retain(|(score, _)| *score >= 1.0);
        work.sort_by(|a, b| b.0.total_cmp(&a.0));
        work.into_iter().map(|(_, work)| work).collect()
    }

    fn plan(&mut self, view: &PickView<'_>, work: Work) -> Option<Plan> {
        match work {
            Work::MergeLevel0 => self.leveled.plan_level0(view),
            Work::Evict(level) => self.evict(view, level),
            Work::Slice(level) => best_slice(view, level, self.settings.table_bytes),
            Work::Flatten(level) => deepest_slice(view, level, self.settings.table_bytes),
        }
    }

    /// Tables take turns, as in LevelDB. To keep back what is hot or sparse, as L2SM does, was worse in simulation: all
    /// that is newer then lies on top of it.
    fn evict(&mut self, view: &PickView<'_>, level: Level) -> Option<Plan> {
        let from = Slot::tree(level);
        let tables = view.version.slot(from);
        let excess = bytes_idle(view, from).saturating_sub(self.settings.level_limit(level));
        let turns = self.turns[level.index()].of(view.order, tables);
        let places = turns.map(|position| Place { slot: from, position });
        let (moved, plan) = move_out(view, places, excess)?;
        let table = |place: &Place| view.version.table_at(*place);
        let ends = moved.first().map(table).zip(moved.last().map(table));
        ends.into_iter().for_each(|(first, last)| self.turns[level.index()].take(first, last));
        Some(plan)
    }

    /// Where reads have paid for it, a slice that neither the log's size nor its depth asks for.
    fn pick_for_reads(&mut self, view: &PickView<'_>) -> Option<Plan> {
        self.logs_paid.retain(|level| !view.version.slot(log_of(*level)).is_empty());
        let table_bytes = self.settings.table_bytes;
        let slice = |level: &Level| Some((*level, best_slice(view, *level, table_bytes)?));
        let (level, plan) = self.logs_paid.iter().find_map(slice)?;
        self.logs_paid.remove(&level);
        Some(plan)
    }
}

impl CompactionPolicy for Sliced {
    fn pick(&mut self, view: &PickView<'_>) -> Option<Plan> {
        let work = self.work(view);
        let pressing = work.into_iter().find_map(|work| self.plan(view, work));
        pressing
            .or_else(|| self.leveled.pick_for_others(view))
            .or_else(|| self.pick_for_reads(view))
    }

    fn observe(&mut self, event: PolicyEvent) {
        match event {
            PolicyEvent::LogPaid { level } => {
                self.logs_paid.insert(level);
            }
            _ => self.leveled.observe(event),
        }
    }
}

pub(crate) fn levels_with_logs() -> impl DoubleEndedIterator<Item = Level> {
    Level::all().filter(|level| *level != Level::ZERO && *level != Level::LAST)
}

pub(crate) fn log_of(level: Level) -> Slot {
    Slot { level, area: Area::SstLog }
}

/// What a level's log may hold.
pub(crate) fn log_limit(version: &Version, level: Level, table_bytes: u64) -> u64 {
    let tree_bytes = |level: Level| -> u64 {
        version.slot(Slot::tree(level)).iter().map(|table| table.size).sum()
    };
    let trees: u64 = levels_with_logs().chain([Level::LAST]).map(tree_bytes).sum();
    let mut shares = Vec::new();
    let mut share = 1u64;
    // Of levels that have something below them.
    for upper in levels_with_logs() {
        let has_below = Level::all().any(|deeper| deeper > upper && tree_bytes(deeper) > 0);
        if !has_below {
            break;
        }
        shares.push((upper, share));
        share *= LOG_GROWTH;
    }
    let all: u64 = shares.iter().map(|(_, share)| share).sum();
    let own = shares.iter().find(|(upper, _)| *upper == level).map_or(0, |(_, share)| *share);
    let limit = u128::from(trees) * u128::from(LOG_PERCENT * own) / u128::from(100 * all.max(1));
    u64::try_from(limit).unwrap_or(u64::MAX).max(LOG_TABLES_MIN.saturating_mul(table_bytes))
}

/// Tables go into their level's log, or past it where they meet nothing there and in the next level: the first of
/// `places` that may, and as many of those behind it as the level has too much, if they go the same way. With their places.
pub(crate) fn move_out(
    view: &PickView<'_>,
    places: impl IntoIterator<Item = Place>,
    excess: u64,
) -> Option<(Vec<Place>, Plan)> {
    let mut chosen: Option<(Slot, Vec<Place>, Closed)> = None;
    let mut bytes = 0;
    for place in places {
        let to = way_out(view, place)?;
        let moved = chosen.as_ref().map_or(&[][..], |(_, moved, _)| moved);
        let goes_along = chosen.as_ref().is_none_or(|(chosen, ..)| *chosen == to);
        if !goes_along || (!moved.is_empty() && bytes > excess) || moved.len() == MOVED_MAX {
            break;
        }
        let with_it = [moved, &[place]].concat();
        match (movable(view, &with_it, to), &chosen) {
            (Some(closed), _) => {
                bytes += view.version.table_at(place).size;
                chosen = Some((to, with_it, closed));
            }
            (None, None) => {}
            // It may go later: between it and the others something lies in the next level.
            (None, Some(_)) => break,
        }
    }
    let (to, moved, closed) = chosen?;
    Some((moved, Plan::Move { tables: numbers(&closed), to }))
}

/// Where a table of a level goes.
fn way_out(view: &PickView<'_>, place: Place) -> Option<Slot> {
    let log = log_of(place.slot.level);
    let deeper = slice::target(log)?;
    let range = range_of(view.version.table_at(place));
    let meets = |slot| view.version.meeting(view.order, slot, range).next().is_some();
    Some(if meets(log) || meets(deeper) { log } else { deeper })
}

/// These tables, if they may change their place together.
fn movable(view: &PickView<'_>, places: &[Place], to: Slot) -> Option<Closed> {
    let mut seed = places.to_vec();
    seed.sort_unstable();
    let closed = close_places(view.order, view.version, &seed, to)?;
    let moves = view.in_flight.admits(view.order, &closed, to) && closed.may_move(view.order, to);
    moves.then_some(closed)
}

/// The slice of a level's log that brings most for what it rewrites.
pub(crate) fn best_slice(view: &PickView<'_>, level: Level, table_bytes: u64) -> Option<Plan> {
    let from = log_of(level);
    let mut fields = Fields::of(view, from)?;
    while let Some(best) = fields.best() {
        let chosen = fields.around(best, table_bytes);
        if let Some(plan) = fields.plan(view, from, chosen.clone()) {
            return Some(plan);
        }
        fields.all[chosen].iter_mut().for_each(|field| field.is_busy = true);
    }
    None
}

/// The slice in which most tables lie on top of each other.
fn deepest_slice(view: &PickView<'_>, level: Level, table_bytes: u64) -> Option<Plan> {
    let from = log_of(level);
    let fields = Fields::of(view, from)?;
    // The last run begins where all the others go on.
    let deepest = view.version.shared_slot(from).runs(view.order).last()?.pieces.first()?;
    let field = fields.of_key(view.order, deepest.ends().0.user());
    if fields.all.get(field)?.is_busy {
        return None;
    }
    fields.plan(view, from, fields.around(field, table_bytes))
}

/// The key space, parted by the next level's tables: each field begins with one, the first with all keys before it, too.
struct Fields<'v> {
    all: Vec<Field<'v>>,
}

#[derive(Clone)]
struct Field<'v> {
    /// `None` is the first's.
    from: Option<&'v [u8]>,
    /// Of the next level.
    tables: usize,
    bytes: u64,
    /// What the log holds of it.
    log_bytes: u64,
    is_busy: bool,
}

impl Field<'_> {
    /// What a merge brings down for a thousand bytes that it rewrites.
    fn benefit(&self) -> u64 {
        if self.is_busy { 0 } else { self.log_bytes.saturating_mul(1000) / self.bytes.max(1) }
    }
}

impl<'v> Fields<'v> {
    /// `None` if the log is empty.
    fn of(view: &PickView<'v>, log: Slot) -> Option<Self> {
        let below = view.version.slot(slice::target(log)?);
        let logged = view.version.slot(log);
        let mut fields = Fields { all: parted(view, below) };
        for table in logged {
            fields.note(view.order, table, !is_idle(view, table));
        }
        (!logged.is_empty()).then_some(fields)
    }

    /// Counts a table of the log.
    fn note(&mut self, order: &UserOrder, table: &TableMeta, is_busy: bool) {
        let first = self.of_key(order, table.smallest.user());
        for nth in first..=self.of_key(order, table.largest.user()) {
            let until = self.all.get(nth + 1).and_then(|next| next.from);
            let field = &mut self.all[nth];
            // Too little to be seen is not nothing.
            let bytes = table.live_bytes_within(order, field.from, until).max(1);
            field.log_bytes = field.log_bytes.saturating_add(bytes);
            field.is_busy |= is_busy;
        }
    }

    fn of_key(&self, order: &UserOrder, key: &[u8]) -> usize {
        let begins =
            |field: &Field<'_>| field.from.is_none_or(|from| order.compare(from, key).is_le());
        self.all.partition_point(begins).saturating_sub(1)
    }

    /// The field that brings most, if there is one to be had.
    fn best(&self) -> Option<usize> {
        let by_benefit = |nth: &usize| (self.all[*nth].benefit(), self.all[*nth].log_bytes);
        let best = (0..self.all.len()).max_by_key(by_benefit)?;
        (self.all[best].log_bytes > 0 && !self.all[best].is_busy).then_some(best)
    }

    /// A field, and neighbours that are about as worth merging as the best one there is.
    fn around(&self, field: usize, table_bytes: u64) -> Range<usize> {
        let bytes_max = table_bytes.saturating_mul(SLICE_TABLES_MAX as u64);
        let best = self.all.iter().map(Field::benefit).max().unwrap_or_default();
        let least = best.saturating_mul(NEIGHBOUR_PERCENT) / 100;
        let mut chosen = field..field + 1;
        loop {
            let benefit = |nth: Option<usize>| {
                let field = nth.and_then(|nth| self.all.get(nth));
                field.map_or(0, Field::benefit)
            };
            let (left, right) = (chosen.start.checked_sub(1), Some(chosen.end));
            let wider = match benefit(left).max(benefit(right)) {
                0 => break,
                more if more < least => break,
                more if more == benefit(right) => chosen.start..chosen.end + 1,
                _ => chosen.start - 1..chosen.end,
            };
            let tables: usize = self.all[wider.clone()].iter().map(|field| field.tables).sum();
            let bytes: u64 =
                self.all[wider.clone()].iter().map(|field| field.bytes + field.log_bytes).sum();
            if tables > SLICE_TABLES_MAX || bytes > bytes_max {
                break;
            }
            chosen = wider;
        }
        chosen
    }

    /// A merge of these, if it may begin.
    fn plan(&self, view: &PickView<'_>, log: Slot, fields: Range<usize>) -> Option<Plan> {
        let from = |nth: usize| self.all.get(nth).and_then(|field| field.from).map(<[u8]>::to_vec);
        let part = Part { from: from(fields.start), until: from(fields.end) };
        let closed = slice::close(view.order, view.version, log, &part)?;
        let admitted = view.in_flight.admits(view.order, &closed, slice::target(log)?);
        admitted.then_some(Plan::Slice { from: log, part })
    }
}

/// Tables that share a border key, as LevelDB wrote them, are of one field.
fn parted<'v>(view: &PickView<'v>, below: &'v [Arc<TableMeta>]) -> Vec<Field<'v>> {
    let mut fields: Vec<Field<'v>> = Vec::new();
    let mut end: Option<&[u8]> = None;
    for table in below {
        let starts = table.smallest.user();
        let is_apart = end.is_none_or(|end| view.order.compare(end, starts).is_lt());
        end = Some(table.largest.user());
        let is_busy = !is_idle(view, table);
        match fields.last_mut().filter(|_| !is_apart) {
            Some(field) => {
                field.tables += 1;
                field.bytes = field.bytes.saturating_add(table.size);
                field.is_busy |= is_busy;
            }
            None => {
                let from = (!fields.is_empty()).then_some(starts);
                fields.push(Field { from, tables: 1, bytes: table.size, log_bytes: 0, is_busy });
            }
        }
    }
    if fields.is_empty() {
        fields.push(Field { from: None, tables: 0, bytes: 0, log_bytes: 0, is_busy: false });
    }
    fields
}
