//! What a reader pins: one immutable bundle of memtables and version, and up to which write it may
//! look.

use std::ops::Deref;
use std::sync::Arc;

use crate::base::key::SeqNo;
use crate::base::sync::Swap;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::memtable::MemTable;
use crate::version::Version;

pub(crate) struct SuperVersion {
    /// The memtable that takes writes.
    pub(crate) memtable: Arc<MemTable>,
    /// Memtables that wait to be flushed, newest first.
    pub(crate) immutables: Vec<Arc<MemTable>>,
    pub(crate) version: Arc<Version>,
}

impl SuperVersion {
    /// Memtables in search order.
    pub(crate) fn memtables(&self) -> impl Iterator<Item = &Arc<MemTable>> {
        std::iter::once(&self.memtable).chain(&self.immutables)
    }
}

/// What readers see, `S` being the super version: where leaders and installers publish, and readers
/// look without a lock.
pub(crate) struct View<S> {
    current: Swap<S>,
    visible: AtomicU64,
}

impl<S> View<S> {
    pub(crate) fn new(first: Arc<S>) -> Self {
        View { current: Swap::new(first), visible: AtomicU64::new(0) }
    }

    /// The state of the moment, for a short look.
    #[inline]
    pub(crate) fn load(&self) -> impl Deref<Target = Arc<S>> + use<S> {
        self.current.load()
    }

    pub(crate) fn load_full(&self) -> Arc<S> {
        self.current.load_full()
    }

    /// Makes `next` what new readers pin. Called under the state lock.
    pub(crate) fn publish(&self, next: Arc<S>) {
        self.current.store(next);
    }

    /// The last sequence number that reads see. Readers pin first: between the two loads a
    /// compaction may drop what an older number needs.
    #[inline]
    pub(crate) fn visible(&self) -> SeqNo {
        // Pairs with the store in `show`: who sees the number sees the entries.
        SeqNo(self.visible.load(Ordering::Acquire))
    }

    /// Shows every write up to `seqno`, whose entries are all in place.
    pub(crate) fn show(&self, seqno: SeqNo) {
        self.visible.store(seqno.0, Ordering::Release);
    }
}
