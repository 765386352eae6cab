//! Blocks in each other's places. Point reads and iterators look, for each block that they have read.

use std::cmp::Ordering;

use crate::base::error::{Error, Result};
use crate::format::table::block::{self, Block};
use crate::format::table::reader::Table;

impl Table {
    /// A disk may write a block in another one's place. Its checksum does not tell, its keys do:
    /// they must lie between the separators. Unnoticed, the keys that belong here would be gone.
    pub(super) fn check_place(&self, index: usize, block: &Block) -> Result<()> {
        if !self.checks_places() {
            return Ok(());
        }
        let Some(first) = block.first_key()? else { return Ok(()) };
        if self.index().surely_surround(index, first) {
            return Ok(());
        }
        let order = self.order();
        let is_late = order.compare(first, self.index().key(index)).is_gt();
        let before = index.checked_sub(1).map(|before| self.index().key(before));
        let is_early = before.is_some_and(|before| match order.compare(first, before) {
            Ordering::Less => true,
            // A key that is repeated behind the border, or the block before itself.
            Ordering::Equal => block.all_keys_are(before),
            Ordering::Greater => false,
        });
        if is_late || is_early {
            return Err(Error::corruption("block holds keys that belong elsewhere"));
        }
        Ok(())
    }

    /// As [`check_place`](Self::check_place), of a block's beginning. False if the whole must be looked at.
    pub(super) fn is_in_place(&self, index: usize, beginning: &[u8]) -> bool {
        if !self.checks_places() {
            return true;
        }
        let Some(first) = block::key_at_start(beginning) else { return false };
        let is_after = |at: usize| self.order().compare(first, self.index().key(at)).is_gt();
        self.index().surely_surround(index, first)
            || !is_after(index) && index.checked_sub(1).is_none_or(is_after)
    }
}
