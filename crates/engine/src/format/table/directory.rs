//! Where a cached block's entries lie: gets that find a block in the cache again and again go straight to their entry.
//!
//! Without it a get touches the keys of half an interval, a cache miss each; with it, the line of marks, a record and the
//! entry. A directory is made when a block was hit often enough for that to pay. It is of use in the bytewise order only.
//!
//! **Layout**, one allocation of words: the count of entries and the length of what all user keys begin with; that
//! beginning; a byte per entry, the *mark* of its head; and a record per entry: its head, where it starts, and how long
//! its user key is. A key's *head* is the eight bytes behind what all keys begin with.

use crate::base::fences::common_prefix;
use crate::base::hash::mix;
use crate::base::key::{TAG_BYTES, split, tag_of, user_key};
use crate::format::table::block::{Block, Entry};

const WORD_BYTES: usize = size_of::<u64>();
/// Keys that share their beginnings may unfold to far more than the block: then it gets no directory.
const KEY_BYTES_PER_BLOCK_BYTE: usize = 4;
/// Nor does a block of smaller entries than that, on average: its directory would be larger than half of it.
const ENTRY_BYTES_MIN: usize = 34;

pub(super) struct Directory(Box<[u64]>);

/// What a directory tells of a key.
pub(super) enum Told {
    /// The first entry of the target's user key that is not before the target.
    At(Entry),
    /// No entry of the user key is at or behind the target.
    Absent,
    /// The block must be searched.
    Unclear,
}

impl Directory {
    /// Of a block whose entries are whole and have keys with tags, neither long ones that share much nor many.
    pub(super) fn of(block: &Block) -> Option<Self> {
        let (mut starts, mut keys, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        let (mut at, mut key) = (0, Vec::new());
        while at < block.entries_end() {
            let entry = block.entry_at(at)?;
            block.rebuild_key(&entry, &mut key).ok()?;
            starts.push(u32::try_from(at).ok()?);
            keys.extend_from_slice(user_key(&key));
            ends.push(keys.len());
            let is_large = keys.len() > KEY_BYTES_PER_BLOCK_BYTE * block.entries_end();
            if is_large || ENTRY_BYTES_MIN * starts.len() > block.entries_end() {
                return None;
            }
            at = entry.value.end;
        }
        let begins = std::iter::once(&0).chain(&ends);
        let users: Vec<&[u8]> = begins.zip(&ends).map(|(begin, end)| &keys[*begin..*end]).collect();
        Some(Directory(lay_out(&users, &starts)))
    }

    pub(super) fn memory(&self) -> usize {
        size_of_val(&*self.0)
    }

    /// Looks for `target`, an internal key, in the block that this was made of.
    #[inline]
    pub(super) fn look_up(&self, block: &Block, target: &[u8]) -> Told {
        let (user, tag) = split(target);
        let Some((&[first, ..], rest)) = self.0.split_at_checked(1) else { return Told::Unclear };
        let (entries, common) = (low(first), high(first));
        let parts = rest.split_at_checked(common.div_ceil(WORD_BYTES));
        let Some((beginning, rest)) = parts else { return Told::Unclear };
        let Some(head) = head_behind(user, beginning, common) else { return Told::Absent };
        let parts = rest.split_at_checked(entries.div_ceil(WORD_BYTES));
        let Some((marks, records)) = parts else { return Told::Unclear };
        if user.len() > common + WORD_BYTES {
            return Told::Unclear;
        }
        let mark = mark_of(head);
        for (at, word) in marks.iter().enumerate() {
            let mut matches = equal_bytes(*word, mark);
            while matches != 0 {
                let index = at * WORD_BYTES + matches.trailing_zeros() as usize / 8;
                matches &= matches - 1;
                let record = records.get(2 * index..2 * index + 2);
                let Some(&[own_head, place]) = record else { continue };
                if own_head != head {
                    continue;
                }
                if high(place) > common + WORD_BYTES {
                    return Told::Unclear;
                }
                if high(place) == user.len() {
                    let Some(entry) = block.entry_at(low(place)) else { return Told::Unclear };
                    if entry.suffix.len() < TAG_BYTES {
                        return Told::Unclear; // A part of the tag lies with the entry before.
                    }
                    if tag_of(block.slice(entry.suffix.clone())) <= tag {
                        return Told::At(entry);
                    }
                }
            }
        }
        Told::Absent
    }
}

fn lay_out(users: &[&[u8]], starts: &[u32]) -> Box<[u64]> {
    let first = users.first().copied().unwrap_or_default();
    let common =
        users.iter().fold(first.len(), |common, key| common.min(common_prefix(first, key)));
    let heads: Vec<u64> = users.iter().map(|key| word(&key[common..])).collect();
    let marks: Vec<u8> = heads.iter().map(|head| mark_of(*head)).collect();
    let mut words = vec![pair(users.len(), common)];
    words.extend(first[..common].chunks(WORD_BYTES).map(word));
    words.extend(marks.chunks(WORD_BYTES).map(word));
    for ((head, user), start) in heads.iter().zip(users).zip(starts) {
        words.extend([*head, pair(*start as usize, user.len())]);
    }
    words.into_boxed_slice()
}

/// The head of a key that begins as all do.
#[inline]
fn head_behind(user: &[u8], beginning: &[u64], common: usize) -> Option<u64> {
    let (own_beginning, rest) = user.split_at_checked(common)?;
    let same = own_beginning.chunks(WORD_BYTES).zip(beginning).all(|(own, all)| word(own) == *all);
    same.then(|| word(rest))
}

/// Up to eight bytes, as they lie in memory; missing ones count as zero.
#[inline]
fn word(bytes: &[u8]) -> u64 {
    match bytes.first_chunk() {
        Some(whole) => u64::from_le_bytes(*whole),
        None => bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
}

#[inline]
fn mark_of(head: u64) -> u8 {
    mix(head, 0) as u8
}

/// The top bit of each byte of `word` that is `byte`; and perhaps of some behind such a byte.
#[inline]
fn equal_bytes(word: u64, byte: u8) -> u64 {
    const EACH: u64 = u64::MAX / 0xff;
    let zero_where_equal = word ^ (EACH * u64::from(byte));
    zero_where_equal.wrapping_sub(EACH) & !zero_where_equal & EACH << 7
}

fn pair(low: usize, high: usize) -> u64 {
    low as u64 | (high as u64) << 32
}

#[inline]
fn low(pair: u64) -> usize {
    pair as u32 as usize
}

#[inline]
fn high(pair: u64) -> usize {
    (pair >> 32) as usize
}
#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::comparator::{InternalOrder, UserOrder};
    use crate::base::key::{InternalKey, SeqNo, ValueKind};
    use crate::format::table::block_builder::BlockBuilder;

    fn block(keys: &[InternalKey], restart_interval: usize) -> Block {
        let mut builder = BlockBuilder::new(restart_interval);
        keys.iter()
            .for_each(|key| builder.add(key.as_bytes(), &[key.as_bytes(), &[7; 20]].concat()));
        Block::new(builder.finish().to_vec()).unwrap()
    }

    /// Holds a directory against the search, for all keys of a block, their neighbours and all their versions.
    fn check(users: &[Vec<u8>], versions: u64, unclear_max: usize) {
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
                [user.clone(), [user, &b"\0"[..]].concat(), shorter.to_vec()]
            });
            let (mut unclear, mut buffer) = (0, Vec::new());
            for (user, seqno) in
                near.flat_map(|user| (0..1300).step_by(100).map(move |n| (user.clone(), n)))
            {
                let target = InternalKey::seek_to(&user, SeqNo(seqno));
                let found = block.find(&order, target.as_bytes(), &mut buffer).unwrap();
                let found =
                    found.filter(|_| user_key(&buffer) == user).map(|(_, entry)| entry.value);
                match directory.look_up(&block, target.as_bytes()) {
                    Told::At(entry) => assert_eq!(Some(entry.value), found, "{user:?} at {seqno}"),
                    Told::Absent => assert_eq!(found, None, "{user:?} at {seqno}"),
                    Told::Unclear => unclear += 1,
                }
            }
            assert!(unclear <= unclear_max, "{unclear} unclear");
        }
    }

    #[test]
    fn finds_what_a_search_finds() {
        let numbers: Vec<_> =
            (0..40).map(|n| format!("{:016}", 77_700 + 3 * n).into_bytes()).collect();
        check(&numbers, 1, 0);
        // Versions that share a part of their tags are for the search.
        check(&numbers, 4, usize::MAX);
        check(&[b"".to_vec(), b"\0".to_vec(), b"\0\0".to_vec(), b"a".to_vec()], 1, 0);
        check(&[b"one key only".to_vec()], 1, 13);
        check(&[], 1, 0);
    }

    #[test]
    fn keys_that_go_on_behind_what_fences_keep_are_searched_for() {
        let long: Vec<_> =
            (0..40).map(|n| format!("a{n:02}/a long way to go/{n}").into_bytes()).collect();
        check(&long, 1, usize::MAX);
        check(
            &[b"12345678".to_vec(), b"123456789".to_vec(), b"1234567890".to_vec()],
            2,
            usize::MAX,
        );
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
