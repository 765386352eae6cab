//! The block cache seam. Cached blocks lie on a shelf of the table that they came from, each at a place of its own, so
//! that readers find them without a search and without asking anyone. What a cache decides is which of them stay;
//! `store` has the built-in one.

use std::ops::{Deref, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::base::comparator::InternalOrder;
use crate::base::error::Result;
use crate::base::prefetch::{Stream, prefetch_span};
use crate::base::sync::{OnceLock, SwapOption};
use crate::format::table::block::{Block, Entry};
use crate::format::table::bytes::BlockBytes;
use crate::format::table::directory::Directory;
use crate::format::table::key_buf::KeyBuf;
use crate::format::table::matcher::Matcher;

/// Uses that are remembered.
const USES_MAX: u8 = 4;

/// An `Arc` counts its holders in front of what they hold.
const COUNTS_BYTES: usize = 2 * size_of::<usize>();
/// What keeping a block takes besides: those counts, what the allocator has in front of it and of its bytes, its place on the
/// shelf and its turn in the cache's line.
pub(crate) const KEEPING_BYTES: usize = 104;

/// A block as caches hold it: verified, uncompressed, its content never changing.
pub struct CachedBlock {
    pub(crate) block: Block,
    /// None inside: it cannot have one.
    directory: OnceLock<Option<Directory>>,
    /// No more than [`USES_MAX`]: who only reads often shall not write often.
    uses: AtomicU8,
    note: AtomicU64,
}

impl CachedBlock {
    pub(crate) fn new(block: Block) -> Self {
        CachedBlock {
            block,
            directory: OnceLock::new(),
            uses: AtomicU8::new(0),
            note: AtomicU64::new(0),
        }
    }

    /// Memory that the block takes in a cache, in bytes.
    pub fn charge(&self) -> u64 {
        (self.block.memory() + size_of::<CachedBlock>() + KEEPING_BYTES) as u64
    }

    /// For caches: whether the block was used since it came or since the last call or two. Each call forgets a use,
    /// and few are remembered.
    pub fn take_use(&self) -> bool {
        let uses = self.uses.load(Relaxed);
        self.uses.store(uses.saturating_sub(1), Relaxed); // A use that is noted just now may be lost.
        uses > 0
    }

    /// A number for the cache that keeps the block, to use as it likes; 0 at first.
    pub fn note(&self) -> u64 {
        self.note.load(Relaxed)
    }

    /// The block's memory, if nobody else has the block and it is a vector.
    pub(crate) fn into_memory(block: Arc<Self>) -> Option<Vec<u8>> {
        Arc::into_inner(block).map(|block| block.block.into_bytes())
    }

    /// Changes the [`note`](Self::note).
    pub fn set_note(&self, note: u64) {
        self.note.store(note, Relaxed);
    }

    /// Whether uses are remembered.
    pub(super) fn is_used(&self) -> bool {
        self.uses.load(Relaxed) > 0
    }

    /// Counts a use of a block found in the cache.
    #[inline]
    pub(crate) fn note_use(&self) {
        let uses = self.uses.load(Relaxed);
        if uses < USES_MAX {
            // Threads that count at the same time may count once.
            self.uses.store(uses + 1, Relaxed);
        }
    }

    /// Gives the block a directory, if it can have one. In the bytewise order only.
    #[cold]
    pub(super) fn make_directory(&self) -> Option<&Directory> {
        self.directory.get_or_init(|| Directory::of(&self.block)).as_ref()
    }

    /// As [`Block::find`], by the directory.
    #[inline]
    pub(crate) fn find(
        &self,
        order: &InternalOrder,
        target: &[u8],
        key: &mut KeyBuf,
    ) -> Result<Option<(usize, Entry)>> {
        let Some(start) = self.start(order, target) else {
            return self.block.find(order, target, key);
        };
        self.block.touch_entry(start.0);
        self.block.find_from(start, order, target, key)
    }

    /// Where [`Block::find_from`] may start, if the block has a directory. One that is missing is made if the block was found in
    /// the cache, and so may be found there again.
    #[inline]
    pub(super) fn start<'a>(
        &self,
        order: &InternalOrder,
        target: &'a [u8],
    ) -> Option<(usize, Matcher<'a>)> {
        let directory = match self.directory.get() {
            Some(made) => made.as_ref(),
            None if order.is_bytewise() && self.uses.load(Relaxed) > 0 => self.make_directory(),
            None => None,
        };
        Some(directory?.start(&self.block, target))
    }
}

impl std::fmt::Debug for CachedBlock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CachedBlock").field("charge", &self.charge()).finish()
    }
}

/// Where the cached blocks of one open table lie: a place for each of its data blocks, filled or
/// empty.
pub struct Shelf {
    id: u64,
    places: Box<[Place]>,
    /// A bit for each place, set while a block lies there. Few lines of memory, which are near where most tables are read a lot: a
    /// look at an empty place costs a miss and two locked instructions.
    filled: Box<[AtomicU64]>,
}

#[derive(Default)]
struct Place {
    block: SwapOption<CachedBlock>,
    /// Where the block lies that was put here last, as an address that nothing is read through: to ask for it, without the two
    /// locked instructions of a look.
    near: AtomicUsize,
}

impl Shelf {
    pub(crate) fn new(id: u64, places: usize) -> Self {
        Shelf {
            id,
            places: std::iter::repeat_with(Place::default).take(places).collect(),
            filled: std::iter::repeat_with(AtomicU64::default).take(places.div_ceil(64)).collect(),
        }
    }

    /// The number that [`Cache::new_id`] gave to the table.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// How many blocks the table has.
    pub fn places(&self) -> usize {
        self.places.len()
    }

    /// The block at a place. Takes no lock.
    pub fn get(&self, place: usize) -> Option<Arc<CachedBlock>> {
        self.filled_place(place)?.block.load_full_shown(bring_near)
    }

    /// As [`get`](Self::get), for a short look: counts no reference. `None` as well if no block lies there.
    #[inline]
    pub(crate) fn look(
        &self,
        place: usize,
    ) -> Option<impl Deref<Target = Option<Arc<CachedBlock>>> + use<>> {
        Some(self.filled_place(place)?.block.load())
    }

    /// A place where a block was a moment ago.
    #[inline]
    fn filled_place(&self, place: usize) -> Option<&Place> {
        let (bits, bit) = self.bit(place)?;
        if bits.load(Relaxed) & bit == 0 { None } else { self.places.get(place) }
    }

    #[inline]
    fn bit(&self, place: usize) -> Option<(&AtomicU64, u64)> {
        Some((self.filled.get(place / 64)?, 1 << (place % 64)))
    }

    /// Asks for the places of blocks if any of them is filled; true if all are. A few, of which no more than 64 are looked at.
    #[inline]
    pub(super) fn hint_filled(&self, places: Range<usize>) -> bool {
        let Some((bits, first)) = self.bit(places.start) else { return false };
        let all = (u64::MAX >> (64 - places.len().clamp(1, 64))).wrapping_mul(first);
        let filled = bits.load(Relaxed) & all;
        if filled != 0 {
            let start = self.places.as_ptr().wrapping_add(places.start);
            prefetch_span(start.cast(), places.len() * size_of::<Place>());
        }
        filled == all
    }

    /// Asks for a block, without its bytes, if it lies at this place. An address where nothing is takes longer to ask for.
    #[inline]
    pub(super) fn hint_block(&self, place: usize) {
        if let Some(place) = self.filled_place(place) {
            let at = std::ptr::without_provenance(place.near.load(Relaxed));
            prefetch_span(at, COUNTS_BYTES + size_of::<CachedBlock>());
        }
    }

    /// The bytes of a block that is near, to be brought near bit by bit. Asks for its first entry right now, and for more of
    /// them if they are `usual` bytes long, which is much.
    #[inline]
    pub(super) fn stream(&self, place: usize, usual: usize) -> Stream {
        match self.look(place).as_deref() {
            Some(Some(block)) => {
                block.block.hint_entries(0, usual);
                block.block.stream()
            }
            _ => Stream::default(),
        }
    }

    /// Whether a block lies at a place.
    pub fn is_filled(&self, place: usize) -> bool {
        self.look(place).is_some_and(|block| block.is_some())
    }

    /// Puts a block at a place that exists; returns what was there. For caches alone.
    pub fn put(&self, place: usize, block: Arc<CachedBlock>) -> Option<Arc<CachedBlock>> {
        let Place { block: held, near } = self.places.get(place)?;
        near.store(counts_of(&block).addr(), Relaxed);
        let before = held.swap(Some(block));
        if let Some((bits, bit)) = self.bit(place) {
            bits.fetch_or(bit, Relaxed);
        }
        before
    }

    /// Takes the block from a place. Readers that have it read on. For caches alone.
    pub fn take(&self, place: usize) -> Option<Arc<CachedBlock>> {
        let (bits, bit) = self.bit(place)?;
        bits.fetch_and(!bit, Relaxed);
        self.places.get(place)?.block.swap(None)
    }
}

/// Asks for a block with its directory, without its bytes.
#[inline]
fn bring_near(block: &Arc<CachedBlock>) {
    prefetch_span(counts_of(block), COUNTS_BYTES + size_of::<CachedBlock>());
}

/// Where the block's references are counted.
#[inline]
fn counts_of(block: &Arc<CachedBlock>) -> *const u8 {
    Arc::as_ptr(block).cast::<u8>().wrapping_sub(COUNTS_BYTES)
}

impl Drop for Shelf {
    /// When a place is dropped, all that all threads borrow is searched for what is borrowed from it. An empty one lends
    /// nothing and owns nothing, so it may be forgotten; and of most tables that are compacted away no block was ever kept.
    fn drop(&mut self) {
        for (at, place) in std::mem::take(&mut self.places).into_iter().enumerate() {
            if self.bit(at).is_none_or(|(bits, bit)| bits.load(Relaxed) & bit == 0) {
                std::mem::forget(place);
            }
        }
    }
}

impl std::fmt::Debug for Shelf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shelf").field("id", &self.id).field("places", &self.places.len()).finish()
    }
}

/// Keeps blocks that were read on their tables' shelves, up to a capacity. Databases may share one.
///
/// Called from many threads at once, and not when a block is found on its shelf: what was found tells by
/// [`CachedBlock::take_use`]. To take a block from its shelf at any time is always right.
pub trait Cache: Send + Sync {
    /// Puts a block at its place and counts its [`charge`](CachedBlock::charge), or leaves it alone. A block that was
    /// there is replaced.
    fn keep(&self, shelf: &Arc<Shelf>, place: usize, block: Arc<CachedBlock>);

    /// Whether it pays to keep a block that was not at its place. Where the answer is no, the block is
    /// read for this once.
    fn admits(&self, _shelf: &Shelf, _place: usize) -> bool {
        true
    }

    /// Moves the bytes of a block that is about to be kept to where the cache has its blocks lie: a large
    /// [`BlockCache`](crate::BlockCache) has them in huge pages. Who stands in front of one hands this on. Default: they stay.
    fn place(&self, bytes: BlockBytes) -> BlockBytes {
        bytes
    }

    /// Whether it is time to [stock up](Self::stock_up). Asked after each block that was [placed](Self::place), and true for few of them
    /// until that has been done. Default: never.
    fn runs_low(&self) -> bool {
        false
    }

    /// Makes memory for blocks to come, which may take milliseconds. Databases have it called by a thread that nobody waits for.
    /// Who stands in front of a cache hands this on, and [`runs_low`](Self::runs_low), as [`place`](Self::place). Default: does nothing.
    fn stock_up(&self) {}

    /// A table is closed: takes all its blocks from their places.
    fn clear(&self, shelf: &Shelf);

    /// Memory of a block that is gone, for one to come. Default: none is kept, and the vector has none.
    fn spare(&self) -> Vec<u8> {
        Vec::new()
    }

    /// The charges of all blocks kept.
    fn total_charge(&self) -> u64;

    /// A number never given before by this cache, so that tables sharing it can be told apart.
    fn new_id(&self) -> u64;

    /// Takes all blocks from their places that no reader holds.
    fn prune(&self);

    /// A database that uses the cache takes so many bytes more elsewhere, for write buffers beyond one. The cache should do with so much
    /// less, as far as it likes. Called with a lock of the database held: must not block, nor read from it. Default: it does not.
    fn lend(&self, _bytes: u64) {}

    /// The database has closed, and gives back what it was lent.
    fn take_back(&self, _bytes: u64) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shelf_that_goes_drops_its_blocks() {
        let block = || Arc::new(CachedBlock::new(Block::new(vec![0; 8]).unwrap()));
        let (kept, shelf) = (block(), Shelf::new(1, 3));
        shelf.put(1, Arc::clone(&kept));
        assert_eq!(Arc::strong_count(&kept), 2);
        drop(shelf);
        assert_eq!(Arc::strong_count(&kept), 1);
    }

    #[test]
    fn places_are_filled_while_blocks_lie_there() {
        let shelf = Shelf::new(1, 130);
        let block = |bytes| Arc::new(CachedBlock::new(Block::new(vec![0; bytes]).unwrap()));
        let filled = || (0..shelf.places()).filter(|at| shelf.is_filled(*at)).collect::<Vec<_>>();
        for place in [0, 63, 64, 129] {
            assert!(shelf.put(place, block(8)).is_none());
        }
        assert!(shelf.put(64, block(12)).is_some(), "replaced");
        assert!(shelf.put(130, block(8)).is_none(), "there is no such place");
        assert_eq!(filled(), [0, 63, 64, 129]);
        let asked = [0..1, 63..64, 64..65, 63..65, 0..2, 1..63, 129..130, 128..130, 200..201];
        let known = asked.map(|places| shelf.hint_filled(places));
        assert_eq!(known, [true, true, true, true, false, false, true, false, false]);
        assert_eq!(shelf.get(64).unwrap().block.memory(), 12);
        assert!(shelf.take(63).is_some() && shelf.take(63).is_none() && shelf.take(130).is_none());
        assert_eq!(filled(), [0, 64, 129]);
        assert!(shelf.get(63).is_none() && shelf.look(63).is_none() && shelf.get(130).is_none());
    }
}
