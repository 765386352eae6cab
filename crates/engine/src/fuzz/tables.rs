//! Bodies for tables and their parts.

use std::cell::RefCell;
use std::sync::Arc;

use super::pieces;
use crate::base::coding::Reader;
use crate::base::comparator::{InternalOrder, UserOrder};
use crate::base::error::Result;
use crate::base::iter::InternalIterator;
use crate::base::key::user_key;
use crate::env::fs::{FileSystem, RandomAccessFile};
use crate::env::memory::MemoryFileSystem;
use crate::env::site::Site;
use crate::format::filename::FileNumber;
use crate::format::record::testing::ByteFile;
use crate::format::table::block::Block;
use crate::format::table::block_builder::BlockBuilder;
use crate::format::table::block_iter::BlockIter;
use crate::format::table::cache::CachedBlock;
use crate::format::table::compress::{self, Compression};
use crate::format::table::filter::{BloomFilter, Filter, FilterPolicy};
use crate::format::table::filter_block::{FilterBlock, FilterBlockBuilder, FilterSpan};
use crate::format::table::handle::{BlockHandle, FOOTER_BYTES, Footer};
use crate::format::table::index::Index;
use crate::format::table::properties::TableProperties;
use crate::format::table::snappy::{self, Packer};
use crate::format::table::{
    GetOptions, ReadSettings, ScanOptions, Table, TableBuilder, TableSettings, dump, verify,
};
use crate::store::block_cache::BlockCache;

/// Scans of hostile tables end here: an index may name one block many times.
const STEPS_MAX: usize = 5_000;

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// The input is a block; the same bytes are tried as an index.
pub(super) fn block(bytes: &[u8]) {
    let order = order();
    let _ = Index::parse(bytes.to_vec(), &order, 1 << 20).map(|index| check_index(&index));
    let Ok(block) = Block::new(bytes.to_vec()) else { return };
    let is_sound = block.check().is_ok();
    let mut iter = BlockIter::new(order.clone());
    iter.set_block(Arc::new(CachedBlock::new(block)));
    let forward = scan(&mut iter);
    let backward = scan_back(&mut iter);
    let Ok(entries) = &forward else {
        for target in [&[0; 8][..], &[0xff; 12]] {
            let _ = iter.seek(target);
        }
        return;
    };
    let ascends = entries.is_sorted_by(|a, b| order.compare(&a.0, &b.0).is_lt());
    if is_sound && entries.len() < STEPS_MAX {
        assert_eq!(reversed(backward.expect("a sound block reads backward")), *entries);
    }
    if is_sound && ascends {
        check_seeks(&mut iter, &order, entries);
        check_rebuilt(&order, entries, 1 + bytes.len() % 17);
    } else {
        entries.iter().take(50).for_each(|(key, _)| drop(iter.seek(key)));
    }
}

/// Such entries in a block of our own come back.
fn check_rebuilt(order: &InternalOrder, entries: &Entries, interval: usize) {
    let mut builder = BlockBuilder::new(interval);
    entries.iter().for_each(|(key, value)| builder.add(key, value));
    let block = Block::new(builder.finish().to_vec()).expect("a built block is one");
    block.check().expect("a built block is sound");
    let mut iter = BlockIter::new(order.clone());
    iter.set_block(Arc::new(CachedBlock::new(block)));
    assert_eq!(scan(&mut iter).expect("a built block reads"), *entries);
    assert_eq!(reversed(scan_back(&mut iter).expect("a built block reads")), *entries);
    check_seeks(&mut iter, order, entries);
}

/// Seeking finds what a search of the list finds.
fn check_seeks(iter: &mut dyn InternalIterator, order: &InternalOrder, entries: &Entries) {
    let step = 1 + entries.len() / 20;
    for (key, _) in entries.iter().step_by(step) {
        let (mut before, mut behind) = (key.clone(), user_key(key).to_vec());
        before.pop();
        behind.extend_from_slice(&[0; 9]);
        for target in [key, &before, &behind] {
            if target.len() < 8 {
                continue;
            }
            iter.seek(target).expect("a sound block can be searched");
            let expected = entries.iter().find(|(key, _)| order.compare(key, target).is_ge());
            assert_eq!(iter.valid().then(|| iter.key()), expected.map(|(key, _)| &key[..]));
        }
    }
}

fn check_index(index: &Index) {
    for at in (0..index.len()).take(100) {
        index.handle(at).expect("parse has checked every handle");
        assert!(index.find(index.key(at)) <= index.len());
    }
}

/// The whole input is a table.
pub(super) fn table(bytes: &[u8]) {
    let file = ByteFile::new("000007.ldb", bytes);
    let Ok(table) = open(file) else { return };
    let _ = dump::dump(&table, &mut Sink(0));
    let forward = scan(&mut table.iter(ScanOptions::default()));
    let backward = scan_back(&mut table.iter(ScanOptions::for_compaction()));
    let targets = [&[0; 8][..], &[0xff; 12], b"key00000\x01\x02\0\0\0\0\0\0"];
    for target in targets {
        let _ = table.get(target, GetOptions::default(), |_, _| ());
        table.approximate_offset_of(target);
    }
    if verify::verify(&table).is_err() {
        if let Ok(entries) = forward {
            let mut iter = table.iter(ScanOptions::default());
            for (key, _) in entries.iter().take(20) {
                let _ =
                    iter.seek(key).and_then(|()| if iter.valid() { iter.prev() } else { Ok(()) });
            }
        }
        return;
    }
    let entries = forward.expect("a verified table reads");
    if entries.len() >= STEPS_MAX {
        return;
    }
    assert_eq!(reversed(backward.expect("a verified table reads")), entries);
    let step = 1 + entries.len() / 20;
    for (key, _) in entries.iter().step_by(step) {
        let first = entries.iter().find(|(other, _)| order().compare(other, key).is_eq());
        let found = table.get(key, GetOptions::default(), |k, v| (k.to_vec(), v.to_vec()));
        assert_eq!(found.expect("a verified table reads").as_ref(), first);
    }
    let rebuilt = open(rebuild(&entries)).expect("a built table opens");
    verify::verify(&rebuilt).expect("a built table is sound");
    assert_eq!(scan(&mut rebuilt.iter(ScanOptions::default())).ok(), Some(entries));
}

fn open(file: Arc<dyn RandomAccessFile>) -> Result<Arc<Table>> {
    let settings =
        ReadSettings { order: order(), filter: Some(bloom().into()), check_places: true };
    Table::open(file, settings, Arc::new(BlockCache::new(0))).map(Arc::new)
}

fn rebuild(entries: &Entries) -> Arc<dyn RandomAccessFile> {
    let fs = MemoryFileSystem::new();
    let path = std::path::Path::new("/000008.ldb");
    let file = fs.create(path, Site::TableCreate).expect("memory can be written");
    let settings = TableSettings {
        order: order(),
        block_bytes: 128,
        restart_interval: 3,
        compression: Compression::Snappy,
        filter: Some(bloom().into()),
    };
    let mut builder = TableBuilder::new(file, FileNumber(8), settings);
    for (key, value) in entries {
        builder.add(key, value).expect("memory can be written");
    }
    builder.finish().expect("memory can be written");
    fs.open(path).expect("it was just written")
}

/// The input is a filter block; and, cut into pieces, keys to make one of.
pub(super) fn filter(bytes: &[u8]) {
    let Some((&bits, rest)) = bytes.split_first() else { return };
    let policy = match bits {
        128.. => BloomFilter::wide(usize::from(bits % 64)),
        _ => BloomFilter::new(usize::from(bits % 64)),
    };
    let keys = pieces(rest);
    if let Some(hostile) = FilterBlock::parse(Filter::from(policy), rest.to_vec()) {
        for offset in [0, 1, 2048, 1 << 31, u64::MAX] {
            hostile.whole(offset);
            for key in keys.iter().take(4) {
                hostile.may_match(offset, key);
            }
        }
    }
    policy.may_match(b"key", rest);

    let mut builder = FilterBlockBuilder::new(policy.into(), FilterSpan::Table);
    let mut offset = 0;
    for (at, key) in keys.iter().enumerate() {
        if at % 3 == 0 {
            builder.start_block(offset);
            // Now and then as far apart as no table reaches, for the widest of spans.
            offset += if key.first() == Some(&0xff) { 1 << 40 } else { 4096 };
        }
        builder.add_key(key);
    }
    let built = builder.finish();
    let block = FilterBlock::parse(policy.into(), built).expect("a built filter block is one");
    assert!(keys.is_empty() || block.whole(offset.saturating_sub(1 << 40)).is_some());
    assert!(keys.iter().all(|key| block.may_match(0, key)), "a filter knows its keys");
}

/// The input is a footer, a block handle and properties.
pub(super) fn footer(bytes: &[u8]) {
    if let Ok(footer) = Footer::decode(bytes) {
        let mut again = Vec::new();
        footer.encode(&mut again);
        assert_eq!(again.len(), FOOTER_BYTES);
        assert_eq!(Footer::decode(&again).ok(), Some(footer));
    }
    if let Some(handle) = BlockHandle::decode(&mut Reader::new(bytes)) {
        let mut again = Vec::new();
        handle.encode(&mut again);
        assert_eq!(BlockHandle::decode(&mut Reader::new(&again)), Some(handle));
        for len in [0, 1 << 20, u64::MAX] {
            assert!(handle.end_within(len).is_none_or(|end| end <= len && handle.offset < end));
        }
        let footer = Footer { metaindex: handle, index: handle };
        let mut encoded = Vec::new();
        footer.encode(&mut encoded);
        assert_eq!(Footer::decode(&encoded).ok(), Some(footer));
    }
    if let Ok(properties) = TableProperties::decode(bytes) {
        assert_eq!(TableProperties::decode(&properties.encode()).ok(), Some(properties));
    }
}

thread_local! {
    /// Kept from input to input, as readers keep it: what it held must never show.
    static KEPT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    /// Kept as writers keep it: what it packed before must not show either.
    static PACKER: RefCell<Packer> = RefCell::new(Packer::new());
}

/// The first byte is the type of a stored block, and whether large claims are put to the test.
pub(super) fn decompress(bytes: &[u8]) {
    const LARGE: u8 = 0xa0;
    /// What is packed is repeated until Snappy cuts it.
    const LONG: u8 = 0x50;
    const LONG_BYTES: usize = 70_000;
    let Some((&mode, stored)) = bytes.split_first() else { return };
    // Zeroing 64 MiB takes as long as a thousand other inputs.
    let claimed = claimed_bytes(stored);
    if mode & 0xf0 == LARGE || claimed.is_none_or(|bytes| !(1 << 18..=64 << 20).contains(&bytes)) {
        KEPT.with_borrow_mut(|kept| {
            let mut fresh = Vec::new();
            let first = compress::decompress(mode % 4, stored, kept);
            assert!(kept.len() <= (stored.len() * 256).max(64 << 20), "bounded by its input");
            let second = compress::decompress(mode % 4, stored, &mut fresh);
            assert_eq!(first.is_ok(), second.is_ok());
            assert!(first.is_err() || *kept == fresh, "what was in the buffer shows");
            kept.truncate(1 << 16);
        });
    }
    if mode & 0x0c == 0 {
        check_compressed(Compression::Snappy, stored);
        check_packed(stored);
        if mode & 0xf0 == LONG {
            check_packed(&stored.repeat(1 + LONG_BYTES / stored.len().max(1)));
        }
    }
    if mode & 0x1c == 0x04 {
        check_compressed(Compression::Zstd(i32::from(mode >> 5) - 3), stored);
    }
}

/// What the header of a Zstandard frame says.
fn claimed_bytes(stored: &[u8]) -> Option<u64> {
    zstd::zstd_safe::get_frame_content_size(stored).ok().flatten()
}

fn check_compressed(compression: Compression, raw: &[u8]) {
    // Without a codec in this build there is nothing to check.
    let Ok(Some(mut codec)) = compression.compressor() else { return };
    let mut packed = Vec::new();
    if let Some(len) = compress::compress_if_worth(&mut *codec, raw, &mut packed) {
        let mut unpacked = Vec::new();
        compress::decompress(codec.id(), &packed[..len], &mut unpacked).expect("our own block");
        assert_eq!(unpacked, raw);
    }
}

/// What our Snappy makes of any bytes, also of those that it is not worth for.
fn check_packed(raw: &[u8]) {
    let (mut packed, mut unpacked) = (Vec::new(), Vec::new());
    let len = PACKER.with_borrow_mut(|packer| packer.pack(raw, &mut packed)).expect("not 4 GiB");
    snappy::unpack(&packed[..len], raw.len(), &mut unpacked).expect("our own bytes");
    assert_eq!(unpacked, raw);
    let mut fresh = Vec::new();
    let fresh_len = Packer::new().pack(raw, &mut fresh);
    assert!(fresh_len == Some(len) && fresh[..len] == packed[..len], "what was packed shows");
}

fn order() -> InternalOrder {
    InternalOrder::new(UserOrder::Bytewise)
}

fn bloom() -> BloomFilter {
    BloomFilter::new(10)
}

fn scan(iter: &mut dyn InternalIterator) -> Result<Entries> {
    let mut entries = Entries::new();
    iter.seek_to_first()?;
    while iter.valid() && entries.len() < STEPS_MAX {
        entries.push((iter.key().to_vec(), iter.value().to_vec()));
        iter.next()?;
    }
    Ok(entries)
}

fn scan_back(iter: &mut dyn InternalIterator) -> Result<Entries> {
    let mut entries = Entries::new();
    iter.seek_to_last()?;
    while iter.valid() && entries.len() < STEPS_MAX {
        entries.push((iter.key().to_vec(), iter.value().to_vec()));
        iter.prev()?;
    }
    Ok(entries)
}

fn reversed(mut entries: Entries) -> Entries {
    entries.reverse();
    entries
}

/// Takes text up to some length, so that no hostile table is printed for seconds.
struct Sink(usize);

impl std::fmt::Write for Sink {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0 += text.len();
        if self.0 < 1 << 20 { Ok(()) } else { Err(std::fmt::Error) }
    }
}
