//! What is measured does what it is said to do.

use super::*;

fn entries(numbers: impl Iterator<Item = u32>) -> Entries {
    numbers.map(|number| (format!("{number:08}").into_bytes(), vec![b'v'; 10])).collect()
}

#[test]
fn parts_find_what_is_there_and_nothing_else() {
    let even = entries((0..1000).map(|number| number * 2));
    let odd = entries((0..1000).map(|number| number * 2 + 1));
    let mut memtable = Memtable::new();
    even.iter().for_each(|(key, value)| memtable.insert(key, value));
    let table = CachedTable::new(&even);
    let mut block = SortedBlock::new(&even);
    for ((present, _), (absent, _)) in even.iter().zip(&odd) {
        assert!(memtable.get(present) && !memtable.get(absent));
        let (present, absent) = (InternalTarget::new(present), InternalTarget::new(absent));
        assert!(table.get(&present) && !table.get(&absent));
        assert!(block.seek(&present));
    }
    assert!(!block.seek(&InternalTarget::new(b"9")));
}

#[test]
fn packing_makes_blocks_smaller() {
    let block = block_bytes(&entries(0..100));
    assert!(Packing::new().pack(&block) < block.len() / 2);
}

#[test]
fn a_merge_goes_round() {
    let runs = [entries([1, 4].into_iter()), entries([2].into_iter()), entries([3].into_iter())];
    let mut merge = Merge::new(&runs);
    let mut keys = Vec::new();
    for _ in 0..6 {
        keys.push(merge.key()[7]);
        merge.next();
    }
    assert_eq!(keys, *b"123412");
}

#[test]
fn a_log_begins_anew_before_it_grows_large() {
    for kind in [LogKind::Mapped, LogKind::Written] {
        let folder = siltstone_sim::TempDir::new("benches-log");
        let mut log = Log::new(folder.path(), kind);
        let batch = vec![0; 1 << 20];
        (0..10).for_each(|_| log.append(&batch));
        assert!(log.wal.number() > FileNumber(1));
        let files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
        assert_eq!(files.len(), 1, "{files:?}");
    }
}
