//! What a version knows of a table, and what becomes of the table's file when no version knows it
//! any more.
//!
//! A table in an SST log may count in part only: the rest of it was merged into the next level. Then
//! it has another meta than before, and both share the file.
//!
//! **Concurrency.** Versions share metas. When an edit that removes a table is durable, the table
//! is marked obsolete; when the last version (and so the last reader) lets go of its file, its number
//! goes to the [`Graveyard`]. The destructor does no I/O: the housekeeping lane removes the file.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use crate::base::comparator::UserOrder;
use crate::base::error::Result;
use crate::base::key::{InternalKey, SeqNo};
use crate::base::sync::OnceLock;
use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::format::filename::{FileName, FileNumber};
use crate::format::manifest::edit::{Live, NewTable, Span};
use crate::format::table::Table;
use crate::format::table::builder::TableSummary;
use crate::format::table::properties::TableProperties;
use crate::store::open_tables::TablePlace;
use crate::store::table_cache::TableCache;
use crate::version::graveyard::Graveyard;

/// LevelDB's seek budget: one seek costs about as much as compacting 16 KiB.
const BYTES_PER_SEEK: u64 = 16 * 1024;
const SEEKS_MIN: i64 = 100;

pub(crate) struct TableMeta {
    pub(crate) number: FileNumber,
    /// Bytes of the file.
    pub(crate) size: u64,
    /// The first and the last entry that count.
    pub(crate) smallest: InternalKey,
    pub(crate) largest: InternalKey,
    /// What counts, if it is not all.
    live: Option<Box<Live>>,
    /// Where it lies while it is open: one for all metas of the file.
    place: Arc<TablePlace>,
    file: Arc<TableFile>,
}

/// What metas of one file share.
struct TableFile {
    number: FileNumber,
    /// Empty until the table was looked into; `None` if it does not tell.
    stats: OnceLock<Option<TableStats>>,
    marks: OnceLock<Marks>,
    /// Of its keys when it was written, on average, in thousandths; 0 if nobody asked.
    hotness: u64,
    seeks_left: AtomicI64,
    obsolete: AtomicBool,
    graveyard: Arc<Graveyard>,
}

/// User keys of a table, ascending, and how many of its bytes lie before each, about.
pub(crate) type Marks = Vec<(Vec<u8>, u64)>;

/// Counts from the table's properties; unknown for tables LevelDB wrote, and until a table written
/// before the last open is looked into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TableStats {
    pub(crate) entries: u64,
    pub(crate) deletions: u64,
    pub(crate) largest_seqno: SeqNo,
}

impl TableStats {
    /// True if a read of the state `oldest` sees every entry, and so does every later one.
    pub(crate) fn all_see(&self, oldest: SeqNo) -> bool {
        self.largest_seqno <= oldest
    }
}

impl From<&TableProperties> for TableStats {
    fn from(properties: &TableProperties) -> Self {
        TableStats {
            entries: properties.entries,
            deletions: properties.deletions,
            largest_seqno: properties.largest_seqno,
        }
    }
}

impl TableMeta {
    #[cfg(test)]
    pub(crate) fn new(
        number: FileNumber,
        size: u64,
        bounds: (InternalKey, InternalKey),
        graveyard: Arc<Graveyard>,
    ) -> Self {
        TableMeta::with_hotness((number, size, 0), bounds, graveyard)
    }

    pub(crate) fn with_hotness(
        (number, size, hotness): (FileNumber, u64, u64),
        (smallest, largest): (InternalKey, InternalKey),
        graveyard: Arc<Graveyard>,
    ) -> Self {
        let seeks = i64::try_from(size / BYTES_PER_SEEK).unwrap_or(i64::MAX).max(SEEKS_MIN);
        TableMeta {
            number,
            size,
            smallest,
            largest,
            live: None,
            place: Arc::default(),
            file: Arc::new(TableFile {
                number,
                stats: OnceLock::new(),
                marks: OnceLock::new(),
                hotness,
                seeks_left: AtomicI64::new(seeks),
                obsolete: AtomicBool::new(false),
                graveyard,
            }),
        }
    }

    /// As a manifest says. `live` must have a part, if there is one.
    pub(crate) fn recovered(table: NewTable, graveyard: &Arc<Graveyard>) -> Self {
        let bounds = (table.smallest, table.largest);
        let live = table.live.map(Box::new);
        let known = (table.number, table.size, table.hotness);
        TableMeta { live, ..TableMeta::with_hotness(known, bounds, graveyard.clone()) }
    }

    /// As a manifest is to say.
    pub(crate) fn recorded(&self) -> NewTable {
        NewTable {
            number: self.number,
            size: self.size,
            smallest: self.smallest.clone(),
            largest: self.largest.clone(),
            live: self.live.as_deref().cloned(),
            hotness: self.file.hotness,
        }
    }

    pub(crate) fn hotness(&self) -> u64 {
        self.file.hotness
    }

    /// The same file, of which only a part counts from now on.
    pub(crate) fn narrowed(&self, live: Live) -> Option<Self> {
        let (first, last) = (live.parts.first()?, live.parts.last()?);
        Some(TableMeta {
            number: self.number,
            size: self.size,
            smallest: first.smallest.clone(),
            largest: last.largest.clone(),
            live: Some(Box::new(live)),
            place: Arc::clone(&self.place),
            file: Arc::clone(&self.file),
        })
    }

    /// Where the table lies while it is open.
    #[inline]
    pub(crate) fn place(&self) -> &TablePlace {
        &self.place
    }

    /// The table, opened if need be.
    #[inline]
    pub(crate) fn open(&self, cache: &TableCache) -> Result<Arc<Table>> {
        cache.get_at(&self.place, (self.number, self.size))
    }

    /// About how many bytes count of what a part of the keys holds.
    pub(crate) fn live_bytes_within(
        &self,
        order: &UserOrder,
        from: Option<&[u8]>,
        until: Option<&[u8]>,
    ) -> u64 {
        let starts_later = |key: &[u8]| from.is_some_and(|from| order.compare(key, from).is_lt());
        let ends_sooner = |key: &[u8]| until.is_some_and(|until| order.compare(key, until).is_ge());
        if !starts_later(self.smallest.user()) && !ends_sooner(self.largest.user()) {
            return self.live_bytes();
        }
        let Some(marks) = self.marks().filter(|marks| !marks.is_empty()) else {
            return self.live_bytes() / 2;
        };
        let before = |key: &[u8]| {
            let passed = marks.partition_point(|(mark, _)| order.compare(mark, key).is_lt());
            passed.checked_sub(1).map_or(0, |last| marks[last].1)
        };
        let stretches = (0..).map_while(|nth| self.stretch(nth));
        let bytes = stretches.map(|(smallest, largest)| {
            let start = from.filter(|_| starts_later(smallest.user())).unwrap_or(smallest.user());
            let end = until.filter(|_| ends_sooner(largest.user())).unwrap_or(largest.user());
            before(end).saturating_sub(before(start))
        });
        bytes.sum()
    }

    /// True if all entries of the file count.
    pub(crate) fn is_whole(&self) -> bool {
        self.live.is_none()
    }

    /// About how many bytes of the file count.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.live.as_ref().map_or(self.size, |live| live.bytes)
    }

    /// The parts that count; none if all do.
    pub(crate) fn parts(&self) -> &[Span] {
        self.live.as_ref().map_or(&[], |live| &live.parts)
    }

    /// The ends of the `nth` stretch of entries that count: a whole table is one.
    pub(crate) fn stretch(&self, nth: usize) -> Option<(&InternalKey, &InternalKey)> {
        match &self.live {
            None => (nth == 0).then_some((&self.smallest, &self.largest)),
            Some(live) => live.parts.get(nth).map(|part| (&part.smallest, &part.largest)),
        }
    }

    /// Whether a key's entries in the file count, if there are any.
    #[inline]
    pub(crate) fn counts(&self, order: &UserOrder, user: &[u8]) -> bool {
        let Some(live) = &self.live else { return true };
        let ends_before = |part: &Span| order.compare(part.largest.user(), user).is_lt();
        let part = live.parts.get(live.parts.partition_point(ends_before));
        part.is_some_and(|part| order.compare(part.smallest.user(), user).is_le())
    }

    /// Of a table just written.
    pub(crate) fn written(table: &TableSummary, graveyard: &Arc<Graveyard>) -> Self {
        TableMeta::written_with(table, 0, graveyard)
    }

    /// The same, with its keys' hotness.
    pub(crate) fn written_with(
        table: &TableSummary,
        hotness: u64,
        graveyard: &Arc<Graveyard>,
    ) -> Self {
        let bounds = (table.smallest.clone(), table.largest.clone());
        let known = (table.number, table.bytes, hotness);
        let meta = TableMeta::with_hotness(known, bounds, Arc::clone(graveyard));
        meta.learn_stats(Some(TableStats::from(&table.properties)));
        meta
    }

    pub(crate) fn stats(&self) -> Option<TableStats> {
        self.file.stats.get().copied().flatten()
    }

    /// True once somebody has read the table's properties, or looked for them in vain.
    pub(crate) fn was_looked_into(&self) -> bool {
        self.file.stats.get().is_some()
    }

    pub(crate) fn learn_stats(&self, stats: Option<TableStats>) {
        // A second teller says the same: a table never changes.
        let _ = self.file.stats.set(stats);
    }

    /// Where its bytes lie among the keys, once somebody has looked.
    pub(crate) fn marks(&self) -> Option<&Marks> {
        self.file.marks.get()
    }

    pub(crate) fn learn_marks(&self, marks: impl FnOnce() -> Marks) {
        self.file.marks.get_or_init(marks);
    }

    /// Takes one seek off the budget; true exactly once, when it is used up.
    pub(crate) fn charge_seek(&self) -> bool {
        self.file.seeks_left.fetch_sub(1, Ordering::Relaxed) == 1
    }

    /// From now on the file goes when the last reference does. Called once the edit that removed
    /// the table is durable (rule R5).
    pub(crate) fn mark_obsolete(&self) {
        // Pairs with the load in `drop`, through the reference count's own release and acquire.
        self.file.obsolete.store(true, Ordering::Relaxed);
    }
}

impl Drop for TableFile {
    fn drop(&mut self) {
        if self.obsolete.load(Ordering::Relaxed) {
            self.graveyard.bury(FileName::Table(self.number));
        }
    }
}

#[cfg(all(test, loom))]
mod exhaustive {
    use super::*;
    use crate::base::sync::explore;
    use crate::version::testing::key;

    /// A table is compacted away while a reader has it. References are Loom's, whose counts it can
    /// see into.
    #[test]
    fn loom_a_file_goes_once_and_after_its_last_reader() {
        explore(|| {
            let graveyard = Arc::new(Graveyard::new());
            let bounds = (key("a", 2), key("b", 1));
            let meta = TableMeta::new(FileNumber(7), 10, bounds, Arc::clone(&graveyard));
            let table = loom::sync::Arc::new(meta);
            let on_disk = Arc::new(AtomicBool::new(true));
            let reader = {
                let (table, on_disk) = (table.clone(), Arc::clone(&on_disk));
                loom::thread::spawn(move || {
                    assert!(on_disk.load(Ordering::Relaxed), "removed under a reader");
                    drop(table);
                })
            };
            let sweeper = {
                let (graveyard, on_disk) = (Arc::clone(&graveyard), Arc::clone(&on_disk));
                loom::thread::spawn(move || {
                    let graves = graveyard.wait().unwrap();
                    assert_eq!(graves.names, [FileName::Table(FileNumber(7))]);
                    on_disk.store(false, Ordering::Relaxed);
                    assert!(graveyard.wait().is_none());
                })
            };
            table.mark_obsolete();
            drop(table);
            reader.join().unwrap();
            graveyard.close();
            sweeper.join().unwrap();
            assert!(!on_disk.load(Ordering::Relaxed));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::testing::key;

    fn meta(number: u64, size: u64, graveyard: &Arc<Graveyard>) -> TableMeta {
        let bounds = (key("a", 2), key("b", 1));
        TableMeta::new(FileNumber(number), size, bounds, Arc::clone(graveyard))
    }

    #[test]
    fn the_seek_budget_grows_with_size_and_is_spent_once() {
        let graveyard = Arc::new(Graveyard::new());
        for (size, seeks) in [(0, 100), (100 * BYTES_PER_SEEK, 100), (250 * BYTES_PER_SEEK, 250)] {
            let table = meta(1, size, &graveyard);
            assert_eq!((0..seeks * 3).position(|_| table.charge_seek()), Some(seeks - 1));
            assert!(!(0..seeks * 3).any(|_| table.charge_seek()));
        }
        assert!(!meta(1, u64::MAX, &graveyard).charge_seek());
    }

    #[test]
    fn a_table_is_buried_when_obsolete_and_no_reader_is_left() {
        let graveyard = Arc::new(Graveyard::new());
        drop(meta(1, 10, &graveyard));
        assert!(graveyard.take().is_empty(), "still in the database");

        let table = Arc::new(meta(2, 10, &graveyard));
        let reader = Arc::clone(&table);
        table.mark_obsolete();
        drop(table);
        assert!(graveyard.take().is_empty(), "still read");
        drop(reader);
        assert_eq!(graveyard.take().names, [FileName::Table(FileNumber(2))]);
        assert!(graveyard.take().is_empty());
    }

    #[test]
    fn the_first_stats_stay() {
        let table = meta(1, 10, &Arc::new(Graveyard::new()));
        assert_eq!(table.stats(), None);
        let stats = TableStats { entries: 7, deletions: 3, largest_seqno: SeqNo(9) };
        table.learn_stats(Some(stats));
        table.learn_stats(None);
        assert_eq!(table.stats(), Some(stats));
    }
}
