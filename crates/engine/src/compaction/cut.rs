//! When an output table ends: when it is large enough, or when it overlaps so much of the level
//! below its own that compacting it later would be dear. Never between two entries of one user key
//! (A5).

use crate::base::comparator::InternalOrder;
use crate::base::key::InternalKey;

/// A job's rule; plain data, so that it can travel.
#[derive(Clone, Debug, Default)]
pub(crate) struct CutRule {
    pub(crate) table_bytes: u64,
    pub(crate) grandparent_bytes: u64,
    /// Largest key and size of each table one level below the target that meets the hull, by key.
    pub(crate) grandparents: Vec<(InternalKey, u64)>,
}

/// The rule at work on one stream of ascending keys.
pub(crate) struct Cutter<'a> {
    rule: &'a CutRule,
    order: &'a InternalOrder,
    next: usize,
    overlapped: u64,
    seen_key: bool,
}

impl<'a> Cutter<'a> {
    pub(crate) fn new(rule: &'a CutRule, order: &'a InternalOrder) -> Self {
        Cutter { rule, order, next: 0, overlapped: 0, seen_key: false }
    }

    /// Called for the first entry of each user key: should the current table (of `bytes` so far)
    /// end before it?
    pub(crate) fn cuts_before(&mut self, key: &[u8], bytes: u64) -> bool {
        while let Some((largest, size)) = self.rule.grandparents.get(self.next) {
            if self.order.compare(key, largest.as_bytes()).is_le() {
                break;
            }
            if self.seen_key {
                self.overlapped = self.overlapped.saturating_add(*size);
            }
            self.next += 1;
        }
        self.seen_key = true;
        let cut = bytes >= self.rule.table_bytes || self.overlapped > self.rule.grandparent_bytes;
        if cut {
            self.overlapped = 0;
        }
        cut
    }
}
