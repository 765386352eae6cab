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
