//! The memtable as its users see it: visibility by seqno, orders, a model.

use std::cmp::Ordering;

use proptest::prelude::*;

use super::*;
use crate::base::comparator::{Comparator, InternalOrder};
use crate::base::key::{InternalKey, SEQNO_MAX, seqno_of, user_key};

/// Few buckets, so that chains hold several keys.
const INDEXED: usize = 2 << 10;

/// The bytewise order backwards.
struct Reverse;

impl Comparator for Reverse {
    fn name(&self) -> &str {
        "test.reverse"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }
}

/// Upper and lower case are one.
struct IgnoreCase;

impl Comparator for IgnoreCase {
    fn name(&self) -> &str {
        "test.ignore_case"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase())
    }
}

fn reverse() -> UserOrder {
    UserOrder::Custom(Arc::new(Reverse))
}

fn put(inserter: &mut Inserter, seqno: u64, key: &[u8], value: &[u8]) {
    assert!(inserter.add(SeqNo(seqno), ValueKind::Value, key, value));
}

fn delete(inserter: &mut Inserter, seqno: u64, key: &[u8]) {
    assert!(inserter.add(SeqNo(seqno), ValueKind::Deletion, key, b""));
}

fn users(table: &MemTable) -> Vec<Vec<u8>> {
    let mut iter = table.iter();
    let mut users = Vec::new();
    iter.seek_to_first().unwrap();
    while iter.valid() {
        users.push(user_key(iter.key()).to_vec());
        iter.next().unwrap();
    }
    users
}

#[test]
fn an_empty_table_finds_nothing() {
    let (table, _inserter) = MemTable::new(UserOrder::Bytewise, INDEXED, 0);
    assert!(table.is_empty());
    assert_eq!(table.first_seqno(), None);
    assert_eq!(table.get(b"", SEQNO_MAX), None);
    assert_eq!(table.get(b"key", SEQNO_MAX), None);
    let mut iter = table.iter();
    assert!(!iter.valid());
    iter.seek_to_first().unwrap();
    assert!(!iter.valid());
    iter.seek_to_last().unwrap();
    assert!(!iter.valid());
    iter.seek(InternalKey::seek_to(b"key", SEQNO_MAX).as_bytes()).unwrap();
    assert!(!iter.valid());
}

#[test]
fn a_get_sees_the_newest_entry_up_to_its_seqno() {
    let (table, mut inserter) = MemTable::new(UserOrder::Bytewise, INDEXED, 0);
    put(&mut inserter, 10, b"key", b"first");
    delete(&mut inserter, 20, b"key");
    put(&mut inserter, 30, b"key", b"");
    put(&mut inserter, 15, b"kez", b"other");
    let get = |seqno| table.get(b"key", SeqNo(seqno));
    assert_eq!(get(9), None);
    assert_eq!(get(10), Some(Found::Value(b"first")));
    assert_eq!(get(19), Some(Found::Value(b"first")));
    assert_eq!(get(20), Some(Found::Deleted));
    assert_eq!(get(30), Some(Found::Value(b"")));
    assert_eq!(get(SEQNO_MAX.0), Some(Found::Value(b"")));
    assert_eq!(table.get(b"ke", SEQNO_MAX), None);
    assert_eq!(table.get(b"key\0", SEQNO_MAX), None);
}

#[test]
fn an_entry_added_twice_is_there_once() {
    let (table, mut inserter) = MemTable::new(UserOrder::Bytewise, INDEXED, 0);
    put(&mut inserter, 1, b"a", b"kept");
    put(&mut inserter, 2, b"b", b"");
    let bytes = table.approximate_bytes();
    assert!(!inserter.add(SeqNo(1), ValueKind::Value, b"a", b"again"));
    assert_eq!((table.entries(), table.approximate_bytes()), (2, bytes));
    assert_eq!(table.get(b"a", SEQNO_MAX), Some(Found::Value(b"kept")));
    // The same seqno with the other kind is another entry, and sorts behind.
    delete(&mut inserter, 1, b"a");
    assert_eq!(table.entries(), 3);
    assert_eq!(table.get(b"a", SEQNO_MAX), Some(Found::Value(b"kept")));
}

#[test]
fn the_numbers_add_up() {
    let (table, mut inserter) = MemTable::new(UserOrder::Bytewise, INDEXED, 0);
    put(&mut inserter, 7, b"b", b"1");
    delete(&mut inserter, 5, b"a");
    put(&mut inserter, 6, b"c", b"2");
    assert_eq!((table.entries(), table.deletions()), (3, 1));
    assert_eq!(table.first_seqno(), Some(SeqNo(5)));
    let before = table.approximate_bytes();
    put(&mut inserter, 8, b"d", &[0; 100_000]);
    assert!((100_000..100_400).contains(&(table.approximate_bytes() - before)));
}

#[test]
fn only_a_table_that_is_searched_while_it_fills_is_indexed() {
    for is_searched in [true, false] {
        let (table, mut inserter) = MemTable::new(UserOrder::Bytewise, INDEXED, 1);
        for seqno in 1..100_u64 {
            put(&mut inserter, seqno, &seqno.to_be_bytes(), b"value");
            assert!(!is_searched || table.get(&1_u64.to_be_bytes(), SEQNO_MAX).is_some());
        }
        assert_eq!(table.memory() > table.approximate_bytes(), is_searched);
    }
}

/// So that no insertion has a page of it to itself.
#[test]
fn large_entries_have_a_small_index() {
    let index_bytes = |value: &[u8]| {
        let (table, mut inserter) = MemTable::new(UserOrder::Bytewise, INDEXED, 1);
        for seqno in 1..100_u64 {
            put(&mut inserter, seqno, &seqno.to_be_bytes(), value);
            assert!(table.get(&1_u64.to_be_bytes(), SEQNO_MAX).is_some());
        }
        table.memory() - table.approximate_bytes()
    };
    let small = index_bytes(b"value");
    assert_eq!(index_bytes(&[0; 450]), small / 4);
    // Small ones may follow.
    assert_eq!(index_bytes(&[0; 100_000]), small / 8);
}

/// Empty: what was in it is gone with its table.
#[test]
fn a_hash_table_goes_to_the_next_table() {
    let pool = Pool::for_memtables_of(INDEXED);
    let mut known = Vec::new();
    for first in [0, 1000, 2000_u64] {
        let (table, mut inserter) = MemTable::in_pool(&pool, UserOrder::Bytewise, INDEXED, first);
        let kept = pool.take_heads();
        assert_eq!(kept.is_some(), first > 0);
        kept.into_iter().for_each(|heads| pool.give_heads(heads));
        for number in first..first + 200 {
            put(&mut inserter, number + 1, &number.to_be_bytes(), b"value");
            assert!(table.get(&number.to_be_bytes(), SEQNO_MAX).is_some());
        }
        assert!(table.memory() > table.approximate_bytes(), "it has one");
        assert!(pool.take_heads().is_none(), "the one that was kept");
        for gone in &known {
            assert_eq!(table.get(&u64::to_be_bytes(*gone), SEQNO_MAX), None);
        }
        known.extend(first..first + 200);
    }
}

#[test]
fn the_memory_of_a_finder_goes_to_the_next_table() {
    let scattered = 0x9e37_79b9_7f4a_7c15;
    let fill = |inserter: &mut Inserter, entries: u64, step: u64| {
        for number in 0..entries {
            put(inserter, 1 + number, &number.wrapping_mul(step).to_be_bytes(), b"");
        }
    };
    let successor_of = |ended| {
        let (_table, mut inserter) = MemTable::new(UserOrder::Bytewise, INDEXED, 1);
        inserter.succeed(ended);
        inserter
    };
    let (_table, mut first) = MemTable::new(UserOrder::Bytewise, INDEXED, 1);
    fill(&mut first, 2000, scattered);
    let mut second = successor_of(first);
    let blocks = second.writer.spare_blocks();
    assert!(blocks >= 250, "{blocks} of eight entries");
    fill(&mut second, 1000, scattered);
    assert_eq!(second.writer.spare_blocks(), 0, "in use");
    let mut third = successor_of(second);
    assert!((125..blocks).contains(&third.writer.spare_blocks()), "what was not needed is gone");
    // A table that does without a finder keeps them for one that does not.
    let kept = third.writer.spare_blocks();
    fill(&mut third, 2000, 1);
    assert_eq!(successor_of(third).writer.spare_blocks(), kept);
}

/// A hundred entries come first, so that hints are in use when the awkward keys arrive.
#[test]
fn keys_that_share_their_leading_bytes_are_told_apart() {
    let awkward: [&[u8]; 14] = [
        b"",
        b"\0",
        b"\0\0",
        b"a",
        b"a\0",
        b"a\0\0",
        b"a\0b",
        b"aaaaaaa",
        b"aaaaaaa\0",
        b"aaaaaaaa",
        b"aaaaaaaa\0",
        b"aaaaaaaab",
        b"\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    ];
    for order in [UserOrder::Bytewise, reverse()] {
        for filling in ["", "a", "aaaaaaaa", "zz"] {
            let (table, mut inserter) = MemTable::new(order.clone(), INDEXED, 1);
            let mut model: Vec<Vec<u8>> =
                (0..100).map(|n| format!("{filling}{:03}", n * 37 % 100).into_bytes()).collect();
            model.extend(awkward.iter().rev().map(|key| key.to_vec()));
            for (at, key) in model.iter().enumerate() {
                put(&mut inserter, 1 + at as u64, key, key);
            }
            for key in &model {
                assert_eq!(table.get(key, SEQNO_MAX), Some(Found::Value(key)));
            }
            model.sort_by(|a, b| order.compare(a, b));
            assert_eq!(users(&table), model);
        }
    }
}

#[test]
fn keys_that_compare_equal_are_one_key() {
    let (table, mut inserter) = MemTable::new(UserOrder::Custom(Arc::new(IgnoreCase)), INDEXED, 1);
    for (at, key) in (1..).zip([&b"Key"[..], b"other", b"KEY"]) {
        put(&mut inserter, at, key, key);
    }
    assert!(!inserter.add(SeqNo(1), ValueKind::Value, b"kEY", b""));
    assert_eq!(table.get(b"key", SeqNo(2)), Some(Found::Value(b"Key")));
    assert_eq!(table.get(b"key", SeqNo(3)), Some(Found::Value(b"KEY")));
}

#[test]
fn an_iterator_outlives_the_table_and_sees_what_comes() {
    let (table, mut inserter) = MemTable::new(UserOrder::Bytewise, INDEXED, 0);
    put(&mut inserter, 1, b"b", b"1");
    let mut iter = table.iter();
    iter.seek_to_first().unwrap();
    put(&mut inserter, 2, b"c", b"2");
    put(&mut inserter, 3, b"a", b"3");
    drop(table);
    drop(inserter);
    iter.next().unwrap();
    assert_eq!((user_key(iter.key()), iter.value()), (&b"c"[..], &b"2"[..]));
    iter.prev().unwrap();
    iter.prev().unwrap();
    assert_eq!((user_key(iter.key()), seqno_of(iter.key())), (&b"a"[..], SeqNo(3)));
    iter.prev().unwrap();
    assert!(!iter.valid());
}

/// Keys of few letters behind few bases, so that seqnos pile up and windows for hints move.
fn user() -> impl Strategy<Value = Vec<u8>> {
    let letters = || proptest::collection::vec(prop_oneof![Just(0), Just(b'a'), Just(0xff)], 0..3);
    prop_oneof![
        1 => letters(),
        4 => (letters(), letters()).prop_map(|(a, b)| [&b"base"[..], &a, b"long middle", &b].concat()),
        4 => (0_u32..300).prop_map(|n| format!("{n:016}").into_bytes()),
    ]
}

type Write = (SeqNo, (Vec<u8>, bool));

/// Holds a table against a list sorted in the internal order: scans both ways, seeks, gets.
fn check(order: &UserOrder, writes: &[Write], probes: &[(Vec<u8>, u64)], seed: u64) {
    let is_searched = !seed.is_multiple_of(4);
    let (table, mut inserter) = MemTable::new(order.clone(), INDEXED, seed);
    let mut model: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    for (seqno, (user, is_value)) in writes {
        let kind = if *is_value { ValueKind::Value } else { ValueKind::Deletion };
        let value = if *is_value { format!("v{seqno}").into_bytes() } else { Vec::new() };
        assert!(inserter.add(*seqno, kind, user, &value));
        // The table is indexed if it is searched.
        let found = is_searched.then(|| table.get(user, SEQNO_MAX));
        assert!(found.is_none_or(|found| found.is_some()));
        model.push((InternalKey::new(user, *seqno, kind).into_bytes(), value));
    }
    let internal = InternalOrder::new(order.clone());
    model.sort_by(|a, b| internal.compare(&a.0, &b.0));

    let mut iter = table.iter();
    iter.seek_to_first().unwrap();
    for (key, value) in &model {
        assert_eq!((iter.key(), iter.value()), (&key[..], &value[..]));
        iter.next().unwrap();
    }
    assert!(!iter.valid());
    iter.seek_to_last().unwrap();
    for (key, value) in model.iter().rev() {
        assert_eq!((iter.key(), iter.value()), (&key[..], &value[..]));
        iter.prev().unwrap();
    }
    assert!(!iter.valid());

    for (user, seqno) in probes {
        let target = InternalKey::seek_to(user, SeqNo(*seqno));
        let at = model.partition_point(|(key, _)| internal.compare(key, target.as_bytes()).is_lt());
        let expected = model.get(at);
        iter.seek(target.as_bytes()).unwrap();
        assert_eq!(iter.valid().then(|| iter.key()), expected.map(|(key, _)| &key[..]));
        let found = expected.filter(|(key, _)| user_key(key) == user).map(|(key, value)| {
            let is_value = key[key.len() - 8] == ValueKind::Value as u8;
            if is_value { Found::Value(&value[..]) } else { Found::Deleted }
        });
        assert_eq!(table.get(user, SeqNo(*seqno)), found);
    }
}

proptest! {
    #[test]
    fn is_a_sorted_list(
        writes in proptest::collection::vec((user(), any::<bool>()), 0..400),
        probes in proptest::collection::vec((user(), 0_u64..400), 20),
        turn in 0_usize..400,
        seed in any::<u64>(),
    ) {
        let mut writes: Vec<Write> = (1..).map(SeqNo).zip(writes).collect();
        check(&UserOrder::Bytewise, &writes, &probes, seed);
        // As logs may be replayed, older writes behind newer ones.
        let turn = turn.min(writes.len());
        writes.rotate_left(turn);
        check(&UserOrder::Bytewise, &writes, &probes, seed);
        check(&reverse(), &writes, &probes, seed);
    }
}
