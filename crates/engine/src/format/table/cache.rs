//! The block cache seam: uncompressed blocks under the table and offset they came from. Tables ask
//! it before they read; `store` has the built-in one.

use std::sync::Arc;

use crate::format::table::block::Block;

/// Names a block: the table it is of, and where it starts there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CacheKey {
    /// A number that [`Cache::new_id`] gave to one open table.
    pub table_id: u64,
    /// The block's offset in that table.
    pub offset: u64,
}

/// A block as caches hold it: verified, uncompressed, never changing.
pub struct CachedBlock {
    pub(crate) block: Block,
}

impl CachedBlock {
    pub(crate) fn new(block: Block) -> Self {
        CachedBlock { block }
    }

    /// Memory that the block takes.
    pub fn charge(&self) -> u64 {
        (self.block.memory() + size_of::<CachedBlock>()) as u64
    }
}

impl std::fmt::Debug for CachedBlock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CachedBlock").field("charge", &self.charge()).finish()
    }
}

/// Keeps blocks that were read, up to a capacity. Databases may share one.
///
/// Called on every read, from many threads at once: a hit should neither wait nor allocate. To
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
