//! Which reads of a table count, and how one is read that is in memory.

use super::*;

/// A file that is in memory: how many bytes were read of it.
struct InMemory(Bytes, AtomicUsize);

impl RandomAccessFile for InMemory {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.1.fetch_add(buf.len(), Relaxed);
        self.0.read_at(buf, offset)
    }
    fn len(&self) -> u64 {
        self.0.len()
    }
    fn is_in_memory(&self) -> bool {
        true
    }
    fn path(&self) -> &Path {
        self.0.path()
    }
}

fn entries() -> Entries {
    (0..1000).map(|i| entry(format!("{i:06}"), 1, [b'v'; 100])).collect()
}

fn scan(table: &Arc<Table>, options: ScanOptions) {
    let mut iter = table.iter(options);
    iter.seek_to_first().unwrap();
    while iter.valid() {
        iter.next().unwrap();
    }
}

#[test]
fn blocks_that_readers_had_to_read_count() {
    let order = &orders()[0];
    let settings = TableSettings { filter: None, ..settings(order) };
    let (file, _) = build(&settings, &entries());
    let table = open(&settings, &file).unwrap();
    let blocks = table.index().len() as u32;
    let counted = |read: &dyn Fn()| {
        while table.heat().look() > 0 {}
        read();
        table.heat().look()
    };
    let get = |fill_cache| {
        let options = GetOptions { fill_cache, ..GetOptions::default() };
        table.get(&entries()[500].0, options, |_, _| ()).unwrap().unwrap();
    };
    assert_eq!(counted(&|| get(false)), 1, "read for this once");
    assert_eq!(counted(&|| get(true)), 1);
    assert_eq!(counted(&|| get(true)), 0, "it is in the cache");
    assert_eq!(counted(&|| scan(&table, ScanOptions::for_compaction())), 0, "no reader");
    assert_eq!(counted(&|| scan(&table, ScanOptions::for_reads(true, false))), blocks - 1);
}

/// Nothing is saved by reading much at a time, and what is not needed is copied in vain.
#[test]
fn of_a_file_in_memory_no_more_is_read_than_needed() {
    let order = &orders()[0];
    let plain = TableSettings { compression: Compression::None, filter: None, ..settings(order) };
    let (bytes, _) = build(&plain, &entries());
    let file = Arc::new(InMemory(bytes, AtomicUsize::new(0)));
    let settings = ReadSettings { order: order.clone(), filter: None, check_places: true };
    let table = Table::open(file.clone(), settings, Arc::new(EveryBlock)).unwrap();
    let table = Arc::new(table);
    file.1.store(0, Relaxed);
    let mut iter = table.iter(ScanOptions::for_reads(true, false));
    iter.seek_to_first().unwrap();
    for index in 0..5 {
        while iter.block_index() == index {
            iter.next().unwrap();
        }
    }
    let six_blocks = table.index().handle(6).unwrap().offset;
    assert_eq!(file.1.load(Relaxed) as u64, six_blocks);
}
