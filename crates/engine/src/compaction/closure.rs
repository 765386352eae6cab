//! What a plan must take along (A4, A5). Every plan passes here, whoever made it.
//!
//! **Invariants.**
//! - A4 (closure): a plan takes along every table that overlaps one it carries and lies between the
//!   old place and the new one. Nothing older is ever leapfrogged.
//! - A5 (hull): a plan whose target is a sorted slot also takes each table there that meets the
//!   hull of all it carries, since an output may span the gaps.
//!
//! Positions within a sorted slot count as order: of two tables that share a border key (LevelDB
//! wrote such), the right-hand one is the older and comes along.

use std::collections::HashSet;
use std::sync::Arc;

use crate::base::comparator::UserOrder;
use crate::base::slot::Slot;
use crate::format::filename::FileNumber;
use crate::version::table_meta::TableMeta;
use crate::version::{KeyRange, Place, Version};

/// A set of tables of one version that may go to a target together.
#[derive(Clone)]
pub(crate) struct Closed {
    pub(crate) tables: Vec<(Place, Arc<TableMeta>)>,
}

/// Completes `seed` for a journey to `to`; `None` if a seed table is gone or lies beyond the
/// target.
pub(crate) fn close(
    order: &UserOrder,
    version: &Version,
    seed: &[FileNumber],
    to: Slot,
) -> Option<Closed> {
    let mut rest: Vec<(Place, Arc<TableMeta>)> = Vec::new();
    let mut taken: Vec<(Place, Arc<TableMeta>)> = Vec::new();
    let seed: HashSet<FileNumber> = seed.iter().copied().collect();
    for (place, table) in version.placed() {
        if place.slot > to {
            break;
        }
        let entry = (place, Arc::clone(table));
        if seed.contains(&table.number) { taken.push(entry) } else { rest.push(entry) }
    }
    if taken.is_empty() || taken.len() != seed.len() {
        return None;
    }
    while grow(order, &mut taken, &mut rest, to) {}
    taken.sort_by_key(|(place, _)| *place);
    Some(Closed { tables: taken })
}

/// Takes along what the rules demand of `rest`; true if something came.
fn grow(
    order: &UserOrder,
    taken: &mut Vec<(Place, Arc<TableMeta>)>,
    rest: &mut Vec<(Place, Arc<TableMeta>)>,
    to: Slot,
) -> bool {
    let (from, until) = hull(order, taken.iter().map(|(_, table)| &**table));
    let (from, until) = (from.to_vec(), until.to_vec());
    let hull = KeyRange::closed(&from, &until);
    let before = taken.len();
    let mut index = 0;
    while index < rest.len() {
        let (place, table) = &rest[index];
        let in_target_hull = place.slot == to && to.is_sorted() && hull.meets(order, table);
        if in_target_hull || leapfrogged(order, taken, *place, table, to) {
            let entry = rest.swap_remove(index);
            taken.push(entry);
        } else {
            index += 1;
        }
    }
    taken.len() > before
}

/// True if carrying the taken tables to `to` would take newer data past this one.
fn leapfrogged(
    order: &UserOrder,
    taken: &[(Place, Arc<TableMeta>)],
    place: Place,
    table: &TableMeta,
    to: Slot,
) -> bool {
    let on_the_way = place.slot < to || (place.slot == to && to.is_sorted());
    on_the_way
        && taken
            .iter()
            .any(|(other, carried)| *other < place && range_of(carried).meets(order, table))
}

pub(crate) fn range_of(table: &TableMeta) -> KeyRange<'_> {
    KeyRange::closed(table.smallest.user(), table.largest.user())
}

/// The least and the greatest user key of some tables; there must be one.
pub(crate) fn hull<'t>(
    order: &UserOrder,
    tables: impl Iterator<Item = &'t TableMeta>,
) -> (&'t [u8], &'t [u8]) {
    let mut bounds: Option<(&[u8], &[u8])> = None;
    for table in tables {
        let (low, high) = (table.smallest.user(), table.largest.user());
        bounds = Some(match bounds {
            None => (low, high),
            Some((least, greatest)) => (
                if order.compare(low, least).is_lt() { low } else { least },
                if order.compare(high, greatest).is_gt() { high } else { greatest },
            ),
        });
    }
    bounds.expect("a hull is asked of at least one table")
}
