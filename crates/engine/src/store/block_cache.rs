//! The built-in block cache: it says which blocks stay on the tables' shelves, weighed in bytes. Databases make a
//! private one unless their options share one.
//!
//! **Eviction.** Each shard has a queue of the places that it filled. Who is first in line goes, unless the block was
//! used since it was there last: then it goes to the end of the line (CLOCK, with up to a few uses remembered). Hits
//! know nothing of this but to count themselves in the block.
//!
//! **Admission.** Once the cache is full, a read keeps a block only if another has missed it not long before:
//! keeping costs memory, an eviction and a lock, and most blocks that are read once are not read again before they
//! would be gone. Scans, too, wash nothing out that way, where LevelDB's strict LRU lets them.
//!
//! **Loans.** Write buffers that wait to be flushed take memory that nobody has asked for by a budget of its own. The cache does with
//! so much less, up to three eighths: reads beside many writes find what was written last in memory, and the cache full of tables that
//! are about to go.
//!
//! **Memory.** What blocks of closed tables had goes to blocks to come, whichever thread reads them: the allocator gives each
//! thread memory of its own, and what one frees another cannot have. A large cache has a heap of huge pages for its blocks, and no
//! need of that.
//!
//! **Invariants.** What lies at a place is changed with its shard's lock held, and by nobody else. The note of a block
//! at its place is what the shard's weight has of it.
//!
//! **Concurrency.** Hits come by no lock of the cache. Keeping takes one shard's, and keeps nothing where others have it for
//! longer than a moment: a reader has its block already.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering::Relaxed};

use crate::base::hash::mix;
use crate::base::huge::heap::HugeHeap;
use crate::base::sync::{Guard, Mutex, Rank};
use crate::format::table::bytes::BlockBytes;
use crate::format::table::cache::{Cache, CachedBlock, Shelf};

/// Shards are no smaller than this, so that blocks with large values fit in, ..
const SHARD_BYTES_MIN: usize = 1 << 20;
/// .. and no more than this.
const SHARDS_MAX: usize = 16;
/// For sizing tables only: about what a block of 4 KiB takes.
const BLOCK_BYTES_USUAL: usize = 4 << 10;
/// No more eighths than this are lent.
const LENT_EIGHTHS_MAX: u64 = 3;
/// Spare memory is no more than this part of the capacity, ..
const SPARE_SHARE: usize = 2;
/// .. and no more than this. It was blocks before, and gets and flushes take it first for those to come; beside scans, which take
/// none, so much may lie idle above the capacity.
const SPARE_BYTES_MAX: usize = 4 << 20;
/// From this capacity on blocks lie in huge pages. Of less memory the processor mostly knows the small pages, and there would be few
/// maps to share out: from 8 MiB on gets were 1.02 times as fast.
const HUGE_CAPACITY_MIN: usize = 32 << 20;
/// So many blocks in use may pass before one goes all the same: a lock is held meanwhile.
const REPRIEVES_MAX: usize = 32;

/// A block cache of fixed capacity, to be shared by databases: `Arc<BlockCache>`.
///
/// Blocks in use by readers live on when the cache forgets them, and count no more. A block larger
/// than a shard (a sixteenth of the capacity, but at least 1 MiB or the whole capacity) is not
/// kept.
pub struct BlockCache {
    /// A power of two of them. Empty: nothing is kept.
    shards: Box<[Shard]>,
    misses: RecentMisses,
    last_id: AtomicU64,
    /// To all databases, what is more than a share of the capacity included.
    lent: AtomicU64,
    spares: Spares,
    /// Present if the cache is large.
    heap: Option<Arc<HugeHeap>>,
}

impl BlockCache {
    /// A cache of so many bytes; 0 turns caching off.
    pub fn new(capacity_bytes: usize) -> Self {
        let shards = match capacity_bytes {
            0 => 0,
            bytes => 1 << (bytes / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX).ilog2(),
        };
        let capacity = capacity_bytes.checked_div(shards).unwrap_or_default() as u64;
        BlockCache {
            shards: std::iter::repeat_with(|| Shard::new(capacity)).take(shards).collect(),
            misses: RecentMisses::new(capacity_bytes),
            last_id: AtomicU64::new(0),
            lent: AtomicU64::new(0),
            spares: Spares::new((capacity_bytes / SPARE_SHARE).min(SPARE_BYTES_MAX)),
            heap: (capacity_bytes >= HUGE_CAPACITY_MIN).then(|| HugeHeap::new(capacity_bytes)),
        }
    }

    #[cfg(test)]
    pub(crate) fn lent(&self) -> u64 {
        self.lent.load(Relaxed)
    }

    /// Takes what is lent off all shards alike. Blocks go as others come.
    fn share_out_loans(&self) {
        let each = self.lent.load(Relaxed) / self.shards.len().max(1) as u64;
        self.shards.iter().for_each(|shard| shard.lend(each));
    }

    /// None if nothing is kept.
    fn shard(&self, hash: u64) -> Option<&Shard> {
        self.shards.get((hash >> 32) as usize & self.shards.len().wrapping_sub(1))
    }
}

/// The numbers come from this process, so no one can aim for collisions.
fn hash_of(shelf: &Shelf, place: usize) -> u64 {
    mix(mix(0, shelf.id()), place as u64)
}

impl Cache for BlockCache {
    fn keep(&self, shelf: &Arc<Shelf>, place: usize, block: Arc<CachedBlock>) {
        if let Some(shard) = self.shard(hash_of(shelf, place)) {
            shard.keep(shelf, place, block);
        }
    }

    fn admits(&self, shelf: &Shelf, place: usize) -> bool {
        let hash = hash_of(shelf, place);
        let shard = self.shard(hash);
        shard.is_some_and(|shard| !shard.is_full.load(Relaxed) || self.misses.note(hash))
    }

    fn place(&self, bytes: BlockBytes) -> BlockBytes {
        match &self.heap {
            Some(heap) => bytes.moved_to(heap),
            None => bytes,
        }
    }

    fn runs_low(&self) -> bool {
        self.heap.as_ref().is_some_and(|heap| heap.runs_low())
    }

    fn stock_up(&self) {
        if let Some(heap) = &self.heap {
            heap.stock_up();
        }
    }

    fn clear(&self, shelf: &Shelf) {
        for place in (0..shelf.places()).filter(|place| shelf.is_filled(*place)) {
            if let Some(shard) = self.shard(hash_of(shelf, place)) {
                let gone = shard.change(shard.queue.lock(), |queue| queue.remove(shelf, place));
                gone.into_iter().for_each(|block| self.spares.give(block));
            }
        }
    }

    fn spare(&self) -> Vec<u8> {
        self.spares.take()
    }

    fn total_charge(&self) -> u64 {
        self.shards.iter().map(|shard| shard.queue.lock().weight).sum()
    }

    fn new_id(&self) -> u64 {
        // Only uniqueness counts, which a single atomic has in any order.
        self.last_id.fetch_add(1, Relaxed) + 1
    }

    fn lend(&self, bytes: u64) {
        self.lent.fetch_add(bytes, Relaxed);
        self.share_out_loans();
    }

    fn take_back(&self, bytes: u64) {
        self.lent.fetch_sub(bytes, Relaxed);
        self.share_out_loans();
    }

    fn prune(&self) {
        self.shards.iter().for_each(|shard| shard.change(shard.queue.lock(), Queue::prune));
        self.spares.clear();
    }
}

impl std::fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let capacity: u64 = self.shards.iter().map(|shard| shard.capacity).sum();
        f.debug_struct("BlockCache")
            .field("capacity", &capacity)
            .field("total_charge", &self.total_charge())
            .finish()
    }
}

struct Shard {
    capacity: u64,
    /// What is left of it for blocks.
    room: AtomicU64,
    queue: Mutex<Queue>,
    /// By the last change.
    is_full: AtomicBool,
}

impl Shard {
    fn new(capacity: u64) -> Self {
        let queue = Mutex::new(Rank::Leaf, Queue::default());
        Shard { capacity, room: AtomicU64::new(capacity), queue, is_full: AtomicBool::new(false) }
    }

    fn lend(&self, bytes: u64) {
        self.room.store(self.capacity - bytes.min(self.capacity / 8 * LENT_EIGHTHS_MAX), Relaxed);
    }

    fn room(&self) -> u64 {
        self.room.load(Relaxed)
    }

    fn keep(&self, shelf: &Arc<Shelf>, place: usize, block: Arc<CachedBlock>) {
        if block.charge() <= self.room() && place < shelf.places() {
            let queue = self.queue.lock_soon();
            drop(queue.map(|queue| {
                self.change(queue, |queue| {
                    queue.insert(shelf, place, block);
                    queue.evict_down_to(self.room())
                })
            }));
        }
    }

    /// Hands out what is to be dropped: others would wait for the lock and for whoever gives memory back at the same time.
    fn change<T>(&self, mut queue: Guard<'_, Queue>, change: impl FnOnce(&mut Queue) -> T) -> T {
        let changed = change(&mut queue);
        self.is_full.store(queue.weight >= self.room() / 8 * 7, Relaxed);
        changed
    }
}

/// The places that a shard has filled, in the order of their turns.
#[derive(Default)]
struct Queue {
    /// Some may have been emptied since.
    line: VecDeque<Filled>,
    /// Blocks at places in the line.
    blocks: usize,
    weight: u64,
}

struct Filled {
    shelf: Arc<Shelf>,
    place: usize,
}

impl Queue {
    fn insert(&mut self, shelf: &Arc<Shelf>, place: usize, block: Arc<CachedBlock>) {
        block.set_note(block.charge());
        self.weight += block.note();
        match shelf.put(place, block) {
            Some(old) => self.weight -= old.note(),
            None => {
                self.blocks += 1;
                self.line.push_back(Filled { shelf: Arc::clone(shelf), place });
            }
        }
    }

    fn remove(&mut self, shelf: &Shelf, place: usize) -> Option<Arc<CachedBlock>> {
        let block = shelf.take(place)?;
        self.weight -= block.note();
        self.blocks -= 1;
        self.drop_empty_places();
        Some(block)
    }

    /// Mostly one goes, which is returned.
    fn evict_down_to(&mut self, capacity: u64) -> Option<Arc<CachedBlock>> {
        let mut reprieves = REPRIEVES_MAX;
        let mut gone = None;
        while self.weight > capacity
            && let Some(filled) = self.line.pop_front()
        {
            let used = match filled.shelf.look(filled.place).as_deref() {
                Some(Some(block)) => Some(block.take_use()),
                _ => None,
            };
            match used {
                Some(true) if reprieves > 0 => {
                    reprieves -= 1;
                    self.line.push_back(filled);
                }
                Some(_) => gone = self.remove(&filled.shelf, filled.place),
                None => {}
            }
        }
        gone
    }

    /// Places of closed tables must not pile up where nothing is evicted.
    fn drop_empty_places(&mut self) {
        if self.line.len() / 2 > self.blocks {
            self.line.retain(|filled| filled.shelf.is_filled(filled.place));
        }
    }

    fn prune(&mut self) {
        let (blocks, weight) = (&mut self.blocks, &mut self.weight);
        self.line.retain(|Filled { shelf, place }| {
            let block = shelf.look(*place);
            let block = block.as_deref().and_then(Option::as_ref);
            let stays = block.is_some_and(|block| Arc::strong_count(block) > 1);
            if !stays && let Some(block) = shelf.take(*place) {
                *weight -= block.note();
                *blocks -= 1;
            }
            stays
        });
    }
}

/// Memory of blocks that are gone, for blocks to come.
struct Spares {
    bytes_max: usize,
    buffers: Mutex<SpareBuffers>,
}

#[derive(Default)]
struct SpareBuffers {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

impl Spares {
    fn new(bytes_max: usize) -> Self {
        Spares { bytes_max, buffers: Mutex::new(Rank::Leaf, SpareBuffers::default()) }
    }

    fn give(&self, block: Arc<CachedBlock>) {
        let Some(buffer) = CachedBlock::into_memory(block) else { return };
        if buffer.capacity() == 0 {
            return;
        }
        let mut spare = self.buffers.lock();
        if spare.bytes + buffer.capacity() <= self.bytes_max {
            spare.bytes += buffer.capacity();
            spare.buffers.push(buffer);
        }
    }

    fn clear(&self) {
        let gone = std::mem::take(&mut *self.buffers.lock());
        drop(gone.buffers);
    }

    fn take(&self) -> Vec<u8> {
        let mut spare = self.buffers.lock();
        let buffer = spare.buffers.pop().unwrap_or_default();
        spare.bytes -= buffer.capacity();
        buffer
    }
}

/// So many times more blocks fit than misses are remembered. Of a database of thirteen times the cache with four, one block in fifty that
/// was missed was kept though none was read more often than others, and keeping costs twice a read; with sixteen, one in two hundred. What
/// is read often is missed again soon.
const BLOCKS_PER_MISS: usize = 16;

/// Remembers the latest misses, each by a part of its hash.
struct RecentMisses(Box<[AtomicU16]>);

impl RecentMisses {
    fn new(capacity_bytes: usize) -> Self {
        let places = capacity_bytes / BLOCK_BYTES_USUAL / BLOCKS_PER_MISS;
        let places = places.next_power_of_two().max(64);
        RecentMisses(std::iter::repeat_with(AtomicU16::default).take(places).collect())
    }

    /// True if this miss is remembered already. A wrong yes or no costs little.
    fn note(&self, hash: u64) -> bool {
        let mark = (hash as u16).max(1);
        let place = (hash >> 16) as usize & (self.0.len() - 1);
        let Some(place) = self.0.get(place) else { return true };
        let again = place.load(Relaxed) == mark;
        if !again {
            place.store(mark, Relaxed);
        }
        again
    }
}
