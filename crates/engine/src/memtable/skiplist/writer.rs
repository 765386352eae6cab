//! The one who inserts: finds the place, makes the node, links it.

use std::ptr::NonNull;
use std::sync::Arc;

use crate::base::comparator::{BytewiseComparator, Comparator, UserOrder};
use crate::base::sync::lockless::Ordering::{Relaxed, Release};
use crate::memtable::arena::Bump;
use crate::memtable::skiplist::finder::{Finder, Place, Spares};
use crate::memtable::skiplist::indexing::{self, Indexing};
use crate::memtable::skiplist::node::{Entry, Header, Node, Target};
use crate::memtable::skiplist::{BRANCHING, HEIGHT_MAX, Shared};
use crate::memtable::window;

/// The first window for hints is chosen when so many entries show what keys have in common.
const WINDOW_ENTRIES_MIN: u64 = if cfg!(loom) { 1 } else { 16 };
/// A list has a finder from so many entries on: a smaller one is searched in the processor's cache. To make it takes ten
/// microseconds or twenty, which one insertion pays. (Loom's have none:
/// what one thread alone has, it need not explore.)
const FINDER_ENTRIES_MIN: u64 = match () {
    () if cfg!(loom) => u64::MAX,
    () if cfg!(test) => 32,
    () => 1 << 10,
};
/// And up to so many, at the next power of two: to part a block of a larger one takes too long.
const FINDER_ENTRIES_MAX: u64 = if cfg!(test) { 1 << 12 } else { 1 << 20 };
/// It pays if one key in so many is not the next in order.
const SEARCHED_SHARE: u64 = 16;
/// The finder gives the neighbours at so many levels. The few taller nodes take a search from the top.
const FOUND_LEVELS: usize = if HEIGHT_MAX < 3 { HEIGHT_MAX } else { 3 };

/// The right to insert; there is one per list.
pub(in crate::memtable) struct Writer {
    list: Arc<Shared>,
    bump: Bump,
    position: Position,
    random: u64,
    entries: u64,
    /// The highest so far: an entry with a higher one is the newest of its key.
    last_tag: u64,
    indexing: Indexing,
}

/// Where the last insertion took place: the next key in order goes in without a search.
struct Position {
    splice: [NonNull<Header>; HEIGHT_MAX],
    /// I3 holds for the levels below this one.
    reach: usize,
    finder: Option<Finder>,
    /// For the next finder.
    spares: Spares,
    /// For keys that were not next in order, since the last count.
    searches: u64,
}

// SAFETY: the pointers of `position` and `indexing` lead into the list that the writer shares, which is `Sync`. Those of
// spare blocks may lead anywhere; nobody follows them.
unsafe impl Send for Writer {}

impl Writer {
    /// Of an empty list that was made with `bump`.
    pub(super) fn new(list: Arc<Shared>, bump: Bump, indexing: Indexing, seed: u64) -> Self {
        Writer {
            position: Position {
                splice: [list.head; HEIGHT_MAX],
                reach: HEIGHT_MAX,
                finder: None,
                spares: Spares::default(),
                searches: 0,
            },
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
    pub(in crate::memtable) fn succeed(&mut self, other: Writer) {
        let Position { finder, spares, .. } = other.position;
        self.position.spares = finder.map_or(spares, Finder::into_spares);
    }

    #[cfg(test)]
    pub(in crate::memtable) fn spare_blocks(&self) -> usize {
        self.position.spares.len()
    }

    /// Inserts an entry; false if one with the same user key and tag is there already.
    pub(in crate::memtable) fn insert(&mut self, entry: Entry<'_>) -> bool {
        let list = &*self.list;
        // Early, so that the cache miss passes during the search.
        let bucket = list.index.bucket(entry.user);
        let height = random_height(&mut self.random);
        let target = list.target(entry.user, entry.tag);
        let place = self.position.go_to(list, target, height);
        let (next, hint) = self.position.next(list, place);
        let Position { splice, finder, .. } = &mut self.position;
        if let Some(next) = next
            && !window::proves_after(hint, target.hint)
            && next.tag() == entry.tag
            && list.same(next.user(), entry.user)
        {
            return false;
        }
        if height > list.height.load(Relaxed) {
            // Above the old height the splice has held the head since the beginning.
            list.height.store(height, Relaxed);
        }
        // Replays may bring an entry behind newer ones.
        let is_newest = entry.tag > self.last_tag || !list.has_newer(splice[0], entry.user);
        self.last_tag = self.last_tag.max(entry.tag);
        // SAFETY: the list's arena and the bump were made together.
        let node = unsafe { Node::new(&list.arena, &mut self.bump, height, entry) };
        // From the bottom up, so that I2 holds for readers at every moment.
        // SAFETY: by I3 the nodes before were found at these levels, so by I1 they have the links; `node` was made with its
        // own.
        unsafe { node.link_between(list.node(splice[0]), 0, (next, hint), target.hint) };
        splice[0] = node.pointer();
        for (level, before) in splice[..height].iter_mut().enumerate().skip(1) {
            // SAFETY: as above.
            unsafe { node.link_after(list.node(*before), level, target.hint) };
            *before = node.pointer();
        }
        if let (Some(finder), Some(place)) = (finder, place) {
            finder.insert(place, target.hint, (node.pointer(), height));
        }
        let newest = is_newest.then_some(node);
        match bucket {
            Some(bucket) => indexing::add_newest(bucket, newest, next),
            // SAFETY: the list keeps its nodes and its index, which have no others, together.
            None => unsafe { self.indexing.go_on(list, newest, next) },
        }
        self.entries += 1;
        if self.entries >= WINDOW_ENTRIES_MIN && self.entries.is_power_of_two() {
            self.adapt();
        }
        true
    }

    /// To what the list has become.
    #[cold]
    fn adapt(&mut self) {
        let has_moved = self.move_window();
        let searches = std::mem::take(&mut self.position.searches);
        let pays = (FINDER_ENTRIES_MIN..FINDER_ENTRIES_MAX).contains(&self.entries)
            && searches >= self.entries / SEARCHED_SHARE
            && self.list.window().is_some();
        if !pays {
            self.position.finder = None;
        } else if has_moved || self.position.finder.is_none() {
            let spares = match self.position.finder.take() {
                Some(finder) => finder.into_spares(),
                None => std::mem::take(&mut self.position.spares),
            };
            self.position.finder = Some(self.make_finder(spares));
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
        let node = unsafe { Node::new(&list.arena, &mut self.bump, 0, entry) };
        list.window.store(node.pointer().as_ptr(), Release);
        true
    }

    fn make_finder(&self, spares: Spares) -> Finder {
        let list = &*self.list;
        let mut finder = Finder::new(spares);
        // The next node of each level; one that is next at several has all these links.
        let head = list.node(list.head);
        let mut upcoming: [Option<Node<'_>>; FOUND_LEVELS] =
            std::array::from_fn(|level| list.next(head, level).0);
        while let Some(node) = upcoming[0] {
            let height = upcoming.iter().take_while(|next| **next == Some(node)).count();
            for (level, next) in upcoming[..height].iter_mut().enumerate() {
                *next = list.next(node, level).0;
            }
            finder.append(list.target(node.user(), 0).hint, (node.pointer(), height));
        }
        let last = list.node(self.position.splice[0]);
        let target = list.target(last.user(), last.tag());
        finder.find(target.hint, |node| {
            node == last.pointer() || list.node(node).is_before(&BytewiseComparator, target)
        });
        finder
    }
}

impl Position {
    /// Brings the splice to `target`, for so many levels at least. The finder's place for it, if there is one.
    #[inline]
    fn go_to(&mut self, list: &Shared, target: Target<'_>, height: usize) -> Option<Place> {
        // The order is looked at once per search: the usual one is compiled into the loop.
        match &list.order {
            UserOrder::Bytewise => self.go_to_by(&BytewiseComparator, list, (target, height)),
            UserOrder::Custom(custom) => self.go_to_by(&**custom, list, (target, height)),
        }
    }

    /// The node behind the splice, and its hint. The finder tells without a look at the node before, which is far.
    #[inline]
    fn next<'a>(&self, list: &'a Shared, place: Option<Place>) -> (Option<Node<'a>>, u64) {
        let seen = || list.next(list.node(self.splice[0]), 0);
        let (Some(finder), Some(place)) = (&self.finder, place) else { return seen() };
        let found = match finder.next(place) {
            Some((node, hint)) => (Some(list.node(node)), hint),
            None => (None, window::UNKNOWN),
        };
        debug_assert!(found.0 == seen().0);
        found
    }

    #[inline]
    fn go_to_by<C: Comparator + ?Sized>(
        &mut self,
        order: &C,
        list: &Shared,
        (target, height): (Target<'_>, usize),
    ) -> Option<Place> {
        let Position { splice, reach, finder, searches, .. } = self;
        let is_before = |node| list.node(node).is_before(order, target);
        let place = if list.is_behind(splice[0], order, target) {
            let place = finder.as_ref().map(Finder::behind_last);
            if height <= *reach {
                return place;
            }
            place
        } else {
            *searches += 1;
            finder.as_mut().map(|finder| finder.find(target.hint, is_before))
        };
        match (finder, place) {
            (Some(finder), Some(place)) if height <= FOUND_LEVELS => {
                splice[..height].fill(list.head);
                finder.neighbours(place, &mut splice[..height]);
                splice[..height].iter().for_each(|before| list.node(*before).prefetch_links());
                *reach = height;
            }
            _ => {
                list.descend_by(order, target, |level, node| splice[level] = node.pointer());
                *reach = HEIGHT_MAX;
            }
        }
        place
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
