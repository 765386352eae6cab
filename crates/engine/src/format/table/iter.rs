//! Moves over a table's entries: an index position, and an iterator within that block. Merges and
//! database iterators hold one per table.

use std::sync::Arc;

use crate::base::error::{Error, Result};
use crate::base::iter::InternalIterator;
use crate::format::table::block_iter::BlockIter;
use crate::format::table::fetch::{Ahead, Readahead, Verify};
use crate::format::table::reader::Table;
use crate::format::table::spare;

/// What one scan asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScanOptions {
    pub(crate) verify: bool,
    /// Keep blocks that had to be read in the cache.
    pub(crate) fill_cache: bool,
    pub(crate) ahead: Ahead,
}

impl Default for ScanOptions {
    fn default() -> Self {
        ScanOptions { verify: true, fill_cache: true, ahead: Ahead::WhenSequential }
    }
}

impl ScanOptions {
    /// For users' scans, as their options have it.
    pub(crate) fn for_reads(verify: bool, fill_cache: bool) -> Self {
        ScanOptions { verify, fill_cache, ahead: Ahead::WhenSequential }
    }

    /// For merges: read far ahead, and leave the cache to the readers.
    pub(crate) fn for_compaction() -> Self {
        ScanOptions { verify: true, fill_cache: false, ahead: Ahead::Always }
    }
}

pub(crate) struct TableIter {
    table: Arc<Table>,
    options: ScanOptions,
    readahead: Readahead,
    /// The block that `entries` is over, if it has one.
    index: usize,
    entries: BlockIter,
    has_block: bool,
}

impl TableIter {
    pub(crate) fn new(table: Arc<Table>, options: ScanOptions) -> Self {
        TableIter {
            entries: BlockIter::new(table.order().clone()),
            readahead: Readahead::new(options.ahead),
            options,
            index: 0,
            has_block: false,
            table,
        }
    }

    /// The data block of the current entry, by its place in the index.
    pub(crate) fn block_index(&self) -> usize {
        self.index
    }

    /// Checks of the current block what reading it forward does not tell.
    pub(crate) fn check_block(&self) -> Result<()> {
        self.entries.check_block().map_err(|error| self.placed(error))
    }

    /// Makes `entries` go over block `index`; over none if there is no such block.
    fn load(&mut self, index: usize) -> Result<()> {
        if self.has_block && self.index == index {
            return Ok(());
        }
        let old = self.entries.take_block();
        self.has_block = false;
        self.index = index;
        if index >= self.table.index().len() {
            return Ok(());
        }
        let table = &*self.table;
        let handle = table.handle(index)?;
        let cached = match self.options.ahead {
            Ahead::WhenSequential => table.cached(index),
            Ahead::Always => None,
        };
        let block = match cached {
            Some(block) => {
                table.note_use(index, &block);
                self.readahead.pass_over(handle);
                block
            }
            None => {
                // If nobody else holds it, its memory is the next one's.
                drop(old);
                let fill_cache = self.options.fill_cache && table.admits(index);
                let mut bytes = spare::take();
                let verify = Verify::from(self.options.verify);
                self.readahead.fetch(table.file(), handle, verify, &mut bytes)?;
                table.keep(index, bytes, fill_cache)?
            }
        };
        self.entries.set_block(block);
        self.has_block = true;
        Ok(())
    }

    /// Names the file and the block in an error of the block's iterator.
    #[cold]
    fn placed(&self, error: Error) -> Error {
        self.table.in_block(error, self.index)
    }

    /// From behind a block's end to the first entry of the next block that has one.
    fn skip_forward(&mut self) -> Result<()> {
        while !self.entries.valid() && self.has_block {
            self.load(self.index + 1)?;
            self.entries.seek_to_first().map_err(|error| self.placed(error))?;
        }
        Ok(())
    }

    fn skip_backward(&mut self) -> Result<()> {
        while !self.entries.valid() && self.has_block {
            let Some(index) = self.index.checked_sub(1) else {
                self.entries.take_block();
                self.has_block = false;
                return Ok(());
            };
            self.load(index)?;
            self.entries.seek_to_last().map_err(|error| self.placed(error))?;
        }
        Ok(())
    }
}

impl InternalIterator for TableIter {
    #[inline]
    fn valid(&self) -> bool {
        self.entries.valid()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.load(0)?;
        self.entries.seek_to_first().map_err(|error| self.placed(error))?;
        self.skip_forward()
    }

    fn seek_to_last(&mut self) -> Result<()> {
        let Some(last) = self.table.index().len().checked_sub(1) else {
            return Ok(());
        };
        self.load(last)?;
        self.entries.seek_to_last().map_err(|error| self.placed(error))?;
        self.skip_backward()
    }

    fn seek(&mut self, target: &[u8]) -> Result<()> {
        let index = self.table.index().find(target);
        self.load(index)?;
        self.entries.seek(target).map_err(|error| self.placed(error))?;
        self.skip_forward()
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        self.entries.next().map_err(|error| self.placed(error))?;
        if self.entries.valid() {
            return Ok(());
        }
        self.skip_forward()
    }

    fn prev(&mut self) -> Result<()> {
        self.entries.prev().map_err(|error| self.placed(error))?;
        self.skip_backward()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.entries.key()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.entries.value()
    }

    fn corrupted_key(&self) -> Error {
        self.placed(self.entries.corrupted_key())
    }
}
