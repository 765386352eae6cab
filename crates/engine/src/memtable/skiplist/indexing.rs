//! When a list gets its hash table, and how: a list that is only written to goes without, for each insertion would
//! touch a bucket far from all else.
//!
//! Readers count their searches, the writer looks now and then. Once they are many beside its insertions, it makes the
//! table: what it inserts from then on goes in, and with each insertion a few of the older nodes do. When it is through,
//! the table is shown to the readers.

use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;

use crate::base::sync::lockless::Ordering::Relaxed;
use crate::memtable::skiplist::buckets::{Bucket, Buckets, Looked};
use crate::memtable::skiplist::node::{Header, Node};
use crate::memtable::skiplist::{Shared, SkipList};

/// At every so many insertions the writer looks for searches.
const LOOK_EVERY: u32 = match () {
    () if cfg!(loom) => 1,
    () if cfg!(test) => 8,
    () => 64,
};
/// So many of them since the last look are worth an index.
const SEARCHES_MIN: u32 = if cfg!(loom) { 0 } else { LOOK_EVERY / 8 };
/// Older nodes that go in with each of the first insertions: the pages of a new table may be made by them.
const CATCH_UP_MIN: usize = if cfg!(any(loom, test)) { 1 } else { 4 };
/// So many insertions later it is one more.
const CATCH_UP_STEP: usize = 16;
/// And at the most.
const CATCH_UP_MAX: usize = match () {
    () if cfg!(loom) => 1,
    () if cfg!(test) => 2,
    () => 16,
};

/// The readers' side.
#[derive(Default)]
pub(super) struct Index {
    /// There once it is complete.
    buckets: OnceLock<Buckets>,
    /// Searches of the list since the writer's last look, not counted further than it needs. Orders nothing.
    searches: AtomicU32,
}

impl Index {
    /// # Safety
    /// The nodes that were added live as long as this.
    #[inline]
    pub(super) unsafe fn look(&self, user: &[u8]) -> Looked<'_> {
        if let Some(buckets) = self.buckets.get() {
            // SAFETY: the caller's promise.
            return unsafe { buckets.look(user) };
        }
        let searches = self.searches.load(Relaxed);
        if searches < SEARCHES_MIN {
            // Threads that count at the same time may count once.
            self.searches.store(searches + 1, Relaxed);
        }
        Looked::Unknown
    }

    #[inline]
    fn is_wanted(&self) -> bool {
        self.searches.load(Relaxed) >= SEARCHES_MIN
    }

    fn memory(&self) -> usize {
        self.buckets.get().map_or(0, Buckets::memory)
    }

    /// Where a key belongs, once the index is complete.
    #[inline]
    pub(super) fn bucket(&self, user: &[u8]) -> Option<Bucket<'_>> {
        // Its miss then passes during the search of the list.
        Some(self.buckets.get()?.of(user).hint())
    }
}

/// The writer's side, until the index is complete.
pub(super) enum Indexing {
    /// There will be none.
    Never,
    NotYet {
        list_bytes: usize,
        seed: u64,
        /// Insertions until the next look.
        left: u32,
    },
    Begun {
        buckets: Box<Buckets>,
        /// Older nodes from here on are not in yet.
        rest: Option<NonNull<Header>>,
        /// Insertions since it was begun.
        since: usize,
    },
}

impl SkipList {
    pub(in crate::memtable) fn index_bytes(&self) -> usize {
        self.0.index.memory()
    }
}

impl Indexing {
    pub(super) fn new(list_bytes: usize, seed: u64) -> Self {
        if list_bytes == 0 {
            return Indexing::Never;
        }
        Indexing::NotYet { list_bytes, seed, left: LOOK_EVERY }
    }

    /// After an insertion; `newest` is its node if that is the newest of its key, and `next` follows in the list, which has so many
    /// entries.
    ///
    /// # Safety
    /// `list` is always the same, and what `Index::look` is asked of.
    #[inline]
    pub(super) unsafe fn go_on(
        &mut self,
        list: &Shared,
        entries: u64,
        newest: Option<Node<'_>>,
        next: Option<Node<'_>>,
    ) {
        match self {
            Indexing::Never => {}
            Indexing::NotYet { left, .. } if *left > 1 => *left -= 1,
            Indexing::NotYet { .. } => self.begin_if_wanted(list, entries),
            // SAFETY: the caller's promise.
            Indexing::Begun { .. } => unsafe { self.catch_up(list, newest, next) },
        }
    }

    /// Whether there is nothing to do at an insertion. Counts it, as [`go_on`](Self::go_on) does.
    #[inline]
    pub(super) fn rests(&mut self, list: &Shared) -> bool {
        match self {
            Indexing::Never => true,
            Indexing::NotYet { left, .. } if *left > 1 => {
                *left -= 1;
                true
            }
            Indexing::NotYet { .. } if list.index.is_wanted() => false,
            Indexing::NotYet { left, .. } => {
                list.index.searches.store(0, Relaxed);
                *left = LOOK_EVERY;
                true
            }
            Indexing::Begun { .. } => false,
        }
    }

    #[cold]
    fn begin_if_wanted(&mut self, list: &Shared, entries: u64) {
        let Indexing::NotYet { list_bytes, seed, left } = self else { return };
        if list.index.is_wanted() {
            let pool = list.arena.0.pool().cloned();
            let entry_bytes = list.arena.0.used_bytes() / entries.max(1) as usize;
            let buckets = Box::new(Buckets::new(*list_bytes, entry_bytes, *seed, pool));
            *self = Indexing::Begun { buckets, rest: list.first().map(Node::pointer), since: 0 };
        } else {
            list.index.searches.store(0, Relaxed);
            *left = LOOK_EVERY;
        }
    }

    /// # Safety
    /// As of [`go_on`](Self::go_on).
    #[cold]
    unsafe fn catch_up(&mut self, list: &Shared, newest: Option<Node<'_>>, next: Option<Node<'_>>) {
        let Indexing::Begun { buckets, rest, since } = self else { return };
        if let Some(newest) = newest {
            add_newest(buckets.of(newest.user()), Some(newest), next);
        }
        let catch_up = (CATCH_UP_MIN + *since / CATCH_UP_STEP).min(CATCH_UP_MAX);
        *since += 1;
        for _ in 0..catch_up {
            let Some(pointer) = *rest else { break };
            let node = list.node(pointer);
            // SAFETY: the list's nodes live as long as it does.
            let looked = unsafe { buckets.look(node.user()) };
            // Of a key's entries the newest comes first in the list; if one is here, it is that or a newer one. And
            // where the chain is too long, nobody will look for this one there.
            if matches!(looked, Looked::Absent) {
                let bucket = buckets.of(node.user());
                bucket.add(node, bucket.first());
            }
            *rest = list.next(node, 0).0.map(Node::pointer);
        }
        if rest.is_none()
            && let Indexing::Begun { buckets, .. } = std::mem::replace(self, Indexing::Never)
        {
            let _ = list.index.buckets.set(*buckets); // It is set here only.
        }
    }
}

/// Adds a new node, if there is one, the newest of its key. `next` follows in the list: if it was the newest of the key
/// until now and is the first in the bucket, the new one takes its place, so that a key that is written over and over
/// does not fill the chain.
#[inline]
pub(super) fn add_newest(bucket: Bucket<'_>, newest: Option<Node<'_>>, next: Option<Node<'_>>) {
    let Some(newest) = newest else { return };
    let first = bucket.first();
    let behind = match next {
        Some(next) if first == Some(next.pointer()) && next.user() == newest.user() => {
            next.next_in_bucket()
        }
        _ => first,
    };
    bucket.add(newest, behind);
}
