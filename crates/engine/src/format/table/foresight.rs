//! Blocks that are kept before anybody has asked for them. A table that was just written is read in place of others, and each
//! of its blocks would be missed twice first: once for nothing, and once to be kept.

use crate::base::error::Result;
use crate::format::table::cache::CachedBlock;
use crate::format::table::fetch::{Ahead, Readahead, SPAN_BYTES_MAX, Verify};
use crate::format::table::reader::Table;

impl Table {
    /// Has all blocks kept in the cache, with their directories. Reads and checks the whole table.
    pub(crate) fn keep_all_blocks(&self) -> Result<()> {
        let mut ahead = Readahead::new(Ahead::Always(SPAN_BYTES_MAX), Verify::Yes);
        for index in (0..self.index().len()).filter(|index| !self.shelf().is_filled(*index)) {
            let handle = self.handle(index)?;
            let (id, content) = ahead.stored(self.file(), handle, 0, |bytes| bytes)?;
            let bytes = ahead
                .unpack(id, content, self.spare_memory())
                .map_err(|error| self.in_block(error, index))?;
            let block = self.keep(index, bytes, true)?;
            self.foresee_searches(&block);
        }
        Ok(())
    }

    /// A block that is kept because somebody searches in it has its directory made while its lines are near the processor.
    pub(crate) fn foresee_searches(&self, block: &CachedBlock) {
        if self.order().is_bytewise() {
            block.make_directory();
        }
    }

    /// How many of its blocks are in the cache and were used there lately, in percent.
    pub(crate) fn used_percent(&self) -> u64 {
        self.percent_cached(CachedBlock::is_used)
    }

    #[cfg(test)]
    pub(crate) fn kept_percent(&self) -> u64 {
        self.percent_cached(|_| true)
    }

    fn percent_cached(&self, counts: impl Fn(&CachedBlock) -> bool) -> u64 {
        let blocks = self.index().len();
        let look = |index: &usize| match self.shelf().look(*index).as_deref() {
            Some(Some(block)) => counts(block),
            _ => false,
        };
        (0..blocks).filter(look).count() as u64 * 100 / blocks.max(1) as u64
    }
}
