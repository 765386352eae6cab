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

use std::ops::Range;

use crate::base::coding::{Reader, put_fixed32};
use crate::format::table::filter::{BloomFilter, Filter, Kind};

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
    /// One per two to this power of file offset, as LevelDB writes them, with 11.
    #[cfg(test)]
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
    /// Four bytes a key are enough for LevelDB's filter.
    Hashes(Vec<u32>),
    /// And eight for the wide one.
    WideHashes(Vec<u64>),
    Whole {
        bytes: Vec<u8>,
        ends: Vec<usize>,
    },
}

impl FilterBlockBuilder {
    pub(crate) fn new(filter: Filter, span: FilterSpan) -> Self {
        let keys = match &filter {
            Filter::Bloom(bloom) => match bloom.kind() {
                Kind::LevelDb => Keys::Hashes(Vec::new()),
                Kind::Wide => Keys::WideHashes(Vec::new()),
            },
            Filter::Custom(_) => Keys::Whole { bytes: Vec::new(), ends: Vec::new() },
        };
        FilterBlockBuilder { filter, span, keys, blocks: Vec::new() }
    }

    /// A hint. A large array that grows is moved now and then, and the process's map of memory is held meanwhile.
    pub(crate) fn expect_keys(&mut self, keys: usize) {
        match &mut self.keys {
            Keys::Hashes(hashes) => hashes.reserve(keys),
            Keys::WideHashes(hashes) => hashes.reserve(keys),
            Keys::Whole { ends, .. } => ends.reserve(keys),
        }
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
            Keys::WideHashes(hashes) => {
                let hash = BloomFilter::wide_hash(user);
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

    pub(crate) fn finish(self) -> Vec<u8> {
        let last_offset = self.blocks.last().map_or(0, |&(offset, _)| offset);
        let base_lg = match self.span {
            FilterSpan::Table => BASE_LG_MIN.max((64 - last_offset.leading_zeros()) as u8),
            #[cfg(test)]
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
            // Spans without keys get an empty filter, which matches nothing.
            starts.resize((offset >> base_lg) as usize, to_u32(out.len()));
            if first < next.1 {
                starts.push(to_u32(out.len()));
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
            Keys::WideHashes(hashes) => hashes.len(),
            Keys::Whole { ends, .. } => ends.len(),
        }
    }

    fn create(&self, filter: &Filter, range: Range<usize>, out: &mut Vec<u8>) {
        match (self, filter) {
            (Keys::Hashes(hashes), Filter::Bloom(bloom)) => bloom.create(&hashes[range], out),
            (Keys::WideHashes(hashes), Filter::Bloom(bloom)) => {
                bloom.create_wide(&hashes[range], out);
            }
            (Keys::Whole { bytes, ends }, _) => {
                let start = |index: usize| if index == 0 { 0 } else { ends[index - 1] };
                let keys: Vec<&[u8]> =
                    range.map(|index| &bytes[start(index)..ends[index]]).collect();
                filter.policy().create_filter(&keys, out);
            }
            (Keys::Hashes(_) | Keys::WideHashes(_), Filter::Custom(_)) => {
                unreachable!("new() matches keys to filter")
            }
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

    pub(crate) fn memory(&self) -> usize {
        self.bytes.capacity()
    }

    pub(crate) fn policy(&self) -> &Filter {
        &self.filter
    }

    /// The one filter that covers a table of so many bytes, if there is one, so that no block need be known to ask. It
    /// may be empty: then it matches nothing.
    pub(crate) fn whole(&self, data_bytes: u64) -> Option<&[u8]> {
        let only = self.span_of(data_bytes).filter(|&span| span == 0)?;
        Some(self.bytes.get(self.filter_at(only)?).unwrap_or_default())
    }

    fn span_of(&self, offset: u64) -> Option<usize> {
        // A shift by 64 or more has no meaning in LevelDB; here it means no filter.
        offset.checked_shr(u32::from(self.base_lg)).and_then(|span| usize::try_from(span).ok())
    }

    /// False only if no entry of the data block that starts at `offset` has this user key.
    #[inline]
    pub(crate) fn may_match(&self, offset: u64, user: &[u8]) -> bool {
        let span = self.span_of(offset);
        let Some(at) = span.and_then(|span| self.filter_at(span)) else { return true };
        let filter = self.bytes.get(at).unwrap_or_default();
        !filter.is_empty() && self.filter.may_match(user, filter)
    }

    /// Where the filter of a span lies, perhaps an empty one; `None` if there is none, or it is nowhere.
    #[inline]
    fn filter_at(&self, span: usize) -> Option<Range<usize>> {
        if span >= self.filters {
            return None;
        }
        // The word behind the last filter's is the array's own offset: that filter's end.
        let at = self.array_at + span * size_of::<u32>();
        let [a, b, c, d, e, f, g, h] = *self.bytes.get(at..)?.first_chunk::<8>()?;
        let start = u32::from_le_bytes([a, b, c, d]) as usize;
        let end = u32::from_le_bytes([e, f, g, h]) as usize;
        (start == end || start < end && end <= self.array_at).then_some(start..end)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::base::hash::hash;
    use crate::format::table::filter::FilterPolicy;

    /// Keeps whole hashes, so that a match is no accident.
    struct Hashes;

    impl FilterPolicy for Hashes {
        fn name(&self) -> &str {
            "test.Hashes"
        }
        fn create_filter(&self, keys: &[&[u8]], out: &mut Vec<u8>) {
            for key in keys {
                put_fixed32(out, hash(key, 1));
            }
        }
        fn may_match(&self, key: &[u8], filter: &[u8]) -> bool {
            filter.chunks_exact(4).any(|word| word == hash(key, 1).to_le_bytes())
        }
    }

    fn policy() -> Filter {
        Filter::Custom(Arc::new(Hashes))
    }

    fn build(span: FilterSpan, blocks: &[(u64, &[&str])]) -> FilterBlock {
        let mut builder = FilterBlockBuilder::new(policy(), span);
        for (offset, keys) in blocks {
            builder.start_block(*offset);
            keys.iter().for_each(|key| builder.add_key(key.as_bytes()));
        }
        FilterBlock::parse(policy(), builder.finish()).unwrap()
    }

    fn matches<'a>(block: &FilterBlock, offset: u64, keys: &[&'a str]) -> Vec<&'a str> {
        keys.iter().copied().filter(|key| block.may_match(offset, key.as_bytes())).collect()
    }

    const KEYS: [&str; 6] = ["foo", "bar", "box", "hello", "missing", "other"];

    #[test]
    fn empty() {
        let builder = FilterBlockBuilder::new(policy(), FilterSpan::Offsets(11));
        let bytes = builder.finish();
        assert_eq!(bytes, [0, 0, 0, 0, 11]);
        let block = FilterBlock::parse(policy(), bytes).unwrap();
        assert!(block.may_match(0, b"foo") && block.may_match(100_000, b"foo"));
    }

    #[test]
    fn blocks_of_one_span_share_a_filter() {
        let blocks = [(100, &["foo", "bar", "box"][..]), (200, &["box"]), (300, &["hello"])];
        let block = build(FilterSpan::Offsets(11), &blocks);
        assert_eq!(matches(&block, 100, &KEYS), ["foo", "bar", "box", "hello"]);
    }

    #[test]
    fn spans_have_filters_of_their_own() {
        let blocks =
            [(0, &["foo"][..]), (2000, &["bar"]), (3100, &["box"]), (9000, &["box", "hello"])];
        let block = build(FilterSpan::Offsets(11), &blocks);
        assert_eq!(matches(&block, 0, &KEYS), ["foo", "bar"]);
        assert_eq!(matches(&block, 2000, &KEYS), ["foo", "bar"]);
        assert_eq!(matches(&block, 3100, &KEYS), ["box"]);
        assert_eq!(matches(&block, 4100, &KEYS), Vec::<&str>::new());
        assert_eq!(matches(&block, 9000, &KEYS), ["box", "hello"]);
        assert_eq!(matches(&block, 1 << 40, &KEYS), KEYS);
    }

    #[test]
    fn one_filter_covers_tables_of_any_size() {
        for far in [5000, (1 << 30) - 1, 1 << 30, 1 << 45] {
            let block = build(FilterSpan::Table, &[(0, &["foo"]), (far, &["bar"])]);
            assert_eq!(block.filters, 1);
            assert!(block.whole(far).is_some());
            assert_eq!(matches(&block, far, &KEYS), ["foo", "bar"]);
        }
    }

    #[test]
    fn nonsense_matches_or_is_no_filter() {
        assert!(FilterBlock::parse(policy(), vec![0; 4]).is_none());
        assert!(FilterBlock::parse(policy(), vec![9, 0, 0, 0, 11]).is_none());
        let parse = |bytes: &[u8]| FilterBlock::parse(policy(), bytes.to_vec()).unwrap();
        let backwards = [7, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 11];
        assert!(parse(&backwards[4..]).may_match(0, b"foo"));
        assert!(parse(&backwards).may_match(0, b"foo"));
        let shift = [0, 0, 0, 0, 0, 0, 0, 0, 200];
        assert!(parse(&shift).may_match(u64::MAX, b"foo"));
    }
}
