//! Tables that are read most are kept in memory as they are stored: to read a block of such a one takes no call to the
//! system, which is a third of what it takes otherwise. What they take is bounded, and the hottest win.
//!
//! A look sorts the open tables. Unless there was room for one more, twice as many reads pass until the next: few say
//! little, and tables that are read alike would change places by chance.
//!
//! **Concurrency.** Housekeeping looks; readers only count, and ring ([`Heat`]).
//!
//! [`Heat`]: crate::format::table::heat::Heat

use std::cmp::Reverse;
use std::sync::Arc;

use crate::format::table::Table;
use crate::format::table::heat::READS_TO_RING;

/// A table that was read more rarely lately is not worth its memory.
const READS_MIN: u32 = READS_TO_RING / 2;
/// A resident is let go for another table that is read more than so many times as often, for each of its bytes.
const HYSTERESIS: u64 = 2;
const READS_TO_RING_MAX: u32 = READS_TO_RING << 10;

pub(crate) struct Residents {
    /// What they take.
    bytes: u64,
    /// What the system lets them take.
    bytes_possible: u64,
    reads_to_ring: u32,
}

/// An open table, and how much it was read lately.
struct Candidate<'a> {
    table: &'a Table,
    reads: u32,
}

impl Default for Residents {
    fn default() -> Self {
        Residents { bytes: 0, bytes_possible: u64::MAX, reads_to_ring: READS_TO_RING }
    }
}

impl Residents {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Keeps those of `tables`, which are all that are open, that are read most, up to `bytes_max`; lets others go.
    pub(crate) fn settle(&mut self, tables: &[Arc<Table>], bytes_max: u64) {
        let mut candidates: Vec<_> = tables.iter().map(Candidate::new).collect();
        candidates.sort_by_cached_key(|candidate| Reverse(candidate.worth()));
        let mut room = bytes_max;
        let (chosen, others): (Vec<_>, Vec<_>) = candidates.into_iter().partition(|candidate| {
            let takes = candidate.is_warm() && candidate.bytes() <= room;
            room -= if takes { candidate.bytes() } else { 0 };
            takes
        });
        let (stay, come): (Vec<_>, Vec<_>) = chosen.into_iter().partition(Candidate::is_resident);
        let (go, others): (Vec<_>, Vec<_>) = others.into_iter().partition(Candidate::is_resident);
        go.iter().for_each(|candidate| candidate.table.file().let_go());
        self.bytes = stay.iter().map(Candidate::bytes).sum();
        let (came, refused): (Vec<_>, Vec<_>) =
            come.into_iter().partition(|candidate| self.take_in(candidate));
        let had_room = go.is_empty() && !came.is_empty();
        let twice = (2 * self.reads_to_ring).min(READS_TO_RING_MAX);
        self.reads_to_ring = if had_room { READS_TO_RING } else { twice };
        for candidate in stay.iter().chain(&came) {
            candidate.table.heat().settle(true, 0);
        }
        for candidate in go.iter().chain(&others).chain(&refused) {
            candidate.table.heat().settle(false, self.reads_to_ring);
        }
    }

    /// False if the system refuses; it is not asked for so much again.
    fn take_in(&mut self, candidate: &Candidate<'_>) -> bool {
        let bytes = self.bytes + candidate.bytes();
        if bytes > self.bytes_possible {
            return false;
        }
        if !candidate.table.file().keep_in_memory() {
            self.bytes_possible = bytes - 1;
            return false;
        }
        self.bytes = bytes;
        true
    }

    /// A table's file is to be removed.
    pub(crate) fn forget(&mut self, table: &Table) {
        if table.heat().is_resident() {
            table.file().let_go();
            table.heat().settle(false, 0);
            self.bytes = self.bytes.saturating_sub(table.file().len());
        }
    }
}

impl<'a> Candidate<'a> {
    fn new(table: &'a Arc<Table>) -> Self {
        Candidate { reads: table.heat().look(), table }
    }

    fn bytes(&self) -> u64 {
        self.table.file().len()
    }

    fn is_resident(&self) -> bool {
        self.table.heat().is_resident()
    }

    /// Who is there may stay, as long as nobody else needs the room.
    fn is_warm(&self) -> bool {
        self.is_resident() || self.reads >= READS_MIN
    }

    /// Reads for a mebibyte.
    fn worth(&self) -> u64 {
        let bonus = if self.is_resident() { HYSTERESIS } else { 1 };
        (u64::from(self.reads) << 20) * bonus / self.bytes().max(1)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use super::*;
    use crate::base::comparator::{InternalOrder, UserOrder};
    use crate::base::error::Result;
    use crate::base::key::{InternalKey, SeqNo, ValueKind};
    use crate::env::Env;
    use crate::env::fs::RandomAccessFile;
    use crate::env::site::Site;
    use crate::format::filename::FileNumber;
    use crate::format::table::compress::Compression;
    use crate::format::table::{ReadSettings, TableBuilder, TableSettings};
    use crate::store::block_cache::BlockCache;

    /// A file of which the system keeps nothing in memory; how often it was asked.
    struct Refused(Arc<dyn RandomAccessFile>, AtomicU32);

    impl RandomAccessFile for Refused {
        fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
            self.0.read_at(buf, offset)
        }
        fn len(&self) -> u64 {
            self.0.len()
        }
        fn keep_in_memory(&self) -> bool {
            self.1.fetch_add(1, Relaxed);
            false
        }
        fn path(&self) -> &Path {
            self.0.path()
        }
    }

    fn table(file: Arc<dyn RandomAccessFile>) -> Arc<Table> {
        let order = InternalOrder::new(UserOrder::Bytewise);
        let read = ReadSettings { order, filter: None, check_places: true };
        Arc::new(Table::open(file, read, Arc::new(BlockCache::new(0))).unwrap())
    }

    fn tables<const N: usize>(entries: [u64; N]) -> [Arc<Table>; N] {
        entries.map(|entries| table(file(entries)))
    }

    /// A table with so many entries of a hundred bytes each.
    fn file(entries: u64) -> Arc<dyn RandomAccessFile> {
        let fs = Env::memory().file_system;
        let settings = TableSettings {
            order: InternalOrder::new(UserOrder::Bytewise),
            block_bytes: 4096,
            restart_interval: 16,
            compression: Compression::None,
            filter: None,
        };
        let file = fs.create("table".as_ref(), Site::TableCreate).unwrap();
        let mut builder = TableBuilder::new(file, FileNumber(1), settings);
        for number in 0..entries {
            let key = InternalKey::new(&number.to_be_bytes(), SeqNo(1), ValueKind::Value);
            builder.add(key.as_bytes(), &[7; 100]).unwrap();
        }
        builder.finish().unwrap();
        fs.open("table".as_ref()).unwrap()
    }

    /// Reads so many blocks of each.
    fn read(tables: &[Arc<Table>], reads: &[u32]) {
        for (table, reads) in tables.iter().zip(reads) {
            (0..*reads).for_each(|_| table.heat().note_read());
        }
    }

    fn in_memory<const N: usize>(tables: &[Arc<Table>; N]) -> [bool; N] {
        tables.each_ref().map(|table| {
            assert_eq!(table.heat().is_resident(), table.file().is_in_memory());
            table.file().is_in_memory()
        })
    }

    #[test]
    fn the_hottest_stay_within_the_bounds() {
        let tables = tables([1000, 1000, 1000, 10_000, 100]);
        let size = tables[0].file().len();
        let mut residents = Residents::default();
        read(&tables, &[100, 300, 200, 900, READS_MIN - 1]);
        residents.settle(&tables, 2 * size + size / 2);
        assert_eq!(in_memory(&tables), [false, true, true, false, false]);
        assert_eq!(residents.bytes(), 2 * size);
        residents.settle(&tables, size);
        assert_eq!(in_memory(&tables), [false, true, false, false, false]);
        residents.settle(&tables, 0);
        assert_eq!((in_memory(&tables), residents.bytes()), ([false; 5], 0));
    }

    /// A table of ten times the size must be read ten times as often.
    #[test]
    fn what_counts_is_reads_for_each_byte() {
        let tables = tables([1000, 10_000]);
        let room = tables[1].file().len();
        let mut residents = Residents::default();
        read(&tables, &[100, 800]);
        residents.settle(&tables, room);
        assert_eq!(in_memory(&tables), [true, false]);
        read(&tables, &[100, 3500]);
        residents.settle(&tables, room);
        assert_eq!(in_memory(&tables), [false, true]);
    }

    /// Else two tables that are read alike would change places all the time.
    #[test]
    fn who_is_there_stays_until_another_is_far_hotter() {
        let tables = tables([1000, 1000]);
        let room = tables[0].file().len();
        let mut residents = Residents::default();
        read(&tables, &[100, 90]);
        residents.settle(&tables, room);
        read(&tables, &[100, 180]);
        residents.settle(&tables, room);
        assert_eq!(in_memory(&tables), [true, false]);
        residents.settle(&tables, room);
        assert_eq!(in_memory(&tables), [true, false], "nobody reads, and nobody wants the room");
        read(&tables, &[0, 300]);
        residents.settle(&tables, room);
        assert_eq!(in_memory(&tables), [false, true]);
    }

    #[test]
    fn looks_come_more_rarely_unless_there_is_room() {
        let tables = tables([1000, 1000]);
        let mut residents = Residents::default();
        let room = tables[0].file().len();
        read(&tables, &[100, 100]);
        residents.settle(&tables, room);
        assert_eq!(residents.reads_to_ring, READS_TO_RING);
        for times in [2, 4, 8] {
            residents.settle(&tables, room);
            assert_eq!(residents.reads_to_ring, times * READS_TO_RING);
        }
        (0..20).for_each(|_| residents.settle(&tables, room));
        assert_eq!(residents.reads_to_ring, READS_TO_RING_MAX);
        residents.settle(&tables, 0);
        assert_eq!(residents.reads_to_ring, READS_TO_RING_MAX);
        read(&tables, &[100, 0]);
        residents.settle(&tables, room);
        assert_eq!((in_memory(&tables), residents.reads_to_ring), ([true, false], READS_TO_RING));
        read(&tables, &[0, 1000]);
        residents.settle(&tables, room);
        assert_eq!(in_memory(&tables), [false, true]);
        assert_eq!(residents.reads_to_ring, 2 * READS_TO_RING, "they changed places");
    }

    #[test]
    fn a_system_that_refuses_is_not_asked_for_so_much_again() {
        let refused = Arc::new(Refused(file(1000), AtomicU32::new(0)));
        let [hot, small] = tables([1000, 500]);
        let tables = [hot, table(refused.clone()), small];
        let mut residents = Residents::default();
        for _ in 0..3 {
            read(&tables, &[900, 600, 200]);
            residents.settle(&tables, u64::MAX);
            assert_eq!(in_memory(&tables), [true, false, true], "what is less may be had");
            assert_eq!(residents.bytes(), tables[0].file().len() + tables[2].file().len());
            assert_eq!(refused.1.load(Relaxed), 1);
        }
    }

    #[test]
    fn a_table_that_goes_takes_nothing_along() {
        let tables = tables([1000, 1000]);
        let mut residents = Residents::default();
        read(&tables, &[100, 100]);
        residents.settle(&tables, u64::MAX);
        residents.forget(&tables[0]);
        assert_eq!(in_memory(&tables), [false, true]);
        assert_eq!(residents.bytes(), tables[1].file().len());
        residents.forget(&tables[0]);
        assert_eq!(residents.bytes(), tables[1].file().len());
    }
}
