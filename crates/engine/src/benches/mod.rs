//! Parts of the engine by themselves, for the benchmarks in `crates/engine/benches`: each behind a type
//! that shows nothing of what it wraps. Builds with `--cfg benches` have this module, as do the
//! engine's own tests. No other build holds it, so it is no part of the API.
//!
//! Whatever fails here panics: there is nothing to measure then.

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use crate::base::checksum;
use crate::base::comparator::{InternalOrder, UserOrder};
use crate::base::iter::InternalIterator;
use crate::base::key::{SeqNo, ValueKind, pack_tag};
use crate::base::merging::MergingIter;
use crate::db::write::wal::{LogPlace, Wal};
use crate::env::Env;
use crate::env::fs::FileSystem;
use crate::env::memory::MemoryFileSystem;
use crate::env::site::Site;
use crate::format::filename::{FileName, FileNumber};
use crate::format::table::block::Block;
use crate::format::table::block_builder::BlockBuilder;
use crate::format::table::block_iter::BlockIter;
use crate::format::table::cache::CachedBlock;
use crate::format::table::compress::Compression;
use crate::format::table::snappy::{Packer, unpack};
use crate::format::table::{
    GetOptions, ReadSettings, ScanOptions, Table, TableBuilder, TableSettings,
};
use crate::memtable::{Inserter, MemTable};
use crate::store::block_cache::BlockCache;

/// Keys and values, in the order of the keys.
pub type Entries = Vec<(Vec<u8>, Vec<u8>)>;

const WRITTEN: &str = "memory can be written";
const SOUND: &str = "what was just built is sound";

/// The checksum of logs and tables.
pub fn crc32c(bytes: &[u8]) -> u32 {
    checksum::crc32c(bytes)
}

/// A memtable and the right to insert into it.
pub struct Memtable {
    table: Arc<MemTable>,
    inserter: Inserter,
    seqno: u64,
}

impl Memtable {
    /// An empty one.
    #[expect(clippy::new_without_default, reason = "a default would tell nobody anything")]
    pub fn new() -> Self {
        let (table, inserter) = MemTable::new(UserOrder::Bytewise, 4 << 20, 1);
        Memtable { table, inserter, seqno: 0 }
    }

    /// Inserts a value.
    pub fn insert(&mut self, key: &[u8], value: &[u8]) {
        self.seqno += 1;
        self.inserter.add(SeqNo(self.seqno), ValueKind::Value, key, value);
    }

    /// Whether a key is there.
    pub fn get(&self, key: &[u8]) -> bool {
        self.table.get(key, SeqNo(self.seqno)).is_some()
    }
}

/// An iterator over one block in memory.
pub struct SortedBlock(BlockIter);

impl SortedBlock {
    /// A block of these entries.
    pub fn new(entries: &Entries) -> Self {
        let mut iter = BlockIter::new(order());
        iter.set_block(Arc::new(CachedBlock::new(block(entries))));
        SortedBlock(iter)
    }

    /// Moves to the first entry that is not before `key`; false if there is none.
    pub fn seek(&mut self, target: &InternalTarget) -> bool {
        self.0.seek(&target.0).expect(SOUND);
        self.0.valid()
    }
}

/// Snappy, kept from block to block as the builder of a table keeps it.
pub struct Packing {
    packer: Packer,
    out: Vec<u8>,
}

impl Packing {
    /// One that has packed nothing.
    #[expect(clippy::new_without_default, reason = "a default would tell nobody anything")]
    pub fn new() -> Self {
        Packing { packer: Packer::new(), out: Vec::new() }
    }

    /// Packs a block and returns its packed length.
    pub fn pack(&mut self, block: &[u8]) -> usize {
        self.packer.pack(block, &mut self.out).expect("blocks have less than 4 GiB")
    }
}

/// Packed blocks, unpacked one after the other into the same memory: so many that no processor learns them by heart.
pub struct Unpacking {
    blocks: Vec<Vec<u8>>,
    next: usize,
    out: Vec<u8>,
}

impl Unpacking {
    /// Of these blocks, of which there must be one.
    pub fn new(blocks: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let mut packer = Packer::new();
        let packed = blocks.into_iter().map(|block| {
            let mut packed = Vec::new();
            let len = packer.pack(&block, &mut packed).expect("blocks have less than 4 GiB");
            packed.truncate(len);
            packed
        });
        Unpacking { blocks: packed.collect(), next: 0, out: Vec::new() }
    }

    /// Unpacks the next block and returns its length.
    pub fn unpack(&mut self) -> usize {
        self.next = (self.next + 1) % self.blocks.len();
        unpack(&self.blocks[self.next], 1 << 30, &mut self.out).expect("it was packed");
        self.out.len()
    }
}

/// The bytes of a block of these entries.
pub fn block_bytes(entries: &Entries) -> Vec<u8> {
    let mut builder = BlockBuilder::new(16);
    entries.iter().for_each(|(key, value)| builder.add(&internal(key), value));
    builder.finish().to_vec()
}

/// A key as tables have it, made once: making it is no part of a search.
pub struct InternalTarget(Vec<u8>);

impl InternalTarget {
    /// The place before all versions of `key`.
    pub fn new(key: &[u8]) -> Self {
        InternalTarget(internal(key))
    }
}

/// An open table of which every block is in the cache.
pub struct CachedTable(Arc<Table>);

impl CachedTable {
    /// A table of these entries, without filter or compression.
    pub fn new(entries: &Entries) -> Self {
        let fs = MemoryFileSystem::new();
        let path = Path::new("/000007.ldb");
        let settings = TableSettings {
            order: order(),
            block_bytes: 4096,
            restart_interval: 16,
            compression: Compression::None,
            filter: None,
        };
        let file = fs.create(path, Site::TableCreate).expect(WRITTEN);
        let mut builder = TableBuilder::new(file, FileNumber(7), settings);
        for (key, value) in entries {
            builder.add(&internal(key), value).expect(WRITTEN);
        }
        builder.finish().expect(WRITTEN);
        let settings = ReadSettings { order: order(), filter: None, check_places: true };
        let file = fs.open(path).expect(SOUND);
        let table = Table::open(file, settings, Arc::new(BlockCache::new(64 << 20))).expect(SOUND);
        let table = Arc::new(table);
        let mut iter = table.iter(ScanOptions::default());
        iter.seek_to_first().expect(SOUND);
        while iter.valid() {
            iter.next().expect(SOUND);
        }
        CachedTable(table)
    }

    /// Whether a key is there.
    pub fn get(&self, target: &InternalTarget) -> bool {
        let is_same = |key: &[u8], _: &[u8]| *key == *target.0;
        self.0.get(&target.0, GetOptions::default(), is_same).expect(SOUND).unwrap_or(false)
    }
}

/// Some sorted runs as one.
pub struct Merge(MergingIter<BlockIter>);

impl Merge {
    /// Stands on the first entry of all.
    pub fn new(runs: &[Entries]) -> Self {
        let run = |entries| SortedBlock::new(entries).0;
        let mut merged = MergingIter::new(order(), runs.iter().map(run).collect());
        merged.seek_to_first().expect(SOUND);
        Merge(merged)
    }

    /// Moves on by one entry, from the last one to the first.
    pub fn next(&mut self) {
        self.0.next().expect(SOUND);
        if !self.0.valid() {
            self.0.seek_to_first().expect(SOUND);
        }
    }

    /// The current entry's key.
    pub fn key(&self) -> &[u8] {
        crate::base::key::user_key(self.0.key())
    }
}

/// How a log's file is written.
#[derive(Clone, Copy, Debug)]
pub enum LogKind {
    /// Through a memory map, where the file system has some.
    Mapped,
    /// By system calls.
    Written,
}

/// A write-ahead log on the disk, begun anew before it grows large.
pub struct Log<'a> {
    fs: Arc<dyn FileSystem>,
    dir: &'a Path,
    kind: LogKind,
    wal: Wal,
    bytes: u64,
}

/// As much as a write buffer's log has.
const LOG_BYTES_MAX: u64 = 4 << 20;

impl<'a> Log<'a> {
    /// Makes the first log in a folder.
    pub fn new(dir: &'a Path, kind: LogKind) -> Self {
        let fs = Env::posix().file_system;
        let wal = log(&fs, dir, kind, FileNumber(1));
        Log { fs, dir, kind, wal, bytes: 0 }
    }

    /// Appends a batch, without sync.
    pub fn append(&mut self, batch: &[u8]) {
        let appended = self.wal.append(SeqNo(1), &[batch]);
        self.bytes += appended.expect("the disk has room");
        if self.bytes > LOG_BYTES_MAX {
            self.begin_anew();
        }
    }

    #[cold]
    fn begin_anew(&mut self) {
        let old = self.wal.number();
        self.wal = log(&self.fs, self.dir, self.kind, FileNumber(old.0 + 1));
        let path = FileName::Wal(old).in_dir(self.dir);
        self.fs.remove_file(&path, Site::WalRemove).expect("it is there");
        self.bytes = 0;
    }
}

fn log(fs: &Arc<dyn FileSystem>, dir: &Path, kind: LogKind, number: FileNumber) -> Wal {
    let place = LogPlace { fs, dir, maps: matches!(kind, LogKind::Mapped) };
    Wal::create(&place, number).expect("the folder takes a log")
}

fn order() -> InternalOrder {
    InternalOrder::new(UserOrder::Bytewise)
}

/// All entries have one seqno.
fn internal(key: &[u8]) -> Vec<u8> {
    let mut internal = key.to_vec();
    internal.extend_from_slice(&pack_tag(SeqNo(1), ValueKind::Value).to_le_bytes());
    internal
}

fn block(entries: &Entries) -> Block {
    Block::new(block_bytes(entries)).expect(SOUND)
}
