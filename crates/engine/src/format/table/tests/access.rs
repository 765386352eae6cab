//! What files far away are told of reads: what they are for, and that bytes are damaged.

use super::*;
use crate::env::fs::Access;

/// A copy of a file, with a wrong byte until it is dropped.
struct Copied {
    file: Bytes,
    wrong_at: AtomicUsize,
    accesses: Mutex<Vec<Access>>,
    /// Whether there is something to copy it from.
    can_drop: bool,
}

const NOWHERE: usize = usize::MAX;

impl RandomAccessFile for Copied {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let read = self.file.read_at(buf, offset)?;
        if let Some(at) = self.wrong_at.load(Relaxed).checked_sub(offset as usize)
            && let Some(byte) = buf[..read].get_mut(at)
        {
            *byte ^= 1;
        }
        Ok(read)
    }
    fn read_for(&self, buf: &mut [u8], offset: u64, access: Access) -> Result<usize> {
        self.accesses.lock().push(access);
        self.read_at(buf, offset)
    }
    fn drop_copy(&self, offset: u64, len: usize) -> bool {
        let at = self.wrong_at.load(Relaxed);
        assert!((offset as usize..offset as usize + len).contains(&at), "{at} in {offset}+{len}");
        if self.can_drop {
            self.wrong_at.store(NOWHERE, Relaxed);
        }
        self.can_drop
    }
    fn len(&self) -> u64 {
        self.file.len()
    }
    fn path(&self) -> &Path {
        self.file.path()
    }
}

fn entries() -> Entries {
    (0..2000).map(|i| entry(format!("{i:06}"), 1, [b'v'; 100])).collect()
}

fn copied(compression: Compression, can_drop: bool) -> Arc<Copied> {
    let settings = TableSettings { compression, ..settings(&orders()[0]) };
    let (file, _) = build(&settings, &entries());
    let accesses = Mutex::new(Rank::Leaf, Vec::new());
    Arc::new(Copied { file, wrong_at: AtomicUsize::new(NOWHERE), accesses, can_drop })
}

fn open_copied(file: &Arc<Copied>) -> Result<Arc<Table>> {
    let filter = Some(BloomFilter::new(10).into());
    let settings = ReadSettings { order: orders()[0].clone(), filter, check_places: true };
    Table::open(file.clone(), settings, Arc::new(EveryBlock)).map(Arc::new)
}

fn get(table: &Table, nth: usize, fill_cache: bool) -> Result<Option<()>> {
    let options = GetOptions { fill_cache, ..GetOptions::default() };
    table.get(&entries()[nth].0, options, |_, _| ())
}

fn scan(table: &Arc<Table>, options: ScanOptions) -> Result<usize> {
    let (mut iter, mut count) = (table.iter(options), 0);
    iter.seek_to_first()?;
    while iter.valid() {
        count += 1;
        iter.next()?;
    }
    Ok(count)
}

#[test]
fn files_are_told_what_reads_are_for() {
    let file = copied(Compression::None, false);
    let told = |read: &dyn Fn()| {
        file.accesses.lock().clear();
        read();
        let mut accesses = file.accesses.lock().clone();
        accesses.dedup();
        accesses
    };
    let uncached = ScanOptions::for_reads(true, false);
    let table = open_copied(&file).unwrap();
    assert_eq!(told(&|| drop(open_copied(&file).unwrap())), [Access::Open]);
    assert_eq!(told(&|| assert!(get(&table, 7, true).unwrap().is_some())), [Access::Get]);
    assert_eq!(told(&|| assert!(get(&table, 1000, false).unwrap().is_some())), [Access::Get]);
    assert_eq!(told(&|| assert_eq!(scan(&table, uncached).unwrap(), 2000)), [Access::Scan]);
    let merge = ScanOptions::for_compaction();
    assert_eq!(told(&|| assert_eq!(scan(&table, merge).unwrap(), 2000)), [Access::Merge]);
}

/// Damage in what is read at opening, in a get, in a scan and in a merge: an error, unless the file can read it anew.
#[test]
fn a_damaged_copy_is_dropped_and_read_again() {
    for compression in [Compression::None, Compression::Snappy] {
        for can_drop in [true, false] {
            let file = copied(compression, can_drop);
            let sound = open_copied(&file).unwrap();
            let block = sound.handle(50).unwrap().offset as usize + 9;
            let first_of_block = (0..2000)
                .find(|nth| sound.index().find(&entries()[*nth].0) == 50)
                .expect("an entry of block 50");
            let index_at = file.file.len() as usize - 100;
            let check = |wrong_at: usize, read: &dyn Fn() -> Result<usize>| {
                file.wrong_at.store(wrong_at, Relaxed);
                let found = read();
                assert_eq!(found.is_ok(), can_drop, "{found:?} at {wrong_at}");
                let wrong_at = file.wrong_at.swap(NOWHERE, Relaxed);
                assert_eq!(wrong_at == NOWHERE, can_drop);
            };
            for fill_cache in [true, false] {
                check(block, &|| {
                    let table = open_copied(&file)?;
                    get(&table, first_of_block, fill_cache).map(|found| found.iter().count())
                });
            }
            let uncached = ScanOptions::for_reads(true, false);
            for options in [ScanOptions::default(), uncached, ScanOptions::for_compaction()] {
                check(block, &|| scan(&open_copied(&file)?, options));
            }
            check(index_at, &|| open_copied(&file).map(|_| 0));
        }
    }
}
