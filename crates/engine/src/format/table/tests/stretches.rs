//! Which keys lie in which bytes.

use std::ops::Range;

use super::*;
use crate::format::table::stretches::KeyStretch;

struct Built {
    table: Arc<Table>,
    summary: TableSummary,
}

impl Built {
    /// Of the keys among these that are a multiple of `step`.
    fn new(keys: Range<u32>, step: usize, order: &InternalOrder) -> Self {
        let settings = TableSettings { block_bytes: 512, ..settings(order) };
        let mut entries: Entries =
            keys.step_by(step).map(|key| entry(format!("{key:06}"), 1, [b'v'; 60])).collect();
        entries.sort_by(|(a, _), (b, _)| order.compare(a, b));
        let (file, summary) = build(&settings, &entries);
        Built { table: open(&settings, &file).unwrap(), summary }
    }

    fn bytes(&self, blocks: Range<usize>) -> Range<u64> {
        let index = self.table.index();
        index.handle(blocks.start).unwrap().offset..index.handle(blocks.end - 1).unwrap().end()
    }

    fn ends(&self) -> (&InternalKey, &InternalKey) {
        (&self.summary.smallest, &self.summary.largest)
    }

    fn keys_in(&self, bytes: &[Range<u64>]) -> Vec<KeyStretch> {
        self.table.keys_in(bytes, self.ends())
    }

    fn bytes_with(&self, keys: &[KeyStretch]) -> Vec<Range<u64>> {
        self.table.bytes_with(keys, self.ends())
    }

    /// The user keys that lie in these bytes.
    fn listed(&self, bytes: &[Range<u64>]) -> Vec<String> {
        let mut iter = self.table.iter(ScanOptions::default());
        iter.seek_to_first().unwrap();
        let mut keys = Vec::new();
        while iter.valid() {
            let at = self.table.index().handle(iter.block_index()).unwrap().offset;
            if bytes.iter().any(|range| range.contains(&at)) {
                keys.push(String::from_utf8(user_key(iter.key()).to_vec()).unwrap());
            }
            iter.next().unwrap();
        }
        keys
    }
}

#[test]
fn a_table_finds_its_own_bytes_again() {
    for order in &orders() {
        let one = Built::new(0..2000, 1, order);
        let last = one.table.index().len();
        for blocks in [0..1, 0..last, 3..4, 5..20, last - 1..last] {
            let bytes = one.bytes(blocks.clone());
            let inside = bytes.start + 1..bytes.end - 1;
            for wanted in [bytes.clone(), inside] {
                let found = one.bytes_with(&one.keys_in(&[wanted]));
                assert!(found.iter().eq([&bytes]), "{blocks:?}: {found:?}");
            }
        }
        let apart = [one.bytes(0..2), one.bytes(9..10)];
        assert_eq!(one.bytes_with(&one.keys_in(&apart)), apart);
        let halves = [one.bytes(3..5), one.bytes(5..7)];
        let keys = one.keys_in(&halves);
        assert_eq!(keys.len(), 1, "they follow each other");
        assert_eq!(one.bytes_with(&keys), [one.bytes(3..7)]);
        let behind = one.bytes(0..last).end..u64::MAX;
        assert!(one.keys_in(&[behind, 7..7]).is_empty(), "no data lies there");
    }
}

#[test]
fn keys_are_found_in_the_tables_that_take_their_place() {
    for order in &orders() {
        let old = Built::new(0..4000, 2, order);
        let near = [old.bytes(4..6), old.bytes(100..101)];
        let keys = old.keys_in(&near);
        let wanted = old.listed(&near);
        let mut found = Vec::new();
        for new in [0..1000, 1000..3000, 3000..9000].map(|keys| Built::new(keys, 1, order)) {
            let bytes = new.bytes_with(&keys);
            let there = new.listed(&bytes);
            assert!(there.len() <= 8 * wanted.len(), "and hardly more");
            found.extend(there);
        }
        assert!(wanted.len() > 15 && wanted.iter().all(|key| found.contains(key)));
        assert!(old.bytes_with(&[]).is_empty());
    }
    let order = &orders()[0];
    let (old, elsewhere) = (Built::new(0..4000, 2, order), Built::new(8000..9000, 1, order));
    let all = [0..u64::MAX / 2, u64::MAX / 2..u64::MAX];
    assert!(elsewhere.bytes_with(&old.keys_in(&all)).is_empty());
    assert!(old.bytes_with(&elsewhere.keys_in(&all)).is_empty());
}
