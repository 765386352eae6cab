//! Filters made while tables are read. A table that its writer gave no filter, and that is asked for absent keys again
//! and again, gets one in memory: as soon as the blocks that were read in vain have cost about what reading the whole
//! table costs. Nothing on disk changes.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::base::error::Result;
use crate::base::iter::InternalIterator;
use crate::base::key::user_key;
use crate::format::table::filter::{Filter, FilterKey};
use crate::format::table::filter_block::{FilterBlock, FilterBlockBuilder, FilterSpan};
use crate::format::table::gate::Gate;
use crate::format::table::iter::TableIter;

/// Reading on is cheaper than looking up: a search in vain costs as much as so many bytes of a scan.
const SCANNED_BYTES_PER_SEARCH: u64 = 2 << 10;
/// For small tables it is not worth the trouble earlier.
const SEARCHES_MIN: u64 = 64;

/// A policy may want all keys at once, and keys that share their beginnings may unfold to far more than the table has.
const KEY_BYTES_MAX: usize = 64 << 20;

/// How much is done for one filter.
#[derive(Clone, Copy)]
pub(crate) struct Limit<'a> {
    pub(crate) keys: usize,
    /// Asked for each key: false once the filter is not wanted any more.
    pub(crate) goes_on: &'a dyn Fn() -> bool,
}

#[derive(Default)]
pub(super) struct LateFilter {
    searches: AtomicU64,
    filter: OnceLock<Gate>,
}

impl LateFilter {
    /// False only if the table does not have this user key.
    #[inline]
    pub(super) fn may_have(&self, key: &FilterKey<'_>) -> bool {
        self.filter.get().is_none_or(|filter| filter.may_have(key))
    }

    /// Counts a search that found nothing in a table of so many bytes. True once: when a filter begins to pay.
    #[inline]
    pub(super) fn note_vain_search(&self, file_bytes: u64) -> bool {
        if self.filter.get().is_some() {
            return false;
        }
        // Threads that count at the same time may count once; so it may take a little longer.
        let searches = self.searches.load(Relaxed) + 1;
        self.searches.store(searches, Relaxed);
        searches == (file_bytes / SCANNED_BYTES_PER_SEARCH).max(SEARCHES_MIN)
    }

    /// Makes the filter from all entries of the table, unless they are too many, or `goes_on` ends it.
    pub(super) fn make(
        &self,
        policy: Filter,
        mut entries: TableIter,
        limit: Limit<'_>,
    ) -> Result<()> {
        let mut builder = FilterBlockBuilder::new(policy.clone(), FilterSpan::Table);
        builder.start_block(0);
        let (mut keys, mut key_bytes) = (0, 0);
        entries.seek_to_first()?;
        while entries.valid() {
            let key = user_key(entries.key());
            (keys, key_bytes) = (keys + 1, key_bytes + key.len());
            if keys > limit.keys || key_bytes > KEY_BYTES_MAX || !(limit.goes_on)() {
                return Ok(());
            }
            builder.add_key(key);
            entries.next()?;
        }
        if let Some(filter) = FilterBlock::parse(policy, builder.finish()) {
            let _ = self.filter.set(Gate::new(Some(filter), 0)); // Unless another lane was faster.
        }
        Ok(())
    }

    pub(super) fn memory(&self) -> usize {
        self.filter.get().map_or(0, Gate::memory)
    }
}
