//! The orders of keys under test, and a filter that fits the strangest of them.

use std::cmp::Ordering;
use std::sync::Arc;

use siltstone::{Comparator, FilterPolicy};

/// How a database orders its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Order {
    /// LevelDB's default.
    Bytewise,
    /// Backwards, with a comparator that shortens keys as much as it may.
    Reverse,
    /// ASCII letters without regard to case: different bytes may be the same key.
    Folded,
}

impl Order {
    pub fn compare(self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            Order::Bytewise => a.cmp(b),
            Order::Reverse => b.cmp(a),
            Order::Folded => folded(a).cmp(folded(b)),
        }
    }

    pub fn comparator(self) -> Option<Arc<dyn Comparator>> {
        match self {
            Order::Bytewise => None,
            Order::Reverse => Some(Arc::new(ReverseComparator)),
            Order::Folded => Some(Arc::new(FoldedComparator)),
        }
    }
}

fn folded(key: &[u8]) -> impl Iterator<Item = u8> {
    key.iter().map(u8::to_ascii_lowercase)
}

struct ReverseComparator;

impl Comparator for ReverseComparator {
    fn name(&self) -> &str {
        "model.reverse"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        Order::Reverse.compare(a, b)
    }

    fn shortest_separator(&self, start: &mut Vec<u8>, limit: &[u8]) {
        // A prefix comes after what it begins, and before `limit` while it holds the greater byte.
        let common = start.iter().zip(limit).take_while(|(a, b)| a == b).count();
        if common < start.len() && common < limit.len() {
            start.truncate(common + 1);
        }
    }

    fn short_successor(&self, key: &mut Vec<u8>) {
        key.clear(); // The last key of all.
    }
}

struct FoldedComparator;

impl Comparator for FoldedComparator {
    fn name(&self) -> &str {
        "model.folded"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        Order::Folded.compare(a, b)
    }
}

/// Two bytes of hash for each key, alike for all spellings of a key.
pub struct FoldedFilter;

impl FoldedFilter {
    fn mark(key: &[u8]) -> [u8; 2] {
        let start = 0x811c_9dc5_u32;
        let hash = folded(key)
            .fold(start, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        [(hash >> 8) as u8, (hash >> 20) as u8]
    }
}

impl FilterPolicy for FoldedFilter {
    fn name(&self) -> &str {
        "model.folded-filter"
    }

    fn create_filter(&self, keys: &[&[u8]], out: &mut Vec<u8>) {
        for key in keys {
            out.extend_from_slice(&FoldedFilter::mark(key));
        }
    }

    fn may_match(&self, key: &[u8], filter: &[u8]) -> bool {
        let mark = FoldedFilter::mark(key);
        !filter.len().is_multiple_of(2) || filter.chunks_exact(2).any(|other| other == mark)
    }
}
