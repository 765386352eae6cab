//! The filter block: filters, and which of them stands for which part of the table. The table
//! builder fills it; point reads ask it before anything else.
//!
//! **Layout.**
//!
//! | part | encoding |
//! | --- | --- |
//! | filters | back to back, one per 2^base_lg bytes of file offset |
//! | array | fixed32 each: where a filter starts |
//! | array offset | fixed32: where the array starts, which is where the last filter ends |
//! | base_lg | one byte |
//!
//! A data block belongs to the filter of its own start. LevelDB writes `base_lg` 11: a filter for
//! every 2 KiB. It reads any other, so we write one so large that a single filter covers the whole
//! table: half the false positives at the same size, and it can be asked before the index.

use crate::base::coding::{Reader, put_fixed32};
use crate::format::table::filter::{BloomFilter, Filter};

/// Array offset and `base_lg`.
const TAIL_BYTES: usize = size_of::<u32>() + 1;
/// LevelDB was seen to read filters with this; larger tables need more.
const BASE_LG_MIN: u8 = 30;

/// How many filters a table gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FilterSpan {
    /// One.
    #[default]
    Table,
    /// One per two to this power of file offset. LevelDB: 11.
    Offsets(u8),
}

/// Collects keys while a table is written.
pub(crate) struct FilterBlockBuilder {
    filter: Filter,
    span: FilterSpan,
    keys: Keys,
    /// Data blocks: where each starts in the file, and its first key's index.
    blocks: Vec<(u64, usize)>,
}

/// What is kept of keys until their filter is made.
enum Keys {
    /// Four bytes a key are enough for the built-in filter.
    Hashes(Vec<u32>),
    Whole { bytes: Vec<u8>, ends: Vec<usize> },
}

impl FilterBlockBuilder {
    pub(crate) fn new(filter: Filter, span: FilterSpan) -> Self {
        let keys = match &filter {
            Filter::Bloom(_) => Keys::Hashes(Vec::new()),
            Filter::Custom(_) => Keys::Whole { bytes: Vec::new(), ends: Vec::new() },
        };
        FilterBlockBuilder { filter, span, keys, blocks: Vec::new() }
    }

    /// Keys that follow are of the data block that starts at `offset`.
    pub(crate) fn start_block(&mut self, offset: u64) {
        self.blocks.push((offset, self.keys.len()));
    }

    #[inline]
    pub(crate) fn add_key(&mut self, user: &[u8]) {
        let first_of_block = self.blocks.last().is_none_or(|&(_, first)| first == self.keys.len());
        match &mut self.keys {
            Keys::Hashes(hashes) => {
                // Versions of one key lie side by side and set the same bits.
                let hash = BloomFilter::hash(user);
                if first_of_block || hashes.last() != Some(&hash) {
                    hashes.push(hash);
                }
            }
            Keys::Whole { bytes, ends } => {
                bytes.extend_from_slice(user);
                ends.push(bytes.len());
            }
        }
    }

    /// An estimate of the block's size, for cutting tables.
    pub(crate) fn keys(&self) -> usize {
        self.keys.len()
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        let last_offset = self.blocks.last().map_or(0, |&(offset, _)| offset);
        let base_lg = match self.span {
            FilterSpan::Table => BASE_LG_MIN.max((64 - last_offset.leading_zeros()) as u8),
            FilterSpan::Offsets(base_lg) => base_lg,
        };
        let (mut out, mut starts) = (Vec::new(), Vec::new());
        let mut first = 0;
        let mut blocks = self.blocks.iter().peekable();
        while let Some(&(offset, _)) = blocks.next() {
            let next = blocks.peek().map_or((u64::MAX, self.keys.len()), |&&next| next);
            if next.0 >> base_lg == offset >> base_lg && next.0 != u64::MAX {
                continue;
            }
            // Spans where no block starts get an empty filter, which matches nothing.
            starts.resize((offset >> base_lg) as usize, to_u32(out.len()));
            starts.push(to_u32(out.len()));
            if first < next.1 {
                self.keys.create(&self.filter, first..next.1, &mut out);
            }
            first = next.1;
        }
        let array_at = to_u32(out.len());
        for start in starts {
            put_fixed32(&mut out, start);
        }
        put_fixed32(&mut out, array_at);
        out.push(base_lg);
        out
    }
}

/// Offsets within a filter block. Four gigabytes of filter are billions of keys in one table.
fn to_u32(offset: usize) -> u32 {
    u32::try_from(offset).expect("tables are cut long before their filter has 4 GiB")
}

impl Keys {
    fn len(&self) -> usize {
        match self {
            Keys::Hashes(hashes) => hashes.len(),
            Keys::Whole { ends, .. } => ends.len(),
        }
    }

    fn create(&self, filter: &Filter, range: std::ops::Range<usize>, out: &mut Vec<u8>) {
        match (self, filter) {
            (Keys::Hashes(hashes), Filter::Bloom(bloom)) => bloom.create(&hashes[range], out),
            (Keys::Whole { bytes, ends }, _) => {
                let start = |index: usize| if index == 0 { 0 } else { ends[index - 1] };
                let keys: Vec<&[u8]> =
                    range.map(|index| &bytes[start(index)..ends[index]]).collect();
                filter.policy().create_filter(&keys, out);
            }
            (Keys::Hashes(_), Filter::Custom(_)) => unreachable!("new() matches keys to filter"),
        }
    }
}

/// A filter block read from a table. What it cannot make sense of may match.
pub(crate) struct FilterBlock {
    filter: Filter,
    bytes: Vec<u8>,
    base_lg: u8,
    array_at: usize,
    filters: usize,
}

impl FilterBlock {
    /// `None` if the bytes are no filter block: then there is no filter, as LevelDB has it.
    pub(crate) fn parse(filter: Filter, bytes: Vec<u8>) -> Option<Self> {
        let (rest, tail) = bytes.split_at_checked(bytes.len().checked_sub(TAIL_BYTES)?)?;
        let mut tail = Reader::new(tail);
        let array_at = usize::try_from(tail.fixed32()?).ok()?;
        let base_lg = tail.u8()?;
        let filters = rest.len().checked_sub(array_at)? / size_of::<u32>();
        Some(FilterBlock { filter, bytes, base_lg, array_at, filters })
    }

    /// True if one filter covers a table of so many bytes, so that no block need be known to ask.
    pub(crate) fn is_whole_table(&self, data_bytes: u64) -> bool {
        self.span_of(data_bytes) == Some(0)
    }

    fn span_of(&self, offset: u64) -> Option<usize> {
        // A shift by 64 or more has no meaning in LevelDB; here it means no filter.
        offset.checked_shr(u32::from(self.base_lg)).and_then(|span| usize::try_from(span).ok())
    }

    /// False only if no entry of the data block that starts at `offset` has this user key.
    #[inline]
    pub(crate) fn may_match(&self, offset: u64, user: &[u8]) -> bool {
        let Some(span) = self.span_of(offset).filter(|&span| span < self.filters) else {
            return true;
        };
        // The word behind the last filter's is the array's own offset: that filter's end.
        let at = self.array_at + span * size_of::<u32>();
        let bounds = self.bytes.get(at..).and_then(|rest| rest.first_chunk::<8>());
        let Some(bounds) = bounds else { return true };
        let [a, b, c, d, e, f, g, h] = *bounds;
        let start = u32::from_le_bytes([a, b, c, d]) as usize;
        let end = u32::from_le_bytes([e, f, g, h]) as usize;
        if start == end {
            return false;
        }
        match self.bytes.get(start..end).filter(|_| end <= self.array_at) {
            Some(filter) => self.filter.may_match(user, filter),
            None => true,
        }
    }

    /// Memory that it takes.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.capacity()
    }
}
