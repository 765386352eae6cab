//! A slice: all that an SST log holds of a range of keys, on its way into the next level.
//!
//! The range's borders are borders of the next level's tables. All versions of a key leave the log together,
//! so A4 holds whatever else is in the log, and nothing else has to come along.

use std::sync::Arc;

use crate::base::comparator::UserOrder;
use crate::base::slot::{Area, Slot};
use crate::compaction::closure::Closed;
use crate::compaction::parts::Part;
use crate::version::table_meta::TableMeta;
use crate::version::{KeyRange, Place, Version};

/// Where slices of an SST log go.
pub(crate) fn target(from: Slot) -> Option<Slot> {
    let deeper = from.level.deeper().filter(|_| from.area == Area::SstLog)?;
    Some(Slot::tree(deeper))
}

/// The tables that a slice takes along; `None` if the log holds nothing of it, or if a table of the target reaches out
/// of it.
pub(crate) fn close(
    order: &UserOrder,
    version: &Version,
    from: Slot,
    part: &Part,
) -> Option<Closed> {
    let target = target(from)?;
    let placed = |slot, position| {
        let place = Place { slot, position };
        (place, Arc::clone(version.table_at(place)))
    };
    let logged = version.slot(from).iter().enumerate();
    let logged = logged.filter(|(_, table)| meets(order, part, table));
    let mut tables: Vec<_> = logged.map(|(position, _)| placed(from, position)).collect();
    if tables.is_empty() {
        return None;
    }
    let below = version.slot(target);
    let range = KeyRange { from: part.from.as_deref(), to: part.until.as_deref() };
    let inside = |table: &TableMeta| {
        part.holds(order, table.smallest.user()) && part.holds(order, table.largest.user())
    };
    for position in range.window(order, below) {
        let table = &below[position];
        if inside(table) {
            tables.push(placed(target, position));
        } else if part.meets(order, (table.smallest.user(), table.largest.user())) {
            return None;
        }
    }
    Some(Closed { tables, part: part.clone() })
}

fn meets(order: &UserOrder, part: &Part, table: &TableMeta) -> bool {
    let mut stretches = (0..).map_while(|nth| table.stretch(nth));
    stretches.any(|(smallest, largest)| part.meets(order, (smallest.user(), largest.user())))
}
