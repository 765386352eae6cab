//! A block cache as the tables of a database have it: somebody looks after its memory.
//!
//! Who reads a block shall not wait for the system to make pages. So where the cache runs low, housekeeping is told; where there is
//! none, in a database that is read only or driven by hand, whoever reads does its work.

use std::sync::Arc;

use crate::format::table::bytes::BlockBytes;
use crate::format::table::cache::{Cache, CachedBlock, Shelf};
use crate::format::table::heat::Ring;

pub(crate) struct AttendedCache {
    cache: Arc<dyn Cache>,
    /// Tells who stocks it up.
    ring: Option<Ring>,
}

impl AttendedCache {
    pub(crate) fn new(cache: Arc<dyn Cache>, ring: Option<Ring>) -> Self {
        AttendedCache { cache, ring }
    }
}

impl Cache for AttendedCache {
    fn keep(&self, shelf: &Arc<Shelf>, place: usize, block: Arc<CachedBlock>) {
        self.cache.keep(shelf, place, block);
    }

    fn admits(&self, shelf: &Shelf, place: usize) -> bool {
        self.cache.admits(shelf, place)
    }

    fn place(&self, bytes: BlockBytes) -> BlockBytes {
        let placed = self.cache.place(bytes);
        if self.cache.runs_low() {
            match &self.ring {
                Some(ring) => ring(),
                None => self.cache.stock_up(),
            }
        }
        placed
    }

    fn runs_low(&self) -> bool {
        self.cache.runs_low()
    }

    fn stock_up(&self) {
        self.cache.stock_up();
    }

    fn clear(&self, shelf: &Shelf) {
        self.cache.clear(shelf);
    }

    fn spare(&self) -> Vec<u8> {
        self.cache.spare()
    }

    fn total_charge(&self) -> u64 {
        self.cache.total_charge()
    }

    fn new_id(&self) -> u64 {
        self.cache.new_id()
    }

    fn prune(&self) {
        self.cache.prune();
    }

    fn lend(&self, bytes: u64) {
        self.cache.lend(bytes);
    }

    fn take_back(&self, bytes: u64) {
        self.cache.take_back(bytes);
    }
}
