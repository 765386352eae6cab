//! Where one of two who write all the time waits for its turn, it links what the other inserts: half of an insertion is to find
//! its place in the order.
//!
//! The writer lends the position, which is the right to link, and from then on leaves its nodes in a ring. Whoever has the lock
//! links them, in the order in which they came. Gets find what is not linked yet by its hash; a reader who needs the order
//! first links the rest.
//!
//! **Invariants.**
//! - L1: the position is with the writer, and the ring is empty; or it is here.
//! - L2: `linked` never passes `pushed`, nor falls behind it by more than the ring holds.
//!
//! **Concurrency.** The writer alone raises `pushed`, with `Release` after it has filled the slot; `linked` is raised with the lock
//! only, with `Release` after the nodes are linked. A reader learnt of its sequence number after the entry was pushed: it sees `pushed`
//! raised, and if `linked` is as high, the links.

#[cfg(all(test, not(loom)))]
mod tests;

use std::ptr::NonNull;

use crate::base::sync::lockless::Ordering::{Acquire, Relaxed, Release};
use crate::base::sync::lockless::{AtomicPtr, AtomicU64, AtomicUsize};
use crate::base::sync::{Mutex, OnceLock, Rank};
use crate::memtable::skiplist::Shared;
use crate::memtable::skiplist::node::{Header, Node, Target};
use crate::memtable::skiplist::position::Position;

/// What is written in 0.3 milliseconds. A power of two.
const RING_NODES: usize = match () {
    () if cfg!(loom) => 2,
    () if cfg!(test) => 8,
    () => 512,
};
/// So many are linked before others have the lock.
const AT_ONCE: usize = if cfg!(test) { 4 } else { 32 };

pub(super) struct Lent {
    /// Made when it is first needed.
    ring: OnceLock<Box<[Slot]>>,
    pushed: Apart<AtomicUsize>,
    linked: Apart<AtomicUsize>,
    position: Mutex<Option<Box<Apart<Position>>>>,
}

/// What one processor writes to, in lines of the cache of its own: what others need does not leave their caches for it.
/// Processors may fetch lines in pairs.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Apart<T>(pub(super) T);

#[derive(Default)]
struct Slot {
    node: AtomicPtr<Header>,
    hint: AtomicU64,
    height: AtomicUsize,
}

impl Default for Lent {
    fn default() -> Self {
        Lent {
            ring: OnceLock::new(),
            pushed: Apart::default(),
            linked: Apart::default(),
            position: Mutex::new(Rank::Leaf, None),
        }
    }
}

impl Lent {
    /// From now on others link.
    pub(super) fn lend(&self, position: Position) {
        *self.position.lock() = Some(Box::new(Apart(position)));
    }

    /// Links the rest. From now on nobody but who has the position links.
    pub(super) fn take_back(&self, list: &Shared) -> Position {
        let mut lent = self.position.lock();
        let mut position = lent.take().expect("it is taken back once for each time it is lent");
        while self.link_next(list, &mut position.0) > 0 {}
        position.0
    }

    /// Leaves a node for others to link. Only the writer does this, while the position is lent.
    ///
    /// # Safety
    /// The node was made for the list, with so many links.
    #[inline]
    pub(super) unsafe fn push(&self, list: &Shared, (node, height): (Node<'_>, usize), hint: u64) {
        let pushed = self.pushed.0.load(Relaxed);
        while pushed.wrapping_sub(self.linked.0.load(Acquire)) == RING_NODES {
            self.link_some(list);
        }
        let ring = self.ring.get_or_init(|| (0..RING_NODES).map(|_| Slot::default()).collect());
        let slot = &ring[pushed % RING_NODES];
        slot.node.store(node.pointer().as_ptr(), Relaxed);
        slot.hint.store(hint, Relaxed);
        slot.height.store(height, Relaxed);
        self.pushed.0.store(pushed.wrapping_add(1), Release);
    }

    /// Links some of the nodes that are left here; how many.
    pub(super) fn link_some(&self, list: &Shared) -> usize {
        if !self.has_unlinked() {
            return 0;
        }
        let mut lent = self.position.lock();
        lent.as_mut().map_or(0, |position| self.link_next(list, &mut position.0))
    }

    /// Sees to it that all nodes that were left here before are linked.
    #[inline]
    pub(super) fn settle(&self, list: &Shared) {
        if self.has_unlinked() {
            self.link_rest(list);
        }
    }

    #[inline]
    fn has_unlinked(&self) -> bool {
        if self.ring.get().is_none() {
            return false; // Most lists never have one.
        }
        // In this order: what is pushed later need not be linked.
        let pushed = self.pushed.0.load(Acquire);
        is_before(self.linked.0.load(Acquire), pushed)
    }

    #[cold]
    fn link_rest(&self, list: &Shared) {
        let pushed = self.pushed.0.load(Acquire);
        while is_before(self.linked.0.load(Acquire), pushed) {
            self.link_some(list);
        }
    }

    /// With the position, which is with the lock, or was until now.
    fn link_next(&self, list: &Shared, position: &mut Position) -> usize {
        let linked = self.linked.0.load(Relaxed); // Raised here only.
        let count = self.pushed.0.load(Acquire).wrapping_sub(linked).min(AT_ONCE);
        let Some(ring) = self.ring.get() else { return 0 };
        for at in 0..count {
            let slot = &ring[linked.wrapping_add(at) % RING_NODES];
            let pointer = NonNull::new(slot.node.load(Relaxed)).expect("a slot is filled first");
            let (hint, height) = (slot.hint.load(Relaxed), slot.height.load(Relaxed));
            let node = list.node(pointer);
            let target = Target { user: node.user(), tag: node.tag(), hint };
            let spot = position.find(list, target, height);
            // SAFETY: whoever pushed it promised that; the spot is of the node's own key.
            unsafe { position.link(list, (node, height), hint, &spot) };
        }
        self.linked.0.store(linked.wrapping_add(count), Release);
        count
    }
}

/// Of two counts that are never far apart.
fn is_before(count: usize, other: usize) -> bool {
    other.wrapping_sub(count) as isize > 0
}
