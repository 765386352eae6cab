//! Memory in huge pages for pieces of some kilobytes that are looked at here and there: in small pages most looks have the
//! processor find the page first.
//!
//! Maps are cut into grains, and a bit tells of each whether it is taken. A piece is a run of grains; what is given back is one run
//! with what is free beside it, whatever sizes these had.
//!
//! Whoever reads a block would wait for a map's pages to be made, which takes a tenth of a millisecond, and sometimes twenty of them. So maps are
//! made [elsewhere](HugeHeap::stock_up), one or two ahead; what is wanted before that gets no memory here.
//!
//! **Invariants.**
//! - I1: a grain is marked as taken while it is part of a piece, and is part of one piece at most.
//! - I2: a heap lives as long as its pieces, each of which holds it, and a map as long as grains of it are taken.
//! - I3: a piece that is no heap's has the parts of a vector, and owns them.
//!
//! **Concurrency.** A lock, for as long as it takes to find a run. Maps are made and go without it. Who wants memory does not wait for
//! it: there is the allocator's.

#![expect(unsafe_code, reason = "raw memory, given and taken as such")]

use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::ops::{Deref, Range};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;

use crate::base::huge::{self, HUGE_BYTES};
use crate::base::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use crate::base::sync::{Mutex, Rank};

const GRAIN_BYTES: usize = 128;
/// In a map.
const GRAINS: usize = HUGE_BYTES / GRAIN_BYTES;
const WORD_BITS: usize = u64::BITS as usize;
/// Larger pieces have pages enough of their own.
const PIECE_BYTES_MAX: usize = 64 << 10;
/// So many maps of which nothing is taken are made ahead and kept, for pieces to come.
const UNUSED: usize = 2;
/// One in so many that ask for memory before maps are made is told that they should be: half a map's worth of usual blocks.
const TOLD_ONE_IN: u64 = 256;

/// Maps that pieces are cut from.
pub(crate) struct HugeHeap {
    maps: Mutex<Maps>,
    maps_max: usize,
    /// There should be more maps.
    is_low: AtomicBool,
    /// How often it was asked about that since, or since maps were made.
    asked: AtomicU64,
}

/// Bytes that do not change, in a heap or in memory of the allocator's: which of them makes no difference to who reads.
pub(crate) struct Piece {
    start: NonNull<u8>,
    len: usize,
    home: Home,
}

enum Home {
    /// A vector's parts, with the others.
    Vector {
        capacity: usize,
    },
    Heap(Arc<HugeHeap>),
}

// SAFETY: a piece's memory is nobody else's (I1, I3), and does not change.
unsafe impl Send for Piece {}
// SAFETY: the same.
unsafe impl Sync for Piece {}

impl HugeHeap {
    /// Of so many bytes at most, in whole maps.
    pub(crate) fn new(bytes_max: usize) -> Arc<Self> {
        let maps = Mutex::new(Rank::Memory, Maps::default());
        let (is_low, asked) = (AtomicBool::new(false), AtomicU64::new(0));
        Arc::new(HugeHeap { maps, maps_max: bytes_max / HUGE_BYTES, is_low, asked })
    }

    /// A copy of `bytes`; `None` if there is no room in the maps that there are, if they are many or none, or if others have the lock for
    /// longer than a moment.
    pub(crate) fn copy(self: &Arc<Self>, bytes: &[u8]) -> Option<Piece> {
        if bytes.is_empty() || bytes.len() > PIECE_BYTES_MAX {
            return None;
        }
        let start = self.take(grains_of(bytes.len()))?;
        // SAFETY: so many grains were just taken here, and are nobody else's (I1).
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), start.as_ptr(), bytes.len()) };
        Some(Piece { start, len: bytes.len(), home: Home::Heap(Arc::clone(self)) })
    }

    fn take(&self, grains: usize) -> Option<NonNull<u8>> {
        let mut maps = self.maps.lock_soon()?;
        let recent = maps.recent;
        let start = maps.take(grains);
        if (start.is_none() || maps.recent != recent) && maps.are_few(self.maps_max) {
            self.is_low.store(true, Relaxed);
        }
        start
    }

    /// True where [`stock_up`](Self::stock_up) should be called, and again only when many have asked and nobody has: who was told may have
    /// ended with its database.
    pub(crate) fn runs_low(&self) -> bool {
        self.is_low.load(Relaxed) && self.asked.fetch_add(1, Relaxed).is_multiple_of(TOLD_ONE_IN)
    }

    /// Makes maps, with their pages.
    pub(crate) fn stock_up(&self) {
        self.is_low.store(false, Relaxed);
        while self.maps.lock().are_few(self.maps_max)
            && let Some(map) = Map::new()
        {
            let surplus = self.maps.lock().add(map, self.maps_max);
            drop(surplus); // Without the lock.
        }
        self.asked.store(0, Relaxed);
    }

    #[cfg(all(test, not(loom), not(miri)))]
    pub(crate) fn has_unused(&self) -> bool {
        self.maps.lock().unused() > 0
    }

    /// What pieces have.
    #[cfg(test)]
    pub(crate) fn taken_bytes(&self) -> usize {
        self.maps.lock().by_start.values().map(|map| map.taken * GRAIN_BYTES).sum()
    }
}

impl Piece {
    /// The memory that it takes.
    pub(crate) fn memory(&self) -> usize {
        match self.home {
            Home::Vector { capacity } => capacity,
            Home::Heap(_) => grains_of(self.len) * GRAIN_BYTES,
        }
    }

    pub(crate) fn is_in_heap(&self) -> bool {
        matches!(self.home, Home::Heap(_))
    }

    /// The vector that it was, with the bytes; an empty one if they are in a heap.
    pub(crate) fn into_vector(self) -> Vec<u8> {
        match self.home {
            // SAFETY: it is, and is forgotten here.
            Home::Vector { capacity } => unsafe { ManuallyDrop::new(self).vector(capacity) },
            Home::Heap(_) => Vec::new(),
        }
    }

    /// # Safety
    /// It is a vector's, of this capacity, and is neither used nor dropped afterwards.
    unsafe fn vector(&self, capacity: usize) -> Vec<u8> {
        // SAFETY: a vector's parts (I3), which nobody else has.
        unsafe { Vec::from_raw_parts(self.start.as_ptr(), self.len, capacity) }
    }
}

impl From<Vec<u8>> for Piece {
    fn from(bytes: Vec<u8>) -> Self {
        let mut bytes = ManuallyDrop::new(bytes);
        let (len, home) = (bytes.len(), Home::Vector { capacity: bytes.capacity() });
        let start = NonNull::new(bytes.as_mut_ptr()).expect("vectors do not begin at null");
        Piece { start, len, home }
    }
}

impl Default for Piece {
    fn default() -> Self {
        Vec::new().into()
    }
}

impl Deref for Piece {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: so many bytes were written here before the piece was, and the memory is nobody else's while it lives (I1, I3).
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        match &self.home {
            // SAFETY: it is, and goes.
            Home::Vector { capacity } => drop(unsafe { self.vector(*capacity) }),
            Home::Heap(heap) => {
                let unused = heap.maps.lock().give(self.start, grains_of(self.len));
                drop(unused); // Without the lock.
            }
        }
    }
}

fn grains_of(bytes: usize) -> usize {
    bytes.div_ceil(GRAIN_BYTES)
}

#[derive(Default)]
struct Maps {
    by_start: BTreeMap<usize, Map>,
    /// Where something was taken or given last.
    recent: usize,
}

impl Maps {
    fn take(&mut self, grains: usize) -> Option<NonNull<u8>> {
        let recent = self.by_start.get_mut(&self.recent);
        if let Some(start) = recent.and_then(|map| map.take(grains)) {
            return Some(start);
        }
        // Where something is taken first: else pieces that come and go would spread over ever more maps.
        let start = self.take_of(|map| map.taken > 0, grains);
        start.or_else(|| self.take_of(|map| map.taken == 0, grains))
    }

    fn take_of(&mut self, fits: impl Fn(&Map) -> bool, grains: usize) -> Option<NonNull<u8>> {
        let mut fitting = self.by_start.iter_mut().filter(|(_, map)| fits(map));
        let (at, start) = fitting.find_map(|(at, map)| Some((*at, map.take(grains)?)))?;
        self.recent = at;
        Some(start)
    }

    /// Whether there should be more.
    fn are_few(&self, maps_max: usize) -> bool {
        self.by_start.len() < maps_max && self.unused() < UNUSED
    }

    fn unused(&self) -> usize {
        self.by_start.values().filter(|map| map.taken == 0).count()
    }

    /// Returns the map where others have been as fast.
    fn add(&mut self, map: Map, maps_max: usize) -> Option<Map> {
        if !self.are_few(maps_max) {
            return Some(map);
        }
        self.by_start.insert(map.start.addr().get(), map);
        None
    }

    /// Gives grains back that [`take`](Self::take) gave. Returns what is not needed any more.
    fn give(&mut self, start: NonNull<u8>, grains: usize) -> Option<Map> {
        // Maps begin at multiples of their size.
        let offset = start.addr().get() % HUGE_BYTES;
        self.recent = start.addr().get() - offset;
        let map = self.by_start.get_mut(&self.recent)?;
        map.give(offset / GRAIN_BYTES, grains);
        let is_surplus = map.taken == 0 && self.unused() > UNUSED;
        if is_surplus { self.by_start.remove(&self.recent) } else { None }
    }
}

/// A huge page.
struct Map {
    start: NonNull<u8>,
    /// A bit for each grain, set while it is taken.
    marks: Box<[u64; GRAINS / WORD_BITS]>,
    /// How many are set.
    taken: usize,
    /// Where to look first: behind what was taken last, or at what was given back since.
    next: usize,
    /// No free run is longer.
    longest: usize,
}

// SAFETY: the memory has no other owner, on whichever thread.
unsafe impl Send for Map {}

impl Map {
    /// With its pages; `None` where the system has no memory to give.
    fn new() -> Option<Self> {
        // Neither knows memory maps.
        let start = if cfg!(any(miri, loom)) { None } else { huge::map() }?;
        // SAFETY: it was just mapped, and is nobody else's.
        unsafe { huge::make_pages(start) };
        let marks = Box::new([0; GRAINS / WORD_BITS]);
        Some(Map { start, marks, taken: 0, next: 0, longest: GRAINS })
    }

    fn take(&mut self, grains: usize) -> Option<NonNull<u8>> {
        if grains > self.longest {
            return None;
        }
        let before_next = 0..GRAINS.min(self.next + grains - 1);
        let found = self.find(self.next..GRAINS, grains).or_else(|| self.find(before_next, grains));
        let Some(at) = found else {
            self.longest = grains - 1;
            return None;
        };
        words(at..at + grains).for_each(|(word, mask)| self.marks[word] |= mask);
        self.taken += grains;
        self.next = at + grains;
        // SAFETY: the run lies within the map.
        Some(unsafe { self.start.add(at * GRAIN_BYTES) })
    }

    fn give(&mut self, at: usize, grains: usize) {
        words(at..at + grains).for_each(|(word, mask)| self.marks[word] &= !mask);
        self.taken -= grains;
        self.next = at;
        self.longest = GRAINS;
    }

    /// Where the first free run within a range begins that has so many grains.
    fn find(&self, within: Range<usize>, grains: usize) -> Option<usize> {
        let mut at = within.start;
        while at + grains <= within.end {
            match self.last_taken(at..at + grains) {
                Some(taken) => at = taken + 1,
                None => return Some(at),
            }
        }
        None
    }

    fn last_taken(&self, range: Range<usize>) -> Option<usize> {
        words(range).rev().find_map(|(word, mask)| {
            let last = (self.marks[word] & mask).checked_ilog2()?;
            Some(word * WORD_BITS + last as usize)
        })
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: it came from `huge::map`, and nothing of it is taken (I2).
        unsafe { huge::unmap(self.start) };
    }
}

/// The words that a range of bits lies in, each with a mask of those bits.
fn words(bits: Range<usize>) -> impl DoubleEndedIterator<Item = (usize, u64)> {
    (bits.start / WORD_BITS..bits.end.div_ceil(WORD_BITS)).map(move |word| {
        let first = word * WORD_BITS;
        let low = bits.start.saturating_sub(first);
        let high = (bits.end - first).min(WORD_BITS);
        (word, (u64::MAX >> (WORD_BITS - (high - low))) << low)
    })
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests;
