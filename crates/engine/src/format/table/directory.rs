//! Where a cached block's entries lie: searches that find a block in the cache again and again go straight to their
//! entry.
//!
//! Without it a search touches the keys of half an interval, a cache miss each, one after the other. With it, the few lines
//! in which the block's own numbers lie, too, so that they come all at once; and then the entry. A directory is made for the
//! first search in a block that is kept, while the block's lines are near, and no key is rebuilt for it. It is of use in the
//! bytewise order only.
//!
//! **Samples.** A directory is of fixed size: it knows one in so many entries that all fit. Of a sample it has the *head*, which
//! is the four bytes behind what all keys begin with, as a big-endian integer, and where the entry behind it starts. A key that
//! ends within its head is no sample; keys are short of their heads rarely, for these begin early enough.

use std::cmp::Ordering;

use crate::base::fences::common_prefix;
use crate::base::key::{LEADING_BYTES, TAG_BYTES, first_bytes, leading_words, user_key};
use crate::format::table::block::{Block, Entry};
use crate::format::table::matcher::Matcher;

/// A few more than a usual block has entries of a hundred bytes.
const SAMPLES_MAX: usize = 40;
const HEAD_BYTES: usize = size_of::<u32>();

pub(super) struct Directory {
    /// All user keys begin with the same so many bytes.
    common: usize,
    /// As [`leading_words`], of that.
    beginning: u128,
    /// In order; behind the last sample's, greatest numbers.
    heads: [u32; SAMPLES_MAX],
    behind: [u16; SAMPLES_MAX],
}

impl Directory {
    /// Of a block in order whose entries are whole and have keys with tags; not of a large one, nor where there is little
    /// to know.
    pub(super) fn of(block: &Block) -> Option<Self> {
        let first = block.first_key().ok()??;
        let last_restart = block.restart_key(block.restarts().checked_sub(1)?).ok()?;
        let common = common_prefix(user_key(first), user_key(last_restart));
        let common = common.min(user_key(first).len().saturating_sub(HEAD_BYTES));
        // A good guess, mostly.
        Self::with_common(block, first, common)
            .or_else(|| Self::with_common(block, first, common_bytes(block, first)?))
    }

    /// With heads behind so many bytes of the keys. `None` if not all user keys begin with those of the first, or if most end within
    /// their heads.
    fn with_common(block: &Block, first: &[u8], common: usize) -> Option<Self> {
        let beginning = first.get(..common)?;
        let (mut samples, mut entries) = (Samples::new(), 0);
        let (mut head, mut head_before) = ([0; HEAD_BYTES], 0);
        for_each_entry(block, |entry, user_bytes| {
            let suffix = block.slice(entry.suffix.clone());
            let begins_so = beginning.get(entry.shared..).is_none_or(|own| suffix.starts_with(own));
            if !begins_so || user_bytes < common {
                return None;
            }
            entries += 1;
            renew_head(&mut head, common, entry.shared, suffix);
            if user_bytes < common + HEAD_BYTES {
                return Some(());
            }
            let head = u32::from_be_bytes(head);
            let is_in_order = std::mem::replace(&mut head_before, head) <= head;
            samples.note(head, entry.value.end).filter(|()| is_in_order)
        })?;
        let beginning = leading_words(first) & first_bytes(common);
        let Samples { heads, behind, seen, .. } = samples;
        let is_worth_it = seen > 1 && seen >= entries / 2;
        is_worth_it.then_some(Directory { common, beginning, heads, behind })
    }

    /// Where [`Block::find_from`] may start in the block for `target`, an internal key: behind the last sample whose head is
    /// less than its own.
    #[inline]
    pub(super) fn start<'a>(&self, block: &Block, target: &'a [u8]) -> (usize, Matcher<'a>) {
        match self.order_by_beginning(block, target) {
            Ordering::Less => return (0, Matcher::new(target)),
            Ordering::Greater => return (usize::MAX, Matcher::new(target)),
            Ordering::Equal => {}
        }
        let head = head_of(user_key(target).get(self.common..).unwrap_or_default());
        let index = self.heads.iter().filter(|own| **own < head).count();
        let before = index.checked_sub(1);
        let Some((own, behind)) = before.and_then(|at| self.heads.get(at).zip(self.behind.get(at)))
        else {
            return (0, Matcher::new(target));
        };
        let same = ((own ^ head).leading_zeros() / 8) as usize;
        (usize::from(*behind), Matcher::behind(target, self.common + same))
    }

    /// How a target's user key compares with what all keys begin with; equal if it begins so, too.
    #[inline]
    fn order_by_beginning(&self, block: &Block, target: &[u8]) -> Ordering {
        let user = user_key(target);
        if self.common > LEADING_BYTES || self.common > user.len() {
            return self.order_by_first_key(block, user);
        }
        (leading_words(target) & first_bytes(self.common)).cmp(&self.beginning)
    }

    #[inline(never)]
    fn order_by_first_key(&self, block: &Block, user: &[u8]) -> Ordering {
        let first = block.first_key().ok().flatten().unwrap_or_default();
        let beginning = first.get(..self.common).unwrap_or_default();
        user.get(..self.common).unwrap_or(user).cmp(beginning)
    }
}

/// The first bytes as an integer; missing ones count as zero.
#[inline]
fn head_of(bytes: &[u8]) -> u32 {
    if let Some(first) = bytes.first_chunk() {
        return u32::from_be_bytes(*first);
    }
    let mut padded = [0; HEAD_BYTES];
    padded.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    u32::from_be_bytes(padded)
}

/// Keeps as many samples as fit: one in a power of two.
struct Samples {
    heads: [u32; SAMPLES_MAX],
    behind: [u16; SAMPLES_MAX],
    kept: usize,
    seen: usize,
    one_in: usize,
}

impl Samples {
    fn new() -> Self {
        let (heads, behind) = ([u32::MAX; SAMPLES_MAX], [0; SAMPLES_MAX]);
        Samples { heads, behind, kept: 0, seen: 0, one_in: 1 }
    }

    /// `None` if no directory can tell where the entry ends.
    #[inline]
    fn note(&mut self, head: u32, end: usize) -> Option<()> {
        self.seen += 1;
        if !self.seen.is_multiple_of(self.one_in) {
            return Some(());
        }
        let Some(place) = self.heads.get_mut(self.kept).zip(self.behind.get_mut(self.kept)) else {
            self.drop_every_other();
            return Some(());
        };
        (*place.0, *place.1) = (head, u16::try_from(end).ok()?);
        self.kept += 1;
        Some(())
    }

    #[cold]
    fn drop_every_other(&mut self) {
        self.kept = SAMPLES_MAX / 2;
        self.one_in *= 2;
        for at in 0..self.kept {
            self.heads[at] = self.heads[2 * at + 1];
            self.behind[at] = self.behind[2 * at + 1];
        }
        self.heads[self.kept..].fill(u32::MAX);
        self.behind[self.kept..].fill(0);
    }
}

/// How many bytes to pass over in front of heads: those that all user keys begin with, but not so many that most keys end
/// within their heads.
#[cold]
fn common_bytes(block: &Block, first: &[u8]) -> Option<usize> {
    let (mut common, mut lengths) = (user_key(first).len(), Vec::new());
    for_each_entry(block, |entry, user_bytes| {
        // The key before begins with the first one's `common` bytes.
        if let Some(unsure) = first.get(entry.shared..common) {
            common = entry.shared + common_prefix(unsure, block.slice(entry.suffix.clone()));
        }
        common = common.min(user_bytes);
        lengths.push(user_bytes);
        Some(())
    })?;
    lengths.sort_unstable();
    let usual = lengths.get(lengths.len() / 2)?;
    Some(common.min(usual.saturating_sub(HEAD_BYTES)))
}

/// Makes the bytes behind the first `common` of the key before those of the next one, as far as that reaches.
#[inline]
fn renew_head(head: &mut [u8; HEAD_BYTES], common: usize, shared: usize, suffix: &[u8]) {
    if let Some(behind) = common.checked_sub(shared) {
        let own = suffix.get(behind..).unwrap_or_default();
        match own.first_chunk() {
            Some(own) => *head = *own,
            None => head.iter_mut().zip(own).for_each(|(to, from)| *to = *from),
        }
    } else if let Some(changed) = head.get_mut(shared - common..) {
        changed.iter_mut().zip(suffix).for_each(|(to, from)| *to = *from);
    }
}

/// Shows each entry and how long its user key is. `None` if an entry is not whole, or what is shown says so.
#[inline]
fn for_each_entry(block: &Block, mut show: impl FnMut(&Entry, usize) -> Option<()>) -> Option<()> {
    let (mut at, mut key_bytes) = (0, 0);
    while at < block.entries_end() {
        let entry = block.entry_at(at)?;
        if entry.shared > key_bytes {
            return None;
        }
        key_bytes = entry.shared + entry.suffix.len();
        show(&entry, key_bytes.checked_sub(TAG_BYTES)?)?;
        at = entry.value.end;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::comparator::{InternalOrder, UserOrder};
    use crate::base::key::{InternalKey, SeqNo, ValueKind};
    use crate::format::table::block_builder::BlockBuilder;
    use crate::format::table::key_buf::KeyBuf;

    fn block(keys: &[InternalKey], restart_interval: usize) -> Block {
        let mut builder = BlockBuilder::new(restart_interval);
        keys.iter()
            .for_each(|key| builder.add(key.as_bytes(), &[key.as_bytes(), &[7; 20]].concat()));
        Block::new(builder.finish().to_vec()).unwrap()
    }

    /// Holds a directory against the search, for all keys of a block, their neighbours and all their versions. Returns whether
    /// there is one.
    fn check(users: &[Vec<u8>], versions: u64) -> bool {
        let order = InternalOrder::new(UserOrder::Bytewise);
        let key = |user: &[u8], seqno| InternalKey::new(user, SeqNo(seqno), ValueKind::Value);
        let mut keys = Vec::new();
        for user in users {
            keys.extend((0..versions).map(|version| key(user, 7 + 300 * version)));
        }
        keys.sort_by(|a, b| order.compare(a.as_bytes(), b.as_bytes()));
        for restart_interval in [1, 16] {
            let block = block(&keys, restart_interval);
            let Some(directory) = Directory::of(&block) else { return false };
            let near = users.iter().flat_map(|user| {
                let shorter = &user[..user.len().saturating_sub(1)];
                [
                    // Less and greater than what all begin with, and a beginning of that.
                    [b"\0", user.get(1..).unwrap_or_default()].concat(),
                    [b"~", user.get(1..).unwrap_or_default()].concat(),
                    user[..user.len() / 2].to_vec(),
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
                let start = directory.start(&block, target);
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
        true
    }

    #[test]
    fn finds_what_a_search_finds() {
        let numbers: Vec<_> =
            (0..40).map(|n| format!("{:016}", 77_700 + 3 * n).into_bytes()).collect();
        assert!(check(&numbers, 1));
        // Versions share parts of their tags.
        assert!(check(&numbers, 4));
        // One in 25 is a sample.
        let many: Vec<_> = (0..1000).map(|n| format!("{n:08}").into_bytes()).collect();
        assert!(check(&many, 1));
        let long: Vec<_> =
            (0..60).map(|n| format!("all begin with so much, and go on: {n:09}").into()).collect();
        assert!(check(&long, 2));
    }

    #[test]
    fn keys_that_go_on_behind_their_heads_are_told_apart() {
        let long: Vec<_> =
            (0..40).map(|n| format!("a{:02}/a long way to go/{n}", n / 7).into_bytes()).collect();
        assert!(check(&long, 1));
        assert!(check(&long, 3));
        let some = ["1", "12345678", "123456789", "1234567890", "2", "22222"].map(str::as_bytes);
        assert!(check(&some.map(<[u8]>::to_vec), 2));
        let zeros: Vec<_> = (1..20).map(|n| [&b"key"[..], &vec![0; n]].concat()).collect();
        assert!(check(&zeros, 2));
    }

    #[test]
    fn where_there_is_little_to_know_there_is_none() {
        assert!(!check(&[b"".to_vec(), b"\0".to_vec(), b"\0\0".to_vec(), b"a".to_vec()], 1));
        assert!(!check(&[b"one key only".to_vec()], 1));
        assert!(!check(&[], 1));
        let short: Vec<_> = (0..100).map(|n| vec![n]).collect();
        assert!(!check(&short, 1));
        // Places in blocks of 64 KiB and more do not fit.
        let large: Vec<_> = (0..2000).map(|n| format!("{n:08}").into_bytes()).collect();
        assert!(!check(&large, 1));
    }

    /// Keys of a hostile block may unfold to far more than its own bytes: none is rebuilt.
    #[test]
    fn keys_that_unfold_are_looked_at_where_they_lie() {
        let long: Vec<_> = (0..4).map(|n| [&[b'k'; 1000][..], &[n; 8]].concat()).collect();
        assert!(check(&long, 5));
    }

    #[test]
    fn broken_blocks_and_disorder_get_none() {
        let broken = vec![0xff, 9, 9, 9, 0, 0, 0, 0, 1, 0, 0, 0];
        assert!(Directory::of(&Block::new(broken).unwrap()).is_none());
        let mut builder = BlockBuilder::new(16);
        for user in ["key 00001", "key 00003", "key 00002", "key 00004"] {
            let key = InternalKey::new(user.as_bytes(), SeqNo(1), ValueKind::Value);
            builder.add(key.as_bytes(), b"");
        }
        assert!(Directory::of(&Block::new(builder.finish().to_vec()).unwrap()).is_none());
    }

    /// Bytes of a block may be anything. A directory of them leads somewhere, or there is none; nothing panics.
    #[test]
    fn hostile_blocks_are_looked_at_with_care() {
        let order = InternalOrder::new(UserOrder::Bytewise);
        let keys: Vec<_> = (0..60u64)
            .map(|n| format!("key {:03}/{}", n / 3, "long".repeat(n as usize % 4)))
            .map(|user| InternalKey::new(user.as_bytes(), SeqNo(7), ValueKind::Value))
            .collect();
        let whole = block(&keys, 4).into_bytes();
        let (mut state, mut made) = (1u64, 0);
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % below
        };
        for round in 0..20_000 {
            let mut bytes = whole.clone();
            for _ in 0..=random(3) {
                let at = random(bytes.len());
                bytes[at] = random(256) as u8;
            }
            let Ok(block) = Block::new(bytes) else { continue };
            let Some(directory) = Directory::of(&block) else { continue };
            made += 1;
            let target = keys[round % keys.len()].as_bytes();
            let start = directory.start(&block, target);
            let _ = block.find_from(start, &order, target, &mut KeyBuf::new());
        }
        assert!(made > 1000, "{made}");
    }
}
