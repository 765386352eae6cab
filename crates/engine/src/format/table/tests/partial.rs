//! Iterators over blocks that they unpack only as far as they come.

use super::*;
use crate::base::error::Error;
use crate::format::table::fetch::Ahead;
use crate::format::table::handle::BlockHandle;
use crate::format::table::{TRAILER_BYTES, compress};

/// Blocks go to no cache, and so are unpacked in part.
const UNCACHED: ScanOptions =
    ScanOptions { verify: true, fill_cache: false, ahead: Ahead::WhenSequential };

fn sample(order: &InternalOrder, block_bytes: usize) -> (TableSettings, Entries, Bytes) {
    let entries = sorted(order, mixed(400));
    let settings = TableSettings { block_bytes, ..settings(order) };
    let (file, _) = build(&settings, &entries);
    (settings, entries, file)
}

#[test]
fn moves_as_through_whole_blocks() {
    for order in orders() {
        for block_bytes in [1, 256, 4096, 64 << 10] {
            let (settings, entries, file) = sample(&order, block_bytes);
            let table = open(&settings, &file).unwrap();
            check_iter(&mut table.iter(UNCACHED), &order, &entries);
            // Each seek from a fresh iterator, and a few steps.
            for from in (0..entries.len()).step_by(7) {
                let mut iter = table.iter(UNCACHED);
                iter.seek(&entries[from].0).unwrap();
                for (key, value) in entries.iter().skip(from).take(12) {
                    assert_eq!((iter.key(), iter.value()), (&key[..], &value[..]));
                    iter.next().unwrap();
                }
            }
        }
    }
}

/// The entries up to an error or the end, and whether it was an error.
fn walk(table: &Arc<Table>, options: ScanOptions) -> (Entries, bool) {
    let (mut iter, mut entries) = (table.iter(options), Entries::new());
    let mut moved = iter.seek_to_first();
    while moved.is_ok() && iter.valid() {
        entries.push((iter.key().to_vec(), iter.value().to_vec()));
        moved = iter.next();
    }
    (entries, moved.is_err())
}

/// A block whose restart points do not begin with 0, as those of all writers do: nothing but its last bytes tells
/// where its entries end.
fn hides_its_end(stored: &[u8]) -> bool {
    let mut unpacked = Vec::new();
    let is_whole = compress::decompress(compress::SNAPPY, stored, &mut unpacked).is_ok();
    is_whole && Block::new(unpacked).is_ok_and(|block| block.restart(0) != 0)
}

/// Without checksums, what is broken may be told late, or never if all could be read, but no entry is missed; and what
/// is not broken reads the same.
#[test]
fn broken_blocks_are_not_cut_short() {
    let order = &orders()[0];
    let (settings, _, file) = sample(order, 4096);
    let bytes = file.to_vec();
    let BlockHandle { offset, size } = open(&settings, &file).unwrap().handle(0).unwrap();
    let (mut same, mut broken) = (0, 0);
    for at in offset..offset + size {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[at as usize] ^= 1 << bit;
            if hides_its_end(&damaged[offset as usize..(offset + size) as usize]) {
                continue;
            }
            let table = open(&settings, &Bytes::new(damaged)).unwrap();
            let options = |fill_cache| ScanOptions { verify: false, fill_cache, ..UNCACHED };
            let (partly, partly_failed) = walk(&table, options(false));
            let (whole, whole_failed) = walk(&table, options(true));
            assert!(partly.starts_with(&whole), "byte {at}, bit {bit}");
            assert!(whole_failed || partly == whole && !partly_failed, "byte {at}, bit {bit}");
            broken += usize::from(whole_failed);
            same += usize::from(!whole_failed);
        }
    }
    assert!(same > 100 && broken > 100, "{same} and {broken}");
}

#[test]
fn an_error_is_told_again_and_a_block_behind_it_is_read() {
    let order = &orders()[0];
    let (settings, entries, file) = sample(order, 1024);
    let mut bytes = file.to_vec();
    let BlockHandle { offset, size } = open(&settings, &file).unwrap().handle(1).unwrap();
    bytes[(offset + size / 2) as usize] ^= 1;
    let table = open(&settings, &Bytes::new(bytes)).unwrap();
    let mut iter = table.iter(UNCACHED);
    let bad = table.index().key(1).to_vec();
    for _ in 0..3 {
        assert!(iter.seek(&bad).is_err_and(|error| error.is_corruption()));
        assert!(!iter.valid());
        iter.seek_to_last().unwrap();
        assert_eq!(iter.key(), entries.last().unwrap().0);
    }
}

/// A file with a byte that cannot be read.
struct Torn(Bytes, u64);

impl RandomAccessFile for Torn {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        match (offset..offset + buf.len() as u64).contains(&self.1) {
            true => Err(Error::new(ErrorKind::Io, "a bad sector")),
            false => self.0.read_at(buf, offset),
        }
    }
    fn len(&self) -> u64 {
        self.0.len()
    }
    fn path(&self) -> &Path {
        self.0.path()
    }
}

#[test]
fn a_bad_sector_ahead_costs_no_block_before_it() {
    let order = &orders()[0];
    let entries = sorted(order, mixed(4000));
    let settings = TableSettings { filter: None, ..settings(order) };
    let (file, _) = build(&settings, &entries);
    let torn_at = file.len() / 2;
    let settings = ReadSettings { order: settings.order, filter: None, check_places: true };
    let cache = Arc::new(EveryBlock);
    let table = Table::open(Arc::new(Torn(file, torn_at)), settings, cache).unwrap();
    let table = Arc::new(table);
    let sound = (0..table.index().len())
        .take_while(|block| {
            let handle = table.handle(*block).unwrap();
            handle.offset + handle.size + TRAILER_BYTES as u64 <= torn_at
        })
        .last()
        .unwrap();
    let last = table.index().key(sound);
    let expected = entries.iter().filter(|(key, _)| order.compare(key, last).is_le()).count();
    for options in [UNCACHED, ScanOptions::for_compaction()] {
        let (read, failed) = walk(&table, options);
        assert!(failed && read == entries[..expected], "{} of {expected}", read.len());
    }
}
