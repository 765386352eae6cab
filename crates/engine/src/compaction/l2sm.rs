//! Log-assisted compaction as L2SM has it ("Less is More", Huang et al., ICDE 2021): what is hot or sparse goes into the SST
//! log beside its level (*pseudo compaction*) and gathers updates there; what has become cold and dense is merged into
//! the next level, with all that has to come along (*aggregated compaction*).
//!
//! As far as the paper is known here: its abstract, and its public prototype. Where that breaks the order of versions, this
//! keeps it: a merge takes along every older table of the log that overlaps what it takes (A4), however many that is.

use crate::base::comparator::UserOrder;
use crate::base::slot::{Level, Slot};
use crate::compaction::Plan;
use crate::compaction::closure::{Closed, close_places, hull};
use crate::compaction::leveled::{Leveled, LeveledSettings, bytes_idle, is_idle, numbers};
use crate::compaction::policy::{CompactionPolicy, PickView, PolicyEvent};
use crate::compaction::slice;
use crate::compaction::sliced::{levels_with_logs, log_limit, log_of, move_out};
use crate::version::table_meta::TableMeta;
use crate::version::{KeyRange, Place};

/// Tables of a log that one merge takes by choice.
const LOGGED_MAX: usize = 25;
/// It grows while it rewrites no more tables for each that it takes than before, nor than this.
const REWRITTEN_MAX: usize = 10;
/// Tables of a log that are tried.
const TRIED_MAX: usize = 64;
/// Keys of sparseness: ranges are compared as if keys had so many bytes.
const KEY_BYTES: usize = 16;

pub(crate) struct L2sm {
    settings: LeveledSettings,
    /// Of level 0, of tables full of deletions, and of what reads ask for.
    leveled: Leveled,
}

impl L2sm {
    pub(crate) fn new(settings: LeveledSettings) -> Self {
        L2sm { settings, leveled: Leveled::new(settings) }
    }

    fn plan_level(&self, view: &PickView<'_>, level: Level) -> Vec<(f64, Option<Plan>)> {
        let (bytes, log) = (bytes_idle(view, Slot::tree(level)), bytes_idle(view, log_of(level)));
        let limit = self.settings.level_limit(level);
        let tree = bytes as f64 / limit as f64;
        let log = log as f64 / log_limit(view.version, level, self.settings.table_bytes) as f64;
        let mut plans = Vec::new();
        if tree >= 1.0 {
            plans.push((tree, pseudo_compaction(view, level, bytes.saturating_sub(limit))));
        }
        if log >= 1.0 {
            plans.push((log, aggregated_compaction(view, level)));
        }
        plans
    }
}

impl CompactionPolicy for L2sm {
    fn pick(&mut self, view: &PickView<'_>) -> Option<Plan> {
        let level0 = self.leveled.level0_score(view);
        let level0 = (level0 >= 1.0).then(|| (level0, self.leveled.plan_level0(view)));
        let deeper = levels_with_logs().flat_map(|level| self.plan_level(view, level));
        let mut plans: Vec<(f64, Option<Plan>)> = level0.into_iter().chain(deeper).collect();
        plans.sort_by(|a, b| b.0.total_cmp(&a.0));
        let pressing = plans.into_iter().find_map(|(_, plan)| plan);
        pressing.or_else(|| self.leveled.pick_for_others(view))
    }

    fn observe(&mut self, event: PolicyEvent) {
        self.leveled.observe(event);
    }
}

/// Moves the hottest and sparsest tables of a level into its log, or past it where they meet nothing, until it is small
/// enough.
fn pseudo_compaction(view: &PickView<'_>, level: Level, excess: u64) -> Option<Plan> {
    let ranked = ranked(view, Slot::tree(level));
    let (_, plan) = move_out(view, ranked.into_iter().rev().map(|(_, place)| place), excess)?;
    Some(plan)
}

/// Merges the coldest and densest table of a log, and others as long as that rewrites no more for each.
fn aggregated_compaction(view: &PickView<'_>, level: Level) -> Option<Plan> {
    let (log, ranked) = (log_of(level), ranked(view, log_of(level)));
    let to = slice::target(log)?;
    let admitted = |seed: &[Place]| {
        let closed = close_places(view.order, view.version, seed, to)?;
        view.in_flight.admits(view.order, &closed, to).then_some(closed)
    };
    let (first, mut closed) =
        ranked.iter().find_map(|(_, place)| Some((*place, admitted(&[*place])?)))?;
    if closed.tables.len() == 1 && closed.may_move(view.order, to) {
        return Some(Plan::Move { tables: numbers(&closed), to });
    }
    let mut seed = vec![first];
    for (_, place) in ranked.iter().take(TRIED_MAX) {
        let known = closed.tables.iter().any(|(there, _)| there == place);
        // What lies elsewhere would have all between it and the others rewritten.
        if known || !range_of_all(&closed).meets(view.order, view.version.table_at(*place)) {
            continue;
        }
        let mut wider_seed = seed.clone();
        wider_seed.push(*place);
        wider_seed.sort_unstable();
        let Some(wider) = admitted(&wider_seed) else { continue };
        let ((taken, rewritten), (more, more_rewritten)) =
            (counts(&closed, log), counts(&wider, log));
        let is_no_dearer = more_rewritten * taken <= rewritten * more;
        if more <= LOGGED_MAX && more_rewritten <= REWRITTEN_MAX * more && is_no_dearer {
            (seed, closed) = (wider_seed, wider);
        }
    }
    Some(Plan::Merge { inputs: numbers(&closed), to })
}

/// Tables of the log that go, and of the next level that are rewritten for them.
fn counts(closed: &Closed, log: Slot) -> (usize, usize) {
    let taken = closed.tables.iter().filter(|(place, _)| place.slot == log).count();
    (taken, closed.tables.len() - taken)
}

fn range_of_all(closed: &Closed) -> KeyRange<'_> {
    // Bytes tell apart enough for a choice; what has to come along is told by the user's order.
    let (low, high) = hull(&UserOrder::Bytewise, closed.metas());
    KeyRange::closed(low, high)
}

/// The idle tables of a slot, by weight: cold and dense ones first. Hotness and sparseness count the same, each by where
/// it lies between the least and the greatest of them.
fn ranked(view: &PickView<'_>, slot: Slot) -> Vec<(f64, Place)> {
    let tables = view.version.slot(slot).iter().enumerate();
    let idle = tables.filter(|(_, table)| is_idle(view, table));
    let idle: Vec<(usize, f64, f64)> = idle
        .map(|(position, table)| (position, table.hotness() as f64, sparseness(table)))
        .collect();
    let hotness = Scale::of(idle.iter().map(|(_, hotness, _)| *hotness));
    let sparseness = Scale::of(idle.iter().map(|(_, _, sparseness)| *sparseness));
    let weigh = |(position, hot, sparse): &(usize, f64, f64)| {
        let weight = (hotness.place(*hot) + sparseness.place(*sparse)) / 2.0;
        (weight, Place { slot, position: *position })
    };
    let mut ranked: Vec<(f64, Place)> = idle.iter().map(weigh).collect();
    ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
    ranked
}

/// From the least to the greatest of some numbers.
struct Scale {
    least: f64,
    greatest: f64,
}

impl Scale {
    fn of(numbers: impl Iterator<Item = f64> + Clone) -> Self {
        let least = numbers.clone().fold(f64::INFINITY, f64::min);
        Scale { least, greatest: numbers.fold(f64::NEG_INFINITY, f64::max) }
    }

    /// From 0 to 1.
    fn place(&self, number: f64) -> f64 {
        let width = self.greatest - self.least;
        if width > 0.0 { (number - self.least) / width } else { 0.0 }
    }
}

/// The logarithm of how many keys there could be for each that there is: the paper's `i - lg k`.
fn sparseness(table: &TableMeta) -> f64 {
    let entries = table.stats().map_or(1, |stats| stats.entries.max(1));
    log2_of_range(table.smallest.user(), table.largest.user()) - (entries as f64).log2()
}

/// Of keys of [`KEY_BYTES`], about.
fn log2_of_range(smallest: &[u8], largest: &[u8]) -> f64 {
    let common = smallest.iter().zip(largest).take_while(|(a, b)| a == b).count();
    let word = |key: &[u8]| {
        let mut bytes = [0; 8];
        let rest = key.get(common..).unwrap_or_default();
        let len = rest.len().min(bytes.len());
        bytes[..len].copy_from_slice(&rest[..len]);
        u64::from_be_bytes(bytes)
    };
    // Orders of users' own may have them the other way round.
    let apart = word(largest).abs_diff(word(smallest)).max(1);
    (apart as f64).log2() + 8.0 * (KEY_BYTES as f64 - common as f64 - 8.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparseness_is_of_the_range_behind_what_keys_share() {
        let range = |from: &str, to: &str| log2_of_range(from.as_bytes(), to.as_bytes());
        assert!((range("user000000000001", "user000000000002") - 0.0).abs() < 1e-9);
        assert!(
            range("user000000000000", "user000000000009")
                < range("user000000000000", "user000000000099")
        );
        assert!(range("a", "b") > range("user00", "user99"));
        assert!(range("same", "same").is_finite() && range("", "").is_finite());
    }

    #[test]
    fn scales_go_from_the_least_to_the_greatest() {
        let scale = Scale::of([3.0, 1.0, 5.0].into_iter());
        assert_eq!([1.0, 3.0, 5.0].map(|number| scale.place(number)), [0.0, 0.5, 1.0]);
        assert_eq!(Scale::of([2.0].into_iter()).place(2.0), 0.0);
    }
}
