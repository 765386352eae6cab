//! What scans and merges read ahead.

use super::*;

#[test]
fn the_sources_of_a_merge_share_what_is_read_ahead() {
    let order = &orders()[0];
    let plain = TableSettings { compression: Compression::None, ..settings(order) };
    let value = vec![b'v'; 900];
    let entries: Entries =
        (0..1000).map(|i| entry(format!("{i:06}"), 1, value.as_slice())).collect();
    let (file, _) = build(&plain, &entries);
    let table = open(&plain, &file).unwrap();
    let reads_of_one_of = |sources| {
        let (before, mut iter) = (file.reads(), table.iter(ScanOptions::for_merge(sources)));
        iter.seek_to_first().unwrap();
        while iter.valid() {
            iter.next().unwrap();
        }
        file.reads() - before
    };
    let [one, six, many, hundreds] = [1, 6, 36, 400].map(reads_of_one_of);
    assert_eq!((one, six), (8, 8), "128 KiB each");
    // Of 21 KiB each, in whole blocks.
    assert!((43..60).contains(&many), "{many}");
    assert!((57..90).contains(&hundreds), "{hundreds}: 16 KiB at least");
}

#[test]
fn scans_read_no_byte_twice() {
    let order = &orders()[0];
    let value = vec![b'v'; 2000];
    for compression in [Compression::None, Compression::Snappy] {
        let large = TableSettings { block_bytes: 4096, compression, ..settings(order) };
        let entries: Entries =
            (0..1000).map(|i| entry(format!("{i:06}"), 1, value.as_slice())).collect();
        let (file, _) = build(&large, &entries);
        let table = open(&large, &file).unwrap();
        for options in [ScanOptions::default(), ScanOptions::for_merge(36)] {
            let (before, mut iter) = (file.bytes_read(), table.iter(options));
            iter.seek_to_first().unwrap();
            let mut seen = 0;
            while iter.valid() {
                seen += 1;
                iter.next().unwrap();
            }
            let read = file.bytes_read() - before;
            assert_eq!(seen, entries.len());
            assert!(read <= file.to_vec().len(), "{compression:?}: {read} bytes");
        }
    }
}

/// Scans that go on as far as others did make one call for it, and read nothing else.
#[test]
fn a_scan_reads_at_once_what_scans_usually_need() {
    let order = &orders()[0];
    for compression in [Compression::None, Compression::Snappy] {
        let small = TableSettings { block_bytes: 1024, compression, ..settings(order) };
        let entries: Entries =
            (0..2000).map(|i| entry(format!("{i:06}"), 1, [b'v'; 100])).collect();
        let (file, _) = build(&small, &entries);
        let table = open(&small, &file).unwrap();
        // Calls and bytes of a scan that ends so many blocks behind the one that it begins in.
        let scan = |begin: usize, further: usize, fill_cache| {
            let (calls, bytes) = (file.reads(), file.bytes_read());
            let mut iter = table.iter(ScanOptions::for_reads(true, fill_cache));
            iter.seek(table.index().key(begin)).unwrap();
            while iter.block_index() < begin + further {
                iter.next().unwrap();
            }
            drop(iter);
            (file.reads() - calls, file.bytes_read() - bytes)
        };
        let bytes_of = |begin, blocks| table.index().bytes_of(begin, blocks).unwrap();
        assert_eq!(scan(5, 0, false), (1, bytes_of(5, 1)), "nobody has gone further");
        assert_eq!(scan(5, 1, false), (2, bytes_of(5, 2)), "one more, and no more");
        assert_eq!(scan(100, 0, true).0, 1, "into the cache");
        for begin in 0..40 {
            scan(begin, 3, false);
        }
        assert_eq!(scan(50, 3, false), (1, bytes_of(50, 4)), "{compression:?}");
        // Who finds all in the cache tells nothing.
        for _ in 0..40 {
            assert_eq!(scan(100, 0, true), (0, 0));
        }
        assert_eq!(scan(50, 3, false), (1, bytes_of(50, 4)));
        let (calls, bytes) = scan(table.index().len() - 2, 1, false);
        assert_eq!((calls, bytes), (1, bytes_of(table.index().len() - 2, 2)), "at the end");
        for begin in 0..40 {
            scan(begin, 0, false);
        }
        assert_eq!(scan(50, 0, false), (1, bytes_of(50, 1)));
    }
}
