//! Iterators over a version's tables: a sorted slot as one source, and the kinds of source that a
//! scan or a merge brings together.

use std::sync::Arc;

use crate::base::comparator::InternalOrder;
use crate::base::error::{Error, Result};
use crate::base::iter::InternalIterator;
use crate::base::key::KeyHead;
use crate::base::slot::{Area, Slot};
use crate::format::table::{Answers, ScanOptions, Stride, TableIter};
use crate::memtable::MemTableIter;
use crate::store::table_cache::TableCache;
use crate::version::Tables;
use crate::version::run_iter::{Run, RunIter};

/// A sorted run of disjoint tables as one iterator; opens a table when it gets there.
pub(crate) struct LevelIter {
    order: InternalOrder,
    cache: Arc<TableCache>,
    options: ScanOptions,
    tables: Tables,
    position: usize,
    current: Option<TableIter>,
}

impl LevelIter {
    pub(crate) fn new(
        order: InternalOrder,
        cache: Arc<TableCache>,
        options: ScanOptions,
        tables: Tables,
    ) -> Self {
        LevelIter { order, cache, options, tables, position: 0, current: None }
    }

    /// Makes the table at `position` current; past the last there is none.
    fn open(&mut self, position: usize) -> Result<Option<&mut TableIter>> {
        if position != self.position || self.current.is_none() {
            self.current = None;
            self.position = position;
            if let Some(meta) = self.tables.get(position) {
                let table = meta.open(&self.cache)?;
                self.current = Some(TableIter::new(table, self.options));
            }
        }
        Ok(self.current.as_mut())
    }

    /// From an exhausted table on to the first entry of a later one. Tables are never empty, but a
    /// seek target may lie between two.
    fn skip_forward(&mut self) -> Result<()> {
        while self.current.as_ref().is_some_and(|iter| !iter.valid()) {
            if let Some(iter) = self.open(self.position + 1)? {
                iter.seek_to_first()?;
            }
        }
        Ok(())
    }

    fn skip_backward(&mut self) -> Result<()> {
        while self.current.as_ref().is_some_and(|iter| !iter.valid()) {
            let Some(before) = self.position.checked_sub(1) else {
                self.current = None;
                return Ok(());
            };
            if let Some(iter) = self.open(before)? {
                iter.seek_to_last()?;
            }
        }
        Ok(())
    }

    /// An error leaves no position behind.
    fn guarded(&mut self, movement: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let moved = movement(self);
        if moved.is_err() {
            self.current = None;
        }
        moved
    }

    /// From where a step failed or left the table by its end.
    #[inline(never)]
    fn leave(&mut self, moved: Result<()>) -> Result<()> {
        self.guarded(|level| moved.and_then(|()| level.skip_forward()))
    }

    #[inline(never)]
    fn leave_with_head(
        &mut self,
        moved: Result<()>,
        head: &mut KeyHead,
        is_bytewise: bool,
    ) -> Result<bool> {
        self.leave(moved)?;
        Ok(self.show_head(head, is_bytewise))
    }

    /// As [`leave`](Self::leave), by its beginning.
    #[inline(never)]
    fn leave_backward(&mut self, moved: Result<()>) -> Result<()> {
        self.guarded(|level| moved.and_then(|()| level.skip_backward()))
    }

    #[inline]
    fn current(&mut self) -> &mut TableIter {
        self.current.as_mut().expect("callers check valid() before they move")
    }
}

impl InternalIterator for LevelIter {
    #[inline]
    fn valid(&self) -> bool {
        self.current.as_ref().is_some_and(InternalIterator::valid)
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.guarded(|level| {
            if let Some(iter) = level.open(0)? {
                iter.seek_to_first()?;
            }
            level.skip_forward()
        })
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.guarded(|level| {
            let Some(last) = level.tables.len().checked_sub(1) else { return Ok(()) };
            if let Some(iter) = level.open(last)? {
                iter.seek_to_last()?;
            }
            level.skip_backward()
        })
    }

    fn seek(&mut self, target: &[u8]) -> Result<()> {
        self.guarded(|level| {
            let position = level.tables.first_not_before(&level.order, target);
            if let Some(iter) = level.open(position)? {
                iter.seek(target)?;
            }
            level.skip_forward()
        })
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        let current = self.current();
        match current.next() {
            Ok(()) if current.valid() => Ok(()),
            moved => self.leave(moved),
        }
    }

    #[inline(always)]
    fn next_with_head(&mut self, head: &mut KeyHead, is_bytewise: bool) -> Result<bool> {
        match self.current().next_with_head(head, is_bytewise) {
            Ok(true) => Ok(true),
            moved => self.leave_with_head(moved.map(drop), head, is_bytewise),
        }
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        let current = self.current();
        match current.prev() {
            Ok(()) if current.valid() => Ok(()),
            moved => self.leave_backward(moved),
        }
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.current.as_ref().expect("callers check valid()").key()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.current.as_ref().expect("callers check valid()").value()
    }

    #[inline]
    fn key_before(&self) -> Option<&[u8]> {
        self.current.as_ref()?.key_before()
    }

    fn corrupted_key(&self) -> Error {
        self.current.as_ref().expect("callers check valid()").corrupted_key()
    }
}

/// A source of a scan or merge. An enum, not a boxed trait: a scan calls it for every entry.
pub(crate) enum Source {
    MemTable(MemTableIter),
    Table(TableIter),
    Level(LevelIter),
    Run(RunIter),
}

impl Source {
    /// What a slot brings to a scan or a merge: tables that follow each other are one source, as are those of a run.
    pub(crate) fn of_slot(
        order: &InternalOrder,
        cache: &Arc<TableCache>,
        scan: ScanOptions,
        (slot, tables): (Slot, &Tables),
        sources: &mut Vec<Source>,
    ) -> Result<()> {
        if slot.area == Area::SstLog {
            let run = |run: &Arc<Run>| {
                RunIter::new(order.clone(), Arc::clone(cache), scan, Arc::clone(run))
            };
            sources.extend(tables.runs(&order.user).iter().map(run).map(Source::Run));
        } else if slot.is_sorted() && tables.len() > 1 {
            let (cache, tables) = (Arc::clone(cache), Arc::clone(tables));
            sources.push(Source::Level(LevelIter::new(order.clone(), cache, scan, tables)));
        } else {
            for meta in tables.iter() {
                let table = meta.open(cache)?;
                sources.push(Source::Table(TableIter::new(table, scan)));
            }
        }
        Ok(())
    }
}

impl Source {
    /// Stands nowhere, and holds no more than it did when it was made.
    pub(crate) fn release(&mut self) {
        match self {
            Source::MemTable(iter) => iter.release(),
            Source::Table(iter) => iter.release(),
            Source::Level(iter) => iter.current = None,
            Source::Run(iter) => iter.leave(),
        }
    }
}

/// A table goes on over many entries at once.
impl Source {
    /// As [`TableIter::run_forward`]. Memtables and runs of tables go entry by entry.
    #[inline]
    pub(crate) fn run_forward(&mut self, stride: &mut Stride, answers: &Answers) -> bool {
        self.table().is_some_and(|table| table.run_forward(stride, answers))
    }

    /// As [`TableIter::run_backward`].
    #[inline]
    pub(crate) fn run_backward(&mut self, stride: &mut Stride, answers: &Answers) -> bool {
        self.table().is_some_and(|table| table.run_backward(stride, answers))
    }

    #[inline]
    fn table(&mut self) -> Option<&mut TableIter> {
        match self {
            Source::Table(table) => Some(table),
            Source::Level(level) => level.current.as_mut(),
            Source::MemTable(_) | Source::Run(_) => None,
        }
    }
}

macro_rules! each {
    ($source:expr, $iter:ident => $call:expr) => {
        match $source {
            Source::MemTable($iter) => $call,
            Source::Table($iter) => $call,
            Source::Level($iter) => $call,
            Source::Run($iter) => $call,
        }
    };
}

impl InternalIterator for Source {
    #[inline]
    fn valid(&self) -> bool {
        each!(self, iter => iter.valid())
    }
    fn seek_to_first(&mut self) -> Result<()> {
        each!(self, iter => iter.seek_to_first())
    }
    fn seek_to_last(&mut self) -> Result<()> {
        each!(self, iter => iter.seek_to_last())
    }
    fn seek(&mut self, target: &[u8]) -> Result<()> {
        each!(self, iter => iter.seek(target))
    }
    #[inline(always)] // One of four, mostly the same as before.
    fn next(&mut self) -> Result<()> {
        each!(self, iter => iter.next())
    }
    #[inline(always)]
    fn next_with_head(&mut self, head: &mut KeyHead, is_bytewise: bool) -> Result<bool> {
        each!(self, iter => iter.next_with_head(head, is_bytewise))
    }
    #[inline(always)]
    fn show_head(&self, head: &mut KeyHead, is_bytewise: bool) -> bool {
        each!(self, iter => iter.show_head(head, is_bytewise))
    }
    fn arrive(&mut self) -> Result<()> {
        match self {
            Source::Run(iter) => iter.arrive(),
            _ => Ok(()),
        }
    }
    #[inline(always)]
    fn prev(&mut self) -> Result<()> {
        each!(self, iter => iter.prev())
    }
    #[inline]
    fn key(&self) -> &[u8] {
        each!(self, iter => iter.key())
    }
    #[inline]
    fn value(&self) -> &[u8] {
        each!(self, iter => iter.value())
    }
    #[inline]
    fn key_before(&self) -> Option<&[u8]> {
        each!(self, iter => iter.key_before())
    }
    fn corrupted_key(&self) -> Error {
        each!(self, iter => iter.corrupted_key())
    }
}
