//! K-way merge of sorted sources, both directions. Scans merge memtables, tables and levels with
//! it; compactions merge their inputs.
//!
//! **Invariants.**
//! - I1: `heap` holds the valid children, and only those, as a binary heap: nearest first in the
//!   direction of travel. The entry the merge stands on is that of the first.
//! - I2: going forward, every child in the heap stands on its first entry not passed yet; going
//!   backward, on its last.
//! - I3: a child's head in the heap is that of its current key.
//!
//! Should two children hold the same internal key, both show: that of the earlier child first, and
//! the other way round backward.
//!
//! Most steps stay with one child, so `nearest_below` remembers who else comes next: such a step
//! costs a single comparison. In the bytewise order that is mostly one of two integers.

#[cfg(test)]
mod tests;

use std::cmp::Ordering;

use crate::base::comparator::InternalOrder;
use crate::base::error::{Error, Result};
use crate::base::iter::InternalIterator;
use crate::base::key::{KeyHead, user_key};

/// The union of its children. Errors of a child pass through and make it invalid.
pub(crate) struct MergingIter<I> {
    order: InternalOrder,
    children: Vec<I>,
    heap: Vec<Runner>,
    /// The heap position, 1 or 2, of the child next to `heap[0]`, where known.
    nearest_below: Option<usize>,
    /// Going backward: the head of the key that a step of the current child leads to, ..
    coming: KeyHead,
    /// .. if somebody has asked. Not an `Option`, whose tag would be as wide as the head: it would tell whether there is an
    /// iterator at all, too, and who reads it in one piece just after it was written in two waits.
    is_coming_known: bool,
    direction: Direction,
    /// Reused by turns for the key they turn at.
    pivot: Vec<u8>,
}

/// A child in the heap.
#[derive(Clone, Copy)]
struct Runner {
    child: usize,
    /// Of its current key.
    head: KeyHead,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

impl<I: InternalIterator> MergingIter<I> {
    pub(crate) fn new(order: InternalOrder, children: Vec<I>) -> Self {
        MergingIter {
            order,
            heap: Vec::with_capacity(children.len()),
            children,
            nearest_below: None,
            coming: KeyHead::default(),
            is_coming_known: false,
            direction: Direction::Forward,
            pivot: Vec::new(),
        }
    }

    /// Stands nowhere, as do the children, which `release` lets go of what they hold for where they stand.
    pub(crate) fn release_by(&mut self, release: impl FnMut(&mut I)) {
        self.heap.clear();
        self.nearest_below = None;
        self.is_coming_known = false;
        self.pivot = Vec::new();
        self.children.iter_mut().for_each(release);
    }

    /// What is mostly enough to know of the current key, if there is one.
    #[inline]
    pub(crate) fn head(&self) -> Option<KeyHead> {
        self.heap.first().map(|top| top.head)
    }

    /// Going backward: true if the entry that a step leads to is known, without the step, to be of another user key.
    #[inline]
    pub(crate) fn is_last_of_its_user_key(&self) -> bool {
        debug_assert!(self.direction == Direction::Backward);
        let Some(top) = self.heap.first() else { return false };
        let Some(before) = self.children[top.child].key_before() else { return false };
        let user = |runner: &Runner| user_key(self.children[runner.child].key());
        let order = &self.order.user;
        let head = KeyHead::of(before, self.order.is_bytewise());
        order.is_before((head, || user_key(before)), (top.head, || user(top)))
            && self.nearest_below.or_else(|| self.nearer_child_of(0)).is_none_or(|below| {
                let below = &self.heap[below];
                order.is_before((below.head, || user(below)), (top.head, || user(top)))
            })
    }

    /// The same, where heads tell it. In bytewise orders they mostly do.
    #[inline(always)]
    pub(crate) fn is_last_by_heads(&mut self) -> bool {
        debug_assert!(self.direction == Direction::Backward || self.heap.is_empty());
        let Some(top) = self.heap.first() else { return false };
        let Some(before) = self.children[top.child].key_before() else { return false };
        let before = KeyHead::of(before, self.order.is_bytewise());
        (self.coming, self.is_coming_known) = (before, true);
        before.leading < top.head.leading && self.top_is_past_others()
    }

    /// Moves all children, then orders those that are on an entry.
    #[inline]
    fn start(
        &mut self,
        direction: Direction,
        mut place: impl FnMut(&mut I) -> Result<()>,
    ) -> Result<()> {
        self.heap.clear();
        self.is_coming_known = false;
        self.direction = direction;
        for child in &mut self.children {
            place(child)?;
        }
        self.build();
        self.arrive()
    }

    /// Has the current child ready.
    fn arrive(&mut self) -> Result<()> {
        let Some(top) = self.heap.first() else { return Ok(()) };
        let arrived = self.children[top.child].arrive();
        if arrived.is_err() {
            self.heap.clear();
        }
        arrived
    }

    fn build(&mut self) {
        self.heap.clear();
        self.nearest_below = None;
        let is_bytewise = self.order.is_bytewise();
        for (child, iter) in self.children.iter().enumerate() {
            let mut head = KeyHead::default();
            if iter.show_head(&mut head, is_bytewise) {
                self.heap.push(Runner { child, head });
            }
        }
        for position in (0..self.heap.len() / 2).rev() {
            self.sift_down(position);
        }
    }

    /// Moves the current child one entry on.
    #[inline(always)]
    fn step_forward(&mut self) -> Result<()> {
        let top = self.heap.first_mut().expect("callers check that the iterator is valid");
        let is_bytewise = self.order.is_bytewise();
        let moved = self.children[top.child].next_with_head(&mut top.head, is_bytewise);
        if !matches!(moved, Ok(true)) {
            return self.drop_top(moved.map(drop));
        }
        let leading = top.head.leading;
        let stays = match self.nearest_below {
            // Custom orders have no leading words.
            Some(below) => leading < self.heap[below].head.leading,
            None => self.heap.len() == 1,
        };
        if stays { Ok(()) } else { self.settle() }
    }

    /// Moves the current child one entry back.
    #[inline(always)]
    fn step_backward(&mut self) -> Result<()> {
        let top = self.heap.first_mut().expect("callers check that the iterator is valid");
        let iter = &mut self.children[top.child];
        let is_known = std::mem::take(&mut self.is_coming_known);
        let moved = iter.prev();
        if is_known && moved.is_ok() {
            top.head = self.coming;
        } else if moved.is_err() || !iter.show_head(&mut top.head, self.order.is_bytewise()) {
            return self.drop_top(moved);
        }
        if self.top_is_past_others() { Ok(()) } else { self.settle() }
    }

    /// Lets the current child go on, in the direction of travel, over entries that are nearer than those of all others.
    /// `go_on` is told the leading words of the nearest one of these, and returns whether the child has moved.
    /// Never in custom orders, which have none.
    pub(crate) fn run_on(&mut self, go_on: impl FnOnce(&mut I, Option<u128>) -> bool) -> bool {
        if !self.order.is_bytewise() {
            return false;
        }
        self.nearest_below = self.nearest_below.or_else(|| self.nearer_child_of(0));
        let others = self.nearest_below.map(|below| self.heap[below].head.leading);
        let Some(top) = self.heap.first_mut() else { return false };
        let iter = &mut self.children[top.child];
        let has_moved = go_on(iter, others);
        if has_moved {
            self.is_coming_known = false;
            let is_on_entry = iter.show_head(&mut top.head, true);
            debug_assert!(is_on_entry);
        }
        has_moved
    }

    /// Going backward: true if the heads tell that no other child has an entry of the current user key, or one that is
    /// nearer. In custom orders, which have no leading words, they tell it only where there is no other child.
    #[inline(always)]
    fn top_is_past_others(&self) -> bool {
        match self.nearest_below {
            Some(below) => self.heap[below].head.leading < self.heap[0].head.leading,
            None => self.heap.len() == 1,
        }
    }

    /// The current child has come to its end, or has failed.
    #[inline(never)]
    fn drop_top(&mut self, moved: Result<()>) -> Result<()> {
        if moved.is_err() {
            self.heap.clear();
            return moved;
        }
        self.heap.swap_remove(0);
        self.nearest_below = None;
        self.sift_down(0);
        self.arrive()
    }

    /// Brings the nearest child to the top when only the top may be out of place.
    #[inline(never)]
    fn settle(&mut self) -> Result<()> {
        let Some(below) = self.nearest_below.or_else(|| self.nearer_child_of(0)) else {
            return Ok(());
        };
        self.nearest_below = Some(below);
        if !self.is_nearer(&self.heap[below], &self.heap[0]) {
            return Ok(());
        }
        self.heap.swap(0, below);
        self.nearest_below = None;
        self.sift_down(below);
        self.arrive()
    }

    fn sift_down(&mut self, mut position: usize) {
        while let Some(below) = self.nearer_child_of(position) {
            if !self.is_nearer(&self.heap[below], &self.heap[position]) {
                return;
            }
            self.heap.swap(position, below);
            position = below;
        }
    }

    /// The position under `position` in the heap that is the nearer of its two.
    #[inline]
    fn nearer_child_of(&self, position: usize) -> Option<usize> {
        let left = 2 * position + 1;
        match (self.heap.get(left), self.heap.get(left + 1)) {
            (Some(a), Some(b)) if self.is_nearer(b, a) => Some(left + 1),
            (Some(_), _) => Some(left),
            (None, _) => None,
        }
    }

    /// True if child `a` comes before child `b` in the direction of travel.
    #[inline]
    fn is_nearer(&self, a: &Runner, b: &Runner) -> bool {
        let order = self.compare(a, b).then(a.child.cmp(&b.child));
        match self.direction {
            Direction::Forward => order.is_lt(),
            Direction::Backward => order.is_gt(),
        }
    }

    #[inline]
    fn compare(&self, a: &Runner, b: &Runner) -> Ordering {
        let key = |runner: &Runner| self.children[runner.child].key();
        a.head.leading.cmp(&b.head.leading).then_with(|| {
            // Versions of one key meet again and again.
            let told = self.order.is_bytewise().then(|| a.head.among_same_leading(&b.head));
            told.flatten().unwrap_or_else(|| self.order.compare(key(a), key(b)))
        })
    }

    /// Turns round on the current entry: the current child stays, and the others, which stand
    /// beyond it, go to their nearest entries on its other side.
    fn turn(&mut self, direction: Direction) -> Result<()> {
        let top = self.heap.first().expect("callers check that the iterator is valid").child;
        self.pivot.clear();
        self.pivot.extend_from_slice(self.children[top].key());
        self.heap.clear(); // What an error leaves is invalid.
        self.is_coming_known = false;
        self.direction = direction;
        for (index, iter) in self.children.iter_mut().enumerate() {
            if index == top {
                continue;
            }
            iter.seek(&self.pivot)?;
            let same = iter.valid() && self.order.compare(iter.key(), &self.pivot).is_eq();
            match direction {
                // Of equal entries, that of an earlier child comes before the pivot.
                Direction::Forward if same && index < top => iter.next()?,
                Direction::Backward if same && index < top => {}
                Direction::Backward if iter.valid() => iter.prev()?,
                Direction::Backward => iter.seek_to_last()?,
                Direction::Forward => {}
            }
        }
        self.build(); // The current child is on top again, for the others stand beyond it.
        Ok(())
    }
}

impl<I: InternalIterator> InternalIterator for MergingIter<I> {
    #[inline]
    fn valid(&self) -> bool {
        !self.heap.is_empty()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.start(Direction::Forward, I::seek_to_first)
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.start(Direction::Backward, I::seek_to_last)
    }

    #[inline(always)] // A scan's, which is called for each.
    fn seek(&mut self, target: &[u8]) -> Result<()> {
        self.start(Direction::Forward, |iter| iter.seek(target))
    }

    #[inline(always)]
    fn next(&mut self) -> Result<()> {
        if self.direction != Direction::Forward {
            self.turn(Direction::Forward)?;
        }
        self.step_forward()
    }

    #[inline(always)]
    fn prev(&mut self) -> Result<()> {
        if self.direction != Direction::Backward {
            self.turn(Direction::Backward)?;
        }
        self.step_backward()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.children[self.heap[0].child].key()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.children[self.heap[0].child].value()
    }

    fn corrupted_key(&self) -> Error {
        self.children[self.heap[0].child].corrupted_key()
    }
}
