//! A hash table over the nodes of a list: a get finds the newest entry of its key without a search.
//!
//! Each bucket is a chain of nodes, the last one added first, with marks of the keys in it: most keys that are not there have
//! none, and are not looked for among nodes, which are far.
//!
//! **Invariants.**
//! - B1: once the table is complete, the newest entry of every key is in its bucket's chain, in front of any other of
//!   the key's entries there; or the chain is longer than anyone looks.
//! - B2: what a chain is made of is in the list already, or left to be linked (`lent`).
//! - B3: a bucket has the marks of all keys in its chain.
//!
//! **Concurrency.** One thread adds, all may look. A bucket's head is stored with `Release` and loaded with `Acquire`;
//! whatever lies behind it was there before. Marks order nothing: an entry that a reader must find was added before the
//! reader learnt of its sequence number.

use std::ops::RangeInclusive;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::base::hash::hash64;
use crate::base::prefetch::prefetch;
use crate::base::sync::lockless::Ordering::{Acquire, Relaxed, Release};
use crate::base::sync::lockless::{AtomicPtr, AtomicU8};
use crate::memtable::pool::Pool;
use crate::memtable::skiplist::Shared;
use crate::memtable::skiplist::node::{Header, Node};

/// What an entry with its node is taken for, at the least and at the most: small ones may follow large ones.
const ENTRY_BYTES: RangeInclusive<usize> = 128..=1024;
/// Takes 8 MiB.
const BUCKETS_MAX: usize = 1 << 20;
/// A longer chain is slower than a search. Only keys that were chosen to collide make such.
pub(super) const CHAIN_MAX: usize = if cfg!(loom) { 3 } else { 24 };

pub(super) struct Buckets {
    heads: Heads,
    seed: u64,
    /// Where the heads go in the end.
    pool: Option<Arc<Pool>>,
}

/// The memory of all buckets, a power of two of them.
#[derive(Default)]
pub(in crate::memtable) struct Heads {
    firsts: Box<[AtomicPtr<Header>]>,
    /// Near, unlike nodes: a byte each.
    marks: Box<[AtomicU8]>,
}

/// Where a key belongs.
#[derive(Clone, Copy)]
pub(super) struct Bucket<'a> {
    first: &'a AtomicPtr<Header>,
    marks: &'a AtomicU8,
    /// The key's, one bit of eight.
    mark: u8,
}

/// What a chain tells of a key.
pub(super) enum Looked<'a> {
    Newest(Node<'a>),
    Absent,
    /// The list must be searched.
    Unknown,
}

impl Buckets {
    /// For a list that will grow to so many bytes, of entries that take so many each. The lists of a pool hand on what was used before:
    /// each page of a new table costs an insertion a fault.
    pub(super) fn new(
        list_bytes: usize,
        entry_bytes: usize,
        seed: u64,
        pool: Option<Arc<Pool>>,
    ) -> Self {
        let entry_bytes = entry_bytes.clamp(*ENTRY_BYTES.start(), *ENTRY_BYTES.end());
        let usual = (list_bytes / entry_bytes).max(1).next_power_of_two();
        let buckets = if cfg!(loom) { 2 } else { usual.min(BUCKETS_MAX) };
        let kept = pool.as_ref().and_then(|pool| pool.take_heads());
        let kept = kept.filter(|heads| heads.firsts.len() >= buckets);
        Buckets { heads: kept.unwrap_or_else(|| Heads::new(buckets)), seed, pool }
    }

    pub(super) fn memory(&self) -> usize {
        self.heads.memory()
    }

    #[inline]
    pub(super) fn of(&self, user: &[u8]) -> Bucket<'_> {
        let Heads { firsts, marks } = &self.heads;
        let hash = hash64(user, self.seed);
        let at = hash as usize & (firsts.len() - 1);
        // By bits that chose no bucket.
        Bucket { first: &firsts[at], marks: &marks[at], mark: 1 << (hash >> 61) }
    }

    /// # Safety
    /// The nodes that were added live as long as this.
    #[inline]
    pub(super) unsafe fn look(&self, user: &[u8]) -> Looked<'_> {
        let bucket = self.of(user);
        if !bucket.is_marked() {
            return Looked::Absent;
        }
        // Pairs with the `Release` in `add`.
        let mut at = NonNull::new(bucket.first.load(Acquire));
        for _ in 0..CHAIN_MAX {
            let Some(pointer) = at else { return Looked::Absent };
            // SAFETY: only `add` stores heads, and links lead to what once was one; the caller promises the rest.
            let node = unsafe { Node::from_pointer(pointer) };
            if node.user() == user {
                return Looked::Newest(node);
            }
            at = node.next_in_bucket();
        }
        Looked::Unknown
    }
}

impl Heads {
    /// Memory that is never touched if few entries come: most of it is not even the process's then.
    #[cfg(not(loom))]
    fn new(buckets: usize) -> Self {
        let firsts = Box::<[AtomicPtr<Header>]>::new_zeroed_slice(buckets);
        let marks = Box::<[AtomicU8]>::new_zeroed_slice(buckets);
        // SAFETY: atomics have the representation of what they hold, and all zeros are the null pointer, and 0.
        unsafe { Heads { firsts: firsts.assume_init(), marks: marks.assume_init() } }
    }

    #[cfg(loom)]
    fn new(buckets: usize) -> Self {
        let firsts = std::iter::repeat_with(AtomicPtr::default).take(buckets).collect();
        Heads { firsts, marks: std::iter::repeat_with(AtomicU8::default).take(buckets).collect() }
    }

    pub(in crate::memtable) fn memory(&self) -> usize {
        size_of_val(&*self.firsts) + size_of_val(&*self.marks)
    }

    /// The same memory, of a table that nobody has any more.
    fn emptied(mut self) -> Self {
        self.firsts.fill_with(AtomicPtr::default);
        self.marks.fill_with(AtomicU8::default);
        self
    }
}

impl Bucket<'_> {
    /// Brings it near, before it is added to.
    #[inline]
    pub(super) fn hint(self) -> Self {
        prefetch(self.first);
        prefetch(self.marks);
        self
    }

    /// Whether the key may be in it.
    #[inline]
    pub(super) fn is_marked(self) -> bool {
        self.marks.load(Relaxed) & self.mark != 0
    }

    /// The first node, for the thread that adds. An empty bucket is known by its marks (B3): to look at memory that is new, and to store
    /// into it then, is two faults for one, and at the second all processors have to be told.
    #[inline]
    pub(super) fn first(self) -> Option<NonNull<Header>> {
        let is_empty = self.marks.load(Relaxed) == 0;
        if is_empty { None } else { NonNull::new(self.first.load(Relaxed)) }
    }

    /// The first node, if it is of the key that this was looked up for.
    #[inline]
    pub(super) fn first_of<'a>(self, list: &'a Shared, user: &[u8]) -> Option<Node<'a>> {
        // Most keys that are not there are not marked.
        let first = if self.is_marked() { self.first() } else { None };
        first.map(|first| list.node(first)).filter(|first| first.user() == user)
    }

    /// Puts `node` in front, with `behind` behind it: the first node there, or the one behind that.
    #[inline]
    pub(super) fn add(self, node: Node<'_>, behind: Option<NonNull<Header>>) {
        node.set_next_in_bucket(behind);
        // By one thread: nothing comes between.
        self.marks.store(self.marks.load(Relaxed) | self.mark, Relaxed);
        self.first.store(node.pointer().as_ptr(), Release);
    }
}

impl Drop for Buckets {
    fn drop(&mut self) {
        if let Some(pool) = &self.pool {
            pool.give_heads(std::mem::take(&mut self.heads).emptied());
        }
    }
}
