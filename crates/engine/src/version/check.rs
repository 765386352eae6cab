//! The rules a version must keep, stated once. Recovery checks what a manifest says; every install
//! checks what it is about to publish.

use std::sync::Arc;

use crate::base::comparator::InternalOrder;
use crate::base::error::{Error, Result};
use crate::base::slot::Slot;
use crate::format::manifest::edit::Span;
use crate::version::Version;
use crate::version::table_meta::TableMeta;

/// Checks A5 in every sorted slot, and that the bounds of each table and its parts are in order.
pub(crate) fn check(order: &InternalOrder, version: &Version) -> Result<()> {
    for (slot, tables) in version.slots() {
        for table in tables {
            check_bounds(order, slot, table)?;
        }
        if slot.is_sorted() {
            for pair in tables.windows(2) {
                check_neighbours(order, slot, &pair[0], &pair[1])?;
            }
        }
    }
    Ok(())
}

fn check_bounds(order: &InternalOrder, slot: Slot, table: &TableMeta) -> Result<()> {
    if order.compare(table.smallest.as_bytes(), table.largest.as_bytes()).is_gt() {
        let message = format!("table {} in {slot}: smallest key after largest", table.number);
        return Err(Error::corruption(message));
    }
    let parts = table.parts();
    let in_order =
        |part: &Span| order.compare(part.smallest.as_bytes(), part.largest.as_bytes()).is_le();
    // Of one key, all entries of a table count or none.
    let apart =
        |pair: &[Span]| order.user.compare(pair[0].largest.user(), pair[1].smallest.user()).is_lt();
    if !parts.iter().all(in_order) || !parts.windows(2).all(apart) {
        let message = format!("table {} in {slot}: the parts that count overlap", table.number);
        return Err(Error::corruption(message));
    }
    Ok(())
}

/// Whole internal keys must be apart. Equal border user keys are tolerated, since LevelDB wrote
/// such tables; the left one then holds the newer entries, by the order of internal keys.
fn check_neighbours(
    order: &InternalOrder,
    slot: Slot,
    left: &Arc<TableMeta>,
    right: &Arc<TableMeta>,
) -> Result<()> {
    if order.compare(left.largest.as_bytes(), right.smallest.as_bytes()).is_ge() {
        let message = format!("tables {} and {} overlap in {slot}", left.number, right.number);
        return Err(Error::corruption(message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::slot::Slot;
    use crate::version::builder::{self, Change};
    use crate::version::testing::{bounded, key, order, sst_log, table, tree};

    fn checked(added: Vec<(Slot, Arc<TableMeta>)>) -> Result<()> {
        let change = Change { added, removed: Vec::new() };
        check(&order(), &builder::apply(&order(), &Version::default(), change).unwrap())
    }

    #[test]
    fn tables_may_overlap_where_slots_are_not_sorted() {
        for slot in [Slot::L0, sst_log(1), sst_log(5)] {
            checked(vec![(slot, table(1, "a", "m")), (slot, table(2, "c", "z"))]).unwrap();
        }
        let levels = vec![(tree(1), table(1, "a", "m")), (tree(2), table(2, "c", "z"))];
        checked(levels).unwrap();
    }

    #[test]
    fn tables_of_a_sorted_slot_lie_apart() {
        for slot in [tree(1), tree(6)] {
            checked(vec![(slot, table(1, "a", "c")), (slot, table(2, "d", "f"))]).unwrap();
            for (from, to) in [("c", "d"), ("b", "z"), ("a", "a"), ("b", "b")] {
                let second = bounded(2, key(from, 200), key(to, 1));
                let error = checked(vec![(slot, table(1, "a", "c")), (slot, second)]).unwrap_err();
                assert!(error.is_corruption());
                assert!(error.message().ends_with(&format!("overlap in {slot}")), "{error}");
            }
        }
    }

    #[test]
    fn neighbours_may_share_a_border_key_but_no_entry() {
        let left = || (tree(1), bounded(1, key("a", 9), key("m", 8)));
        checked(vec![left(), (tree(1), bounded(2, key("m", 7), key("z", 6)))]).unwrap();
        for seqno in [8, 9] {
            let right = (tree(1), bounded(2, key("m", seqno), key("z", 6)));
            assert!(checked(vec![left(), right]).unwrap_err().is_corruption());
        }
    }

    #[test]
    fn bounds_are_in_order() {
        for slot in [Slot::L0, tree(1), sst_log(1)] {
            checked(vec![(slot, bounded(1, key("a", 5), key("a", 5)))]).unwrap();
            for (smallest, largest) in [(key("b", 5), key("a", 5)), (key("a", 5), key("a", 6))] {
                let error = checked(vec![(slot, bounded(1, smallest, largest))]).unwrap_err();
                assert!(error.message().contains("smallest key after largest"), "{error}");
            }
        }
    }
}
