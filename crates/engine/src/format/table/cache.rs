//! The block cache seam: uncompressed blocks under the table and offset they came from. Tables ask
//! it before they read; `store` has the built-in one.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use crate::format::table::block::Block;
use crate::format::table::directory::{Directory, Told};

/// Names a block: the table it is of, and where it starts there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CacheKey {
    /// A number that [`Cache::new_id`] gave to one open table.
    pub table_id: u64,
    /// The block's offset in that table.
    pub offset: u64,
}

/// A directory is made when a block is hit for this time: what it saves has about paid for it then.
const HITS_TO_DIRECTORY: u8 = 4;

/// A block as caches hold it: verified, uncompressed, its content never changing.
pub struct CachedBlock {
    pub(crate) block: Block,
    hits: AtomicU8,
    directory: OnceLock<Option<Directory>>,
}

impl CachedBlock {
    pub(crate) fn new(block: Block) -> Self {
        CachedBlock { block, hits: AtomicU8::new(0), directory: OnceLock::new() }
    }

    /// Memory that the block takes. It grows once, when a block that is read often gets a directory.
    pub fn charge(&self) -> u64 {
        let directory = self.directory.get().and_then(Option::as_ref).map_or(0, Directory::memory);
        (self.block.memory() + directory + size_of::<CachedBlock>()) as u64
    }

    /// Looks for an internal key, in the bytewise order.
    #[inline]
    pub(super) fn look_up(&self, target: &[u8]) -> Told {
        match self.directory.get() {
            Some(Some(directory)) => directory.look_up(&self.block, target),
            _ => Told::Unclear,
        }
    }

    /// Counts a hit. True once, when it has made the block a directory: its charge has grown.
    #[inline]
    pub(super) fn note_hit(&self) -> bool {
        if self.directory.get().is_some() {
            return false;
        }
        // Threads that count at the same time may count once.
        let hits = self.hits.load(Relaxed).saturating_add(1);
        self.hits.store(hits, Relaxed);
        hits >= HITS_TO_DIRECTORY && self.make_directory()
    }

    #[cold]
    fn make_directory(&self) -> bool {
        let directory = Directory::of(&self.block);
        let is_there = directory.is_some();
        self.directory.set(directory).is_ok() && is_there
    }
}

impl std::fmt::Debug for CachedBlock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CachedBlock").field("charge", &self.charge()).finish()
    }
}

/// Keeps blocks that were read, up to a capacity. Databases may share one.
///
/// Called on every read, from many threads at once: a hit should neither wait nor allocate. A block that
/// is hit often is inserted once more, with a higher charge. To
/// forget a block at any time is always right.
pub trait Cache: Send + Sync {
    /// The block, if it is here.
    fn get(&self, key: CacheKey) -> Option<Arc<CachedBlock>>;

    /// Keeps a block; `charge` is its weight in bytes. A block of the same key is replaced.
    fn insert(&self, key: CacheKey, block: Arc<CachedBlock>, charge: u64);

    /// Whether it pays to keep a block that was looked for in vain. Where the answer is no, the block is
    /// read for this once.
    fn admits(&self, _key: CacheKey) -> bool {
        true
    }

    /// Forgets a block.
    fn erase(&self, key: CacheKey);

    /// The weight of all blocks here.
    fn total_charge(&self) -> u64;

    /// A number never given before by this cache, so that tables sharing it cannot meet.
    fn new_id(&self) -> u64;

    /// Forgets all blocks that no reader holds.
    fn prune(&self);
}
