//! The rules a version must keep, stated once. Recovery checks what a manifest says; every install
//! checks what it is about to publish.

use std::sync::Arc;

use crate::base::comparator::InternalOrder;
use crate::base::error::{Error, Result};
use crate::base::slot::Slot;
use crate::version::Version;
use crate::version::table_meta::TableMeta;

/// Checks A5 in every sorted slot, and that each table's bounds are in order.
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
