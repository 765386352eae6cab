//! Which tables are open, and which one is closed when there are too many. The table cache has one; readers find an open
//! table at its [`TablePlace`], of which their version knows.
//!
//! **Eviction.** A hand goes round the numbers: a table that was visited since it came by stays, up to a few times (CLOCK). What
//! is opened and never asked for again goes first, so that who looks into every table once does not close those that all others read.
//!
//! **Invariants.**
//! - I1: at a place lies the table that is kept under its number, or none.
//!
//! **Concurrency.** All changes are made under the table cache's lock. Places are looked at without one.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use crate::base::sync::SwapOption;
use crate::format::filename::FileNumber;
use crate::format::table::Table;

/// So many visited tables may pass before one goes all the same: a lock is held meanwhile.
const REPRIEVES_MAX: usize = 32;

/// So many visits are remembered of a table.
const VISITS_MAX: u8 = 3;

/// Where readers find a table while it is open, without a search and without a lock.
#[derive(Default)]
pub(crate) struct TablePlace {
    table: SwapOption<Table>,
    /// No more than [`VISITS_MAX`]: who only reads shall not write often.
    visits: AtomicU8,
}

impl TablePlace {
    /// The table for a short look: counts no reference.
    #[inline]
    pub(crate) fn look(&self) -> impl Deref<Target = Option<Arc<Table>>> + use<> {
        let table = self.table.load();
        table.iter().for_each(|_| self.note_visit());
        table
    }

    #[inline]
    pub(crate) fn get(&self) -> Option<Arc<Table>> {
        let table = self.table.load_full();
        table.iter().for_each(|_| self.note_visit());
        table
    }

    #[inline]
    fn note_visit(&self) {
        let visits = self.visits.load(Relaxed);
        if visits < VISITS_MAX {
            self.visits.store(visits + 1, Relaxed); // Threads that count at the same time may count once.
        }
    }

    /// Whether readers came since the last call, or the last few. Each call forgets a visit.
    fn take_visit(&self) -> bool {
        let visits = self.visits.load(Relaxed);
        self.visits.store(visits.saturating_sub(1), Relaxed); // One that is noted just now may be lost.
        visits > 0
    }
}

pub(crate) struct OpenTables {
    tables_max: usize,
    tables: BTreeMap<FileNumber, Kept>,
    /// Whom the hand comes by next: the first from this number on.
    hand: FileNumber,
}

struct Kept {
    table: Arc<Table>,
    place: Option<Arc<TablePlace>>,
}

impl OpenTables {
    pub(crate) fn new(tables_max: usize) -> Self {
        let tables_max = tables_max.max(1);
        OpenTables { tables_max, tables: BTreeMap::new(), hand: FileNumber(0) }
    }

    /// The table, if it is open; from now on it lies at `place`, too.
    pub(crate) fn find(
        &mut self,
        number: FileNumber,
        place: Option<&Arc<TablePlace>>,
    ) -> Option<Arc<Table>> {
        let kept = self.tables.get_mut(&number)?;
        place.into_iter().for_each(|place| kept.put_at(place));
        Some(Arc::clone(&kept.table))
    }

    /// Keeps a table that was just opened, unless somebody was faster. Returns the one that is kept, and one that is to be
    /// closed, outside of the lock.
    pub(crate) fn keep(
        &mut self,
        number: FileNumber,
        table: Arc<Table>,
        place: Option<&Arc<TablePlace>>,
    ) -> (Arc<Table>, Option<Arc<Table>>) {
        if let Some(faster) = self.find(number, place) {
            return (faster, Some(table));
        }
        let gone = (self.tables.len() >= self.tables_max).then(|| self.evict()).flatten();
        let mut kept = Kept { table: Arc::clone(&table), place: None };
        place.into_iter().for_each(|place| kept.put_at(place));
        self.tables.insert(number, kept);
        (table, gone)
    }

    /// Forgets a table; it closes when the last reader lets go of it.
    pub(crate) fn remove(&mut self, number: FileNumber) -> Option<Arc<Table>> {
        self.tables.remove(&number).map(Kept::leave)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.tables.values().map(|kept| &kept.table)
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.tables.len()
    }

    fn evict(&mut self) -> Option<Arc<Table>> {
        let mut reprieves = REPRIEVES_MAX;
        loop {
            let behind_hand = self.tables.range(self.hand..).next();
            let (&number, kept) = behind_hand.or_else(|| self.tables.first_key_value())?;
            self.hand = FileNumber(number.0.saturating_add(1));
            if reprieves == 0 || !kept.place.as_ref().is_some_and(|place| place.take_visit()) {
                return self.remove(number);
            }
            reprieves -= 1;
        }
    }
}

impl Kept {
    fn put_at(&mut self, place: &Arc<TablePlace>) {
        if self.place.as_ref().is_some_and(|own| Arc::ptr_eq(own, place)) {
            return;
        }
        self.empty_place();
        place.table.swap(Some(Arc::clone(&self.table)));
        self.place = Some(Arc::clone(place));
    }

    fn empty_place(&mut self) {
        if let Some(place) = self.place.take() {
            place.table.swap(None);
        }
    }

    fn leave(mut self) -> Arc<Table> {
        self.empty_place();
        self.table
    }
}
