//! What counts of an SST log's tables, in *runs*: each a list of pieces that share no user key, and one source of a scan or a
//! merge.
//!
//! [`RunIter`] is much as [`LevelIter`](super::level_iter::LevelIter), which is of whole tables and in every read's way.

use std::sync::Arc;

use crate::base::comparator::{InternalOrder, UserOrder};
use crate::base::error::{Error, Result};
use crate::base::iter::InternalIterator;
use crate::base::key::InternalKey;
use crate::format::table::{ScanOptions, TableIter};
use crate::store::table_cache::TableCache;
use crate::version::table_meta::TableMeta;

/// By key.
#[derive(Default)]
pub(crate) struct Run {
    pub(crate) pieces: Vec<Piece>,
}

/// A stretch of a table's entries.
pub(crate) struct Piece {
    table: Arc<TableMeta>,
    stretch: usize,
}

impl Piece {
    /// Its first and its last entry.
    pub(crate) fn ends(&self) -> (&InternalKey, &InternalKey) {
        self.table.stretch(self.stretch).expect("pieces are made of stretches that there are")
    }
}

/// Each piece goes to the first run that ends before it.
pub(crate) fn runs(order: &UserOrder, tables: &[Arc<TableMeta>]) -> Vec<Arc<Run>> {
    let pieces = |table: &Arc<TableMeta>| {
        let table = Arc::clone(table);
        let stretches = (0..).take_while({
            let table = Arc::clone(&table);
            move |stretch| table.stretch(*stretch).is_some()
        });
        stretches.map(move |stretch| Piece { table: Arc::clone(&table), stretch })
    };
    let mut pieces: Vec<Piece> = tables.iter().flat_map(pieces).collect();
    pieces.sort_by(|a, b| order.compare(a.ends().0.user(), b.ends().0.user()));
    let mut runs: Vec<Run> = Vec::new();
    for piece in pieces {
        let ends_before = |run: &Run| {
            let last = run.pieces.last().map(|last| last.ends().1.user());
            last.is_none_or(|last| order.compare(last, piece.ends().0.user()).is_lt())
        };
        match runs.iter().position(ends_before) {
            Some(run) => runs[run].pieces.push(piece),
            None => runs.push(Run { pieces: vec![piece] }),
        }
    }
    runs.into_iter().map(Arc::new).collect()
}

/// A seek to a place between two pieces puts off to open the table of the second: its first key is known, and mostly all
/// that a merge asks for.
pub(crate) struct RunIter {
    order: InternalOrder,
    cache: Arc<TableCache>,
    options: ScanOptions,
    run: Arc<Run>,
    /// The piece that `current` is in, if it is valid.
    position: usize,
    /// The iterator stands on the piece's first entry, and `current` does not.
    is_put_off: bool,
    current: Option<TableIter>,
}

impl RunIter {
    pub(crate) fn new(
        order: InternalOrder,
        cache: Arc<TableCache>,
        options: ScanOptions,
        run: Arc<Run>,
    ) -> Self {
        RunIter { order, cache, options, run, position: 0, is_put_off: false, current: None }
    }

    fn leave(&mut self) {
        self.current = None;
        self.is_put_off = false;
    }

    /// To the first entry of the piece at `position`, without looking for it yet. Past the last piece to nowhere.
    fn put_off(&mut self, position: usize) -> Result<()> {
        self.is_put_off = position < self.run.pieces.len();
        if self.is_put_off && position != self.position {
            self.current = None;
            self.position = position;
        } else if !self.is_put_off {
            self.leave();
        }
        Ok(())
    }

    /// To the first entry of the piece at `position` that is not less than `from`, which is within the piece.
    fn enter(&mut self, position: usize, from: &[u8]) -> Result<()> {
        self.is_put_off = false;
        let piece = &self.run.pieces[position];
        let before = self.run.pieces.get(self.position).map(|piece| piece.table.number);
        if self.current.is_none() || before != Some(piece.table.number) {
            self.current = None;
            let table = self.cache.get(piece.table.number, piece.table.size)?;
            self.current = Some(table.iter(self.options));
        }
        self.position = position;
        if let Some(iter) = &mut self.current {
            iter.seek(from)?;
        }
        self.check()
    }

    /// To the last entry of the piece before `end`.
    fn enter_backward(&mut self, end: usize) -> Result<()> {
        let Some(position) = end.checked_sub(1) else {
            self.leave();
            return Ok(());
        };
        let run = Arc::clone(&self.run);
        self.enter(position, run.pieces[position].ends().1.as_bytes())
    }

    /// The ends of pieces are entries of their tables, so whoever moves within a piece stays in it.
    fn check(&self) -> Result<()> {
        let (Some(iter), Some(piece)) = (&self.current, self.run.pieces.get(self.position)) else {
            return Ok(());
        };
        let (smallest, largest) = piece.ends();
        let is_within = iter.valid()
            && self.order.compare(smallest.as_bytes(), iter.key()).is_le()
            && self.order.compare(iter.key(), largest.as_bytes()).is_le();
        if is_within {
            return Ok(());
        }
        let number = piece.table.number;
        Err(Error::corruption(format!("table {number} lacks an entry that the manifest names")))
    }

    /// An error leaves no position behind.
    fn guarded(&mut self, movement: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let moved = movement(self);
        if moved.is_err() {
            self.leave();
        }
        moved
    }

    fn current(&self) -> &TableIter {
        self.current.as_ref().expect("callers check valid()")
    }

    fn ends(&self) -> (&InternalKey, &InternalKey) {
        self.run.pieces[self.position].ends()
    }
}

impl InternalIterator for RunIter {
    fn valid(&self) -> bool {
        self.is_put_off || self.current.as_ref().is_some_and(InternalIterator::valid)
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.put_off(0)
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.guarded(|iter| iter.enter_backward(iter.run.pieces.len()))
    }

    fn seek(&mut self, target: &[u8]) -> Result<()> {
        self.guarded(|iter| {
            let ends_before =
                |piece: &Piece| iter.order.compare(piece.ends().1.as_bytes(), target).is_lt();
            let position = iter.run.pieces.partition_point(ends_before);
            let begins_before =
                |piece: &Piece| iter.order.compare(piece.ends().0.as_bytes(), target).is_lt();
            match iter.run.pieces.get(position).is_some_and(begins_before) {
                true => iter.enter(position, target),
                false => iter.put_off(position),
            }
        })
    }

    fn arrive(&mut self) -> Result<()> {
        if !self.is_put_off {
            return Ok(());
        }
        let run = Arc::clone(&self.run);
        let smallest = run.pieces[self.position].ends().0;
        self.guarded(|iter| iter.enter(iter.position, smallest.as_bytes()))
    }

    fn next(&mut self) -> Result<()> {
        self.guarded(|iter| {
            iter.arrive()?;
            if iter.current().key() == iter.ends().1.as_bytes() {
                iter.put_off(iter.position + 1)?;
                return iter.arrive();
            }
            iter.current.as_mut().expect("callers check valid()").next()?;
            iter.check()
        })
    }

    fn prev(&mut self) -> Result<()> {
        self.guarded(|iter| {
            iter.arrive()?;
            if iter.current().key() == iter.ends().0.as_bytes() {
                return iter.enter_backward(iter.position);
            }
            iter.current.as_mut().expect("callers check valid()").prev()?;
            iter.check()
        })
    }

    fn key(&self) -> &[u8] {
        if self.is_put_off { self.ends().0.as_bytes() } else { self.current().key() }
    }

    fn value(&self) -> &[u8] {
        debug_assert!(!self.is_put_off, "whoever merges has it arrive first");
        self.current().value()
    }

    fn corrupted_key(&self) -> Error {
        self.current().corrupted_key()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::manifest::edit::{Live, Span};
    use crate::version::testing::{key, order, table};

    #[test]
    fn runs_are_as_few_as_pieces_lie_on_top_of_each_other() {
        let span = |from: &str, to: &str| Span { smallest: key(from, 100), largest: key(to, 100) };
        let live = Live { bytes: 5, parts: vec![span("a", "b"), span("x", "z")] };
        let in_part = Arc::new(table(7, "a", "z").narrowed(live).unwrap());
        let tables = [("a", "c"), ("b", "d"), ("d", "f"), ("e", "k"), ("g", "h"), ("c", "c")];
        let tables = tables.iter().zip(1..).map(|((from, to), number)| table(number, from, to));
        let tables: Vec<_> = [in_part].into_iter().chain(tables).collect();
        let shown = runs(&order().user, &tables).into_iter().map(|run| {
            let piece = |piece: &Piece| format!("{}.{}", piece.table.number.0, piece.stretch);
            run.pieces.iter().map(piece).collect::<Vec<_>>().join(" ")
        });
        assert_eq!(shown.collect::<Vec<_>>(), ["7.0 6.0 3.0 5.0 7.1", "1.0 4.0", "2.0"]);
    }
}
