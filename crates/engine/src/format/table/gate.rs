//! What an open table says to a get before anything else of it is looked at: whether it may have a key at all. Most tables
//! that lie over a key do not have it, and most of what a get costs there is to wait for memory. So all this is in one
//! line of the processor's cache, but for the filter's bits.

use std::sync::Arc;

use crate::format::table::filter::{BloomFilter, Filter, FilterKey, FilterPolicy, Kind};
use crate::format::table::filter_block::FilterBlock;

#[repr(align(64))]
pub(crate) struct Gate {
    filter: GateFilter,
}

enum GateFilter {
    Missing,
    /// Of all keys.
    Bloom {
        array: Box<[u8]>,
        probes: u8,
    },
    /// The same, of the wide kind.
    WideBloom {
        array: Box<[u8]>,
        probes: u8,
    },
    /// Of all keys, by a user's policy.
    Custom(Arc<dyn FilterPolicy>, Box<[u8]>),
    /// LevelDB's way: several, and which one to ask the index tells.
    Spans(Box<FilterBlock>),
}

impl Gate {
    /// Of a table with so many bytes of data.
    pub(crate) fn new(filter: Option<FilterBlock>, data_bytes: u64) -> Self {
        let filter = filter.map_or(GateFilter::Missing, |block| GateFilter::of(block, data_bytes));
        Gate { filter }
    }

    #[inline]
    pub(crate) fn has_filter(&self) -> bool {
        !matches!(self.filter, GateFilter::Missing)
    }

    /// False only if no entry of the table has this user key. A table without a filter of all keys may have any.
    #[inline]
    pub(crate) fn may_have(&self, key: &FilterKey<'_>) -> bool {
        match &self.filter {
            GateFilter::Missing | GateFilter::Spans(_) => true,
            GateFilter::Bloom { array, probes } => {
                BloomFilter::may_match_bits(key.hash(), *probes, array)
            }
            GateFilter::WideBloom { array, probes } => {
                BloomFilter::may_match_wide_bits(key.wide_hash(), *probes, array)
            }
            GateFilter::Custom(policy, filter) => {
                !filter.is_empty() && policy.may_match(key.user, filter)
            }
        }
    }

    /// Whether [`may_have_at`](Self::may_have_at) tells more.
    #[inline]
    pub(crate) fn is_of_spans(&self) -> bool {
        matches!(self.filter, GateFilter::Spans(_))
    }

    /// The same of the data block that starts at `offset`, for a key that passed.
    #[inline]
    pub(crate) fn may_have_at(&self, offset: u64, user: &[u8]) -> bool {
        match &self.filter {
            GateFilter::Spans(block) => block.may_match(offset, user),
            _ => true,
        }
    }

    /// What the filter takes.
    pub(crate) fn memory(&self) -> usize {
        match &self.filter {
            GateFilter::Missing => 0,
            GateFilter::Bloom { array: filter, .. }
            | GateFilter::WideBloom { array: filter, .. }
            | GateFilter::Custom(_, filter) => filter.len(),
            GateFilter::Spans(block) => block.memory(),
        }
    }
}

impl GateFilter {
    fn of(block: FilterBlock, data_bytes: u64) -> Self {
        let Some(filter) = block.whole(data_bytes) else {
            return GateFilter::Spans(Box::new(block));
        };
        match block.policy() {
            Filter::Custom(policy) => GateFilter::Custom(Arc::clone(policy), filter.into()),
            Filter::Bloom(bloom) => {
                let (probes, array) =
                    filter.split_last().map_or((0, &[][..]), |(last, rest)| (*last, rest));
                let array = array.into();
                match bloom.kind() {
                    Kind::LevelDb => GateFilter::Bloom { array, probes },
                    Kind::Wide => GateFilter::WideBloom { array, probes },
                }
            }
        }
    }
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate").field("memory", &self.memory()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::table::filter_block::{FilterBlockBuilder, FilterSpan};

    fn gate(bloom: BloomFilter, span: FilterSpan, keys: &[&str], data_bytes: u64) -> Gate {
        let policy = Filter::from(bloom);
        let mut builder = FilterBlockBuilder::new(policy.clone(), span);
        builder.start_block(0);
        keys.iter().for_each(|key| builder.add_key(key.as_bytes()));
        Gate::new(FilterBlock::parse(policy, builder.finish()), data_bytes)
    }

    fn has(gate: &Gate, key: &str) -> bool {
        let filter_key = FilterKey::new(key.as_bytes());
        gate.may_have(&filter_key) && gate.may_have_at(0, key.as_bytes())
    }

    #[test]
    fn says_what_the_filter_says() {
        let keys = ["foo", "bar", "box"];
        for span in [FilterSpan::Table, FilterSpan::Offsets(11)] {
            for bloom in [BloomFilter::new(10), BloomFilter::wide(10)] {
                let gate = gate(bloom, span, &keys, 1 << 20);
                assert!(keys.iter().all(|key| has(&gate, key)));
                assert!(!has(&gate, "hello") && !has(&gate, "missing"));
                assert!(gate.has_filter() && gate.memory() > 0);
            }
        }
        let none = Gate::new(None, 1 << 20);
        assert!(has(&none, "hello") && !none.has_filter() && none.memory() == 0);
    }
}
