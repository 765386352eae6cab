//! A hash table over the nodes of a list: a get finds the newest entry of its key without a search.
//!
//! Each bucket is a chain of nodes, the last one added first.
//!
//! **Invariants.**
//! - B1: once the table is complete, the newest entry of every key is in its bucket's chain, in front of any other of
//!   the key's entries there; or the chain is longer than anyone looks.
//! - B2: what a chain is made of is in the list already.
//!
//! **Concurrency.** One thread adds, all may look. A bucket's head is stored with `Release` and loaded with `Acquire`;
//! whatever lies behind it was there before.

use std::ptr::NonNull;
use std::sync::Arc;

use crate::base::hash::hash64;
use crate::base::sync::lockless::AtomicPtr;
use crate::base::sync::lockless::Ordering::{Acquire, Relaxed, Release};
use crate::memtable::pool::Pool;
use crate::memtable::skiplist::node::{Header, Node};

/// An entry with its node takes about as much, if it is small.
const ENTRY_BYTES_USUAL: usize = 128;
/// Takes 8 MiB.
const BUCKETS_MAX: usize = 1 << 20;
/// A longer chain is slower than a search. Only keys that were chosen to collide make such.
const CHAIN_MAX: usize = if cfg!(loom) { 3 } else { 24 };

pub(super) struct Buckets {
    heads: Heads,
    seed: u64,
    /// Where the heads go in the end.
    pool: Option<Arc<Pool>>,
}

/// The first nodes of all buckets, a power of two of them.
#[derive(Default)]
pub(in crate::memtable) struct Heads(Box<[AtomicPtr<Header>]>);

/// What a chain tells of a key.
pub(super) enum Looked<'a> {
    Newest(Node<'a>),
    Absent,
    /// The list must be searched.
    Unknown,
}

impl Buckets {
    /// For a list that will grow to so many bytes. The lists of a pool hand on what was used before: each page of a new table costs
    /// an insertion a fault.
    pub(super) fn new(list_bytes: usize, seed: u64, pool: Option<Arc<Pool>>) -> Self {
        let usual = (list_bytes / ENTRY_BYTES_USUAL).max(1).next_power_of_two();
        let buckets = if cfg!(loom) { 2 } else { usual.min(BUCKETS_MAX) };
        let kept = pool.as_ref().and_then(|pool| pool.take_heads());
        let kept = kept.filter(|heads| heads.0.len() == buckets);
        Buckets { heads: kept.unwrap_or_else(|| Heads(empty(buckets))), seed, pool }
    }

    pub(super) fn memory(&self) -> usize {
        self.heads.memory()
    }

    #[inline]
    pub(super) fn of(&self, user: &[u8]) -> &AtomicPtr<Header> {
        let heads = &self.heads.0;
        &heads[hash64(user, self.seed) as usize & (heads.len() - 1)]
    }

    /// # Safety
    /// The nodes that were added live as long as this.
    #[inline]
    pub(super) unsafe fn look(&self, user: &[u8]) -> Looked<'_> {
        // Pairs with the `Release` in `add`.
        let mut at = NonNull::new(self.of(user).load(Acquire));
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
    pub(in crate::memtable) fn memory(&self) -> usize {
        size_of_val(&*self.0)
    }

    /// The same memory, of a table that nobody has any more.
    fn emptied(mut self) -> Self {
        self.0.fill_with(AtomicPtr::default);
        self
    }
}

impl Drop for Buckets {
    fn drop(&mut self) {
        if let Some(pool) = &self.pool {
            pool.give_heads(std::mem::take(&mut self.heads).emptied());
        }
    }
}

/// Puts `node` in front of a bucket, with `behind` behind it: the first node there, or the one behind that.
#[inline]
pub(super) fn add(bucket: &AtomicPtr<Header>, node: Node<'_>, behind: Option<NonNull<Header>>) {
    node.set_next_in_bucket(behind);
    bucket.store(node.pointer().as_ptr(), Release);
}

/// The first node of a bucket, for the thread that adds.
#[inline]
pub(super) fn first(bucket: &AtomicPtr<Header>) -> Option<NonNull<Header>> {
    NonNull::new(bucket.load(Relaxed))
}

/// Memory that is never touched if few entries come: most of it is not even the process's then.
#[cfg(not(loom))]
fn empty(buckets: usize) -> Box<[AtomicPtr<Header>]> {
    let zeroed = Box::<[AtomicPtr<Header>]>::new_zeroed_slice(buckets);
    // SAFETY: an `AtomicPtr` has the representation of a pointer, and all zeros are the null pointer.
    unsafe { zeroed.assume_init() }
}

#[cfg(loom)]
fn empty(buckets: usize) -> Box<[AtomicPtr<Header>]> {
    std::iter::repeat_with(AtomicPtr::default).take(buckets).collect()
}
