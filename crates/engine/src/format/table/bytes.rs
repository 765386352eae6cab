//! A block's bytes, and where they lie.

use std::ops::Deref;
use std::sync::Arc;

use crate::base::huge::heap::{HugeHeap, Piece};
use crate::format::table::spare;

/// A block's bytes, uncompressed: in a vector, or where a [cache](crate::Cache::place) has put them.
#[derive(Default)]
pub struct BlockBytes(Piece);

impl BlockBytes {
    /// The same bytes in `heap`, if there is room; the memory that they had goes to blocks to come.
    pub(crate) fn moved_to(self, heap: &Arc<HugeHeap>) -> Self {
        match heap.copy(&self) {
            Some(piece) => {
                spare::give(self.into_vector());
                BlockBytes(piece)
            }
            None => self,
        }
    }

    /// In no more memory than they need, for a cache counts it.
    pub(super) fn fit(self) -> Self {
        if self.0.is_in_heap() { self } else { spare::fit(self.into_vector()).into() }
    }

    /// The memory that they take.
    pub(super) fn memory(&self) -> usize {
        self.0.memory()
    }

    /// Their memory, for other bytes; none if a heap has it.
    pub(super) fn into_vector(self) -> Vec<u8> {
        self.0.into_vector()
    }
}

impl From<Vec<u8>> for BlockBytes {
    fn from(bytes: Vec<u8>) -> Self {
        BlockBytes(bytes.into())
    }
}

impl Deref for BlockBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for BlockBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockBytes")
            .field("len", &self.len())
            .field("in_heap", &self.0.is_in_heap())
            .finish()
    }
}
