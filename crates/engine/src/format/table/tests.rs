//! Tables whole: written by the builder, read by everything else.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use proptest::prelude::*;

use crate::base::comparator::{Comparator, InternalOrder, UserOrder};
use crate::base::error::{ErrorKind, Result};
use crate::base::iter::InternalIterator;
use crate::base::key::{InternalKey, KeyHead, SEQNO_MAX, SeqNo, ValueKind, user_key};
use crate::base::sync::{Mutex, Rank};
use crate::env::fs::{RandomAccessFile, WritableFile};
use crate::env::site::Site;
use crate::format::filename::FileNumber;
use crate::format::table::block::Block;
use crate::format::table::block_builder::BlockBuilder;
use crate::format::table::block_iter::BlockIter;
use crate::format::table::builder::{TableBuilder, TableSettings, TableSummary};
use crate::format::table::cache::{Cache, CachedBlock, Shelf};
use crate::format::table::compress::Compression;
use crate::format::table::dump::dump;
use crate::format::table::filter::{BloomFilter, Filter, FilterKey, FilterPolicy};
use crate::format::table::filter_block::FilterSpan;
use crate::format::table::iter::ScanOptions;
use crate::format::table::reader::{GetOptions, ReadSettings, Table};
use crate::format::table::verify::verify;

mod access;
mod ahead;
mod heat;
mod hostile;
mod partial;
mod stretches;

/// The tables' own.
const NUMBER: FileNumber = FileNumber(7);

/// A file's bytes, shared between its writer and its readers; counts reads, and the bytes read.
#[derive(Clone)]
pub(super) struct Bytes(Arc<(Mutex<Vec<u8>>, AtomicUsize, AtomicUsize)>);

impl Bytes {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Bytes(Arc::new((Mutex::new(Rank::Leaf, bytes), AtomicUsize::new(0), AtomicUsize::new(0))))
    }

    pub(super) fn to_vec(&self) -> Vec<u8> {
        self.0.0.lock().clone()
    }

    fn reads(&self) -> usize {
        self.0.1.load(Relaxed)
    }

    fn bytes_read(&self) -> usize {
        self.0.2.load(Relaxed)
    }
}

impl WritableFile for Bytes {
    fn append(&mut self, data: &[u8], site: Site) -> Result<()> {
        assert_eq!(site, Site::TableAppend);
        self.0.0.lock().extend_from_slice(data);
        Ok(())
    }
    fn sync(&mut self, _: Site) -> Result<()> {
        Ok(())
    }
    fn close(&mut self, _: Site) -> Result<()> {
        Ok(())
    }
}

impl RandomAccessFile for Bytes {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.0.1.fetch_add(1, Relaxed);
        let bytes = self.0.0.lock();
        let rest = bytes.get(offset as usize..).unwrap_or_default();
        let len = rest.len().min(buf.len());
        self.0.2.fetch_add(len, Relaxed);
        buf[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }
    fn len(&self) -> u64 {
        self.0.0.lock().len() as u64
    }
    fn path(&self) -> &Path {
        Path::new("db/000007.ldb")
    }
}

/// Keeps everything.
struct EveryBlock;

impl Cache for EveryBlock {
    fn keep(&self, shelf: &Arc<Shelf>, place: usize, block: Arc<CachedBlock>) {
        shelf.put(place, block);
    }
    fn clear(&self, shelf: &Shelf) {
        (0..shelf.places()).for_each(|place| drop(shelf.take(place)));
    }
    fn total_charge(&self) -> u64 {
        0
    }
    fn new_id(&self) -> u64 {
        1
    }
    fn prune(&self) {}
}

/// Bytewise from the last byte to the first, with no shortening.
struct Backwards;

impl Comparator for Backwards {
    fn name(&self) -> &str {
        "test.Backwards"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        a.iter().rev().cmp(b.iter().rev())
    }
}

fn orders() -> [InternalOrder; 2] {
    [UserOrder::Bytewise, UserOrder::new(Some(Arc::new(Backwards)))].map(InternalOrder::new)
}

pub(super) fn settings(order: &InternalOrder) -> TableSettings {
    TableSettings {
        order: order.clone(),
        block_bytes: 256,
        restart_interval: 16,
        compression: Compression::Snappy,
        filter: Some(BloomFilter::new(10).into()),
    }
}

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn entry(user: impl AsRef<[u8]>, seqno: u64, value: impl AsRef<[u8]>) -> (Vec<u8>, Vec<u8>) {
    let key = InternalKey::new(user.as_ref(), SeqNo(seqno), ValueKind::Value);
    (key.into_bytes(), value.as_ref().to_vec())
}

pub(super) fn build(settings: &TableSettings, entries: &Entries) -> (Bytes, TableSummary) {
    build_spans(settings, entries, FilterSpan::Table)
}

fn build_spans(
    settings: &TableSettings,
    entries: &Entries,
    span: FilterSpan,
) -> (Bytes, TableSummary) {
    let file = Bytes::new(Vec::new());
    let writer = Box::new(file.clone());
    let mut builder = TableBuilder::new(writer, NUMBER, settings.clone()).with_filter_span(span);
    for (key, value) in entries {
        builder.add(key, value).unwrap();
    }
    let summary = builder.finish().unwrap();
    assert_eq!(summary.bytes, file.len());
    (file, summary)
}

pub(super) fn open(settings: &TableSettings, file: &Bytes) -> Result<Arc<Table>> {
    let settings = ReadSettings {
        order: settings.order.clone(),
        filter: settings.filter.clone(),
        check_places: true,
    };
    let cache = Arc::new(EveryBlock);
    Table::open(Arc::new(file.clone()), settings, cache).map(Arc::new)
}

fn sorted(order: &InternalOrder, mut entries: Entries) -> Entries {
    entries.sort_by(|a, b| order.compare(&a.0, &b.0));
    entries.dedup_by(|a, b| a.0 == b.0);
    entries
}

/// Some keys that share much, some that share nothing, several versions of each.
fn mixed(count: usize) -> Entries {
    let mut entries = Entries::new();
    for at in 0..count {
        let user = match at % 4 {
            0 => format!("{at:016}").into_bytes(),
            1 => vec![at as u8; at % 7],
            2 => format!("prefix/shared/by/many/{}", at / 3).into_bytes(),
            _ => vec![0xff; at % 40],
        };
        entries.push(entry(&user, 1000 + at as u64, vec![b'v'; at * 7 % 300]));
        if at % 5 == 0 {
            entries.push(entry(&user, 3 + at as u64 % 2, b"older"));
        }
    }
    entries
}

/// Gets from kept blocks go by the block's directory.
#[test]
fn gets_from_kept_blocks_find_the_same() {
    for order in orders() {
        let mut entries = mixed(300);
        entries.extend((0..300).map(|at| entry(format!("plain {at:06}"), 9, [b'v'; 50])));
        let entries = sorted(&order, entries);
        let settings = settings(&order);
        let (file, _) = build(&settings, &entries);
        let table = open(&settings, &file).unwrap();
        let reads_when_cached = |round: usize, before: usize| round == 0 || file.reads() == before;
        for round in 0..8 {
            let before = file.reads();
            for (key, value) in &entries {
                let get = |target: &[u8]| {
                    let own = |key: &[u8], value: &[u8]| (key.to_vec(), value.to_vec());
                    let found = table.get(target, GetOptions::default(), own).unwrap();
                    found.filter(|(key, _)| user_key(key) == user_key(target))
                };
                assert_eq!(get(key), Some((key.clone(), value.clone())), "round {round}");
                let user = user_key(key);
                let newest = entries.iter().find(|(key, _)| user_key(key) == user);
                assert_eq!(get(InternalKey::seek_to(user, SEQNO_MAX).as_bytes()).as_ref(), newest);
                assert_eq!(get(InternalKey::seek_to(user, SeqNo(1)).as_bytes()), None);
                let absent = [user, &b"\0"[..]].concat();
                if !entries.iter().any(|(key, _)| user_key(key) == absent) {
                    assert_eq!(get(InternalKey::seek_to(&absent, SEQNO_MAX).as_bytes()), None);
                }
            }
            assert!(reads_when_cached(round, before));
        }
        // Iterators seek by directories, too.
        check_iter(&mut table.iter(ScanOptions::default()), &order, &entries);
    }
}

/// Steps forward that tell of the heads lead to the same entries.
#[track_caller]
fn check_heads(iter: &mut dyn InternalIterator, order: &InternalOrder, entries: &Entries) {
    let head_of = |key: &[u8]| KeyHead::of(key, order.is_bytewise());
    iter.seek_to_first().unwrap();
    let mut head = entries.first().map_or(KeyHead::default(), |(key, _)| head_of(key));
    for (key, value) in entries {
        assert_eq!((iter.key(), iter.value()), (&key[..], &value[..]));
        assert_eq!(head, head_of(key));
        let went_on = iter.next_with_head(&mut head, order.is_bytewise()).unwrap();
        assert_eq!(went_on, iter.valid());
    }
    assert!(!iter.valid());
}

/// Checks every way of moving against the sorted list itself.
#[track_caller]
fn check_iter(iter: &mut dyn InternalIterator, order: &InternalOrder, entries: &Entries) {
    let at = |iter: &dyn InternalIterator| (iter.key().to_vec(), iter.value().to_vec());
    iter.seek_to_first().unwrap();
    for entry in entries {
        assert!(iter.valid());
        assert_eq!(at(iter), *entry);
        iter.next().unwrap();
    }
    assert!(!iter.valid());
    check_heads(iter, order, entries);
    iter.seek_to_last().unwrap();
    for entry in entries.iter().rev() {
        assert!(iter.valid());
        assert_eq!(at(iter), *entry);
        iter.prev().unwrap();
    }
    assert!(!iter.valid());
    let mut targets: Vec<Vec<u8>> = entries.iter().map(|(key, _)| key.clone()).collect();
    for (key, _) in entries {
        let user = user_key(key);
        targets.push(InternalKey::seek_to(user, SEQNO_MAX).into_bytes());
        targets.push(InternalKey::seek_to(user, SeqNo(500)).into_bytes());
        targets.push(InternalKey::seek_to(&[user, b"\0"].concat(), SEQNO_MAX).into_bytes());
        let shorter = &user[..user.len().saturating_sub(1)];
        targets.push(InternalKey::seek_to(shorter, SeqNo(1)).into_bytes());
    }
    for target in &targets {
        iter.seek(target).unwrap();
        let expected = entries.iter().position(|(key, _)| order.compare(key, target).is_ge());
        assert_eq!(iter.valid(), expected.is_some());
        let Some(expected) = expected else { continue };
        assert_eq!(at(iter), entries[expected]);
        // Turn round in the middle, both ways.
        iter.prev().unwrap();
        assert_eq!(iter.valid(), expected > 0);
        if expected > 0 {
            assert_eq!(at(iter), entries[expected - 1]);
            iter.next().unwrap();
            assert_eq!(at(iter), entries[expected]);
        }
    }
}

#[test]
fn blocks_of_every_restart_interval() {
    for order in orders() {
        for interval in [1, 2, 16, 1024] {
            for count in [0, 1, 2, 30, 200] {
                let entries = sorted(&order, mixed(count));
                let pairs = entries.iter().map(|(key, value)| (&key[..], &value[..]));
                let block = Block::new(BlockBuilder::build(interval, pairs)).unwrap();
                let mut iter = BlockIter::new(order.clone());
                iter.set_block(Arc::new(CachedBlock::new(block)));
                check_iter(&mut iter, &order, &entries);
            }
        }
    }
}

#[test]
fn a_block_without_restart_points_is_empty() {
    let mut iter = BlockIter::new(orders()[0].clone());
    iter.set_block(Arc::new(CachedBlock::new(Block::new(vec![0; 4]).unwrap())));
    iter.seek_to_first().unwrap();
    assert!(!iter.valid());
    iter.seek_to_last().unwrap();
    assert!(!iter.valid());
    iter.seek(&entry("foo", 1, "").0).unwrap();
    assert!(!iter.valid());
}

#[test]
fn tables_of_every_kind() {
    let mut compressions = vec![Compression::None, Compression::Snappy];
    if cfg!(feature = "zstd") {
        compressions.push(Compression::ZSTD);
    }
    for order in orders() {
        for &compression in &compressions {
            for (count, block_bytes) in [(0, 256), (1, 256), (3, 1), (300, 256), (300, 1 << 20)] {
                let entries = sorted(&order, mixed(count));
                let settings = TableSettings { compression, block_bytes, ..settings(&order) };
                let (file, summary) = build(&settings, &entries);
                let first = entries.first().map_or(&[][..], |(key, _)| key);
                let last = entries.last().map_or(&[][..], |(key, _)| key);
                assert_eq!(summary.smallest.as_bytes(), first);
                assert_eq!(summary.largest.as_bytes(), last);
                let table = open(&settings, &file).unwrap();
                check_iter(&mut table.iter(ScanOptions::default()), &order, &entries);
                check_iter(&mut table.iter(ScanOptions::for_compaction()), &order, &entries);
                check_gets(&table, &order, &entries);
                assert_eq!(verify(&table).unwrap(), summary.properties);
                assert_eq!(summary.properties.entries, entries.len() as u64);
            }
        }
    }
}

fn check_gets(table: &Table, order: &InternalOrder, entries: &Entries) {
    let get = |target: &[u8]| {
        let found = |key: &[u8], value: &[u8]| (key.to_vec(), value.to_vec());
        let found = table.get(target, GetOptions::default(), found).unwrap();
        found.filter(|(key, _)| user_key(key) == user_key(target))
    };
    for (key, _) in entries {
        for seqno in [SEQNO_MAX, SeqNo(500), SeqNo(3), SeqNo(0)] {
            let target = InternalKey::seek_to(user_key(key), seqno).into_bytes();
            let expected = entries.iter().find(|(key, _)| order.compare(key, &target).is_ge());
            let expected = expected.filter(|(key, _)| user_key(key) == user_key(&target));
            assert_eq!(get(&target).as_ref(), expected);
        }
        let absent = [user_key(key), b"?"].concat();
        assert_eq!(get(&InternalKey::seek_to(&absent, SEQNO_MAX).into_bytes()), None);
    }
}

#[test]
fn what_was_read_once_is_not_read_again() {
    let order = &orders()[0];
    let entries = sorted(order, mixed(200));
    let (file, _) = build(&settings(order), &entries);
    let table = open(&settings(order), &file).unwrap();
    assert_eq!(file.reads(), 1, "a small table opens with one read");
    let get = |options| table.get(&entries[50].0, options, |_, _| ()).unwrap().unwrap();
    get(GetOptions { fill_cache: false, ..GetOptions::default() });
    assert_eq!(file.reads(), 2);
    get(GetOptions::default());
    assert_eq!(file.reads(), 3);
    get(GetOptions::default());
    assert_eq!(file.reads(), 3);
    // The filter answers before anything is read.
    let absent = InternalKey::seek_to(b"absent", SEQNO_MAX).into_bytes();
    assert!(table.get(&absent, GetOptions::default(), |_, _| ()).unwrap().is_none());
    assert_eq!(file.reads(), 3);
    let mut iter = table.iter(ScanOptions::for_compaction());
    iter.seek_to_first().unwrap();
    while iter.valid() {
        iter.next().unwrap();
    }
    assert_eq!(file.reads(), 4, "a merge reads ahead");
}

#[test]
fn blocks_that_are_kept_ahead_are_not_read_again() {
    for order in orders() {
        let entries = sorted(&order, mixed(200));
        let (file, _) = build(&settings(&order), &entries);
        let table = open(&settings(&order), &file).unwrap();
        assert_eq!(table.used_percent(), 0);
        table.keep_all_blocks().unwrap();
        let reads = file.reads();
        assert_eq!(table.used_percent(), 0, "kept, but not used");
        for (at, (key, value)) in entries.iter().enumerate() {
            let own = |_: &[u8], value: &[u8]| value.to_vec();
            assert_eq!(table.get(key, GetOptions::default(), own).unwrap().as_ref(), Some(value));
            assert!(at < 100 || table.used_percent() > 25);
        }
        assert_eq!(table.used_percent(), 100);
        table.keep_all_blocks().unwrap();
        assert_eq!(file.reads(), reads, "all are there");
    }
}

#[test]
fn what_is_broken_is_told_when_it_is_kept_ahead() {
    let order = &orders()[0];
    let entries = sorted(order, mixed(200));
    let (file, _) = build(&settings(order), &entries);
    let mut bytes = file.to_vec();
    bytes[300] ^= 1;
    let table = open(&settings(order), &Bytes::new(bytes)).unwrap();
    let error = table.keep_all_blocks().unwrap_err();
    assert!(error.is_corruption() && error.file().is_some() && error.offset().is_some());
}

/// LevelDB's two estimates, with its tolerances.
#[test]
fn approximate_offsets() {
    let order = &orders()[0];
    let between = |value: u64, low: u64, high: u64| {
        assert!((low..=high).contains(&value), "{value} is not within {low}..={high}");
    };
    let offset = |table: &Table, user: &str| {
        table.approximate_offset_of(InternalKey::seek_to(user.as_bytes(), SEQNO_MAX).as_bytes())
    };
    let sizes = [("k01", 5), ("k02", 6), ("k03", 10_000), ("k04", 200_000), ("k05", 300_000)];
    let sizes = sizes.into_iter().chain([("k06", 1), ("k07", 100_000)]);
    let entries: Entries = sizes.map(|(user, len)| entry(user, 1, vec![b'x'; len])).collect();
    let plain = TableSettings {
        compression: Compression::None,
        block_bytes: 1024,
        filter: None,
        ..settings(order)
    };
    let table = open(&plain, &build(&plain, &entries).0).unwrap();
    for (user, low, high) in [
        ("abc", 0, 0),
        ("k01", 0, 0),
        ("k01a", 0, 0),
        ("k02", 0, 0),
        ("k03", 0, 0),
        ("k04", 10_000, 11_000),
        ("k04a", 210_000, 211_000),
        ("k05", 210_000, 211_000),
        ("k06", 510_000, 511_000),
        ("k07", 510_000, 511_000),
        ("xyz", 610_000, 612_000),
    ] {
        between(offset(&table, user), low, high);
    }
    let packed = TableSettings { compression: Compression::Snappy, ..plain };
    let table = open(&packed, &build(&packed, &entries).0).unwrap();
    assert!(offset(&table, "xyz") < 60_000);
    assert!(offset(&table, "k04") <= offset(&table, "k06"));
}

#[test]
fn equal_keys_in_a_row_are_kept() {
    let order = &orders()[0];
    let entries = vec![entry("same", 7, "a"), entry("same", 7, "b"), entry("same", 7, "c")];
    let (file, _) = build(&settings(order), &entries);
    let table = open(&settings(order), &file).unwrap();
    let mut iter = table.iter(ScanOptions::default());
    iter.seek_to_first().unwrap();
    for (_, value) in &entries {
        assert_eq!(iter.value(), value);
        iter.next().unwrap();
    }
    assert_eq!(verify(&table).unwrap().entries, 3);
}

#[test]
fn filters_of_levels_db_layout_and_of_users() {
    struct FirstByte;
    impl FilterPolicy for FirstByte {
        fn name(&self) -> &str {
            "test.FirstByte"
        }
        fn create_filter(&self, keys: &[&[u8]], out: &mut Vec<u8>) {
            out.extend(keys.iter().map(|key| key.first().copied().unwrap_or(0)));
        }
        fn may_match(&self, key: &[u8], filter: &[u8]) -> bool {
            filter.contains(&key.first().copied().unwrap_or(0))
        }
    }
    let policies: [Arc<dyn FilterPolicy>; 3] =
        [Arc::new(FirstByte), Arc::new(BloomFilter::new(10)), Arc::new(BloomFilter::wide(10))];
    let order = &orders()[0];
    let entries = sorted(order, mixed(400));
    for policy in policies {
        for span in [FilterSpan::Table, FilterSpan::Offsets(11), FilterSpan::Offsets(8)] {
            let settings =
                TableSettings { filter: Some(Filter::from(policy.clone())), ..settings(order) };
            let table = open(&settings, &build_spans(&settings, &entries, span).0).unwrap();
            check_gets(&table, order, &entries);
            verify(&table).unwrap();
            // Another policy's filters are passed over.
            let other = TableSettings { filter: None, ..settings.clone() };
            check_gets(&open(&other, &build(&settings, &entries).0).unwrap(), order, &entries);
        }
    }
}

#[test]
fn either_built_in_filter_is_read_where_the_other_is_written() {
    let order = &orders()[0];
    let entries = sorted(order, mixed(400));
    let [first, second] = [BloomFilter::new(10), BloomFilter::wide(10)]
        .map(|bloom| TableSettings { filter: Some(bloom.into()), ..settings(order) });
    for (writes, reads) in [(&first, &second), (&second, &first)] {
        let table = open(reads, &build(writes, &entries).0).unwrap();
        check_gets(&table, order, &entries);
        let absent = (0..1_000).filter(|n| {
            let key = format!("absent {n}");
            table.may_have(&FilterKey::new(key.as_bytes()))
        });
        assert!(absent.count() < 50);
        verify(&table).unwrap();
    }
}

#[test]
fn dumps_as_leveldbutil_does() {
    let order = &orders()[0];
    let deletion = InternalKey::new(b"gone", SeqNo(6), ValueKind::Deletion).into_bytes();
    let entries = vec![entry("a\n'", 5, b"v\x00"), (deletion, Vec::new())];
    let (file, summary) = build(&settings(order), &entries);
    assert_eq!(summary.properties.deletions, 1);
    let mut text = String::new();
    dump(&open(&settings(order), &file).unwrap(), &mut text).unwrap();
    assert_eq!(text, "'a\\x0a'' @ 5 : val => 'v\\x00'\n'gone' @ 6 : del => ''\n");
}

#[test]
fn verify_finds_what_reads_would_not() {
    let order = &orders()[0];
    let fresh = settings(order);
    // Written in another order than it is read in.
    let backwards = settings(&orders()[1]);
    let entries = sorted(&backwards.order, mixed(50));
    let plain = TableSettings { filter: None, ..backwards };
    let table = open(&TableSettings { filter: None, ..fresh }, &build(&plain, &entries).0).unwrap();
    let error = verify(&table).unwrap_err();
    assert!(error.is_corruption());
    assert!(error.file().is_some() && error.offset().is_some());
}

#[test]
fn a_foreign_codec_is_incompatible_not_corrupt() {
    let order = &orders()[0];
    let plain = TableSettings { compression: Compression::None, filter: None, ..settings(order) };
    let (file, _) = build(&plain, &vec![entry("k", 1, "v")]);
    let mut bytes = file.to_vec();
    // The first block is "k" with its tag, three lengths, a value, two fixed32.
    let type_at = 3 + 9 + 1 + 8;
    assert_eq!(bytes[type_at], 0);
    bytes[type_at] = 9;
    let crc = crate::base::checksum::mask(crate::base::checksum::crc32c(&bytes[..=type_at]));
    bytes[type_at + 1..type_at + 5].copy_from_slice(&crc.to_le_bytes());
    let table = open(&plain, &Bytes::new(bytes)).unwrap();
    let error = table.get(&entry("k", 1, "").0, GetOptions::default(), |_, _| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incompatible);
    assert!(error.to_string().contains("bad block type 9"), "{error}");
}

/// All bytes of a table of three entries, taken apart by hand.
#[test]
fn golden_table() {
    let order = &orders()[0];
    let plain = TableSettings { compression: Compression::None, ..settings(order) };
    let entries = vec![entry("apple", 3, "1"), entry("apply", 2, "22"), entry("bat", 1, "")];
    let (file, _) = build(&plain, &entries);
    let bytes = file.to_vec();
    let mut expected: Vec<u8> = Vec::new();
    let seal = |out: &mut Vec<u8>, start: usize| {
        out.push(0);
        let crc = crate::base::checksum::mask(crate::base::checksum::crc32c(&out[start..]));
        out.extend_from_slice(&crc.to_le_bytes());
        out.len()
    };
    expected.extend_from_slice(b"\x00\x0d\x01apple\x01\x03\0\0\0\0\0\x001");
    expected.extend_from_slice(b"\x04\x09\x02y\x01\x02\0\0\0\0\0\x0022");
    expected.extend_from_slice(b"\x00\x0b\x00bat\x01\x01\0\0\0\0\0\0");
    expected.extend_from_slice(&[0, 0, 0, 0, 1, 0, 0, 0]);
    let filter_at = seal(&mut expected, 0);
    // Three keys need 30 bits; 64 is the least. The bits themselves have their own test.
    let filter = &bytes[filter_at..filter_at + 9];
    assert_eq!(filter[8], 6);
    expected.extend_from_slice(filter);
    expected.extend_from_slice(&[0, 0, 0, 0, 9, 0, 0, 0, 30]);
    let properties_at = seal(&mut expected, filter_at);
    expected.extend_from_slice(&[2, 3, 0, 37, 3, 1, 1, 3, 7]);
    let metaindex_at = seal(&mut expected, properties_at);
    let name = b"filter.leveldb.BuiltinBloomFilter2";
    expected.extend_from_slice(&[0, name.len() as u8, 2]);
    expected.extend_from_slice(name);
    expected.extend_from_slice(&[filter_at as u8, 18]);
    let second = expected.len() - metaindex_at;
    expected.extend_from_slice(&[0, 20, 2]);
    expected.extend_from_slice(b"siltstone.properties");
    expected.extend_from_slice(&[properties_at as u8, 9]);
    expected.extend_from_slice(&[0, 0, 0, 0, second as u8, 0, 0, 0, 2, 0, 0, 0]);
    let metaindex_bytes = expected.len() - metaindex_at;
    let index_at = seal(&mut expected, metaindex_at);
    expected.extend_from_slice(b"\x00\x09\x02c\x01\xff\xff\xff\xff\xff\xff\xff");
    expected.extend_from_slice(&[0, (filter_at - 5) as u8]);
    expected.extend_from_slice(&[0, 0, 0, 0, 1, 0, 0, 0]);
    let index_bytes = expected.len() - index_at;
    let footer_at = seal(&mut expected, index_at);
    for number in [metaindex_at, metaindex_bytes, index_at, index_bytes] {
        crate::base::coding::put_varint64(&mut expected, number as u64);
    }
    expected.resize(footer_at + 40, 0);
    expected.extend_from_slice(&[0x57, 0xfb, 0x80, 0x8b, 0x24, 0x75, 0x47, 0xdb]);
    assert_eq!(bytes, expected);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn random_tables_read_back(
        content in prop::collection::btree_map(
            prop::collection::vec(prop::sample::select(vec![0u8, 1, b'a', 0xff]), 0..12),
            prop::collection::vec((1u64..50, 0usize..400), 1..4),
            0..120,
        ),
        block_bytes in 1usize..2000,
        restart_interval in 1usize..20,
    ) {
        let content: BTreeMap<_, _> = content;
        let mut entries = Entries::new();
        for (user, versions) in content {
            for (seqno, len) in versions {
                entries.push(entry(&user, seqno, vec![user.len() as u8; len]));
            }
        }
        let order = &orders()[0];
        let entries = sorted(order, entries);
        let settings = TableSettings { block_bytes, restart_interval, ..settings(order) };
        let table = open(&settings, &build(&settings, &entries).0).unwrap();
        check_iter(&mut table.iter(ScanOptions::default()), order, &entries);
        check_gets(&table, order, &entries);
        verify(&table).unwrap();
    }
}
