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
//!
//! Tables are carried towards greater places only, so one pass over the slots in search order finds
//! all that would be leapfrogged; the hull can grow only by tables of the target, which comes last.
//! Runs under the state lock: sorted slots are searched, not scanned.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use crate::base::comparator::UserOrder;
use crate::base::slot::Slot;
use crate::compaction::parts::Part;
use crate::format::filename::FileNumber;
use crate::version::table_meta::TableMeta;
use crate::version::{KeyRange, Place, Version};

/// A set of tables of one version that may go to a target together, in search order.
#[derive(Clone, Default)]
pub(crate) struct Closed {
    pub(crate) tables: Vec<(Place, Arc<TableMeta>)>,
    /// What of them goes: all, but for a [slice](super::slice).
    pub(crate) part: Part,
}

impl Closed {
    pub(crate) fn metas(&self) -> impl Iterator<Item = &TableMeta> {
        self.tables.iter().map(|(_, table)| &**table)
    }

    /// The least and the greatest user key of what goes, or a little more; there must be a table.
    pub(crate) fn hull(&self, order: &UserOrder) -> (&[u8], &[u8]) {
        self.part.clip(order, hull(order, self.metas()))
    }

    /// True if the tables may change their slot as they are: all of each counts, none has to be merged
    /// with one of the target, and in a sorted target (A5) none with another.
    pub(crate) fn may_move(&self, order: &UserOrder, to: Slot) -> bool {
        let stays =
            |(place, table): &(Place, Arc<TableMeta>)| place.slot == to || !table.is_whole();
        if self.tables.iter().any(stays) || self.part != Part::all() {
            return false;
        }
        let mut tables: Vec<&TableMeta> = self.metas().collect();
        tables.sort_by(|a, b| order.compare(a.smallest.user(), b.smallest.user()));
        let disjoint = |pair: &[&TableMeta]| {
            order.compare(pair[0].largest.user(), pair[1].smallest.user()).is_lt()
        };
        !to.is_sorted() || tables.windows(2).all(disjoint)
    }
}

/// Completes `seed` for a journey to `to`; `None` if a seed table is gone, lies beyond the target,
/// or cannot go there.
pub(crate) fn close(
    order: &UserOrder,
    version: &Version,
    seed: &[FileNumber],
    to: Slot,
) -> Option<Closed> {
    let seed: HashSet<FileNumber> = seed.iter().copied().collect();
    let on_the_way = version.placed().take_while(|(place, _)| place.slot <= to);
    let found = on_the_way.filter(|(_, table)| seed.contains(&table.number));
    let places: Vec<Place> = found.map(|(place, _)| place).take(seed.len()).collect();
    if places.len() == seed.len() { close_places(order, version, &places, to) } else { None }
}

/// The same for a seed whose places, in search order, are known.
pub(crate) fn close_places(
    order: &UserOrder,
    version: &Version,
    seed: &[Place],
    to: Slot,
) -> Option<Closed> {
    debug_assert!(seed.is_sorted());
    let (first, last) = (seed.first()?.slot, seed.last()?.slot);
    // Into level 0 only flushes go. What is in an `SstLog` slot cannot arrive there: it would come
    // to stand before newer tables.
    let receives = if to.is_sorted() { last <= to } else { to != Slot::L0 && last < to };
    if !receives {
        return None;
    }
    let mut closed = Closed::default();
    for slot in Slot::all().filter(|slot| first <= *slot && *slot <= to) {
        let start = seed.partition_point(|place| place.slot < slot);
        let end = seed.partition_point(|place| place.slot <= slot);
        let seed = &seed[start..end];
        match (slot == to, slot.is_sorted()) {
            (false, true) => closed.take_on_the_way(order, version, slot, seed),
            (false, false) => closed.take_older(order, version, slot, seed),
            (true, true) => closed.take_hull(order, version, slot, seed),
            (true, false) => {} // What arrives there goes to the front, past nothing.
        }
    }
    Some(closed)
}

impl Closed {
    /// Takes, of an unsorted slot on the way, the seed and what a table taken before overlaps.
    fn take_older(&mut self, order: &UserOrder, version: &Version, slot: Slot, seed: &[Place]) {
        for (position, table) in version.slot(slot).iter().enumerate() {
            let place = Place { slot, position };
            let range = range_of(table);
            if seed.contains(&place) || self.metas().any(|carried| range.meets(order, carried)) {
                self.tables.push((place, Arc::clone(table)));
            }
        }
    }

    /// The same of a sorted slot.
    fn take_on_the_way(
        &mut self,
        order: &UserOrder,
        version: &Version,
        slot: Slot,
        seed: &[Place],
    ) {
        let tables = version.slot(slot);
        let seed = seed.iter().map(|place| place.position..place.position + 1);
        let met = self.metas().map(|carried| range_of(carried).window(order, tables));
        let mut stretches: Vec<Range<usize>> = seed.chain(met).collect();
        stretches.sort_unstable_by_key(|stretch| stretch.start);
        let mut done = 0;
        for stretch in stretches {
            let start = stretch.start.max(done);
            if stretch.end <= start {
                continue;
            }
            let shares_border = |right: &usize| {
                let (left, right) = (&tables[*right - 1], &tables[*right]);
                order.compare(left.largest.user(), right.smallest.user()).is_ge()
            };
            done = stretch.end + (stretch.end..tables.len()).take_while(shares_border).count();
            self.take(version, slot, start..done);
        }
    }

    /// Takes, of a sorted target, what meets the hull, which may grow by it.
    fn take_hull(&mut self, order: &UserOrder, version: &Version, slot: Slot, seed: &[Place]) {
        let tables = version.slot(slot);
        let seed = seed.iter().map(|place| &**version.table_at(*place));
        let mut bounds = hull(order, self.metas().chain(seed));
        let met = loop {
            let met = KeyRange::closed(bounds.0, bounds.1).window(order, tables);
            let ends = tables[met.clone()].first().into_iter().chain(tables[met.clone()].last());
            let wider = ends.fold(bounds, |bounds, table| hull_with(order, bounds, table));
            if wider == bounds {
                break met;
            }
            bounds = wider;
        };
        self.take(version, slot, met);
    }

    fn take(&mut self, version: &Version, slot: Slot, positions: Range<usize>) {
        let places = positions.map(|position| Place { slot, position });
        self.tables.extend(places.map(|place| (place, Arc::clone(version.table_at(place)))));
    }
}

pub(crate) fn range_of(table: &TableMeta) -> KeyRange<'_> {
    KeyRange::closed(table.smallest.user(), table.largest.user())
}

/// The least and the greatest user key of some tables; there must be one.
pub(crate) fn hull<'t>(
    order: &UserOrder,
    mut tables: impl Iterator<Item = &'t TableMeta>,
) -> (&'t [u8], &'t [u8]) {
    let first = tables.next().expect("a hull is asked of at least one table");
    tables.fold((first.smallest.user(), first.largest.user()), |hull, table| {
        hull_with(order, hull, table)
    })
}

fn hull_with<'t>(
    order: &UserOrder,
    (least, greatest): (&'t [u8], &'t [u8]),
    table: &'t TableMeta,
) -> (&'t [u8], &'t [u8]) {
    let (low, high) = (table.smallest.user(), table.largest.user());
    (
        if order.compare(low, least).is_lt() { low } else { least },
        if order.compare(high, greatest).is_gt() { high } else { greatest },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::testing::{bounded, key, order, sst_log, table, tree, version};

    fn closed(version: &Version, seed: &[u64], to: Slot) -> Option<Vec<u64>> {
        let seed: Vec<FileNumber> = seed.iter().copied().map(FileNumber).collect();
        let closed = close(&order().user, version, &seed, to)?;
        assert!(closed.tables.is_sorted_by_key(|(place, _)| *place));
        Some(closed.metas().map(|table| table.number.0).collect())
    }

    /// A table of level 1 between two entries, each given as user key and sequence number.
    fn split(number: u64, from: (&str, u64), to: (&str, u64)) -> (Slot, Arc<TableMeta>) {
        (tree(1), bounded(number, key(from.0, from.1), key(to.0, to.1)))
    }

    #[test]
    fn nothing_comes_of_nothing() {
        assert_eq!(closed(&Version::default(), &[], tree(1)), None);
        assert_eq!(closed(&Version::default(), &[1], tree(1)), None);
        assert_eq!(closed(&version([(tree(1), table(1, "a", "b"))]), &[], tree(2)), None);
    }

    #[test]
    fn neighbours_without_a_common_key_stay() {
        let version = version([
            split(1, ("100", 2), ("100", 1)),
            split(2, ("200", 2), ("200", 1)),
            split(3, ("300", 2), ("300", 1)),
        ]);
        assert_eq!(closed(&version, &[2], tree(2)), Some(vec![2]));
        assert_eq!(closed(&version, &[2, 3], tree(2)), Some(vec![2, 3]));
    }

    #[test]
    fn the_older_side_of_a_border_key_comes_along() {
        let version = version([
            split(1, ("100", 6), ("100", 5)),
            split(2, ("100", 2), ("300", 1)),
            split(3, ("300", 0), ("400", 9)),
            split(4, ("500", 9), ("600", 8)),
        ]);
        assert_eq!(closed(&version, &[1], tree(2)), Some(vec![1, 2, 3]), "and so on");
        assert_eq!(closed(&version, &[2], tree(2)), Some(vec![2, 3]));
        assert_eq!(closed(&version, &[3], tree(2)), Some(vec![3]), "the newer side may stay");
        assert_eq!(closed(&version, &[4, 2], tree(3)), Some(vec![2, 3, 4]));
        // Rewritten in place, the two halves become one.
        assert_eq!(closed(&version, &[3], tree(1)), Some(vec![1, 2, 3]));
    }

    #[test]
    fn the_older_side_is_told_by_order_not_by_number() {
        let version = version([
            split(9, ("100", 6), ("100", 5)),
            split(1, ("100", 4), ("100", 3)),
            split(5, ("100", 2), ("300", 3)),
        ]);
        assert_eq!(closed(&version, &[9], tree(2)), Some(vec![9, 1, 5]));
        assert_eq!(closed(&version, &[1], tree(2)), Some(vec![1, 5]));
        assert_eq!(closed(&version, &[9, 5], tree(2)), Some(vec![9, 1, 5]));
    }

    #[test]
    fn older_tables_of_level_0_come_along_newer_ones_stay() {
        let version = version([
            (Slot::L0, table(5, "a", "c")),
            (Slot::L0, table(4, "b", "e")),
            (Slot::L0, table(3, "d", "f")),
            (Slot::L0, table(2, "x", "z")),
            (tree(1), table(1, "f", "h")),
        ]);
        assert_eq!(closed(&version, &[5], tree(1)), Some(vec![5, 4, 3, 1]));
        assert_eq!(closed(&version, &[3], tree(1)), Some(vec![3, 1]));
        assert_eq!(closed(&version, &[2], tree(1)), Some(vec![2]));
    }

    #[test]
    fn gaps_of_the_hull_belong_to_it_at_the_target_only() {
        let version = version([
            (Slot::L0, table(9, "a", "b")),
            (Slot::L0, table(8, "y", "z")),
            (tree(1), table(7, "k", "m")),
            (tree(2), table(6, "l", "n")),
            (tree(2), table(5, "n1", "o")),
        ]);
        assert_eq!(closed(&version, &[9, 8], tree(1)), Some(vec![9, 8, 7]));
        assert_eq!(closed(&version, &[9, 8], tree(2)), Some(vec![9, 8, 6, 5]));
        assert_eq!(closed(&version, &[9], tree(2)), Some(vec![9]));
    }

    #[test]
    fn the_hull_grows_by_what_it_takes() {
        let version = version([
            (Slot::L0, table(9, "d", "e")),
            (tree(1), table(1, "b", "d")),
            (tree(1), table(2, "e", "g")),
            (tree(1), table(3, "h", "k")),
        ]);
        assert_eq!(closed(&version, &[9], tree(1)), Some(vec![9, 1, 2]));
    }

    #[test]
    fn sst_logs_on_the_way_come_along_and_bring_theirs() {
        let version = version([
            (tree(1), table(1, "a", "c")),
            (sst_log(1), table(2, "c", "f")),
            (sst_log(1), table(3, "e", "h")),
            (sst_log(1), table(4, "p", "q")),
            (tree(2), table(5, "g", "i")),
        ]);
        assert_eq!(closed(&version, &[1], tree(2)), Some(vec![1, 2, 3, 5]));
        assert_eq!(closed(&version, &[3], tree(2)), Some(vec![3, 5]), "2 is newer");
        assert_eq!(closed(&version, &[1], sst_log(1)), Some(vec![1]), "to the front");
    }

    #[test]
    fn impossible_journeys_are_refused() {
        let version = version([
            (Slot::L0, table(1, "a", "c")),
            (tree(2), table(2, "a", "c")),
            (sst_log(2), table(3, "a", "c")),
        ]);
        assert_eq!(closed(&version, &[1, 7], tree(3)), None, "7 is gone");
        assert_eq!(closed(&version, &[2], tree(1)), None, "upwards");
        assert_eq!(closed(&version, &[1], Slot::L0), None);
        assert_eq!(closed(&version, &[3], sst_log(2)), None, "it might pass newer ones");
        assert_eq!(closed(&version, &[2], tree(2)), Some(vec![2]));
    }

    #[test]
    fn moves_need_tables_that_fit_the_target_as_they_are() {
        let version = version([
            (Slot::L0, table(1, "a", "c")),
            (Slot::L0, table(2, "c", "d")),
            (Slot::L0, table(3, "x", "z")),
            (tree(1), table(4, "y", "z")),
        ]);
        let may_move = |seed: &[u64], to| {
            let seed: Vec<FileNumber> = seed.iter().copied().map(FileNumber).collect();
            let user = order().user;
            close(&user, &version, &seed, to).unwrap().may_move(&user, to)
        };
        assert!(may_move(&[1], tree(1)));
        assert!(!may_move(&[1, 2], tree(1)), "they share c");
        assert!(may_move(&[1, 2], sst_log(1)));
        assert!(!may_move(&[3], tree(1)), "4 is there");
        assert!(!may_move(&[4], tree(1)), "it is there");
        assert!(may_move(&[4], tree(2)));
        assert!(may_move(&[4], sst_log(1)));
    }
}
