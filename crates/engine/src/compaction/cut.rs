//! When an output table ends: when it is large enough, or when it overlaps so much of the level
//! below its own that compacting it later would be dear; and where a table of that level ends, if it is nearly large
//! enough: then its own merge will have one table less to rewrite. Never between two entries of one user key (A5).

use crate::base::comparator::InternalOrder;
use crate::base::key::InternalKey;

/// A table may end at a border of the level below when it has so much of what it should have; more, for each border that
/// it has passed, up to a limit. RocksDB's figures, which spare an eighth of what is merged.
const NEARLY_PERCENT: u64 = 50;
const BORDER_PERCENT: u64 = 5;
const NEARLY_PERCENT_MAX: u64 = 90;

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
    /// How many tables of the level below end within the current one.
    passed: u64,
    overlapped: u64,
    seen_key: bool,
}

impl<'a> Cutter<'a> {
    pub(crate) fn new(rule: &'a CutRule, order: &'a InternalOrder) -> Self {
        Cutter { rule, order, next: 0, passed: 0, overlapped: 0, seen_key: false }
    }

    /// Called for the first entry of each user key: should the current table (of `bytes` so far)
    /// end before it?
    pub(crate) fn cuts_before(&mut self, key: &[u8], bytes: u64) -> bool {
        let before = self.next;
        while let Some((largest, size)) = self.rule.grandparents.get(self.next) {
            if self.order.compare(key, largest.as_bytes()).is_le() {
                break;
            }
            if self.seen_key {
                self.overlapped = self.overlapped.saturating_add(*size);
            }
            self.next += 1;
        }
        let is_border = self.seen_key && self.next > before;
        self.passed += u64::from(is_border);
        self.seen_key = true;
        let cut = bytes >= self.rule.table_bytes
            || self.overlapped > self.rule.grandparent_bytes
            || (is_border && bytes >= self.nearly_enough());
        if cut {
            self.overlapped = 0;
            self.passed = 0;
        }
        cut
    }

    /// The more borders there are, the nearer the last one before the end will be.
    fn nearly_enough(&self) -> u64 {
        let percent = (NEARLY_PERCENT + BORDER_PERCENT * self.passed).min(NEARLY_PERCENT_MAX);
        self.rule.table_bytes / 100 * percent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::testing::{key, order};

    /// The keys before which tables end, when each of these keys adds ten bytes.
    fn cuts(rule: &CutRule, keys: &str) -> String {
        let order = order();
        let mut cutter = Cutter::new(rule, &order);
        let mut bytes = 0;
        let mut cuts = String::new();
        for user in keys.chars() {
            if cutter.cuts_before(key(&user.to_string(), 9).as_bytes(), bytes) {
                cuts.push(user);
                bytes = 0;
            }
            bytes += 10;
        }
        cuts
    }

    fn grandparents(limit: u64, tables: &[(&str, u64)]) -> CutRule {
        let grandparents = tables.iter().map(|(largest, size)| (key(largest, 9), *size)).collect();
        CutRule { table_bytes: 1_000, grandparent_bytes: limit, grandparents }
    }

    #[test]
    fn tables_end_when_they_are_large_enough() {
        let rule = CutRule { table_bytes: 30, grandparent_bytes: 100, grandparents: Vec::new() };
        assert_eq!(cuts(&rule, "abcdefgh"), "dg");
        let rule = CutRule { table_bytes: 10, ..rule };
        assert_eq!(cuts(&rule, "abcd"), "bcd");
    }

    #[test]
    fn tables_end_when_they_overlap_too_much_below() {
        let tables = [("c", 40), ("f", 40), ("i", 40), ("l", 40)];
        assert_eq!(cuts(&grandparents(1_000, &tables), "abcdefghijklm"), "");
        assert_eq!(cuts(&grandparents(79, &tables), "abcdefghijklm"), "gm");
        assert_eq!(cuts(&grandparents(80, &tables), "abcdefghijklm"), "j");
        assert_eq!(cuts(&grandparents(0, &tables), "abcdefghijklm"), "dgjm");
    }

    #[test]
    fn tables_that_are_nearly_large_enough_end_where_others_end_below() {
        let ending = |ends: &str| {
            let ends = ends.chars().map(|end| (key(&end.to_string(), 9), 1)).collect();
            CutRule { table_bytes: 100, grandparent_bytes: 1_000, grandparents: ends }
        };
        // From "a" on, the eleventh key would end it.
        assert_eq!(cuts(&ending(""), "abcdefghijklm"), "k");
        assert_eq!(cuts(&ending("d"), "abcdefghijklm"), "k", "too small yet");
        assert_eq!(cuts(&ending("f"), "abcdefghijklm"), "g");
        assert_eq!(cuts(&ending("bdfhj"), "abcdefghijklm"), "i", "the last border that helps");
    }

    #[test]
    fn what_lies_before_the_first_key_does_not_count() {
        let tables = [("b", 90), ("d", 90), ("f", 10)];
        assert_eq!(cuts(&grandparents(50, &tables), "ezz"), "");
        assert_eq!(cuts(&grandparents(50, &tables), "cez"), "e");
    }

    #[test]
    fn hostile_sizes_do_not_overflow() {
        let tables = [("b", u64::MAX), ("c", u64::MAX), ("d", u64::MAX)];
        assert_eq!(cuts(&grandparents(u64::MAX, &tables), "aez"), "");
    }
}
