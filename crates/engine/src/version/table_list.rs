//! The tables of one slot, shared by the versions in which they are the same.

use std::ops::{Deref, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::base::comparator::{InternalOrder, UserOrder};
use crate::base::fences::Fences;
use crate::base::key::user_key;
use crate::base::slot::{Area, Slot};
use crate::base::sync::OnceLock;
use crate::version::run_iter::{self, Run};
use crate::version::strata::Strata;
use crate::version::table_meta::TableMeta;

/// In the order in which reads look: by key where the slot is sorted, newest first elsewhere.
#[derive(Default)]
pub(crate) struct TableList {
    tables: Vec<Arc<TableMeta>>,
    /// Of the tables' greatest user keys, where the slot is sorted and the order bytewise. Made by the first who asks.
    ends: OnceLock<Fences>,
    /// Of an SST log: the same as sorted runs, and by key. Made by the first who asks.
    runs: OnceLock<Vec<Arc<Run>>>,
    strata: OnceLock<Strata>,
    /// By scans of all tables of level 0.
    visits: AtomicU64,
    /// So many visits cost what merging the tables would. Set by the first of them.
    worth: OnceLock<u64>,
}

/// A scan's visit of a table costs about what merging so many bytes does: two microseconds.
const MERGED_PER_VISIT: u64 = 200;
/// Fewer visits are worth no merge, however small.
const VISITS_MIN: u64 = 4096;

impl TableList {
    /// Of a sorted slot: the first table that does not end before `target`, an internal key.
    #[inline]
    pub(crate) fn first_not_before(&self, order: &InternalOrder, target: &[u8]) -> usize {
        let around = self.ends_around(order, target);
        let ends_before =
            |table: &TableMeta| order.compare(table.largest.as_bytes(), target).is_lt();
        around.start + self.tables[around].partition_point(|table| ends_before(table))
    }

    /// Of a sorted slot: the tables that may have entries of the user key of `target`, an internal key. Where keys as integers tell
    /// that there is one at most, it is not looked at: it may begin behind the key.
    #[inline]
    pub(crate) fn over(&self, order: &InternalOrder, target: &[u8]) -> Range<usize> {
        let around = self.ends_around(order, target);
        if around.is_empty() {
            return around.start..self.tables.len().min(around.start + 1);
        }
        let start = self.first_not_before(order, target);
        let begins = |table: &&Arc<TableMeta>| {
            order.user.compare(table.smallest.user(), user_key(target)).is_le()
        };
        start..start + self.tables[start..].iter().take_while(begins).count()
    }

    /// What counts of the tables as runs of pieces that share no user key: as few as can be, which is as many as lie on top
    /// of each other anywhere: where the last run begins, for one.
    pub(crate) fn runs(&self, order: &UserOrder) -> &[Arc<Run>] {
        self.runs.get_or_init(|| run_iter::runs(order, &self.tables))
    }

    /// What a scan or a merge has of them: one source where they are sorted, a run each in an SST log, all of them elsewhere.
    pub(crate) fn sources(&self, slot: Slot, order: &UserOrder) -> usize {
        match slot {
            Slot { area: Area::SstLog, .. } => self.runs(order).len(),
            slot if slot.is_sorted() => self.tables.len().min(1),
            _ => self.tables.len(),
        }
    }

    pub(crate) fn strata(&self, order: &UserOrder) -> &Strata {
        self.strata.get_or_init(|| Strata::of(order, &self.tables))
    }

    /// Counts a scan that visits all tables. True once: when scans have paid about what it would cost to merge so many
    /// bytes, that is what a merge would have spared them.
    pub(crate) fn note_scan(&self, merge_bytes: impl FnOnce() -> u64) -> bool {
        let worth = self.worth(merge_bytes);
        let visits = self.tables.len() as u64;
        let before = self.visits.fetch_add(visits, Relaxed);
        before < worth && before + visits >= worth
    }

    /// How many visits by scans cost what it does to merge so many bytes, which are asked for once.
    pub(crate) fn worth(&self, merge_bytes: impl FnOnce() -> u64) -> u64 {
        *self.worth.get_or_init(|| (merge_bytes() / MERGED_PER_VISIT).max(VISITS_MIN))
    }

    /// Tables before the range end before the target, those behind it do not; those within have to be looked at.
    #[inline]
    fn ends_around(&self, order: &InternalOrder, target: &[u8]) -> Range<usize> {
        match order.user {
            UserOrder::Bytewise => {
                let ends = || self.tables.iter().map(|table| table.largest.user());
                self.ends.get_or_init(|| Fences::new(ends())).around(user_key(target))
            }
            UserOrder::Custom(_) => 0..self.tables.len(),
        }
    }
}

impl Deref for TableList {
    type Target = [Arc<TableMeta>];
    fn deref(&self) -> &[Arc<TableMeta>] {
        &self.tables
    }
}

impl FromIterator<Arc<TableMeta>> for TableList {
    fn from_iter<T: IntoIterator<Item = Arc<TableMeta>>>(tables: T) -> Self {
        TableList { tables: tables.into_iter().collect(), ..TableList::default() }
    }
}
