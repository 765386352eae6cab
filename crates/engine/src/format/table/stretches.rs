//! Which keys some of a table's bytes hold, and which of its bytes hold some keys, by its index alone. So what readers had near
//! of tables is found again in those that take their place.

use std::ops::Range;

use crate::base::key::InternalKey;
use crate::format::table::reader::Table;

/// Internal keys that follow each other.
#[derive(Clone, Debug)]
pub(crate) struct KeyStretch {
    first: First,
    /// No key behind it.
    to: Vec<u8>,
}

#[derive(Clone, Debug)]
enum First {
    At(Vec<u8>),
    Behind(Vec<u8>),
}

impl Table {
    /// The keys of the blocks that lie in these bytes, or partly; one stretch for blocks that follow each other. The table's
    /// keys lie between `smallest` and `largest`: what parts its last block from what lies behind may be far behind.
    pub(crate) fn keys_in(
        &self,
        bytes: &[Range<u64>],
        (smallest, largest): (&InternalKey, &InternalKey),
    ) -> Vec<KeyStretch> {
        let mut blocks: Vec<Range<usize>> = Vec::new();
        for range in bytes {
            let lying = self.blocks_in(range);
            match blocks.last_mut() {
                _ if lying.is_empty() => {}
                Some(last) if (last.start..=last.end).contains(&lying.start) => {
                    last.end = last.end.max(lying.end);
                }
                _ => blocks.push(lying),
            }
        }
        let index = self.index();
        let stretch = |blocks: Range<usize>| KeyStretch {
            first: match blocks.start.checked_sub(1) {
                Some(before) => First::Behind(index.key(before).to_vec()),
                None => First::At(smallest.as_bytes().to_vec()),
            },
            to: match blocks.end == index.len() {
                true => largest.as_bytes().to_vec(),
                false => index.key(blocks.end - 1).to_vec(),
            },
        };
        blocks.into_iter().map(stretch).collect()
    }

    /// Where blocks lie that may hold keys of these stretches: ranges in order, apart from each other. The table's keys lie
    /// between these ends.
    pub(crate) fn bytes_with(
        &self,
        stretches: &[KeyStretch],
        ends: (&InternalKey, &InternalKey),
    ) -> Vec<Range<u64>> {
        let mut all: Vec<Range<u64>> =
            stretches.iter().filter_map(|keys| self.bytes_of(keys, ends)).collect();
        all.sort_by_key(|range| range.start);
        all.dedup_by(|next, last| {
            let meet = next.start <= last.end;
            if meet {
                last.end = last.end.max(next.end);
            }
            meet
        });
        all
    }

    fn bytes_of(
        &self,
        keys: &KeyStretch,
        (smallest, largest): (&InternalKey, &InternalKey),
    ) -> Option<Range<u64>> {
        let (order, index) = (self.order(), self.index());
        let (First::At(from) | First::Behind(from)) = &keys.first;
        let is_less = |key: &[u8], other: &[u8]| order.compare(key, other).is_lt();
        if is_less(&keys.to, smallest.as_bytes()) || is_less(largest.as_bytes(), from) {
            return None;
        }
        let first = match &keys.first {
            First::At(key) => index.find(key),
            First::Behind(key) => {
                let block = index.find(key);
                let ends_there =
                    block < index.len() && order.compare(index.key(block), key).is_eq();
                block + usize::from(ends_there)
            }
        };
        let last = index.find(&keys.to).min(index.len().checked_sub(1)?);
        let (first, last) = (index.handle(first.min(last + 1)).ok()?, index.handle(last).ok()?);
        (first.offset < last.end()).then(|| first.offset..last.end())
    }

    fn blocks_in(&self, bytes: &Range<u64>) -> Range<usize> {
        let (index, len) = (self.index(), self.index().len());
        let place = |is_before: &dyn Fn(u64, u64) -> bool| {
            let (mut left, mut right) = (0, len);
            while left < right {
                let middle = left + (right - left) / 2;
                let handle = index.handle(middle).unwrap_or_default();
                match is_before(handle.offset, handle.end()) {
                    true => left = middle + 1,
                    false => right = middle,
                }
            }
            left
        };
        if bytes.is_empty() {
            return 0..0;
        }
        let first = place(&|_, end| end <= bytes.start);
        first..place(&|start, _| start < bytes.end).max(first)
    }
}
