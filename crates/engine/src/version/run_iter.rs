//! What counts of an SST log's tables, in *runs*: each a list of pieces that share no user key, and one source of a scan or a
//! merge.
//!
//! [`RunIter`] is much as [`LevelIter`](super::level_iter::LevelIter), which is of whole tables and in every read's way.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::base::comparator::{InternalOrder, UserOrder};
use crate::base::error::{Error, Result};
use crate::base::fences::Fences;
use crate::base::iter::InternalIterator;
use crate::base::key::{InternalKey, KeyHead, user_key};
use crate::format::table::{ScanOptions, TableIter};
use crate::store::table_cache::TableCache;
use crate::version::table_meta::TableMeta;

/// By key.
pub(crate) struct Run {
    pub(crate) pieces: Vec<Piece>,
    /// Of the user keys of all borders, where the order is bytewise.
    fences: Option<Fences>,
}

/// A stretch of a table's entries.
pub(crate) struct Piece {
    table: Arc<TableMeta>,
    stretch: usize,
    /// Of the first and the last entry: scans mostly need no more of them.
    first: KeyHead,
    last: KeyHead,
}

/// Where a seek comes to.
enum Landing {
    /// On an entry of a piece.
    Within(usize),
    /// On the first entry of a piece, or behind all of them.
    Before(usize),
}

impl Run {
    fn new(order: &UserOrder, pieces: Vec<Piece>) -> Self {
        let fences = matches!(order, UserOrder::Bytewise).then(|| {
            let borders = pieces.iter().flat_map(|piece| [piece.ends().0, piece.ends().1]);
            Fences::new(borders.map(InternalKey::user))
        });
        Run { pieces, fences }
    }

    fn landing(&self, order: &InternalOrder, target: &[u8]) -> Landing {
        let unsure = match &self.fences {
            Some(fences) => fences.around(user_key(target)),
            None => 0..2 * self.pieces.len(),
        };
        let (mut before, mut end) = (unsure.start, unsure.end);
        while before < end {
            let middle = before.midpoint(end);
            match order.compare(self.border(middle).as_bytes(), target).is_lt() {
                true => before = middle + 1,
                false => end = middle,
            }
        }
        match before.is_multiple_of(2) {
            true => Landing::Before(before / 2),
            false => Landing::Within(before / 2),
        }
    }

    /// The first entry of the first piece, its last one, the first one of the second piece, and so on.
    fn border(&self, nth: usize) -> &InternalKey {
        let (smallest, largest) = self.pieces[nth / 2].ends();
        if nth.is_multiple_of(2) { smallest } else { largest }
    }
}

impl Piece {
    /// Its first and its last entry.
    pub(crate) fn ends(&self) -> (&InternalKey, &InternalKey) {
        self.table.stretch(self.stretch).expect("pieces are made of stretches that there are")
    }
}

/// Each piece goes to the first run that ends before it.
pub(crate) fn runs(order: &UserOrder, tables: &[Arc<TableMeta>]) -> Vec<Arc<Run>> {
    let is_bytewise = matches!(order, UserOrder::Bytewise);
    let pieces = |table: &Arc<TableMeta>| {
        let table = Arc::clone(table);
        (0..).map_while(move |stretch| {
            let (first, last) = table.stretch(stretch)?;
            let [first, last] = [first, last].map(|key| KeyHead::of(key.as_bytes(), is_bytewise));
            Some(Piece { table: Arc::clone(&table), stretch, first, last })
        })
    };
    let mut pieces: Vec<Piece> = tables.iter().flat_map(pieces).collect();
    pieces.sort_by(|a, b| order.compare(a.ends().0.user(), b.ends().0.user()));
    let mut runs: Vec<Vec<Piece>> = Vec::new();
    for piece in pieces {
        let ends_before = |run: &Vec<Piece>| {
            let last = run.last().map(|last| last.ends().1.user());
            last.is_none_or(|last| order.compare(last, piece.ends().0.user()).is_lt())
        };
        match runs.iter().position(ends_before) {
            Some(run) => runs[run].push(piece),
            None => runs.push(vec![piece]),
        }
    }
    runs.into_iter().map(|pieces| Arc::new(Run::new(order, pieces))).collect()
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
    /// `current` is at the piece's last entry.
    is_last: bool,
    current: Option<TableIter>,
}

impl RunIter {
    pub(crate) fn new(
        order: InternalOrder,
        cache: Arc<TableCache>,
        options: ScanOptions,
        run: Arc<Run>,
    ) -> Self {
        let (is_put_off, is_last) = (false, false);
        RunIter { order, cache, options, run, position: 0, is_put_off, is_last, current: None }
    }

    /// Stands nowhere.
    pub(super) fn leave(&mut self) {
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
            let table = piece.table.open(&self.cache)?;
            self.current = Some(TableIter::new(table, self.options));
        }
        self.position = position;
        if let Some(iter) = &mut self.current {
            iter.seek(from)?;
        }
        self.check_end()
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
    fn check_beginning(&self) -> Result<()> {
        match self.beside(self.ends().0) {
            Some(Ordering::Less) | None => Err(self.lacks_an_end()),
            Some(_) => Ok(()),
        }
    }

    #[inline]
    fn check_end(&mut self) -> Result<()> {
        let beside = self.beside(self.ends().1);
        self.is_last = beside == Some(Ordering::Equal);
        match beside {
            Some(Ordering::Greater) | None => Err(self.lacks_an_end()),
            Some(_) => Ok(()),
        }
    }

    /// Where the current entry lies beside an end of the piece.
    #[inline]
    fn beside(&self, end: &InternalKey) -> Option<Ordering> {
        let iter = self.current.as_ref().filter(|iter| iter.valid())?;
        Some(self.order.compare(iter.key(), end.as_bytes()))
    }

    #[cold]
    fn lacks_an_end(&self) -> Error {
        let number = self.run.pieces[self.position].table.number;
        Error::corruption(format!("table {number} lacks an entry that the manifest names"))
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
        self.guarded(|iter| match iter.run.landing(&iter.order, target) {
            Landing::Within(position) => iter.enter(position, target),
            Landing::Before(position) => iter.put_off(position),
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
            if iter.is_last {
                iter.put_off(iter.position + 1)?;
                return iter.arrive();
            }
            iter.current.as_mut().expect("callers check valid()").next()?;
            iter.check_end()
        })
    }

    fn next_with_head(&mut self, head: &mut KeyHead, is_bytewise: bool) -> Result<bool> {
        let last = self.run.pieces.get(self.position).map(|piece| piece.last.leading);
        if self.is_put_off || self.is_last || !is_bytewise {
            self.next()?;
            return Ok(self.show_head(head, is_bytewise));
        }
        self.guarded(|iter| {
            let current = iter.current.as_mut().expect("callers check valid()");
            match current.next_with_head(head, is_bytewise)? {
                true if last.is_some_and(|last| head.leading < last) => Ok(()),
                _ => iter.check_end(),
            }
        })?;
        Ok(true)
    }

    fn prev(&mut self) -> Result<()> {
        self.guarded(|iter| {
            iter.arrive()?;
            if iter.current().key() == iter.ends().0.as_bytes() {
                return iter.enter_backward(iter.position);
            }
            iter.current.as_mut().expect("callers check valid()").prev()?;
            iter.is_last = false;
            iter.check_beginning()
        })
    }

    fn key(&self) -> &[u8] {
        if self.is_put_off { self.ends().0.as_bytes() } else { self.current().key() }
    }

    fn show_head(&self, head: &mut KeyHead, is_bytewise: bool) -> bool {
        match &self.current {
            _ if self.is_put_off => *head = self.run.pieces[self.position].first,
            Some(iter) if iter.valid() => *head = KeyHead::of(iter.key(), is_bytewise),
            _ => return false,
        }
        true
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
