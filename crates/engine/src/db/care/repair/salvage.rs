//! Reads what can be read of a table, block by block, front to back: the survey counts with it, the
//! merge reads through it.

use std::path::PathBuf;
use std::sync::Arc;

use super::check_same;
use super::report::LostRange;
use super::scan;
use crate::base::comparator::InternalOrder;
use crate::base::error::{Error, Result};
use crate::base::iter::InternalIterator;
use crate::base::key::{self, user_key};
use crate::env::fs::{Access, FileSystem, RandomAccessFile};
use crate::format::table::block::Block;
use crate::format::table::block_iter::BlockIter;
use crate::format::table::cache::CachedBlock;
use crate::format::table::fetch::{Ahead, Readahead, SPAN_BYTES_MAX, Verify, fetch};
use crate::format::table::handle::{BlockHandle, FOOTER_BYTES, Footer};
use crate::format::table::index::Index;
use crate::version::table_meta::TableMeta;

/// The sound entries of one table, in order.
pub(super) struct Salvage {
    file: Arc<dyn RandomAccessFile>,
    order: InternalOrder,
    layout: Layout,
    readahead: Readahead,
    /// The block after the current one.
    next_block: usize,
    entries: BlockIter,
    /// What the manifest says of the table, if not all of it counts: the rest was merged into tables that it names.
    meta: Option<Arc<TableMeta>>,
    /// The key of the last sound entry.
    last: Vec<u8>,
    pub(super) given: u64,
    pub(super) lost: Vec<LostRange>,
}

/// Where the data blocks are.
enum Layout {
    Index(Index),
    /// Found one by one; with what is wrong with the index.
    Scanned(scan::Scanned, Error),
}

impl Salvage {
    /// Not on an entry yet. An error if nothing at all can be read: what is wrong with the index.
    pub(super) fn open(
        file: Arc<dyn RandomAccessFile>,
        order: &InternalOrder,
        meta: Option<&Arc<TableMeta>>,
    ) -> Result<Self> {
        let layout = match read_index(&*file, order) {
            Ok(index) => Layout::Index(index),
            Err(error) => {
                let scanned = scan::find_blocks(&*file, order)?;
                if scanned.blocks.is_empty() {
                    return Err(error);
                }
                Layout::Scanned(scanned, error)
            }
        };
        Ok(Salvage {
            file,
            order: order.clone(),
            layout,
            readahead: Readahead::new(Ahead::Always(SPAN_BYTES_MAX), Verify::Yes),
            next_block: 0,
            entries: BlockIter::new(order.clone()),
            meta: meta.filter(|meta| !meta.is_whole()).cloned(),
            last: Vec::new(),
            given: 0,
            lost: Vec::new(),
        })
    }

    pub(super) fn has_index(&self) -> bool {
        matches!(self.layout, Layout::Index(_))
    }

    pub(super) fn valid(&self) -> bool {
        self.entries.valid()
    }

    pub(super) fn key(&self) -> &[u8] {
        self.entries.key()
    }

    pub(super) fn value(&self) -> &[u8] {
        self.entries.value()
    }

    /// Moves to the next sound entry; the first call to the first one.
    pub(super) fn advance(&mut self) {
        loop {
            if self.entries.valid()
                && let Err(error) = self.entries.next()
            {
                self.lose_rest_of_block(&error);
            }
            while !self.entries.valid() {
                if !self.load() {
                    return;
                }
            }
            if self.accepts() && self.counts() {
                self.given += 1;
                return;
            }
        }
    }

    /// Goes to the first entry of the next block, if the block is sound. False behind the last.
    fn load(&mut self) -> bool {
        let Some(handle) = self.handle(self.next_block) else {
            self.lose_unscanned();
            return false;
        };
        self.next_block += 1;
        let loaded = handle.and_then(|handle| self.read(handle)).and_then(|block| {
            self.entries.set_block(block);
            self.entries.seek_to_first()
        });
        if let Err(error) = loaded {
            self.lose_rest_of_block(&error);
        }
        true
    }

    fn handle(&self, block: usize) -> Option<Result<BlockHandle>> {
        match &self.layout {
            Layout::Index(index) => (block < index.len()).then(|| index.handle(block)),
            Layout::Scanned(scanned, _) => scanned.blocks.get(block).copied().map(Ok),
        }
    }

    fn read(&mut self, handle: BlockHandle) -> Result<Arc<CachedBlock>> {
        let bytes = self.readahead.fetch(&*self.file, handle)?;
        Ok(Arc::new(CachedBlock::new(Block::new(bytes)?)))
    }

    /// Is the current entry well formed, and in order? Merges rely on it.
    fn accepts(&mut self) -> bool {
        let key = self.entries.key();
        let ascends = self.last.is_empty() || self.order.compare(&self.last, key).is_le();
        if key::parse(key).is_none() || !ascends {
            let error = Error::corruption("an entry is malformed or out of order");
            self.lose(&error);
            return false;
        }
        if let Some(lost) = self.lost.last_mut() {
            lost.to.get_or_insert_with(|| user_key(key).to_vec());
        }
        self.last.clear();
        self.last.extend_from_slice(key);
        true
    }

    fn counts(&self) -> bool {
        let user = user_key(self.entries.key());
        self.meta.as_ref().is_none_or(|meta| meta.counts(&self.order.user, user))
    }

    fn lose_rest_of_block(&mut self, error: &Error) {
        self.entries.take_block();
        self.lose(error);
    }

    /// Notes that something of the current block is lost; once for each block.
    fn lose(&mut self, error: &Error) {
        let block = self.next_block.saturating_sub(1);
        let handle = self.handle(block).and_then(Result::ok).unwrap_or_default();
        let known = self.lost.last().is_some_and(|lost| lost.offset == handle.offset);
        if known {
            return;
        }
        let to = match &self.layout {
            Layout::Index(index) => Some(user_key(index.key(block)).to_vec()),
            Layout::Scanned(..) => None,
        };
        self.push_lost(handle.offset, handle.size, to, error.message().to_owned());
    }

    /// What the scan for blocks did not reach.
    fn lose_unscanned(&mut self) {
        let Layout::Scanned(scanned, error) = &self.layout else { return };
        let end = scanned.blocks.last().map_or(0, |last| last.end_within(u64::MAX).unwrap_or(0));
        if scanned.complete {
            return;
        }
        let reason = format!("{}; blocks were found one by one up to here", error.message());
        self.push_lost(end, self.file.len().saturating_sub(end), None, reason);
    }

    fn push_lost(&mut self, offset: u64, bytes: u64, to: Option<Vec<u8>>, reason: String) {
        let from = (!self.last.is_empty()).then(|| user_key(&self.last).to_vec());
        let file = self.file.path().to_owned();
        self.lost.push(LostRange { file, offset, bytes, from, to, reason });
    }
}

/// The index alone: a table whose filter or properties are damaged has lost nothing.
fn read_index(file: &dyn RandomAccessFile, order: &InternalOrder) -> Result<Index> {
    let mut footer = [0; FOOTER_BYTES];
    let read = file.read_at(&mut footer, file.len().saturating_sub(FOOTER_BYTES as u64))?;
    let footer = Footer::decode(footer.get(..read).unwrap_or_default())?;
    let mut bytes = Vec::new();
    fetch(file, footer.index, (Access::Open, Verify::Yes), &mut bytes)?;
    Index::parse(bytes, order, file.len())
}

/// A table of which the survey has read all it could.
#[derive(Clone)]
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) entries: u64,
    /// Internal keys of the first and the last entry.
    pub(super) smallest: Vec<u8>,
    pub(super) largest: Vec<u8>,
    /// See [`Salvage`].
    pub(super) meta: Option<Arc<TableMeta>>,
}

/// Tables that follow each other as one source, so that only one of them is open. Moves forward
/// only.
pub(super) struct Chain {
    fs: Arc<dyn FileSystem>,
    order: InternalOrder,
    tables: Vec<Source>,
    position: usize,
    current: Option<Salvage>,
}

/// Puts tables into as few chains as their ranges admit.
pub(super) fn chains(
    fs: &Arc<dyn FileSystem>,
    order: &InternalOrder,
    mut tables: Vec<Source>,
) -> Vec<Chain> {
    tables.sort_by(|a, b| order.compare(&a.smallest, &b.smallest));
    let mut chains: Vec<Vec<Source>> = Vec::new();
    for table in tables {
        let ends_before = |chain: &&mut Vec<Source>| {
            let last = chain.last().map(|last| order.compare(&last.largest, &table.smallest));
            last.is_some_and(std::cmp::Ordering::is_lt)
        };
        match chains.iter_mut().find(ends_before) {
            Some(chain) => chain.push(table),
            None => chains.push(vec![table]),
        }
    }
    let chain = |tables| Chain {
        fs: Arc::clone(fs),
        order: order.clone(),
        tables,
        position: 0,
        current: None,
    };
    chains.into_iter().map(chain).collect()
}

impl Chain {
    /// From an exhausted table on to the next one's first entry.
    fn settle(&mut self) -> Result<()> {
        while self.current.as_ref().is_none_or(|current| !current.valid()) {
            if let Some(ended) = self.current.take() {
                self.check_ended(&ended)?;
                self.position += 1;
            }
            let Some(table) = self.tables.get(self.position) else { return Ok(()) };
            let mut next =
                Salvage::open(self.fs.open(&table.path)?, &self.order, table.meta.as_ref())?;
            next.advance();
            self.current = Some(next);
        }
        Ok(())
    }

    fn check_ended(&self, ended: &Salvage) -> Result<()> {
        let expected = self.tables.get(self.position).map_or(0, |table| table.entries);
        check_same(ended.file.path(), ended.given, expected)
    }
}

impl InternalIterator for Chain {
    fn valid(&self) -> bool {
        self.current.as_ref().is_some_and(Salvage::valid)
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.position = 0;
        self.current = None;
        self.settle()
    }

    fn next(&mut self) -> Result<()> {
        if let Some(current) = &mut self.current {
            current.advance();
        }
        self.settle()
    }

    fn seek_to_last(&mut self) -> Result<()> {
        Err(forward_only())
    }

    fn seek(&mut self, _: &[u8]) -> Result<()> {
        Err(forward_only())
    }

    fn prev(&mut self) -> Result<()> {
        Err(forward_only())
    }

    fn key(&self) -> &[u8] {
        self.current.as_ref().map_or(&[], Salvage::key)
    }

    fn value(&self) -> &[u8] {
        self.current.as_ref().map_or(&[], Salvage::value)
    }
}

fn forward_only() -> Error {
    Error::invalid_argument("salvaged tables are read forward only")
}
