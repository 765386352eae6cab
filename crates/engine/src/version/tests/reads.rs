//! Point reads and level iterators over tables in memory files.

use crate::base::iter::InternalIterator;
use crate::base::key::{InternalKey, SEQNO_MAX, SeqNo, ValueKind};
use crate::base::slot::Slot;
use crate::format::table::{GetOptions, ScanOptions};
use crate::version::Version;
use crate::version::level_iter::LevelIter;
use crate::version::lookup::{Answer, Hit, Lookup, Target};
use crate::version::testing::files::Shelf;
use crate::version::testing::{order, sst_log, tree, version};

/// Entries written as `key@seqno`, deletions as `key@seqno-`; values are the same text.
fn entries(texts: &[&str]) -> Vec<(InternalKey, String)> {
    let entry = |text: &&str| {
        let (user, seqno) = text.trim_end_matches('-').split_once('@').unwrap();
        let kind = if text.ends_with('-') { ValueKind::Deletion } else { ValueKind::Value };
        let key = InternalKey::new(user.as_bytes(), SeqNo(seqno.parse().unwrap()), kind);
        (key, (*text).to_owned())
    };
    texts.iter().map(entry).collect()
}

struct Reads {
    shelf: Shelf,
    version: Version,
}

impl Reads {
    fn over(tables: &[(Slot, u64, &[&str])]) -> Self {
        let shelf = Shelf::new();
        let added = tables
            .iter()
            .map(|(slot, number, texts)| (*slot, shelf.table(*number, &entries(texts))));
        let version = version(added.collect::<Vec<_>>());
        Reads { shelf, version }
    }

    fn answer(&self, user: &str, seqno: u64) -> crate::base::error::Result<Answer<'_, String>> {
        let lookup = Lookup {
            order: &order(),
            cache: &self.shelf.cache,
            options: GetOptions::default(),
            counts_seeks: true,
        };
        let seek = InternalKey::seek_to(user.as_bytes(), SeqNo(seqno));
        let target = Target::new(user.as_bytes(), seek.as_bytes());
        lookup.get(&self.version, &target, |value| String::from_utf8(value.to_vec()).unwrap())
    }

    /// The value found, `gone`, or `nothing`; and the table that cost a seek for nothing.
    fn get(&self, user: &str, seqno: u64) -> (String, Option<u64>) {
        let answer = self.answer(user, seqno).unwrap();
        let hit = match answer.hit {
            Some(Hit::Value(value)) => value,
            Some(Hit::Deleted) => "gone".to_owned(),
            None => "nothing".to_owned(),
        };
        (hit, answer.wasted.map(|(_, table)| table.number.0))
    }
}

fn found(text: &str, wasted: impl Into<Option<u64>>) -> (String, Option<u64>) {
    (text.to_owned(), wasted.into())
}

#[test]
fn the_first_entry_in_search_order_answers() {
    let reads = Reads::over(&[
        (Slot::L0, 20, &["c@20", "k@21-"]),
        (Slot::L0, 19, &["c@19", "k@18", "p@17"]),
        (tree(1), 9, &["a@12", "c@11", "f@10"]),
        (sst_log(1), 5, &["c@9", "q@9"]),
        (sst_log(1), 7, &["c@8", "q@8-"]),
        (tree(2), 3, &["a@3", "c@2", "z@1"]),
    ]);
    assert_eq!(reads.get("c", 100), found("c@20", None));
    assert_eq!(reads.get("c", 19), found("c@19", 20));
    assert_eq!(reads.get("c", 12), found("c@11", 20));
    assert_eq!(reads.get("c", 9), found("c@9", 20));
    assert_eq!(reads.get("c", 8), found("c@8", 20));
    assert_eq!(reads.get("c", 7), found("c@2", 20));
    assert_eq!(reads.get("c", 1), found("nothing", 20));
    assert_eq!(reads.get("k", 100), found("gone", None));
    assert_eq!(reads.get("k", 20), found("k@18", 20));
    // 5 came before 7 by number, but stands first in its slot. Nothing of it is as old as 8.
    assert_eq!(reads.get("q", 100), found("q@9", None));
    assert_eq!(reads.get("q", 8), found("gone", None));
    assert_eq!(reads.get("b", 100), found("nothing", 9));
    assert_eq!(reads.get("z", 100), found("z@1", None));
    assert_eq!(reads.get("zz", 100), found("nothing", None));
}

#[test]
fn keys_split_over_two_tables_are_found_in_both() {
    let reads = Reads::over(&[
        (tree(1), 1, &["a@5", "m@30", "m@20"]),
        (tree(1), 2, &["m@10", "m@8-", "z@5"]),
    ]);
    assert_eq!(reads.get("m", 40), found("m@30", None));
    assert_eq!(reads.get("m", 25), found("m@20", None));
    // Nothing of the left table is that old, so it is not searched.
    assert_eq!(reads.get("m", 15), found("m@10", None));
    assert_eq!(reads.get("m", 9), found("gone", None));
    assert_eq!(reads.get("m", 7), found("nothing", None));
}

#[test]
fn a_table_that_cannot_be_read_is_an_error_not_a_miss() {
    let reads = Reads::over(&[(tree(1), 1, &["a@5", "m@4"]), (tree(2), 2, &["b@3", "n@2"])]);
    reads.shelf.lose(1);
    assert!(reads.answer("b", 9).err().unwrap().is_not_found());
    assert_eq!(reads.get("n", 9), found("n@2", None));
}

fn level(reads: &Reads) -> LevelIter {
    let tables = reads.version.shared_slot(tree(1)).clone();
    LevelIter::new(order(), reads.shelf.cache.clone(), ScanOptions::default(), tables)
}

fn here(iter: &LevelIter) -> Option<String> {
    iter.valid().then(|| String::from_utf8(iter.value().to_vec()).unwrap())
}

const LEVEL: &[(u64, &[&str])] =
    &[(1, &["b@9", "d@8", "d@3"]), (2, &["f@7"]), (3, &["k@6", "m@5-"]), (4, &["m@4", "q@2"])];

fn four_tables() -> Reads {
    Reads::over(&LEVEL.iter().map(|(number, texts)| (tree(1), *number, *texts)).collect::<Vec<_>>())
}

#[test]
fn a_level_is_one_run_in_both_directions() {
    let (reads, all) = (four_tables(), LEVEL.iter().flat_map(|(_, texts)| *texts));
    let mut all: Vec<String> = all.map(|text| (*text).to_owned()).collect();
    let mut iter = level(&reads);
    assert!(!iter.valid());
    let mut seen = Vec::new();
    iter.seek_to_first().unwrap();
    while let Some(text) = here(&iter) {
        seen.push(text);
        iter.next().unwrap();
    }
    assert_eq!(seen, all);
    seen.clear();
    iter.seek_to_last().unwrap();
    while let Some(text) = here(&iter) {
        seen.push(text);
        iter.prev().unwrap();
    }
    all.reverse();
    assert_eq!(seen, all);
}

#[test]
fn a_level_is_sought_within_and_between_tables() {
    let reads = four_tables();
    let mut iter = level(&reads);
    for (user, seqno, expected, before) in [
        ("", SEQNO_MAX.0, Some("b@9"), None),
        ("b", 9, Some("b@9"), None),
        ("b", 8, Some("d@8"), Some("b@9")),
        ("d", 5, Some("d@3"), Some("d@8")),
        ("e", 5, Some("f@7"), Some("d@3")),
        ("f", 6, Some("k@6"), Some("f@7")),
        ("m", 5, Some("m@5-"), Some("k@6")),
        ("m", 4, Some("m@4"), Some("m@5-")),
        ("n", 1, Some("q@2"), Some("m@4")),
        ("q", 1, None, None),
        ("z", 1, None, None),
    ] {
        iter.seek(InternalKey::seek_to(user.as_bytes(), SeqNo(seqno)).as_bytes()).unwrap();
        assert_eq!(here(&iter).as_deref(), expected, "{user}@{seqno}");
        if iter.valid() {
            iter.prev().unwrap();
            assert_eq!(here(&iter).as_deref(), before, "before {user}@{seqno}");
        }
        if iter.valid() {
            iter.next().unwrap();
            assert_eq!(here(&iter).as_deref(), expected, "back at {user}@{seqno}");
        }
    }
}

#[test]
fn no_tables_are_an_empty_level() {
    let reads = Reads::over(&[(tree(2), 1, &["a@1"])]);
    let mut iter = level(&reads);
    iter.seek_to_first().unwrap();
    assert!(!iter.valid());
    iter.seek_to_last().unwrap();
    assert!(!iter.valid());
    iter.seek(InternalKey::seek_to(b"a", SeqNo(1)).as_bytes()).unwrap();
    assert!(!iter.valid());
}

#[test]
fn an_error_leaves_a_level_without_position_until_the_next_seek() {
    let reads = four_tables();
    reads.shelf.lose(2);
    let mut iter = level(&reads);
    iter.seek(InternalKey::seek_to(b"d", SeqNo(3)).as_bytes()).unwrap();
    assert_eq!(here(&iter).as_deref(), Some("d@3"));
    assert!(iter.next().unwrap_err().is_not_found());
    assert!(!iter.valid());
    iter.seek_to_last().unwrap();
    iter.prev().unwrap();
    assert_eq!(here(&iter).as_deref(), Some("m@4"));
    iter.prev().unwrap();
    iter.prev().unwrap();
    assert_eq!(here(&iter).as_deref(), Some("k@6"));
    assert!(iter.prev().unwrap_err().is_not_found());
    assert!(!iter.valid());
    assert!(iter.seek(InternalKey::seek_to(b"e", SeqNo(3)).as_bytes()).is_err());
    iter.seek_to_first().unwrap();
    assert_eq!(here(&iter).as_deref(), Some("b@9"));
}
