//! Open tables by number: every read that reaches a table gets it here. Bounded in tables, because
//! each keeps a file descriptor, its index and its filter.
//!
//! **Concurrency.** Who knows a table's place finds it there without a lock; all others take one for a moment. Two threads
//! that miss at the same time may both open the table; one of the two is kept, and both serve.

use std::sync::Arc;

use crate::base::error::{Error, Result};
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::base::sync::{Mutex, Rank};
use crate::env::fs::RandomAccessFile;
use crate::format::filename::FileNumber;
use crate::format::table::cache::Cache;
use crate::format::table::heat::Ring;
use crate::format::table::{Limit, ReadSettings, Table};
use crate::store::TableStore;
use crate::store::open_tables::{OpenTables, TablePlace};
use crate::store::residents::Residents;

pub(crate) struct TableCache {
    store: Arc<dyn TableStore>,
    settings: ReadSettings,
    blocks: Arc<dyn Cache>,
    tables: Mutex<OpenTables>,
    /// Tables that would be better off with a filter.
    filterless: Mutex<Vec<(FileNumber, u64)>>,
    residents: Mutex<Residents>,
    /// What they take.
    resident_bytes: AtomicU64,
    /// Of tables that may become residents.
    ring: Option<Ring>,
}

/// Filters made in memory take no more, together: enough for three million keys.
const LATE_FILTER_BYTES_MAX: usize = 4 << 20;

/// More tables than this do not wait for a filter.
const FILTERLESS_MAX: usize = 1000;

impl TableCache {
    /// Keeps up to `tables_max` tables of `store` open; their blocks go to `blocks`.
    pub(crate) fn new(
        store: Arc<dyn TableStore>,
        settings: ReadSettings,
        blocks: Arc<dyn Cache>,
        tables_max: usize,
    ) -> Self {
        let tables = Mutex::new(Rank::Leaf, OpenTables::new(tables_max));
        let filterless = Mutex::new(Rank::Leaf, Vec::new());
        let residents = Mutex::new(Rank::Leaf, Residents::default());
        let resident_bytes = AtomicU64::new(0);
        TableCache {
            store,
            settings,
            blocks,
            tables,
            filterless,
            residents,
            resident_bytes,
            ring: None,
        }
    }

    /// Calls `ring` when it is time to [look](Self::settle_residents) which tables should be in memory.
    pub(crate) fn with_ring(self, ring: Ring) -> Self {
        TableCache { ring: Some(ring), ..self }
    }

    /// The table, opened if need be. `size` is what the manifest says the file has.
    pub(crate) fn get(&self, number: FileNumber, size: u64) -> Result<Arc<Table>> {
        self.find_or_open((number, size), None)
    }

    /// As [`get`](Self::get), of a table whose place is known.
    #[inline]
    pub(crate) fn get_at(
        &self,
        place: &Arc<TablePlace>,
        (number, size): (FileNumber, u64),
    ) -> Result<Arc<Table>> {
        match place.get() {
            Some(table) => Ok(table),
            None => self.find_or_open((number, size), Some(place)),
        }
    }

    #[cold]
    fn find_or_open(
        &self,
        (number, size): (FileNumber, u64),
        place: Option<&Arc<TablePlace>>,
    ) -> Result<Arc<Table>> {
        if let Some(table) = self.tables.lock().find(number, place) {
            return Ok(table);
        }
        let file = self.store.open(number)?;
        let table =
            open_named(file, (number, size), self.settings.clone(), Arc::clone(&self.blocks))?;
        let table = Arc::new(match &self.ring {
            Some(ring) => table.with_ring(Arc::clone(ring)),
            None => table,
        });
        let (table, closed) = self.tables.lock().keep(number, table, place);
        drop(closed); // Takes locks of the block cache.
        Ok(table)
    }

    /// Asks for a filter for this table; [`make_a_filter`](Self::make_a_filter) is to be called in the background.
    #[cold]
    pub(crate) fn want_filter(&self, number: FileNumber, size: u64) {
        let mut filterless = self.filterless.lock();
        // Where no lane serves them, wishes must not pile up.
        if filterless.len() < FILTERLESS_MAX {
            filterless.push((number, size));
        }
    }

    /// Makes a filter in memory for a table that wants one, as long as `goes_on` says so; false if none does.
    pub(crate) fn make_a_filter(&self, goes_on: &dyn Fn() -> bool) -> bool {
        let Some((number, size)) = self.filterless.lock().pop() else { return false };
        let memory: usize = self.tables.lock().iter().map(|table| table.late_filter_memory()).sum();
        // The usual policy takes ten bits for each key.
        let keys = LATE_FILTER_BYTES_MAX.saturating_sub(memory) / 10 * 8;
        if keys > 0 {
            // What cannot be read is for its readers to complain about.
            let table = self.get(number, size);
            let _ = table.and_then(|table| table.make_filter(Limit { keys, goes_on }));
        }
        true
    }

    /// Has the tables that are read most kept in memory, up to so many bytes.
    pub(crate) fn settle_residents(&self, bytes_max: u64) {
        // Dropped after the lock is: to close a table takes others.
        let tables: Vec<_> = self.tables.lock().iter().map(Arc::clone).collect();
        let mut residents = self.residents.lock();
        residents.settle(&tables, bytes_max);
        self.resident_bytes.store(residents.bytes(), Ordering::Relaxed);
    }

    /// What tables that are kept in memory take.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.resident_bytes.load(Ordering::Relaxed)
    }

    /// Forgets a table, because its file is to be removed. Readers that have it go on.
    pub(crate) fn evict(&self, number: FileNumber) {
        let forgotten = self.tables.lock().remove(number);
        if let Some(table) = forgotten {
            let mut residents = self.residents.lock();
            residents.forget(&table);
            self.resident_bytes.store(residents.bytes(), Ordering::Relaxed);
        }
    }

    /// Tables open here.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.tables.lock().len()
    }
}

/// Opens a table that is to have this number and size. A backup put back under a wrong name would
/// otherwise answer for another table.
pub(crate) fn open_named(
    file: Arc<dyn RandomAccessFile>,
    (number, size): (FileNumber, u64),
    settings: ReadSettings,
    blocks: Arc<dyn Cache>,
) -> Result<Table> {
    if file.len() != size {
        let message = format!("file has {} bytes, the manifest says {size}", file.len());
        return Err(Error::corruption(message).in_file(file.path()));
    }
    let table = Table::open(file, settings, blocks)?;
    match table.properties().map(|properties| properties.number) {
        // LevelDB's tables do not tell, nor do our oldest.
        None | Some(FileNumber(0)) => Ok(table),
        Some(own) if own == number => Ok(table),
        Some(own) => {
            let message = format!("this is table {own} under the name of {number}");
            Err(Error::corruption(message).in_file(table.path()))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::base::comparator::{InternalOrder, UserOrder};
    use crate::base::key::{InternalKey, SeqNo, ValueKind};
    use crate::env::Env;
    use crate::env::site::Site;
    use crate::format::table::compress::Compression;
    use crate::format::table::filter::BloomFilter;
    use crate::format::table::{GetOptions, TableBuilder, TableSettings};
    use crate::store::block_cache::BlockCache;
    use crate::store::local::LocalStore;

    fn key(number: u64) -> InternalKey {
        InternalKey::new(&number.to_be_bytes(), SeqNo(1), ValueKind::Value)
    }

    /// A cache of `tables_max` tables over a store with tables 1 to `count`, each holding its own
    /// number; and the size they all have.
    fn cache(count: u64, tables_max: usize) -> (Arc<dyn TableStore>, TableCache, u64) {
        let file_system = Env::memory().file_system;
        file_system.create_dir(Path::new("db"), Site::DbDirCreate).unwrap();
        let store: Arc<dyn TableStore> = Arc::new(LocalStore::new(file_system, Path::new("db")));
        let order = InternalOrder::new(UserOrder::Bytewise);
        let settings = TableSettings {
            order: order.clone(),
            block_bytes: 4096,
            restart_interval: 16,
            compression: Compression::None,
            filter: None,
        };
        let mut size = 0;
        for number in 1..=count {
            let file = store.create(FileNumber(number)).unwrap();
            let mut builder = TableBuilder::new(file, FileNumber(number), settings.clone());
            builder.add(key(number).as_bytes(), b"value").unwrap();
            size = builder.finish().unwrap().bytes;
        }
        let blocks = Arc::new(BlockCache::new(1 << 20));
        let filter = Some(BloomFilter::new(10).into());
        let read = ReadSettings { order, filter, check_places: true };
        (store.clone(), TableCache::new(store, read, blocks, tables_max), size)
    }

    #[test]
    fn tables_stay_open_until_evicted_and_never_more_than_allowed() {
        let (store, cache, size) = cache(40, 8);
        let first = cache.get(FileNumber(1), size).unwrap();
        assert!(Arc::ptr_eq(&first, &cache.get(FileNumber(1), size).unwrap()));
        for number in 1..=40 {
            let table = cache.get(FileNumber(number), size).unwrap();
            let found = table.get(key(number).as_bytes(), GetOptions::default(), |_, _| ());
            assert!(found.unwrap().is_some(), "each table has blocks of its own in the cache");
            assert!(cache.len() <= 8);
        }
        cache.evict(FileNumber(40));
        store.remove(FileNumber(40)).unwrap();
        assert!(cache.get(FileNumber(40), size).err().unwrap().is_not_found());
        // Whoever holds a table reads on, evicted or not.
        assert!(first.get(key(1).as_bytes(), GetOptions::default(), |_, _| ()).unwrap().is_some());
    }

    #[test]
    fn an_open_table_lies_at_its_place_and_nowhere_else() {
        let (_, cache, size) = cache(10, 4);
        let places: Vec<Arc<TablePlace>> = (0..=10).map(|_| Arc::default()).collect();
        let get = |number: u64| {
            cache.get_at(&places[number as usize], (FileNumber(number), size)).unwrap()
        };
        let filled = || (1..=10).filter(|&at| places[at].look().is_some()).collect::<Vec<_>>();
        let by_number = cache.get(FileNumber(1), size).unwrap();
        assert_eq!(filled(), [], "nobody has said where");
        assert!(Arc::ptr_eq(&by_number, &get(1)) && Arc::ptr_eq(&by_number, &get(1)));
        (1..=10).for_each(|number| drop(get(number)));
        assert_eq!((filled().len(), cache.len()), (4, 4));
        cache.evict(FileNumber(10));
        assert!(places[10].look().is_none() && cache.len() == 3);
        // As where a manifest names a table twice: the last place counts.
        let number = FileNumber(filled()[0] as u64);
        let other = Arc::default();
        let table = cache.get_at(&other, (number, size)).unwrap();
        assert!(other.look().as_ref().is_some_and(|there| Arc::ptr_eq(there, &table)));
        assert!(places[number.0 as usize].look().is_none());
    }

    #[test]
    fn tables_that_are_visited_stay_open_while_others_come_and_go() {
        let (_, cache, size) = cache(40, 8);
        let places: Vec<Arc<TablePlace>> = (0..=40).map(|_| Arc::default()).collect();
        let get = |number: u64| {
            cache.get_at(&places[number as usize], (FileNumber(number), size)).unwrap()
        };
        let hot = get(20);
        for number in (1..=40).chain(1..=40) {
            assert!(Arc::ptr_eq(&hot, &get(20)), "closed before table {number} came");
            drop(get(number));
            assert!(cache.len() <= 8);
        }
    }

    #[test]
    fn a_closed_table_leaves_nothing_in_the_block_cache() {
        let (_, cache, size) = cache(2, 8);
        let read = |number| {
            let table = cache.get(FileNumber(number), size).unwrap();
            let found = table.get(key(number).as_bytes(), GetOptions::default(), |_, _| ());
            assert!(found.unwrap().is_some());
            table
        };
        let first = read(1);
        let charge = cache.blocks.total_charge();
        drop(read(2));
        assert_eq!(cache.blocks.total_charge(), 2 * charge);
        cache.evict(FileNumber(1));
        assert_eq!(cache.blocks.total_charge(), 2 * charge, "somebody reads it");
        drop(first);
        assert_eq!(cache.blocks.total_charge(), charge);
        cache.evict(FileNumber(2));
        assert_eq!(cache.blocks.total_charge(), 0);
    }

    #[test]
    fn another_table_of_the_same_size_is_corruption() {
        let (store, cache, size) = cache(2, 8);
        let first = store.open(FileNumber(1)).unwrap();
        let mut bytes = vec![0; size as usize];
        first.read_at(&mut bytes, 0).unwrap();
        let mut second = store.create(FileNumber(2)).unwrap();
        second.append(&bytes, Site::TableAppend).unwrap();
        second.close(Site::TableClose).unwrap();
        let error = cache.get(FileNumber(2), size).err().unwrap();
        assert!(error.is_corruption());
        assert_eq!(error.message(), "this is table 1 under the name of 2");
        assert!(error.file().unwrap().ends_with("000002.ldb"));
        assert!(cache.get(FileNumber(1), size).is_ok());
    }

    #[test]
    fn a_size_other_than_the_manifests_is_corruption() {
        let (_, cache, size) = cache(1, 8);
        let error = cache.get(FileNumber(1), size + 1).err().unwrap();
        assert!(error.is_corruption());
        assert!(error.file().unwrap().ends_with("000001.ldb"));
        assert!(cache.get(FileNumber(1), size).is_ok());
    }

    #[test]
    fn filters_are_made_as_long_as_they_are_wanted_and_wishes_do_not_pile_up() {
        let (_, cache, size) = cache(2, 8);
        let table = cache.get(FileNumber(1), size).unwrap();
        cache.want_filter(FileNumber(1), size);
        assert!(cache.make_a_filter(&|| false) && table.late_filter_memory() == 0);
        table.make_filter(Limit { keys: 0, goes_on: &|| true }).unwrap();
        assert_eq!(table.late_filter_memory(), 0, "it holds a key too many");
        cache.want_filter(FileNumber(1), size);
        assert!(cache.make_a_filter(&|| true) && table.late_filter_memory() > 0);
        let finds = |user: &[u8]| {
            let key = InternalKey::new(user, SeqNo(1), ValueKind::Value);
            let found = table.get(key.as_bytes(), GetOptions::default(), |_, _| ());
            found.unwrap().is_some()
        };
        assert!(finds(&1_u64.to_be_bytes()));
        let found = (0..8).filter(|&zeros| finds(&[0; 8][..zeros])).count();
        assert!(found < 4, "without the filter each of 8 would find key 1, not only {found}");
        cache.want_filter(FileNumber(3), size);
        assert!(cache.make_a_filter(&|| true), "a table that is gone");
        (0..3 * FILTERLESS_MAX).for_each(|_| cache.want_filter(FileNumber(2), size));
        let made = std::iter::from_fn(|| cache.make_a_filter(&|| true).then_some(()));
        assert_eq!(made.count(), FILTERLESS_MAX);
    }
}
