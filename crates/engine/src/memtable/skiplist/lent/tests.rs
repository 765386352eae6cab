//! What is left to others is in the list as if it had been inserted: for gets, for scans, and beside those who link.

use std::collections::BTreeMap;
use std::ops::Bound::Included;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use super::*;
use crate::base::comparator::{BytewiseComparator, UserOrder};
use crate::base::key::split;
use crate::memtable::skiplist::buckets::{Bucket, CHAIN_MAX};
use crate::memtable::skiplist::writer::random_height;
use crate::memtable::skiplist::{Cursor, Entry, SkipList, Writer};

/// Few buckets, so that chains have several keys.
const INDEXED: usize = 4 << 10;

/// Keys, and each key's tags, the newest first.
type Model = BTreeMap<(Vec<u8>, u64), u64>;

fn entry(user: &[u8], tag: u64, check: impl FnOnce(Entry<'_>)) {
    check(Entry { user, tag, value: &tag.to_le_bytes() });
}

fn next(random: &mut u64) -> u64 {
    random_height(random);
    *random >> 16
}

fn check_scan(cursor: &mut Cursor, model: &Model) {
    cursor.seek_to_first();
    for ((user, _), tag) in model {
        assert_eq!(split(cursor.key()), (&user[..], *tag));
        assert_eq!(cursor.value(), tag.to_le_bytes());
        cursor.next();
    }
    assert!(!cursor.valid());
}

/// From anywhere.
fn check_seek(cursor: &mut Cursor, model: &Model, user: &[u8], tag: u64) {
    let key = [user, &tag.to_le_bytes()].concat();
    cursor.seek(&key);
    let expected = model.range((user.to_vec(), u64::MAX - tag)..).next();
    let expected = expected.map(|((user, _), tag)| (user.clone(), *tag));
    let found = cursor.valid().then(|| split(cursor.key())).map(|(user, tag)| (user.to_vec(), tag));
    assert_eq!(found, expected);
}

fn check_last(cursor: &mut Cursor, model: &Model) {
    cursor.seek_to_last();
    let last = model.last_key_value().map(|((user, _), tag)| (&user[..], *tag));
    assert_eq!(cursor.valid().then(|| split(cursor.key())), last);
}

fn check_get(list: &SkipList, model: &Model, user: &[u8], tag: u64) {
    let range = (Included((user.to_vec(), u64::MAX - tag)), Included((user.to_vec(), u64::MAX)));
    let expected = model.range(range).next().map(|(_, tag)| *tag);
    let found = list.newest(user, tag);
    assert_eq!(found.map(|(tag, _)| tag), expected);
    assert!(found.is_none_or(|(tag, value)| value == tag.to_le_bytes()));
}

/// Whatever is inserted, left, linked and looked for in turn, from before the list has a window, a finder and an index until
/// they are all there, or none.
fn lists_agree_with_a_model(order: &UserOrder, gets: bool) {
    for seed in 1..if cfg!(miri) { 3 } else { 40 } {
        let (list, mut writer) = SkipList::new(order.clone(), INDEXED, seed, None);
        let (mut model, mut random) = (Model::new(), seed);
        let mut cursor = list.cursor();
        let rounds = if cfg!(miri) { 80 } else { 3000 };
        for tag in 1..=rounds {
            let user = format!("base{}/{:04}", next(&mut random) % 2, next(&mut random) % 500);
            let user = user.as_bytes();
            // Runs of both kinds, so that the position is lent and taken back, and the ring is full now and then.
            let leaves = (tag / 64 + seed) % 4 > 0;
            entry(user, tag, |entry| match leaves {
                true => writer.insert_unlinked(entry),
                false => assert!(writer.insert(entry)),
            });
            model.insert((user.to_vec(), u64::MAX - tag), tag);
            match next(&mut random) % 32 {
                0 => assert!(list.link_some() <= AT_ONCE),
                1..8 if gets => {
                    check_get(&list, &model, user, tag);
                    check_get(&list, &model, user, tag - next(&mut random) % tag);
                }
                8 if tag % 8 == 0 => check_scan(&mut cursor, &model),
                9 | 10 => check_seek(&mut cursor, &model, user, next(&mut random) % (tag + 2)),
                11 => check_last(&mut cursor, &model),
                _ => {}
            }
        }
        check_scan(&mut cursor, &model);
        drop((cursor, list));
        let last = b"its arena outlives the list";
        entry(last, rounds + 1, |entry| writer.insert_unlinked(entry));
    }
}

#[test]
fn what_is_left_is_found() {
    lists_agree_with_a_model(&UserOrder::Bytewise, true);
}

#[test]
fn what_is_left_is_found_without_an_index() {
    lists_agree_with_a_model(&UserOrder::Bytewise, false);
}

/// Whoever links would call it, and it might panic.
#[test]
fn nothing_is_left_in_orders_of_others() {
    let order = UserOrder::Custom(Arc::new(BytewiseComparator));
    lists_agree_with_a_model(&order, true);
    let (list, mut writer) = SkipList::new(order, INDEXED, 1, None);
    for tag in 1..100 {
        entry(b"key", tag, |entry| writer.insert_unlinked(entry));
        assert!(!list.0.lent.has_unlinked());
    }
}

#[test]
fn a_repeated_entry_is_known_though_it_was_left() {
    let (_list, mut writer) = SkipList::new(UserOrder::Bytewise, INDEXED, 1, None);
    for tag in 1..=6 {
        entry(b"key", tag, |entry| writer.insert_unlinked(entry));
    }
    for tag in 5..=6 {
        entry(b"key", tag, |entry| assert!(!writer.insert(entry)));
    }
    entry(b"key", 7, |entry| assert!(writer.insert(entry)));
}

/// Else other keys in its bucket would have to be searched for.
#[test]
fn a_key_that_is_left_over_and_over_does_not_fill_its_chain() {
    const KEYS: u64 = 200;
    let (list, mut writer) = SkipList::new(UserOrder::Bytewise, INDEXED, 1, None);
    let mut tags = 1..;
    for n in (0..KEYS).chain((0..1000).map(|_| KEYS / 2)) {
        entry(&n.to_be_bytes(), tags.next().unwrap(), |entry| writer.insert_unlinked(entry));
        list.newest(&n.to_be_bytes(), u64::MAX); // Who is not searched has no buckets.
    }
    for n in 0..KEYS {
        let first = list.0.index.bucket(&n.to_be_bytes()).and_then(Bucket::first);
        let chain = std::iter::successors(first, |node| list.0.node(*node).next_in_bucket());
        assert!(chain.count() < CHAIN_MAX, "{n}");
    }
}

#[test]
fn a_full_ring_is_made_room_in() {
    let (list, mut writer) = SkipList::new(UserOrder::Bytewise, INDEXED, 1, None);
    for tag in 1..=RING_NODES as u64 * 3 + 1 {
        entry(&tag.to_be_bytes(), tag, |entry| writer.insert_unlinked(entry));
    }
    let lent = &list.0.lent;
    assert!(lent.has_unlinked());
    while list.link_some() > 0 {}
    assert!(!lent.has_unlinked());
    assert!(lent.position.lock().is_some(), "nobody has asked for it back");
}

fn key(n: u64) -> [u8; 8] {
    (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 512).to_be_bytes()
}

fn write(writer: &mut Writer, published: &AtomicU64, writes: u64) {
    for n in 1..=writes {
        entry(&key(n), n, |entry| match n / 100 % 3 {
            0 => assert!(writer.insert(entry)),
            _ => writer.insert_unlinked(entry),
        });
        published.store(n, Release);
    }
}

fn read(list: &SkipList, published: &AtomicU64, random: &mut u64) {
    let newest = published.load(Acquire);
    if newest == 0 {
        return;
    }
    let n = 1 + next(random) % newest;
    assert!(list.newest(&key(n), u64::MAX).is_some_and(|(tag, _)| tag >= n));
    assert_eq!(list.newest(&key(n), n), Some((n, &n.to_le_bytes()[..])));
    if n.is_multiple_of(32) {
        let (mut cursor, mut seen) = (list.cursor(), 0);
        cursor.seek_to_first();
        while cursor.valid() {
            let (user, tag) = split(cursor.key());
            assert_eq!(user, key(tag));
            seen += u64::from(tag <= newest);
            cursor.next();
        }
        assert_eq!(seen, newest);
    }
}

#[test]
fn nothing_is_missed_beside_a_writer_and_who_helps() {
    for seed in 1..if cfg!(miri) { 2 } else { 9 } {
        let (list, mut writer) = SkipList::new(UserOrder::Bytewise, INDEXED, seed, None);
        let (published, done) = (AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for reader in 0..2 {
                let (list, published, done) = (list.clone(), &published, &done);
                scope.spawn(move || {
                    let mut random = seed + reader;
                    while !done.load(Acquire) {
                        read(&list, published, &mut random);
                    }
                    read(&list, published, &mut random);
                });
            }
            let (helped, done_too) = (list.clone(), &done);
            scope.spawn(move || {
                while !done_too.load(Acquire) {
                    if helped.link_some() == 0 {
                        std::thread::yield_now();
                    }
                }
            });
            write(&mut writer, &published, if cfg!(miri) { 300 } else { 4_000 });
            done.store(true, Release);
        });
    }
}
