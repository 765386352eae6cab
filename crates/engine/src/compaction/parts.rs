//! A large job in parts: ranges of user keys that hold about as much each, so that several threads may
//! merge them side by side. The parts' outputs, one behind the other, are the job's.

use crate::base::comparator::UserOrder;
use crate::base::error::Result;
use crate::base::key::user_key;
use crate::compaction::executor::JobContext;
use crate::compaction::job::Job;

/// A table is told apart into so many pieces at most, by the separators of its index.
const PIECES_MAX: u64 = 16;
/// One of level 0 has keys from everywhere, and its end says little.
const PIECES_OF_LOOSE: u64 = 8;

/// The user keys from one on, up to another and without it; all of them where there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) from: Option<Vec<u8>>,
    pub(crate) until: Option<Vec<u8>>,
}

impl Part {
    pub(crate) fn all() -> Self {
        Part::default()
    }

    pub(crate) fn holds(&self, order: &UserOrder, user: &[u8]) -> bool {
        self.from.as_ref().is_none_or(|from| order.compare(from, user).is_le())
            && self.is_before_end(order, user)
    }

    pub(crate) fn is_before_end(&self, order: &UserOrder, user: &[u8]) -> bool {
        self.until.as_ref().is_none_or(|until| order.compare(user, until).is_lt())
    }

    /// Whether it holds keys between these two, both included.
    pub(crate) fn meets(&self, order: &UserOrder, (low, high): (&[u8], &[u8])) -> bool {
        let is_behind_start =
            self.from.as_ref().is_none_or(|from| order.compare(from, high).is_le());
        is_behind_start && self.is_before_end(order, low)
    }

    /// A closed range without what lies outside of this, but for its end.
    pub(crate) fn clip<'k>(
        &'k self,
        order: &UserOrder,
        (low, high): (&'k [u8], &'k [u8]),
    ) -> (&'k [u8], &'k [u8]) {
        let from = self.from.as_deref().filter(|from| order.compare(from, low).is_gt());
        let until = self.until.as_deref().filter(|until| order.compare(until, high).is_lt());
        (from.unwrap_or(low), until.unwrap_or(high))
    }
}

/// Parts of a job for so many threads, in order; one if it is not worth more.
pub(crate) fn split(job: &Job, context: &JobContext<'_>, threads: usize) -> Result<Vec<Part>> {
    // A part ends a table early, so it shall fill others.
    let worth = job.input_bytes(&context.order.user) / job.cut.table_bytes.max(1);
    let parts = worth.min(threads as u64);
    if parts < 2 {
        return Ok(vec![job.part.clone()]);
    }
    let mut pieces = pieces(job, context)?;
    // A border is where a part begins: not where the whole does.
    let order = &context.order.user;
    let is_within = |key: &[u8]| {
        let from = job.part.from.as_ref();
        job.part.is_before_end(order, key)
            && from.is_none_or(|from| order.compare(from, key).is_lt())
    };
    pieces.retain(|(key, _)| is_within(key));
    Ok(between(borders(order, pieces, parts), &job.part))
}

/// The end of a stretch of keys, and about how many bytes it has.
type Piece = (Vec<u8>, u64);

fn pieces(job: &Job, context: &JobContext<'_>) -> Result<Vec<Piece>> {
    let total = job.input_bytes(&context.order.user).max(1);
    let mut pieces = Vec::new();
    for (slot, meta) in job.input_tables() {
        let least = if slot.is_sorted() { 1 } else { PIECES_OF_LOOSE };
        let share = (PIECES_MAX.saturating_mul(meta.size) / total).max(least);
        if share == 1 {
            pieces.push((meta.largest.user().to_vec(), meta.size));
            continue;
        }
        let table = meta.open(context.cache)?;
        let index = table.index();
        let blocks = index.len() as u64;
        for nth in (1..=share).filter(|_| blocks > 0) {
            let end = (blocks * nth / share).max(1) - 1;
            pieces.push((user_key(index.key(end as usize)).to_vec(), meta.size / share));
        }
    }
    Ok(pieces)
}

/// The keys that part them, ascending, none twice.
fn borders(order: &UserOrder, mut pieces: Vec<Piece>, parts: u64) -> Vec<Vec<u8>> {
    pieces.sort_by(|(a, _), (b, _)| order.compare(a, b));
    let total: u64 = pieces.iter().map(|(_, bytes)| bytes).sum();
    let mut borders: Vec<Vec<u8>> = Vec::new();
    let mut passed = 0;
    for (key, bytes) in pieces {
        passed += bytes;
        let due = borders.len() as u64 + 1;
        let is_new = borders.last().is_none_or(|last| order.compare(last, &key).is_lt());
        if due < parts && is_new && passed >= total / parts * due {
            borders.push(key);
        }
    }
    borders
}

fn between(borders: Vec<Vec<u8>>, whole: &Part) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut from = whole.from.clone();
    for border in borders {
        parts.push(Part { from: from.replace(border.clone()), until: Some(border) });
    }
    parts.push(Part { from, until: whole.until.clone() });
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn borders_of(pieces: &[(&str, u64)], parts: u64) -> String {
        let pieces = pieces.iter().map(|(key, bytes)| (key.as_bytes().to_vec(), *bytes));
        let borders = borders(&UserOrder::Bytewise, pieces.collect(), parts);
        String::from_utf8(borders.join(&b' ')).unwrap()
    }

    #[test]
    fn borders_part_bytes_evenly() {
        let even = [("d", 10), ("a", 10), ("c", 10), ("b", 10)];
        assert_eq!(borders_of(&even, 2), "b");
        assert_eq!(borders_of(&even, 4), "a b c");
        assert_eq!(borders_of(&even, 9), "a b c d");
        assert_eq!(borders_of(&[("a", 1), ("b", 1), ("c", 100), ("d", 98)], 2), "c");
    }

    #[test]
    fn no_border_comes_twice() {
        assert_eq!(borders_of(&[("a", 10), ("a", 10), ("a", 10), ("b", 1)], 3), "a b");
        assert_eq!(borders_of(&[], 3), "");
    }

    #[test]
    fn parts_cover_all_keys() {
        let parts = between(vec![b"b".to_vec(), b"d".to_vec()], &Part::all());
        let shown: Vec<_> =
            parts.iter().map(|Part { from, until }| (from.as_deref(), until.as_deref())).collect();
        let (b, d): (Option<&[u8]>, Option<&[u8]>) = (Some(b"b"), Some(b"d"));
        assert_eq!(shown, [(None, b), (b, d), (d, None)]);
        assert_eq!(between(Vec::new(), &Part::all()), [Part::all()]);
        let whole = Part { from: Some(b"a".to_vec()), until: Some(b"x".to_vec()) };
        assert_eq!(between(Vec::new(), &whole), std::slice::from_ref(&whole));
        let ends = between(vec![b"b".to_vec()], &whole);
        assert_eq!((&ends[0].from, &ends[1].until), (&whole.from, &whole.until));
    }
}
