//! Tables and blocks of bytes that were not what was written: an error or the right answer, never a
//! panic, and with checksums never a wrong value.

use super::*;

/// Reads a table in every way. Each entry seen must be one that was written, for checksums are on.
fn read_all(settings: &TableSettings, bytes: Vec<u8>, written: &Entries) {
    let Ok(table) = open(settings, &Bytes::new(bytes)) else { return };
    let known = |key: &[u8], value: &[u8]| {
        assert!(written.iter().any(|(k, v)| k == key && v == value), "made up: {key:?}");
    };
    let _ = verify(&table);
    let _ = scan(&mut table.iter(ScanOptions::default()), written, known);
    let _ = scan(&mut table.iter(ScanOptions::for_compaction()), written, known);
    for (key, value) in written {
        let found = table.get(key, GetOptions::default(), |k, v| (k == key).then(|| v == value));
        if let Ok(Some(right)) = found {
            assert_eq!(right, Some(true));
        }
        table.approximate_offset_of(key);
    }
}

fn scan(
    iter: &mut impl InternalIterator,
    targets: &Entries,
    mut seen: impl FnMut(&[u8], &[u8]),
) -> Result<()> {
    // Bounded, for a damaged block without checksums could go in circles only by a bug.
    let steps_max = 100_000;
    let mut visit = |iter: &mut dyn InternalIterator, forward: bool| -> Result<()> {
        let mut steps = 0;
        while iter.valid() {
            seen(iter.key(), iter.value());
            if forward {
                iter.next()?
            } else {
                iter.prev()?
            }
            steps += 1;
            assert!(steps < steps_max);
        }
        Ok(())
    };
    let first = iter.seek_to_first().and_then(|()| visit(iter, true));
    let last = iter.seek_to_last().and_then(|()| visit(iter, false));
    for (target, _) in targets.iter().step_by(5) {
        if iter.seek(target).is_ok() && iter.valid() && iter.prev().is_ok() && iter.valid() {
            let _ = iter.next();
        }
    }
    first.and(last)
}

fn sample() -> (TableSettings, Entries, Vec<u8>) {
    let order = orders()[0].clone();
    let entries = sorted(&order, mixed(60));
    let settings = settings(&order);
    let (file, _) = build(&settings, &entries);
    (settings, entries, file.to_vec())
}

#[test]
fn every_truncation() {
    let (settings, entries, bytes) = sample();
    for len in 0..bytes.len() {
        assert!(open(&settings, &Bytes::new(bytes[..len].to_vec())).is_err());
    }
    read_all(&settings, bytes, &entries);
}

#[test]
fn every_single_bit_is_noticed_or_harmless() {
    let (settings, entries, bytes) = sample();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        read_all(&settings, damaged, &entries);
    }
}

#[test]
fn errors_name_file_and_offset() {
    let (settings, _, mut bytes) = sample();
    bytes[20] ^= 0x40;
    let table = open(&settings, &Bytes::new(bytes)).unwrap();
    let mut iter = table.iter(ScanOptions::default());
    let error = iter.seek_to_first().unwrap_err();
    let expected = "Corruption: db/000007.ldb at byte 0: block checksum mismatch";
    assert_eq!(error.to_string(), expected);
    assert!(!iter.valid());
}

#[test]
fn handles_are_bounded_before_anything_is_allocated() {
    use crate::format::table::handle::{BlockHandle, FOOTER_BYTES, Footer};
    let (settings, _, bytes) = sample();
    let huge = BlockHandle { offset: 1, size: u64::MAX - 10 };
    let large = BlockHandle { offset: 0, size: 1 << 40 };
    for handle in [huge, large] {
        let mut damaged = bytes[..bytes.len() - FOOTER_BYTES].to_vec();
        Footer { metaindex: handle, index: handle }.encode(&mut damaged);
        let error = open(&settings, &Bytes::new(damaged)).err().unwrap();
        assert!(error.message().contains("does not point before it"), "{error}");
    }
}

/// Scans forward read right past a bad restart point, and searches and scans backward miss entries.
#[test]
fn verify_tells_bad_restart_points_behind_sound_checksums() {
    use crate::base::checksum::{crc32c, mask};
    use crate::format::table::handle::BlockHandle;
    let order = orders()[0].clone();
    let settings = TableSettings { compression: Compression::None, ..settings(&order) };
    let settings = TableSettings { restart_interval: 2, ..settings };
    let (file, _) = build(&settings, &sorted(&order, mixed(60)));
    let table = open(&settings, &file).unwrap();
    let mut handles = (0..table.index().len()).map(|at| table.index().handle(at).unwrap());
    let first = handles.next().unwrap();
    // One that can be full of restart points.
    let even = handles.find(|handle| handle.size.is_multiple_of(4)).unwrap();
    let end = |handle: BlockHandle| (handle.offset + handle.size) as usize;
    // The count of restart points ends the block; the last one stands before it. A block without restart points, or with
    // nothing else, is one without entries: nobody stops in it.
    let (last, count) = (end(first) - 8, end(even) - 4);
    for (handle, at, wrong) in [
        (first, last, 0),
        (first, last, 1),
        (first, last, end(first) as u32),
        (even, count, 0),
        (even, count, even.size as u32 / 4 - 1),
    ] {
        let mut bytes = file.to_vec();
        bytes[at..at + 4].copy_from_slice(&wrong.to_le_bytes());
        let end = end(handle);
        let checksum = mask(crc32c(&bytes[handle.offset as usize..=end]));
        bytes[end + 1..end + 5].copy_from_slice(&checksum.to_le_bytes());
        let table = open(&settings, &Bytes::new(bytes)).unwrap();
        let error = verify(&table).unwrap_err();
        assert_eq!(error.message(), "bad restart point in block");
    }
}

#[test]
fn a_block_without_entries_has_one_restart_point_or_nothing() {
    let is_sound = |words: &[u32]| {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        Block::new(bytes).unwrap().check().is_ok()
    };
    assert!(is_sound(&[0]) && is_sound(&[0, 1]));
    // Bytes that nobody reads; a restart point that is none; two of them.
    assert!(
        !is_sound(&[0, 0]) && !is_sound(&[7, 7, 0]) && !is_sound(&[4, 1]) && !is_sound(&[0, 0, 2])
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn random_damage(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
        cuts in any::<bool>(),
    ) {
        let (settings, entries, mut bytes) = sample();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if cuts {
            let at = cut.index(bytes.len());
            bytes.remove(at);
        }
        read_all(&settings, bytes, &entries);
    }

    /// Blocks get no protection from checksums here: any bytes at all.
    #[test]
    fn blocks_of_any_bytes(
        noise in prop::collection::vec(any::<u8>(), 0..200),
        restarts in 0u32..6,
    ) {
        block_of_any_bytes(noise, restarts);
    }

    #[test]
    fn blocks_with_any_damage(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        interval in 1usize..9,
    ) {
        let entries = sorted(&orders()[0], mixed(20));
        let pairs = entries.iter().map(|(key, value)| (&key[..], &value[..]));
        let mut bytes = BlockBuilder::build(interval, pairs);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        walk(bytes, &entries);
    }
}

fn block_of_any_bytes(mut noise: Vec<u8>, restarts: u32) {
    noise.extend_from_slice(&restarts.to_le_bytes());
    walk(noise, &sorted(&orders()[0], mixed(20)));
}

fn walk(bytes: Vec<u8>, targets: &Entries) {
    for order in orders() {
        let Ok(block) = Block::new(bytes.clone()) else { return };
        let mut iter = BlockIter::new(order.clone());
        iter.set_block(Arc::new(CachedBlock::new(block)));
        let _ = scan(&mut iter, targets, |key, _| assert!(key.len() >= 8));
        let _ = super::super::index::Index::parse(bytes.clone(), &order, 1 << 20).map(|index| {
            for (target, _) in targets {
                let at = index.find(target);
                assert!(at <= index.len());
                let _ = index.handle(at);
            }
        });
    }
}
