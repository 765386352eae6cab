//! A skip list of internal keys: one inserter, any number of readers without locks. The memtable
//! is made of it.
//!
//! **Invariants.**
//! - I1: a node found at some level has a link for that level and for all below; the head has all.
//! - I2: the nodes of a level are in strictly rising order, and are some of those a level below.
//! - I3: for each level within its `reach`, the position's `splice` holds the last node of that level that is not
//!   after `splice[0]`, or the head.
//! - I4: a pointer kept in a list, its writer, its position or its cursors is of a node in the list's arena.
//!
//! **Concurrency.** Only the [`Writer`] makes nodes, through `&mut self`; there is one per
//! list. It links them, too, or lends the right to (`lent`). Readers follow links meanwhile (`node` tells how). Nodes are never unlinked, and live
//! as long as the list. The list's height is a hint: a reader that sees an old one starts lower,
//! one that sees a new one too early finds the head's upper links empty and steps down.

#![expect(unsafe_code, reason = "nodes of many sizes, linked in place, in memory of their own")]

pub(super) mod buckets;
mod finder;
mod indexing;
mod lent;
mod node;
mod position;
mod writer;

#[cfg(test)]
mod tests;

use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::base::comparator::{BytewiseComparator, Comparator, UserOrder};
use crate::base::key::split;
use crate::base::sync::lockless::Ordering::{Acquire, Relaxed};
use crate::base::sync::lockless::{AtomicPtr, AtomicUsize};
use crate::memtable::arena::Arena;
use crate::memtable::pool::Pool;
use crate::memtable::window::{self, Window};
use buckets::Looked;
use indexing::{Index, Indexing};
use lent::{Apart, Lent};
pub(super) use node::Entry;
use node::{Header, Node, Target};
pub(super) use writer::Writer;

/// Levels of the tallest node: with one node in four reaching the next level, enough for 16 million
/// entries. Loom explores every load, so it gets fewer.
const HEIGHT_MAX: usize = if cfg!(loom) { 2 } else { 12 };
/// One node in so many has a further level.
const BRANCHING: u32 = 4;

/// A list to read; clones share it.
#[derive(Clone)]
pub(super) struct SkipList(Arc<Shared>);

struct Shared {
    order: UserOrder,
    /// A node without a key, in front of all others.
    head: NonNull<Header>,
    /// Levels in use, at least one.
    height: AtomicUsize,
    /// Where hints look, or null: a node without links that holds the base as its user key and the
    /// epoch as its tag. Stored by the writer, with `Release`; pairs with the load in `window`.
    window: AtomicPtr<Header>,
    /// Where gets look first.
    index: Index,
    lent: Lent,
    /// Its numbers change with every insertion.
    arena: Apart<Arena>,
}

// SAFETY: the pointers lead into `arena`'s chunks, which stay in place when the list moves.
unsafe impl Send for Shared {}
// SAFETY: what the pointers lead to is only read, or changed through atomics (see `node`).
unsafe impl Sync for Shared {}

impl SkipList {
    /// An empty list and the one writer it will ever have. Heights are drawn from `seed`. One that is meant for
    /// `indexed_bytes`, if they are not 0 and the order is the usual one, is indexed when it is searched often.
    pub(super) fn new(
        order: UserOrder,
        indexed_bytes: usize,
        seed: u64,
        pool: Option<Arc<Pool>>,
    ) -> (Self, Writer) {
        let (arena, mut bump) = Arena::new(pool);
        // SAFETY: the two were made together.
        let head = unsafe { Node::new(&arena, &mut bump, HEIGHT_MAX, Entry::default()) };
        let head = head.pointer();
        let indexed_bytes = if order.is_bytewise() { indexed_bytes } else { 0 };
        let list = Arc::new(Shared {
            order,
            head,
            height: AtomicUsize::new(1),
            window: AtomicPtr::new(ptr::null_mut()),
            index: Index::default(),
            lent: Lent::default(),
            arena: Apart(arena),
        });
        let indexing = Indexing::new(indexed_bytes, seed);
        let writer = Writer::new(Arc::clone(&list), bump, indexing, seed);
        (SkipList(list), writer)
    }

    pub(super) fn used_bytes(&self) -> usize {
        self.0.arena.0.used_bytes()
    }

    /// The tag and the value of the newest entry of `user` with a tag of at most `tag`.
    #[inline]
    pub(super) fn newest(&self, user: &[u8], tag: u64) -> Option<(u64, &[u8])> {
        // SAFETY: the list's nodes live as long as it does.
        match unsafe { self.0.index.look(user) } {
            Looked::Absent => return None,
            Looked::Newest(node) if node.tag() <= tag => return Some((node.tag(), node.value())),
            Looked::Newest(_) | Looked::Unknown => {}
        }
        self.0.lent.settle(&self.0);
        let node = self.0.first_not_before(user, tag)?;
        self.0.same(node.user(), user).then(|| (node.tag(), node.value()))
    }

    /// Links some of the nodes that the writer has left to others; how many.
    pub(super) fn link_some(&self) -> usize {
        self.0.lent.link_some(&self.0)
    }

    pub(super) fn cursor(&self) -> Cursor {
        Cursor { list: Arc::clone(&self.0), at: None }
    }
}

impl Shared {
    #[inline]
    fn node(&self, pointer: NonNull<Header>) -> Node<'_> {
        // SAFETY: by I4.
        unsafe { Node::from_pointer(pointer) }
    }

    /// The node after `node` at `level`, at which `node` was found, and a hint of its key.
    #[inline]
    fn next<'a>(&self, node: Node<'a>, level: usize) -> (Option<Node<'a>>, u64) {
        // SAFETY: by I1.
        unsafe { node.next(level) }
    }

    fn first(&self) -> Option<Node<'_>> {
        self.next(self.node(self.head), 0).0
    }

    /// Is the node at which an entry of `user` goes in of the same key? Then it is newer.
    fn has_newer(&self, before: NonNull<Header>, user: &[u8]) -> bool {
        before != self.head && self.same(self.node(before).user(), user)
    }

    fn last(&self) -> Option<Node<'_>> {
        let mut node = self.node(self.head);
        for level in (0..self.height.load(Relaxed)).rev() {
            while let (Some(next), _) = self.next(node, level) {
                node = next;
            }
        }
        (node.pointer() != self.head).then_some(node)
    }

    fn first_not_before(&self, user: &[u8], tag: u64) -> Option<Node<'_>> {
        self.descend(self.target(user, tag)).1
    }

    fn last_before(&self, user: &[u8], tag: u64) -> Option<Node<'_>> {
        let node = self.descend(self.target(user, tag)).0;
        (node.pointer() != self.head).then_some(node)
    }

    /// Are `a` and `b` one key?
    #[inline]
    fn same(&self, a: &[u8], b: &[u8]) -> bool {
        match &self.order {
            UserOrder::Bytewise => a == b,
            UserOrder::Custom(custom) => custom.compare(a, b).is_eq(),
        }
    }

    #[inline]
    fn window(&self) -> Option<Window<'_>> {
        let node = self.node(NonNull::new(self.window.load(Acquire))?);
        Some(Window { base: node.user(), epoch: node.tag() as u8 })
    }

    #[inline]
    fn target<'a>(&self, user: &'a [u8], tag: u64) -> Target<'a> {
        let hint = self.window().map_or(window::UNKNOWN, |window| window.hint(user));
        Target { user, tag, hint }
    }

    #[inline]
    fn descend(&self, target: Target<'_>) -> (Node<'_>, Option<Node<'_>>) {
        // The order is looked at once per search: the usual one is compiled into the loop.
        match &self.order {
            UserOrder::Bytewise => self.descend_by(&BytewiseComparator, target, |_, _| {}),
            UserOrder::Custom(custom) => self.descend_by(&**custom, target, |_, _| {}),
        }
    }

    /// The neighbours that `target` has or would have: the last node before it, or the head, and
    /// the first that is not. Tells `passed` the former for each level on the way down.
    #[inline]
    fn descend_by<C: Comparator + ?Sized>(
        &self,
        order: &C,
        target: Target<'_>,
        mut passed: impl FnMut(usize, Node<'_>),
    ) -> (Node<'_>, Option<Node<'_>>) {
        let mut node = self.node(self.head);
        let mut level = self.height.load(Relaxed) - 1;
        // The node that ends the search of one level often ends the next, too: compare it once.
        let mut known_after = None;
        loop {
            let (next, hint) = self.next(node, level);
            // A hint may be newer than its node. Then it is of a key between the two, and if even
            // that is after the target, so is the node.
            if let Some(next) = next
                && !window::proves_after(hint, target.hint)
                && known_after != Some(next)
            {
                if next.is_before(order, target) {
                    node = next;
                    continue;
                }
                known_after = Some(next);
            }
            passed(level, node);
            if level == 0 {
                return (node, next);
            }
            level -= 1;
        }
    }

    /// Would `target` come right behind `before`, a node or the head?
    #[inline]
    fn is_behind<C: Comparator + ?Sized>(
        &self,
        before: NonNull<Header>,
        order: &C,
        target: Target<'_>,
    ) -> bool {
        let before = self.node(before);
        if before.pointer() != self.head && !before.is_before(order, target) {
            return false;
        }
        let (next, hint) = self.next(before, 0);
        next.is_none_or(|next| {
            window::proves_after(hint, target.hint)
                // The writer, who alone asks, has not hung any node in between meanwhile.
                || !window::proves_after(target.hint, hint) && !next.is_before(order, target)
        })
    }
}

/// A position in a list, which it keeps alive.
pub(super) struct Cursor {
    list: Arc<Shared>,
    at: Option<NonNull<Header>>,
}

// SAFETY: `at` points into the list that the cursor shares, which is `Sync`.
unsafe impl Send for Cursor {}

impl Cursor {
    pub(super) fn valid(&self) -> bool {
        self.at.is_some()
    }

    pub(super) fn leave(&mut self) {
        self.at = None;
    }

    /// Needs `valid()`, as do `value`, `next` and `prev`.
    pub(super) fn key(&self) -> &[u8] {
        self.node().key()
    }

    pub(super) fn value(&self) -> &[u8] {
        self.node().value()
    }

    pub(super) fn next(&mut self) {
        let next = self.list.next(self.node(), 0).0;
        if let Some(next) = next {
            // SAFETY: by I1; each node has a link for level 0.
            unsafe { next.prefetch_second() };
        }
        self.at = next.map(Node::pointer);
    }

    /// Costs a search: there are no links backwards.
    pub(super) fn prev(&mut self) {
        let (user, tag) = split(self.node().key());
        self.at = self.list.last_before(user, tag).map(Node::pointer);
    }

    pub(super) fn seek(&mut self, key: &[u8]) {
        let (user, tag) = split(key);
        self.list.lent.settle(&self.list);
        self.at = self.list.first_not_before(user, tag).map(Node::pointer);
    }

    pub(super) fn seek_to_first(&mut self) {
        self.list.lent.settle(&self.list);
        self.at = self.list.first().map(Node::pointer);
    }

    pub(super) fn seek_to_last(&mut self) {
        self.list.lent.settle(&self.list);
        self.at = self.list.last().map(Node::pointer);
    }

    fn node(&self) -> Node<'_> {
        self.list.node(self.at.expect("callers check that the cursor is valid"))
    }
}
