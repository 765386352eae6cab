//! Where a cached block's entries lie: searches that find a block in the cache again and again go straight to their
//! entry.
//!
//! Without it a search touches the keys of half an interval, a cache miss each; with it, the few lines of the heads, which
//! the processor fetches at once, and the entry. A directory is made when a block was used often enough for that to pay.
//! It is of use in the bytewise order only.
//!
//! **Layout**, one allocation of words: the count of entries and the length of what all user keys begin with; that
//! beginning; the *head* of each key, which is the eight bytes behind what all keys begin with, as a big-endian integer;
//! and for each entry where it starts, and how long its user key is.

use std::cmp::Ordering;

use crate::base::fences::{common_prefix, prefix};
use crate::base::key::user_key;
use crate::format::table::block::{Block, Matcher};
use crate::format::table::key_buf::KeyBuf;

const WORD_BYTES: usize = size_of::<u64>();
/// Keys that share their beginnings may unfold to far more than the block: then it gets no directory.
const KEY_BYTES_PER_BLOCK_BYTE: usize = 4;
/// Nor does a block of smaller entries than that, on average: its directory would be larger than half of it.
const ENTRY_BYTES_MIN: usize = 4 * WORD_BYTES;
/// So many heads are looked through one after the other: no head's load waits for another's then.
const HEADS_AT_ONCE: usize = 64;

pub(super) struct Directory(Box<[u64]>);

impl Directory {
    /// Of a block in order whose entries are whole and have keys with tags, neither long ones that share much nor many.
    pub(super) fn of(block: &Block) -> Option<Self> {
        let (mut starts, mut keys, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        let (mut at, mut key) = (0, KeyBuf::new());
        while at < block.entries_end() {
            let entry = block.entry_at(at)?;
            block.rebuild_key(&entry, &mut key).ok()?;
            starts.push(at);
            keys.extend_from_slice(user_key(key.as_bytes()));
            ends.push(keys.len());
            let is_large = keys.len() > KEY_BYTES_PER_BLOCK_BYTE * block.entries_end();
            if is_large || ENTRY_BYTES_MIN * starts.len() > block.entries_end() {
                return None;
            }
            at = entry.value.end;
        }
        let begins = std::iter::once(&0).chain(&ends);
        let users: Vec<&[u8]> = begins.zip(&ends).map(|(begin, end)| &keys[*begin..*end]).collect();
        users.is_sorted().then(|| lay_out(&users, &starts))?
    }

    pub(super) fn memory(&self) -> usize {
        size_of_val(&*self.0)
    }

    /// Where [`Block::find_from`] may start for `target`, an internal key: at the first entry whose head is not less than
    /// its own.
    #[inline]
    pub(super) fn start<'a>(&self, target: &'a [u8]) -> (usize, Matcher<'a>) {
        let user = user_key(target);
        let from_first = (0, Matcher::new(target));
        let Some((&[first, ..], rest)) = self.0.split_at_checked(1) else { return from_first };
        let (entries, common) = (low(first), high(first));
        let parts = rest.split_at_checked(common.div_ceil(WORD_BYTES));
        let Some((beginning, rest)) = parts else { return from_first };
        let Some((heads, places)) = rest.split_at_checked(entries) else { return from_first };
        match order_by_beginning(user, beginning, common) {
            Ordering::Less => return from_first,
            Ordering::Greater => return (usize::MAX, Matcher::new(target)),
            Ordering::Equal => {}
        }
        let head = prefix(&user[common..]);
        let index = lesser_than(head, heads);
        let at = places.get(index).map_or(usize::MAX, |place| low(*place));
        let Some(before) = index.checked_sub(1) else { return (at, Matcher::new(target)) };
        let own_bytes = high(places[before]);
        let same = ((heads[before] ^ head).leading_zeros() / 8) as usize;
        let matched = (common + same).min(own_bytes).min(user.len());
        (at, Matcher::behind(target, matched, matched < own_bytes))
    }
}

/// `None` if a number is too large for its place.
fn lay_out(users: &[&[u8]], starts: &[usize]) -> Option<Directory> {
    let first = users.first().copied().unwrap_or_default();
    let common =
        users.iter().fold(first.len(), |common, key| common.min(common_prefix(first, key)));
    let mut words = vec![pair(users.len(), common)?];
    words.extend(first[..common].chunks(WORD_BYTES).map(prefix));
    words.extend(users.iter().map(|key| prefix(&key[common..])));
    for (user, start) in users.iter().zip(starts) {
        words.push(pair(*start, user.len())?);
    }
    Some(Directory(words.into_boxed_slice()))
}

fn pair(low: usize, high: usize) -> Option<u64> {
    Some(u64::from(u32::try_from(low).ok()?) | u64::from(u32::try_from(high).ok()?) << 32)
}

#[inline]
fn low(pair: u64) -> usize {
    pair as u32 as usize
}

#[inline]
fn high(pair: u64) -> usize {
    (pair >> 32) as usize
}

/// How a user key compares with what all keys begin with; equal if it begins so, too.
#[inline]
fn order_by_beginning(user: &[u8], beginning: &[u64], common: usize) -> Ordering {
    let own_beginning = &user[..common.min(user.len())];
    let differs =
        own_beginning.chunks(WORD_BYTES).zip(beginning).find(|(own, all)| prefix(own) != **all);
    match differs {
        Some((own, all)) => prefix(own).cmp(all),
        None => own_beginning.len().cmp(&common),
    }
}

/// How many of the heads, which ascend, are less than `head`.
#[inline]
fn lesser_than(head: u64, heads: &[u64]) -> usize {
    let (mut passed, mut rest) = (0, heads);
    while rest.len() > HEADS_AT_ONCE {
        let (left, right) = rest.split_at(rest.len() / 2);
        if right[0] < head {
            (passed, rest) = (passed + left.len(), right);
        } else {
            rest = left;
        }
    }
    passed + rest.iter().filter(|own| **own < head).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::comparator::{InternalOrder, UserOrder};
    use crate::base::key::{InternalKey, SeqNo, ValueKind};
    use crate::format::table::block::Entry;
    use crate::format::table::block_builder::BlockBuilder;

    fn block(keys: &[InternalKey], restart_interval: usize) -> Block {
        let mut builder = BlockBuilder::new(restart_interval);
        keys.iter()
            .for_each(|key| builder.add(key.as_bytes(), &[key.as_bytes(), &[7; 20]].concat()));
        Block::new(builder.finish().to_vec()).unwrap()
    }

    /// Holds a directory against the search, for all keys of a block, their neighbours and all their versions.
    fn check(users: &[Vec<u8>], versions: u64) {
        let order = InternalOrder::new(UserOrder::Bytewise);
        let key = |user: &[u8], seqno| InternalKey::new(user, SeqNo(seqno), ValueKind::Value);
        let mut keys = Vec::new();
        for user in users {
            keys.extend((0..versions).map(|version| key(user, 7 + 300 * version)));
        }
        keys.sort_by(|a, b| order.compare(a.as_bytes(), b.as_bytes()));
        for restart_interval in [1, 16] {
            let block = block(&keys, restart_interval);
            let directory = Directory::of(&block).unwrap();
            let near = users.iter().flat_map(|user| {
                let shorter = &user[..user.len().saturating_sub(1)];
                [
                    user.clone(),
                    [user, &b"\0"[..]].concat(),
                    shorter.to_vec(),
                    [user, &b"zz"[..]].concat(),
                ]
            });
            let (mut by_search, mut by_directory) = (KeyBuf::new(), KeyBuf::new());
            for (user, seqno) in
                near.flat_map(|user| (0..1300).step_by(100).map(move |n| (user.clone(), n)))
            {
                let target = InternalKey::seek_to(&user, SeqNo(seqno));
                let target = target.as_bytes();
                let searched = block.find(&order, target, &mut by_search).unwrap();
                let start = directory.start(target);
                let found = block.find_from(start, &order, target, &mut by_directory).unwrap();
                let place =
                    |found: Option<(usize, Entry)>| found.map(|(at, entry)| (at, entry.value));
                assert_eq!(place(found), place(searched.clone()), "{user:?} at {seqno}");
                assert!(
                    searched.is_none() || by_directory.as_bytes() == by_search.as_bytes(),
                    "{user:?} at {seqno}"
                );
            }
        }
    }

    #[test]
    fn finds_what_a_search_finds() {
        let numbers: Vec<_> =
            (0..40).map(|n| format!("{:016}", 77_700 + 3 * n).into_bytes()).collect();
        check(&numbers, 1);
        // Versions share parts of their tags.
        check(&numbers, 4);
        let many: Vec<_> = (0..1000).map(|n| format!("{n:08}").into_bytes()).collect();
        check(&many, 1);
        check(&[b"".to_vec(), b"\0".to_vec(), b"\0\0".to_vec(), b"a".to_vec()], 1);
        check(&[b"one key only".to_vec()], 1);
        check(&[], 1);
    }

    #[test]
    fn keys_that_go_on_behind_their_heads_are_told_apart() {
        let long: Vec<_> =
            (0..40).map(|n| format!("a{:02}/a long way to go/{n}", n / 7).into_bytes()).collect();
        check(&long, 1);
        check(&long, 3);
        check(&[b"12345678".to_vec(), b"123456789".to_vec(), b"1234567890".to_vec()], 2);
        let zeros: Vec<_> = (1..20).map(|n| [&b"key"[..], &vec![0; n]].concat()).collect();
        check(&zeros, 2);
    }

    #[test]
    fn blocks_that_unfold_or_are_broken_or_hold_tiny_entries_get_none() {
        let mut builder = BlockBuilder::new(usize::MAX);
        for seqno in (0..100).rev() {
            let key = InternalKey::new(&[b'k'; 1000], SeqNo(seqno), ValueKind::Value);
            builder.add(key.as_bytes(), b"");
        }
        assert!(Directory::of(&Block::new(builder.finish().to_vec()).unwrap()).is_none());
        let tiny: Vec<_> =
            (0..100u8).map(|n| InternalKey::new(&[n], SeqNo(1), ValueKind::Value)).collect();
        let mut builder = BlockBuilder::new(16);
        tiny.iter().for_each(|key| builder.add(key.as_bytes(), b"value"));
        assert!(Directory::of(&Block::new(builder.finish().to_vec()).unwrap()).is_none());
        let broken = vec![0xff, 9, 9, 9, 0, 0, 0, 0, 1, 0, 0, 0];
        assert!(Directory::of(&Block::new(broken).unwrap()).is_none());
    }
}
