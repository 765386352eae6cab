//! Where the last insertion took place, and how the next one finds its place and is linked there.

use std::mem;
use std::ptr::NonNull;

use crate::base::comparator::{BytewiseComparator, Comparator, UserOrder};
use crate::base::sync::lockless::Ordering::Relaxed;
use crate::memtable::skiplist::finder::{Finder, Place, Spares};
use crate::memtable::skiplist::node::{Header, Node, Target};
use crate::memtable::skiplist::{HEIGHT_MAX, Shared};
use crate::memtable::window;

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

/// The next key in order goes in without a search. Whoever has it is the only one who links.
pub(super) struct Position {
    splice: [NonNull<Header>; HEIGHT_MAX],
    /// I3 holds for the levels below this one.
    reach: usize,
    finder: Option<Finder>,
    /// For the next finder.
    spares: Spares,
    /// For keys that were not next in order, since the last count.
    searches: u64,
}

/// Where a node goes in.
pub(super) struct Spot<'a> {
    /// The node that will follow, and a hint of its key.
    pub(super) next: (Option<Node<'a>>, u64),
    place: Option<Place>,
}

impl Position {
    pub(super) fn new(list: &Shared) -> Self {
        Position {
            splice: [list.head; HEIGHT_MAX],
            reach: HEIGHT_MAX,
            finder: None,
            spares: Spares::default(),
            searches: 0,
        }
    }

    /// Ends it, for what memory it had.
    pub(super) fn into_spares(self) -> Spares {
        self.finder.map_or(self.spares, Finder::into_spares)
    }

    pub(super) fn set_spares(&mut self, spares: Spares) {
        self.spares = spares;
    }

    #[cfg(test)]
    pub(super) fn spare_blocks(&self) -> usize {
        self.spares.len()
    }

    /// The node that the next one goes behind, or the head.
    #[inline]
    pub(super) fn before(&self) -> NonNull<Header> {
        self.splice[0]
    }

    /// Finds where `target` goes in, for so many levels at least.
    #[inline(always)]
    pub(super) fn find<'a>(
        &mut self,
        list: &'a Shared,
        target: Target<'_>,
        height: usize,
    ) -> Spot<'a> {
        let place = self.go_to(list, target, height);
        Spot { next: self.next(list, place), place }
    }

    /// Links a node of so many links at its spot, which was found last.
    ///
    /// # Safety
    /// The node was made for this list, with `height` links, and is of the target that the spot was found for.
    #[inline(always)]
    pub(super) unsafe fn link<'a>(
        &mut self,
        list: &'a Shared,
        (node, height): (Node<'a>, usize),
        hint: u64,
        spot: &Spot<'_>,
    ) {
        let Position { splice, finder, .. } = self;
        if height > list.height.load(Relaxed) {
            // Above the old height the splice has held the head since the beginning.
            list.height.store(height, Relaxed);
        }
        // From the bottom up, so that I2 holds for readers at every moment.
        // SAFETY: by I3 the nodes before were found at these levels, so by I1 they have the links; the caller promises
        // the node's own.
        unsafe { node.link_between(list.node(splice[0]), 0, spot.next, hint) };
        splice[0] = node.pointer();
        for (level, before) in splice[..height].iter_mut().enumerate().skip(1) {
            // SAFETY: as above.
            unsafe { node.link_after(list.node(*before), level, hint) };
            *before = node.pointer();
        }
        if let (Some(finder), Some(place)) = (finder, spot.place) {
            finder.insert(place, hint, (node.pointer(), height));
        }
    }

    /// To what the list has become: `entries`, whose window may have moved.
    pub(super) fn adapt(&mut self, list: &Shared, entries: u64, has_moved: bool) {
        let searches = mem::take(&mut self.searches);
        let pays = (FINDER_ENTRIES_MIN..FINDER_ENTRIES_MAX).contains(&entries)
            && searches >= entries / SEARCHED_SHARE
            && list.window().is_some();
        if !pays {
            self.finder = None;
        } else if has_moved || self.finder.is_none() {
            let spares = match self.finder.take() {
                Some(finder) => finder.into_spares(),
                None => mem::take(&mut self.spares),
            };
            self.finder = Some(self.make_finder(list, spares));
        }
    }

    fn make_finder(&self, list: &Shared, spares: Spares) -> Finder {
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
        let last = list.node(self.splice[0]);
        let target = list.target(last.user(), last.tag());
        finder.find(target.hint, |node| {
            node == last.pointer() || list.node(node).is_before(&BytewiseComparator, target)
        });
        finder
    }

    /// Brings the splice to `target`, for so many levels at least. The finder's place for it, if there is one.
    #[inline(always)]
    fn go_to(&mut self, list: &Shared, target: Target<'_>, height: usize) -> Option<Place> {
        // The order is looked at once per search: the usual one is compiled into the loop.
        match &list.order {
            UserOrder::Bytewise => self.go_to_by(&BytewiseComparator, list, (target, height)),
            UserOrder::Custom(custom) => self.go_to_by(&**custom, list, (target, height)),
        }
    }

    /// The node behind the splice, and its hint. The finder tells without a look at the node before, which is far.
    #[inline(always)]
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

    #[inline(always)]
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
