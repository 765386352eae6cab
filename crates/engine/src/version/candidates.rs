//! Which tables may lie over a key, newest first. Point reads ask them.

use std::slice;
use std::sync::Arc;

use crate::base::comparator::InternalOrder;
use crate::base::key::InternalKey;
use crate::base::slot::{Area, Slot};
use crate::version::Tables;
use crate::version::lookup::Target;
use crate::version::strata::Layer;
use crate::version::table_meta::TableMeta;

/// A table, by the stretch of its keys that the key would be in.
pub(super) struct Candidate<'v> {
    pub(super) slot: Slot,
    pub(super) table: &'v Arc<TableMeta>,
    stretch: usize,
}

impl Candidate<'_> {
    /// Whether an entry that the read would see may lie between the first one and the last. Mostly so, and most candidates have a
    /// filter, which is asked sooner than it can be seen where they begin and end.
    pub(super) fn covers(&self, order: &InternalOrder, target: &Target<'_>) -> bool {
        let begins =
            |smallest: &InternalKey| order.user.compare(smallest.user(), target.user).is_le();
        if self.slot.is_sorted() {
            return begins(&self.table.smallest); // It ends behind the key, or it would not have been found.
        }
        self.table.stretch(self.stretch).is_some_and(|(smallest, largest)| {
            let reaches = match self.slot.area {
                Area::SstLog => order.compare(largest.as_bytes(), target.seek),
                Area::Tree => order.user.compare(largest.user(), target.user),
            };
            reaches.is_ge() && begins(smallest)
        })
    }
}

/// Those of one slot.
pub(super) struct Candidates<'v> {
    slot: Slot,
    tables: &'v [Arc<TableMeta>],
    left: Left<'v>,
}

enum Left<'v> {
    Whole(slice::Iter<'v, Arc<TableMeta>>),
    Logged(slice::Iter<'v, Layer>),
}

impl<'v> Candidates<'v> {
    #[inline]
    pub(super) fn of(
        order: &InternalOrder,
        (slot, tables): (Slot, &'v Tables),
        target: &Target<'_>,
    ) -> Self {
        let left = match slot.area {
            Area::SstLog => {
                Left::Logged(tables.strata(&order.user).over(&order.user, target.user).iter())
            }
            Area::Tree if slot.is_sorted() => {
                Left::Whole(tables[tables.over(order, target.seek)].iter())
            }
            Area::Tree => Left::Whole(tables.iter()),
        };
        Candidates { slot, tables, left }
    }
}

impl<'v> Iterator for Candidates<'v> {
    type Item = Candidate<'v>;

    #[inline]
    fn next(&mut self) -> Option<Candidate<'v>> {
        let (table, stretch) = match &mut self.left {
            Left::Whole(tables) => (tables.next()?, 0),
            Left::Logged(layers) => {
                let layer = layers.next()?;
                (self.tables.get(layer.table as usize)?, layer.stretch as usize)
            }
        };
        Some(Candidate { slot: self.slot, table, stretch })
    }
}
