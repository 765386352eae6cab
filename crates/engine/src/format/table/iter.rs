//! Moves over a table's entries: an index position, and an iterator within that block. Merges and
//! database iterators hold one per table.

use std::sync::Arc;

use crate::base::error::{Error, Result};
use crate::base::iter::InternalIterator;
use crate::base::key::KeyHead;
use crate::base::prefetch::Stream;
use crate::format::table::block_iter::BlockIter;
use crate::format::table::compress;
use crate::format::table::fetch::{Ahead, Readahead, SPAN_BYTES_MAX};
use crate::format::table::partial::PartialBlock;
use crate::format::table::reader::Table;
use crate::format::table::spare;
use crate::format::table::stride::{Answers, Stride};

/// What the sources of a merge read ahead, together, ..
const MERGE_BYTES: usize = 768 << 10;
/// .. unless there are very many: to read less at a time would take longer than to merge it.
const MERGE_SPAN_BYTES_MIN: usize = 16 << 10;

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

    /// For all of a table: read far ahead, and leave the cache to the readers.
    pub(crate) fn for_compaction() -> Self {
        Self::for_merge(1)
    }

    /// The same for one of so many sources, which share the memory.
    pub(crate) fn for_merge(sources: usize) -> Self {
        let span = (MERGE_BYTES / sources.max(1)).clamp(MERGE_SPAN_BYTES_MIN, SPAN_BYTES_MAX);
        ScanOptions { verify: true, fill_cache: false, ahead: Ahead::Always(span) }
    }
}

pub(crate) struct TableIter {
    table: Arc<Table>,
    options: ScanOptions,
    readahead: Readahead,
    /// The block that `entries` is over, if it has one.
    index: usize,
    /// The block that the last seek went to, ..
    begun_at: usize,
    /// .. and whether something had to be read since.
    has_read: bool,
    entries: BlockIter,
    /// The block that is next, if it is cached, going back or in strides.
    coming: Stream,
}

/// Where an iterator goes within a block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Forward,
    Backward,
}

impl TableIter {
    pub(crate) fn new(table: Arc<Table>, options: ScanOptions) -> Self {
        TableIter {
            entries: BlockIter::new(table.order().clone()),
            readahead: Readahead::new(options.ahead, options.verify.into()),
            options,
            index: 0,
            begun_at: 0,
            has_read: false,
            coming: Stream::default(),
            table,
        }
    }

    /// As it was when it was made: with no block, and no memory of its own.
    pub(crate) fn release(&mut self) {
        self.begin(0);
        self.entries = BlockIter::new(self.table.order().clone());
        self.readahead = Readahead::new(self.options.ahead, self.options.verify.into());
        self.index = 0;
        self.coming = Stream::default();
    }

    /// The data block of the current entry, by its place in the index.
    pub(crate) fn block_index(&self) -> usize {
        self.index
    }

    /// As [`check_block`](Self::check_block), of any block; on no entry afterwards.
    pub(crate) fn check_block_at(&mut self, index: usize) -> Result<()> {
        self.load(index, Way::Backward)?;
        self.check_block()
    }

    /// Checks of the current block what reading it forward does not tell.
    pub(crate) fn check_block(&mut self) -> Result<()> {
        let checked = self.entries.check_block();
        checked.map_err(|error| self.placed(error))
    }

    /// Makes `entries` go over block `index`; over none if there is no such block.
    fn load(&mut self, index: usize, way: Way) -> Result<()> {
        if self.entries.has_block() && self.index == index {
            return Ok(());
        }
        // If nobody else holds the old block, its memory is the next one's.
        self.readahead.take_back(self.entries.take_block());
        self.index = index;
        if index >= self.table.index().len() {
            return Ok(());
        }
        let cached = match self.options.ahead {
            Ahead::WhenSequential => self.table.cached(index),
            Ahead::Always(_) => None,
        };
        match cached {
            Some(block) => {
                block.note_use();
                self.readahead.pass_over(self.table.handle(index)?);
                self.entries.set_block(block);
                Ok(())
            }
            None => self.read(index, way),
        }
    }

    fn read(&mut self, index: usize, way: Way) -> Result<()> {
        let table = &*self.table;
        let handle = table.handle(index)?;
        if self.options.ahead == Ahead::WhenSequential {
            table.heat().note_read();
            self.has_read = true;
        }
        let keeps = self.options.fill_cache && table.admits(index);
        // A block that is cut by the end of what is read would be read again.
        let useful = |bytes| table.index().whole_blocks(index, bytes).unwrap_or(bytes);
        let more = if way == Way::Forward { self.blocks_to_come(index) } else { 0 };
        let probable = if more > 0 { table.index().bytes_of(index, 1 + more) } else { None };
        let probable = probable.unwrap_or_default();
        let (id, content) = self.readahead.stored(table.file(), handle, probable, useful)?;
        let unpacked = spare::take();
        let whole = if id == compress::SNAPPY && !keeps && more == 0 && self.may_stop_within(way) {
            let lent = self.readahead.lend();
            let mut partial = PartialBlock::start(lent, content, unpacked)
                .map_err(|error| table.in_block(error, index))?;
            if table.is_in_place(index, partial.beginning()) {
                self.entries.set_partial(partial);
                return Ok(());
            }
            let whole = partial.finish();
            self.readahead.take_back(partial.take_stored());
            whole
        } else {
            self.readahead.unpack(id, content, unpacked)
        };
        let whole = whole.map_err(|error| table.in_block(error, index))?;
        let block = table.keep(index, whole, keeps)?;
        if keeps && self.is_sought(index, way) {
            table.foresee_searches(&block);
        }
        self.entries.set_block(block);
        Ok(())
    }

    /// How many blocks behind this one the scan will most probably need, by what others did.
    fn blocks_to_come(&self, index: usize) -> usize {
        match self.options.ahead {
            Ahead::WhenSequential => {
                (self.begun_at + self.table.reach().usual()).saturating_sub(index)
            }
            Ahead::Always(_) => 0,
        }
    }

    /// The scan since the last seek has ended; another one begins in the block at `index`. Scans of cached blocks tell nothing: there would be
    /// nothing to read ahead, and threads that scan a table at the same time would write to the same place.
    #[inline]
    fn begin(&mut self, index: usize) {
        if std::mem::take(&mut self.has_read)
            && self.entries.has_block()
            && let Some(blocks) = self.index.checked_sub(self.begun_at)
        {
            self.table.reach().note(blocks);
        }
        self.begun_at = index;
    }

    /// Whether it is the block that the last seek goes to.
    fn is_sought(&self, index: usize, way: Way) -> bool {
        way == Way::Forward && index == self.begun_at
    }

    /// Whether the block that is next may not be gone through to its end.
    fn may_stop_within(&self, way: Way) -> bool {
        way == Way::Forward
            && self.options.ahead == Ahead::WhenSequential
            && self.readahead.is_short()
            && self.table.order().is_bytewise()
    }

    /// Names the file and the block in an error of the block's iterator.
    #[cold]
    fn placed(&self, error: Error) -> Error {
        self.table.in_block(error, self.index)
    }

    /// From behind a block's end to the first entry of the next block that has one.
    #[inline(never)]
    fn skip_forward(&mut self) -> Result<()> {
        while !self.entries.valid() && self.entries.has_block() {
            let usual = self.entries.entry_bytes();
            self.load(self.index + 1, Way::Forward)?;
            self.hint_ahead(usual);
            self.entries.seek_to_first().map_err(|error| self.placed(error))?;
        }
        Ok(())
    }

    /// Asks for what a scan meets next, if it is cached: for a block, and for the entries of the one that was asked for in the
    /// block before, which may be as long as the last one.
    #[inline]
    fn hint_ahead(&mut self, usual: usize) {
        let shelf = self.table.shelf();
        shelf.hint_block(self.index + 2);
        self.coming = shelf.stream(self.index + 1, usual);
    }

    /// The end of [`next_with_head`](InternalIterator::next_with_head) where the block has ended.
    #[inline(never)]
    fn leave(&mut self, head: &mut KeyHead, is_bytewise: bool) -> Result<bool> {
        self.skip_forward()?;
        Ok(self.show_head(head, is_bytewise))
    }

    /// Goes on over what `stride` can take of the entries that are next, in this block; false if there are none.
    #[inline]
    pub(crate) fn run_forward(&mut self, stride: &mut Stride, answers: &Answers) -> bool {
        let has_run = self.entries.run_forward(stride, answers);
        if has_run {
            stride.coming.take_over(&mut self.coming);
        }
        has_run
    }

    /// The same, going back.
    #[inline]
    pub(crate) fn run_backward(&mut self, stride: &mut Stride, answers: &Answers) -> bool {
        let has_run = self.entries.run_backward(stride, answers);
        if has_run {
            stride.coming.take_over(&mut self.coming);
        }
        has_run
    }

    /// From before a block's start to the last entry of a block before it that has one.
    #[inline(never)]
    fn skip_backward(&mut self) -> Result<()> {
        while !self.entries.valid() && self.entries.has_block() {
            let Some(index) = self.index.checked_sub(1) else {
                self.readahead.take_back(self.entries.take_block());
                return Ok(());
            };
            self.load(index, Way::Backward)?;
            self.entries.seek_to_last().map_err(|error| self.placed(error))?;
            let shelf = self.table.shelf();
            shelf.hint_block(self.index.wrapping_sub(2));
            self.coming = shelf.stream(self.index.wrapping_sub(1), 0);
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
        self.begin(0);
        self.load(0, Way::Forward)?;
        self.entries.seek_to_first().map_err(|error| self.placed(error))?;
        self.skip_forward()
    }

    fn seek_to_last(&mut self) -> Result<()> {
        let Some(last) = self.table.index().len().checked_sub(1) else {
            return Ok(());
        };
        self.begin(last);
        self.load(last, Way::Backward)?;
        self.entries.seek_to_last().map_err(|error| self.placed(error))?;
        self.skip_backward()
    }

    fn seek(&mut self, target: &[u8]) -> Result<()> {
        let index = self.table.seek(target);
        self.begin(index);
        self.load(index, Way::Forward)?;
        self.table.shelf().hint_block(index + 1);
        self.entries.seek(target).map_err(|error| self.placed(error))?;
        self.skip_forward()
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        match self.entries.next() {
            Ok(()) if self.entries.valid() => Ok(()),
            Ok(()) => self.skip_forward(),
            Err(error) => Err(self.placed(error)),
        }
    }

    #[inline(always)]
    fn next_with_head(&mut self, head: &mut KeyHead, is_bytewise: bool) -> Result<bool> {
        match self.entries.next_with_head(head, is_bytewise) {
            Ok(true) => Ok(true),
            Ok(false) => self.leave(head, is_bytewise),
            Err(error) => Err(self.placed(error)),
        }
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        self.coming.go_on();
        match self.entries.prev() {
            Ok(()) if self.entries.valid() => Ok(()),
            Ok(()) => self.skip_backward(),
            Err(error) => Err(self.placed(error)),
        }
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.entries.key()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.entries.value()
    }

    #[inline]
    fn key_before(&self) -> Option<&[u8]> {
        self.entries.key_before()
    }

    fn corrupted_key(&self) -> Error {
        self.placed(self.entries.corrupted_key())
    }
}

impl Drop for TableIter {
    fn drop(&mut self) {
        self.begin(0);
    }
}
