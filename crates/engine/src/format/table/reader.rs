//! An open table: its index and filter in memory, its blocks read as they are asked for. The table
//! cache opens tables; point reads call [`Table::get`], scans and merges [`Table::iter`].
//!
//! **Concurrency.** Nothing changes after `open`; any number of threads may read.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::base::comparator::InternalOrder;
use crate::base::error::{Error, Result};
use crate::base::key::user_key;
use crate::env::fs::{Access, RandomAccessFile};
use crate::format::table::block::{Block, set_key};
use crate::format::table::bytes::BlockBytes;
use crate::format::table::cache::{Cache, CachedBlock, Shelf};
use crate::format::table::fetch::{self, Verify};
use crate::format::table::filter::{Filter, FilterKey};
use crate::format::table::gate::Gate;
use crate::format::table::handle::BlockHandle;
use crate::format::table::heat::{Heat, Ring};
use crate::format::table::index::Index;
use crate::format::table::iter::{ScanOptions, TableIter};
use crate::format::table::key_buf::with_key;
use crate::format::table::late_filter::{LateFilter, Limit};
use crate::format::table::matcher::Matcher;
use crate::format::table::partial::PartialBlock;
use crate::format::table::parts::Parts;
use crate::format::table::peek::{self, Scratch};
use crate::format::table::properties::TableProperties;
use crate::format::table::reach::Reach;
use crate::format::table::{compress, spare};

/// What all tables of a database are read with.
#[derive(Clone, Debug)]
pub(crate) struct ReadSettings {
    pub(crate) order: InternalOrder,
    pub(crate) filter: Option<Filter>,
    /// `order` is that of the tables, so blocks can be told to be in another one's place.
    pub(crate) check_places: bool,
}

/// What one read asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GetOptions {
    /// Check the checksums of blocks that have to be read. What is read when a table is opened is
    /// always checked.
    pub(crate) verify: bool,
    /// Keep blocks that had to be read in the cache.
    pub(crate) fill_cache: bool,
}

impl Default for GetOptions {
    fn default() -> Self {
        GetOptions { verify: true, fill_cache: true }
    }
}

pub(crate) struct Table {
    file: Arc<dyn RandomAccessFile>,
    settings: ReadSettings,
    cache: Arc<dyn Cache>,
    /// Its cached blocks.
    shelf: Arc<Shelf>,
    index: Index,
    gate: Gate,
    /// Instead of a filter in the file.
    late_filter: LateFilter,
    heat: Heat,
    reach: Reach,
    properties: Option<TableProperties>,
    metaindex_offset: u64,
}

impl Table {
    /// Reads and checks what lies behind the data. Errors name the file.
    pub(crate) fn open(
        file: Arc<dyn RandomAccessFile>,
        settings: ReadSettings,
        cache: Arc<dyn Cache>,
    ) -> Result<Self> {
        let parts = Parts::read(&*file, &settings).map_err(|error| error.in_file(file.path()))?;
        Ok(Table {
            shelf: Arc::new(Shelf::new(cache.new_id(), parts.index.len())),
            file,
            settings,
            cache,
            index: parts.index,
            gate: parts.gate,
            late_filter: LateFilter::default(),
            heat: Heat::default(),
            reach: Reach::default(),
            properties: parts.properties,
            metaindex_offset: parts.metaindex_offset,
        })
    }

    /// Its readers call `ring` when they have read so much that somebody should look.
    pub(crate) fn with_ring(mut self, ring: Ring) -> Self {
        self.heat = Heat::with_ring(ring);
        self
    }

    /// Calls `found` with the first entry not less than `target`, an internal key. The caller
    /// checks that its user key is the one sought. If no entry at or behind `target` has that user
    /// key, the answer may be `None` although greater entries follow.
    ///
    /// When the block is in the cache, allocates nothing, but for the one hit that gives the block its directory, if at all.
    #[cfg(any(test, benches, fuzzing))]
    pub(crate) fn get<R>(
        &self,
        target: &[u8],
        options: GetOptions,
        found: impl FnOnce(&[u8], &[u8]) -> R,
    ) -> Result<Option<R>> {
        match self.may_have(&FilterKey::new(user_key(target))) {
            true => self.get_unfiltered(target, options, found),
            false => Ok(None),
        }
    }

    /// False only if the table surely has no entry of this user key. Looks at filters and at nothing else.
    #[inline]
    pub(crate) fn may_have(&self, key: &FilterKey<'_>) -> bool {
        self.gate.may_have(key) && (self.gate.has_filter() || self.late_filter.may_have(key))
    }

    #[inline]
    pub(crate) fn gate(&self) -> &Gate {
        &self.gate
    }

    /// What [`get`](Self::get) does once it [may](Self::may_have) have the key.
    #[inline]
    pub(crate) fn get_unfiltered<R>(
        &self,
        target: &[u8],
        options: GetOptions,
        found: impl FnOnce(&[u8], &[u8]) -> R,
    ) -> Result<Option<R>> {
        let index = self.index.find_after(target, |blocks| self.hint_places(blocks));
        if index == self.index.len() {
            return Ok(None);
        }
        if self.gate.is_of_spans()
            && !self.gate.may_have_at(self.handle(index)?.offset, user_key(target))
        {
            return Ok(None);
        }
        // An entry with this user key cannot begin the next block: separators between blocks have
        // lesser user keys than the block behind, unless they are the last key before it.
        match self.shelf.look(index).as_deref() {
            Some(Some(cached)) => {
                cached.note_use();
                self.search(cached, index, target, found)
            }
            _ if options.fill_cache && self.admits(index) => {
                self.search(&*self.read(index, options)?, index, target, found)
            }
            _ => self.peek(index, target, options.verify.into(), found),
        }
    }

    /// Asks for what tells where blocks are: in the cache, or in the file.
    #[inline]
    fn hint_places(&self, blocks: Range<usize>) {
        if !self.shelf.hint_filled(blocks.clone()) {
            self.index.hint_handles(blocks);
        }
    }

    /// The block where a scan from `target` on begins. Asks meanwhile for the places that are likely, and for where in the file
    /// they are, which scans keep account of.
    #[inline]
    pub(super) fn seek(&self, target: &[u8]) -> usize {
        self.index.find_after(target, |blocks| {
            self.shelf.hint_filled(blocks.clone());
            self.index.hint_handles(blocks);
        })
    }

    fn search<R>(
        &self,
        cached: &CachedBlock,
        index: usize,
        target: &[u8],
        found: impl FnOnce(&[u8], &[u8]) -> R,
    ) -> Result<Option<R>> {
        let result = with_key(|key| {
            let entry = cached.find(&self.settings.order, target, key)?;
            Ok(entry.map(|(_, entry)| found(key.as_bytes(), cached.block.slice(entry.value))))
        });
        result.map_err(|error| self.in_block(error, index))
    }

    /// Counts a get that found nothing here. True once: when it is time to [make](Self::make_filter) a filter.
    #[inline]
    pub(crate) fn note_vain_search(&self) -> bool {
        !self.gate.has_filter()
            && self.settings.filter.is_some()
            && self.late_filter.note_vain_search(self.file.len())
    }

    /// Makes a filter in memory for a table that has none. Reads all of it, within the limit.
    pub(crate) fn make_filter(self: &Arc<Self>, limit: Limit<'_>) -> Result<()> {
        let Some(policy) = self.settings.filter.clone() else { return Ok(()) };
        self.late_filter.make(policy, self.iter(ScanOptions::for_compaction()), limit)
    }

    /// What filters made in memory take.
    pub(crate) fn late_filter_memory(&self) -> usize {
        self.late_filter.memory()
    }

    /// As [`get`](Self::get), in a block that is read for this once.
    fn peek<R>(
        &self,
        index: usize,
        target: &[u8],
        verify: Verify,
        found: impl FnOnce(&[u8], &[u8]) -> R,
    ) -> Result<Option<R>> {
        let handle = self.handle(index)?;
        self.heat.note_read();
        peek::with_scratch(|scratch| {
            let Scratch { stored, block, key } = scratch;
            let (id, content) = fetch::fetch_stored(&*self.file, handle, verify, stored)?;
            let result = if id == compress::SNAPPY && self.settings.order.is_bytewise() {
                let (lent, out) = (std::mem::take(stored), std::mem::take(block));
                let mut partial = PartialBlock::start(lent, content, out)
                    .map_err(|error| self.in_block(error, index))?;
                let entry = partial.find(Matcher::new(target));
                if let Some((_, entry)) =
                    entry.filter(|_| self.is_in_place(index, partial.beginning()))
                {
                    set_key(key, target, &entry, partial.from(entry.suffix.start));
                    let result = found(key.as_bytes(), partial.slice(entry.value));
                    (*stored, *block) = partial.into_buffers();
                    return Ok(Some(result));
                }
                let whole = partial.finish();
                *stored = partial.take_stored();
                whole
            } else {
                let content = stored.get(content).unwrap_or_default();
                compress::decompress(id, content, block).map(|()| std::mem::take(block))
            };
            let whole = result.and_then(|whole| {
                let whole = Block::new(whole)?;
                self.check_place(index, &whole)?;
                let entry = whole.find(&self.settings.order, target, key)?;
                let answer =
                    entry.map(|(_, entry)| found(key.as_bytes(), whole.slice(entry.value)));
                *block = whole.into_bytes();
                Ok(answer)
            });
            whole.map_err(|error| self.in_block(error, index))
        })
    }

    /// The block from the file.
    fn read(&self, index: usize, options: GetOptions) -> Result<Arc<CachedBlock>> {
        let handle = self.handle(index)?;
        self.heat.note_read();
        let mut bytes = self.spare_memory();
        fetch::fetch(&*self.file, handle, (Access::Get, options.verify.into()), &mut bytes)?;
        let block = self.keep(index, bytes, options.fill_cache)?;
        self.foresee_searches(&block);
        Ok(block)
    }

    /// Asked once for each block that is missed: whether the cache should keep it.
    pub(crate) fn admits(&self, index: usize) -> bool {
        self.cache.admits(&self.shelf, index)
    }

    /// For a block that is to be kept.
    pub(super) fn spare_memory(&self) -> Vec<u8> {
        spare::take_or(|| self.cache.spare())
    }

    pub(super) fn shelf(&self) -> &Shelf {
        &self.shelf
    }

    pub(crate) fn cached(&self, index: usize) -> Option<Arc<CachedBlock>> {
        self.shelf.get(index)
    }

    /// Makes the bytes read for the block at `index` of the index a block, cached if `fill_cache`.
    pub(crate) fn keep(
        &self,
        index: usize,
        bytes: Vec<u8>,
        fill_cache: bool,
    ) -> Result<Arc<CachedBlock>> {
        let bytes = BlockBytes::from(bytes);
        let block = Block::new(if fill_cache { self.cache.place(bytes).fit() } else { bytes })
            .and_then(|block| self.check_place(index, &block).map(|()| block))
            .map_err(|error| self.in_block(error, index))?;
        let cached = Arc::new(CachedBlock::new(block));
        if fill_cache {
            self.cache.keep(&self.shelf, index, Arc::clone(&cached));
        }
        Ok(cached)
    }

    /// Names the file and the block in an error.
    #[cold]
    pub(crate) fn in_block(&self, error: Error, index: usize) -> Error {
        let error = match self.index.handle(index) {
            Ok(handle) => error.at(handle.offset),
            Err(_) => error,
        };
        error.in_file(self.file.path())
    }

    /// Where the block lies.
    #[inline]
    pub(crate) fn handle(&self, index: usize) -> Result<BlockHandle> {
        self.index.handle(index).map_err(|error| error.in_file(self.file.path()))
    }

    /// Over all entries; on none until the first seek.
    pub(crate) fn iter(self: &Arc<Self>, options: ScanOptions) -> TableIter {
        TableIter::new(self.clone(), options)
    }

    /// The file offset where the data of `key` would be.
    pub(crate) fn approximate_offset_of(&self, key: &[u8]) -> u64 {
        let index = self.index.find(key);
        match self.index.handle(index) {
            Ok(handle) if index < self.index.len() => handle.offset,
            _ => self.metaindex_offset,
        }
    }

    /// Keys of the index, so many at most and evenly apart, with the bytes of the file up to each.
    pub(crate) fn marks(&self, count: usize) -> Vec<(Vec<u8>, u64)> {
        let blocks = self.index.len();
        let ends = (1..=count.min(blocks)).map(|nth| blocks * nth / count.min(blocks) - 1);
        let mark = |end| {
            let handle = self.index.handle(end).ok()?;
            Some((
                user_key(self.index.key(end)).to_vec(),
                handle.offset.saturating_add(handle.size),
            ))
        };
        ends.filter_map(mark).collect()
    }

    /// What the builder counted; `None` for tables that LevelDB wrote.
    pub(crate) fn properties(&self) -> Option<&TableProperties> {
        self.properties.as_ref()
    }

    /// Its file, for error messages.
    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    pub(crate) fn file(&self) -> &dyn RandomAccessFile {
        &*self.file
    }

    pub(crate) fn heat(&self) -> &Heat {
        &self.heat
    }

    pub(super) fn reach(&self) -> &Reach {
        &self.reach
    }

    pub(super) fn checks_places(&self) -> bool {
        self.settings.check_places
    }

    pub(crate) fn order(&self) -> &InternalOrder {
        &self.settings.order
    }

    pub(crate) fn index(&self) -> &Index {
        &self.index
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        self.cache.clear(&self.shelf);
    }
}
