//! Floor 3: the memtable, where writes rest in order until they are flushed to a table. The write
//! path inserts, reads probe, the flush iterates.
//!
//! **Concurrency.** [`MemTable::new`] returns the table and its one [`Inserter`]. Inserting takes
//! the inserter by `&mut`, so whoever holds it is the only one who writes; readers take no lock and
//! may run at any time. A reader sees every entry whose insertion happened before its call (the
//! write path publishes the visible seqno after inserting), and perhaps some of those under way,
//! which its own seqno hides from it.

mod arena;
mod pool;
mod skiplist;
mod window;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::base::comparator::UserOrder;
use crate::base::error::Result;
use crate::base::iter::InternalIterator;
use crate::base::key::{SeqNo, ValueKind, pack_tag};
use crate::base::sync::atomic::{AtomicU64, Ordering::Relaxed};
pub(crate) use pool::Pool;
use skiplist::{Cursor, Entry, SkipList, Writer};

/// The readers' side of a memtable.
pub(crate) struct MemTable {
    list: SkipList,
    /// Changed by the inserter only. `Relaxed` throughout: these numbers order nothing.
    entries: AtomicU64,
    deletions: AtomicU64,
    first_seqno: AtomicU64,
}

/// The right to insert into one memtable.
pub(crate) struct Inserter {
    table: Arc<MemTable>,
    writer: Writer,
}

/// What a memtable knows of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found<'a> {
    Value(&'a [u8]),
    Deleted,
}

impl MemTable {
    /// An empty memtable and its inserter. If it is to be read, `indexed_bytes` is the size that it may grow to: gets
    /// then find the newest entries of keys by hash. The shape of the search structure follows from `seed`.
    pub(crate) fn new(order: UserOrder, indexed_bytes: usize, seed: u64) -> (Arc<Self>, Inserter) {
        Self::of(SkipList::new(order, indexed_bytes, seed, None))
    }

    /// As [`new`](Self::new), with memory that others have left in the pool.
    pub(crate) fn in_pool(
        pool: &Arc<Pool>,
        order: UserOrder,
        indexed_bytes: usize,
        seed: u64,
    ) -> (Arc<Self>, Inserter) {
        Self::of(SkipList::new(order, indexed_bytes, seed, Some(Arc::clone(pool))))
    }

    fn of((list, writer): (SkipList, Writer)) -> (Arc<Self>, Inserter) {
        let table = Arc::new(MemTable {
            list,
            entries: AtomicU64::new(0),
            deletions: AtomicU64::new(0),
            first_seqno: AtomicU64::new(u64::MAX),
        });
        let inserter = Inserter { table: Arc::clone(&table), writer };
        (table, inserter)
    }

    /// The newest entry of `user_key` that is not newer than `seqno`.
    #[inline]
    pub(crate) fn get(&self, user_key: &[u8], seqno: SeqNo) -> Option<Found<'_>> {
        let (tag, value) = self.list.newest(user_key, pack_tag(seqno, ValueKind::Value))?;
        // The low byte of a tag is its kind, and only `Inserter::add` makes the tags found here.
        Some(if tag as u8 == ValueKind::Deletion as u8 {
            Found::Deleted
        } else {
            Found::Value(value)
        })
    }

    /// An iterator over internal keys that keeps the entries alive. It sees entries inserted after
    /// it was made.
    pub(crate) fn iter(&self) -> MemTableIter {
        MemTableIter(self.list.cursor())
    }

    /// Does some of the work that the inserter has [left to others](Inserter::leave); for how many entries.
    pub(crate) fn help(&self) -> usize {
        self.list.link_some()
    }

    /// The bytes of all entries with their overhead: what the write buffer's size is held against.
    pub(crate) fn approximate_bytes(&self) -> usize {
        self.list.used_bytes()
    }

    /// What the table takes: its entries, and its index if it has one.
    pub(crate) fn memory(&self) -> usize {
        self.approximate_bytes() + self.list.index_bytes()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries() == 0
    }

    pub(crate) fn entries(&self) -> u64 {
        self.entries.load(Relaxed)
    }

    /// How many of the entries are deletions.
    pub(crate) fn deletions(&self) -> u64 {
        self.deletions.load(Relaxed)
    }

    /// The lowest seqno of an entry.
    pub(crate) fn first_seqno(&self) -> Option<SeqNo> {
        (!self.is_empty()).then(|| SeqNo(self.first_seqno.load(Relaxed)))
    }
}

impl Inserter {
    /// Ends another one, and has its memory.
    pub(crate) fn succeed(&mut self, other: Inserter) {
        self.writer.succeed(other.writer);
    }

    /// The table inserted into.
    pub(crate) fn table(&self) -> &Arc<MemTable> {
        &self.table
    }

    /// Adds an entry. One with the same user key, seqno and kind that is there already stays as it
    /// is, and the answer is false: recovery may replay a batch twice.
    pub(crate) fn add(&mut self, seqno: SeqNo, kind: ValueKind, key: &[u8], value: &[u8]) -> bool {
        if !self.writer.insert(Entry { user: key, tag: pack_tag(seqno, kind), value }) {
            return false;
        }
        self.count(seqno, kind);
        true
    }

    /// Adds an entry that is newer than all others, and leaves it to those who [help](MemTable::help) to find its place in the
    /// order. Readers see it at once, but may have to do that themselves.
    #[inline(never)]
    pub(crate) fn leave(&mut self, seqno: SeqNo, kind: ValueKind, key: &[u8], value: &[u8]) {
        self.writer.insert_unlinked(Entry { user: key, tag: pack_tag(seqno, kind), value });
        self.count(seqno, kind);
    }

    #[inline]
    fn count(&self, seqno: SeqNo, kind: ValueKind) {
        let table = &*self.table;
        // Plain sums and stores: no one else writes these numbers. The entry count comes last.
        if kind == ValueKind::Deletion {
            table.deletions.store(table.deletions() + 1, Relaxed);
        }
        if seqno.0 < table.first_seqno.load(Relaxed) {
            table.first_seqno.store(seqno.0, Relaxed);
        }
        table.entries.store(table.entries() + 1, Relaxed);
    }
}

/// A position in a memtable. Steps backwards cost a search each.
pub(crate) struct MemTableIter(Cursor);

impl MemTableIter {
    /// Stands nowhere.
    pub(crate) fn release(&mut self) {
        self.0.leave();
    }
}

impl InternalIterator for MemTableIter {
    fn valid(&self) -> bool {
        self.0.valid()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.0.seek_to_first();
        Ok(())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.0.seek_to_last();
        Ok(())
    }

    fn seek(&mut self, target: &[u8]) -> Result<()> {
        self.0.seek(target);
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        self.0.next();
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        self.0.prev();
        Ok(())
    }

    fn key(&self) -> &[u8] {
        self.0.key()
    }

    fn value(&self) -> &[u8] {
        self.0.value()
    }
}
