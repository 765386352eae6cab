//! The one who inserts: finds the place, makes the node, links it; or has it linked by others.

use std::mem;
use std::sync::Arc;

use crate::base::comparator::UserOrder;
use crate::base::sync::lockless::Ordering::Release;
use crate::memtable::arena::Bump;
use crate::memtable::skiplist::indexing::{self, Indexing};
use crate::memtable::skiplist::node::{Entry, Node};
use crate::memtable::skiplist::position::Position;
use crate::memtable::skiplist::{BRANCHING, HEIGHT_MAX, Shared};
use crate::memtable::window;

/// The first window for hints is chosen when so many entries show what keys have in common.
const WINDOW_ENTRIES_MIN: u64 = if cfg!(loom) { 1 } else { 16 };

/// The right to insert; there is one per list.
pub(in crate::memtable) struct Writer {
    list: Arc<Shared>,
    bump: Bump,
    /// While it is lent, a new one in its stead, which nothing is done with.
    position: Position,
    is_lent: bool,
    random: u64,
    entries: u64,
    /// The highest so far: an entry with a higher one is the newest of its key.
    last_tag: u64,
    indexing: Indexing,
}

// SAFETY: the pointers of `position` and `indexing` lead into the list that the writer shares, which is `Sync`. Those of
// spare blocks may lead anywhere; nobody follows them.
unsafe impl Send for Writer {}

impl Writer {
    /// Of an empty list that was made with `bump`.
    pub(super) fn new(list: Arc<Shared>, bump: Bump, indexing: Indexing, seed: u64) -> Self {
        Writer {
            position: Position::new(&list),
            is_lent: false,
            list,
            bump,
            // The generator needs a state other than 0, and likes one with many bits.
            random: (seed ^ 0x9e37_79b9_7f4a_7c15).max(1),
            entries: 0,
            last_tag: 0,
            indexing,
        }
    }

    /// Ends another writer, for what memory it had for itself.
    pub(in crate::memtable) fn succeed(&mut self, mut other: Writer) {
        other.take_back();
        self.position.set_spares(other.position.into_spares());
    }

    #[cfg(test)]
    pub(in crate::memtable) fn spare_blocks(&self) -> usize {
        self.position.spare_blocks()
    }

    /// Inserts an entry; false if one with the same user key and tag is there already.
    #[inline(always)]
    pub(in crate::memtable) fn insert(&mut self, entry: Entry<'_>) -> bool {
        if self.is_lent {
            self.take_back();
        }
        let list = &*self.list;
        // Early, so that the cache miss passes during the search.
        let bucket = list.index.bucket(entry.user);
        let height = random_height(&mut self.random);
        let target = list.target(entry.user, entry.tag);
        let spot = self.position.find(list, target, height);
        let (next, hint) = spot.next;
        if let Some(next) = next
            && !window::proves_after(hint, target.hint)
            && next.tag() == entry.tag
            && list.same(next.user(), entry.user)
        {
            return false;
        }
        // Replays may bring an entry behind newer ones.
        let is_newest =
            entry.tag > self.last_tag || !list.has_newer(self.position.before(), entry.user);
        self.last_tag = self.last_tag.max(entry.tag);
        // SAFETY: the list's arena and the bump were made together.
        let node = unsafe { Node::new(&list.arena.0, &mut self.bump, height, entry) };
        // SAFETY: the node was just made, for the target of the spot.
        unsafe { self.position.link(list, (node, height), target.hint, &spot) };
        let newest = is_newest.then_some(node);
        match bucket {
            Some(bucket) => indexing::add_newest(bucket, newest, next),
            // SAFETY: the list keeps its nodes and its index, which have no others, together.
            None => unsafe { self.indexing.go_on(list, self.entries + 1, newest, next) },
        }
        self.count();
        true
    }

    /// Inserts an entry that is newer than all others, and leaves it to others to link it, if that can be. There must be somebody
    /// who does so soon; readers who come first have to.
    pub(in crate::memtable) fn insert_unlinked(&mut self, entry: Entry<'_>) {
        let list = &*self.list;
        // Early, so that the cache miss passes while the node is made.
        let bucket = list.index.bucket(entry.user);
        // Who links calls no code of users, which might panic. What follows the list's size, and an index that is being made, look
        // at the order.
        let can_wait = list.order.is_bytewise()
            && !(self.entries + 1).is_power_of_two()
            && (bucket.is_some() || self.indexing.rests(list));
        if !can_wait {
            return self.insert_now(entry);
        }
        debug_assert!(entry.tag > self.last_tag);
        if !self.is_lent {
            list.lent.lend(mem::replace(&mut self.position, Position::new(list)));
            self.is_lent = true;
        }
        let height = random_height(&mut self.random);
        let hint = list.target(entry.user, entry.tag).hint;
        self.last_tag = entry.tag;
        // SAFETY: the list's arena and the bump were made together.
        let node = unsafe { Node::new(&list.arena.0, &mut self.bump, height, entry) };
        // SAFETY: the node was just made for this list.
        unsafe { list.lent.push(list, (node, height), hint) };
        if let Some(bucket) = bucket {
            let former = bucket.first_of(list, entry.user);
            indexing::add_newest(bucket, Some(node), former);
        }
        self.count();
    }

    #[cold]
    fn insert_now(&mut self, entry: Entry<'_>) {
        self.insert(entry);
    }

    #[inline(always)]
    fn count(&mut self) {
        self.entries += 1;
        if self.entries >= WINDOW_ENTRIES_MIN && self.entries.is_power_of_two() {
            self.adapt();
        }
    }

    /// To what the list has become.
    #[cold]
    fn adapt(&mut self) {
        let has_moved = self.move_window();
        self.position.adapt(&self.list, self.entries, has_moved);
    }

    #[cold]
    fn take_back(&mut self) {
        if mem::take(&mut self.is_lent) {
            self.position = self.list.lent.take_back(&self.list);
        }
    }

    /// Chooses the window anew for the keys that are in the list by now. Hints of earlier windows
    /// stay as they are; no more than about half of all links has one.
    fn move_window(&mut self) -> bool {
        let list = &*self.list;
        let (UserOrder::Bytewise, Some(first), Some(last)) =
            (&list.order, list.first(), list.last())
        else {
            return false; // Hints compare as bytes do, so other orders go without.
        };
        let base = window::common_prefix(first.user(), last.user());
        let epoch = match list.window() {
            Some(old) if old.base == base => return false,
            Some(old) => old.epoch.checked_add(1),
            None => Some(1),
        };
        // The list doubles between two moves, so that epochs never run out.
        let epoch = epoch.expect("a list has less than 2^255 entries");
        let entry = Entry { user: base, tag: u64::from(epoch), value: b"" };
        // SAFETY: the list's arena and the bump were made together.
        let node = unsafe { Node::new(&list.arena.0, &mut self.bump, 0, entry) };
        list.window.store(node.pointer().as_ptr(), Release);
        true
    }
}

/// 1 in three cases of four, 2 in three of sixteen, and so on.
pub(super) fn random_height(random: &mut u64) -> usize {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    // From the generator's upper half; the bit set on top bounds the count.
    let zeros = (*random >> 32 | 1 << 31).trailing_zeros();
    (1 + (zeros / BRANCHING.trailing_zeros()) as usize).min(HEIGHT_MAX)
}
