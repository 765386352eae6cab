//! May this entry be dropped? Asked by the merge loop and by flushes for every entry, in key order.
//!
//! **Invariants.**
//! - An entry goes if a newer one of its user key is seen by every snapshot that sees it.
//! - A6: a deletion goes if, besides, every snapshot sees it and no table after the target in the
//!   search order, `SstLog` slots included, can hold its key.

use crate::base::comparator::UserOrder;
use crate::base::key::{ParsedKey, SeqNo, ValueKind};
use crate::version::Tables;

/// Decides over one ascending stream of entries.
pub(crate) struct Retention<'a> {
    order: &'a UserOrder,
    snapshots: &'a [SeqNo],
    below: Below<'a>,
    user: Vec<u8>,
    has_user: bool,
    /// The first snapshot that sees the last kept-or-dropped entry of the current user key.
    seen_by: usize,
}

/// What lies after the target in the search order.
enum Below<'a> {
    Unknown,
    Tables(Vec<Cursor<'a>>),
}

/// A position in one slot's tables that moves forward with the keys.
struct Cursor<'a> {
    tables: &'a Tables,
    sorted_from: Option<usize>,
}

/// What to do with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Keep it; it is the first entry of its user key.
    KeepFirst,
    /// Keep it; it is a further version of the same user key.
    KeepOlder,
    Drop,
}

impl<'a> Retention<'a> {
    /// `snapshots` ascend; the last is the sequence number at the job's start. `below` holds the
    /// tables after the target, slot by slot; in those in key order a cursor goes along.
    pub(crate) fn new(order: &'a UserOrder, snapshots: &'a [SeqNo], below: &'a [Tables]) -> Self {
        let cursor = |tables: &'a Tables| {
            let sorted = tables
                .windows(2)
                .all(|pair| order.compare(pair[0].largest.user(), pair[1].smallest.user()).is_le());
            Cursor { tables, sorted_from: sorted.then_some(0) }
        };
        Retention::over(order, snapshots, Below::Tables(below.iter().map(cursor).collect()))
    }

    /// As [`new`](Self::new), over anything: deletions stay.
    pub(crate) fn keeping_deletions(order: &'a UserOrder, snapshots: &'a [SeqNo]) -> Self {
        Retention::over(order, snapshots, Below::Unknown)
    }

    fn over(order: &'a UserOrder, snapshots: &'a [SeqNo], below: Below<'a>) -> Self {
        Retention {
            order,
            snapshots,
            below,
            user: Vec::new(),
            has_user: false,
            seen_by: usize::MAX,
        }
    }

    pub(crate) fn judge(&mut self, entry: &ParsedKey<'_>) -> Verdict {
        let first = !self.has_user || self.order.compare(&self.user, entry.user).is_ne();
        if first {
            self.user.clear();
            self.user.extend_from_slice(entry.user);
            self.has_user = true;
            self.seen_by = usize::MAX;
        }
        // The entry is visible to the snapshots from `stripe` on; the one before it in the stream,
        // which is newer, to those from `seen_by` on. Equal stripes: nobody sees this one. Entries
        // newer than the job's start stay: who will see them is not known yet.
        let stripe = self.stripe(entry.seqno);
        let shadowed = !first && stripe >= self.seen_by && stripe < self.snapshots.len();
        self.seen_by = self.seen_by.min(stripe);
        if shadowed {
            return Verdict::Drop;
        }
        if entry.kind == ValueKind::Deletion && stripe == 0 && !self.exists_below(entry.user) {
            return Verdict::Drop;
        }
        if first { Verdict::KeepFirst } else { Verdict::KeepOlder }
    }

    /// The first snapshot that sees `seqno`; past the last if it is newer than the job's start.
    #[inline]
    fn stripe(&self, seqno: SeqNo) -> usize {
        if self.snapshots.len() == 1 {
            return usize::from(seqno > self.snapshots[0]);
        }
        self.snapshots.partition_point(|snapshot| *snapshot < seqno)
    }

    fn exists_below(&mut self, user: &[u8]) -> bool {
        let order = self.order;
        match &mut self.below {
            Below::Unknown => true,
            Below::Tables(slots) => slots.iter_mut().any(|cursor| cursor.may_hold(order, user)),
        }
    }
}

impl Cursor<'_> {
    fn may_hold(&mut self, order: &UserOrder, user: &[u8]) -> bool {
        let Some(from) = &mut self.sorted_from else {
            return self.tables.iter().any(|table| {
                order.compare(table.smallest.user(), user).is_le()
                    && order.compare(table.largest.user(), user).is_ge()
            });
        };
        while let Some(table) = self.tables.get(*from) {
            if order.compare(table.largest.user(), user).is_ge() {
                return order.compare(table.smallest.user(), user).is_le();
            }
            *from += 1;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::version::testing::{order, table};

    /// What is kept of entries such as `k9` or, for a deletion, `k9-`: `K` the first of its key,
    /// `o` an older one, `.` nothing.
    fn judged(entries: &str, snapshots: &[u64], below: &[Tables]) -> String {
        let user_order = order().user;
        let snapshots: Vec<SeqNo> = snapshots.iter().copied().map(SeqNo).collect();
        let mut retention = Retention::new(&user_order, &snapshots, below);
        let verdicts = entries.split(' ').map(|text| {
            let kind = if text.ends_with('-') { ValueKind::Deletion } else { ValueKind::Value };
            let (user, seqno) = text.trim_end_matches('-').split_at(1);
            let seqno = SeqNo(seqno.parse().unwrap());
            match retention.judge(&ParsedKey { user: user.as_bytes(), seqno, kind }) {
                Verdict::KeepFirst => 'K',
                Verdict::KeepOlder => 'o',
                Verdict::Drop => '.',
            }
        });
        verdicts.collect()
    }

    fn below(tables: &[(&str, &str)]) -> Vec<Tables> {
        let tables = tables.iter().zip(1..).map(|((from, to), number)| table(number, from, to));
        vec![Arc::new(tables.collect())]
    }

    #[test]
    fn only_the_newest_is_kept_without_snapshots() {
        assert_eq!(judged("a9 a8 a7 b6 c5 c4", &[20], &[]), "K..KK.");
        assert_eq!(judged("a9", &[9], &[]), "K");
    }

    #[test]
    fn each_snapshot_keeps_what_it_sees() {
        assert_eq!(judged("a9 a8 a7 a5 a3 a2", &[3, 7, 20], &[]), "K.o.o.");
        assert_eq!(judged("a9 a8 a7 a5 a3 a2", &[1, 20], &[]), "K.....");
        assert_eq!(judged("a9 a8 a7", &[7, 8, 9], &[]), "Koo");
        assert_eq!(judged("a9 a8 a7", &[8, 9], &[]), "Ko.");
        assert_eq!(judged("a9 b8 b2", &[5, 20], &[]), "KKo");
    }

    #[test]
    fn a_deletion_goes_when_nothing_lies_below_and_all_see_it() {
        assert_eq!(judged("a9- a8 b7", &[20], &[]), "..K");
        assert_eq!(judged("a9- a8 b7", &[8, 20], &[]), "KoK");
        assert_eq!(judged("a9- a8 a7-", &[8, 20], &[]), "Ko.");
        assert_eq!(judged("a9- a7- a6", &[8, 20], &[]), "K..", "what lies below 7 is not there");
        assert_eq!(judged("a9-", &[9], &[]), ".");
    }

    #[test]
    fn a_deletion_stays_over_tables_that_may_hold_its_key() {
        let deletions = "a9- c9- e9- g9- i9- k9-";
        assert_eq!(judged(deletions, &[20], &below(&[("b", "c"), ("e", "f")])), ".KK...");
        assert_eq!(judged(deletions, &[20], &below(&[("b", "h")])), ".KKK..");
        assert_eq!(judged(deletions, &[20], &below(&[("c", "e"), ("e", "g")])), ".KKK..");
        let overlapping = below(&[("e", "g"), ("a", "k"), ("c", "c")]);
        assert_eq!(judged(deletions, &[20], &overlapping), "KKKKKK");
        let newest_first = below(&[("i", "k"), ("a", "a")]);
        assert_eq!(judged(deletions, &[20], &newest_first), "K...KK");
        let two = [below(&[("a", "a")]), below(&[("k", "k")])].concat();
        assert_eq!(judged(deletions, &[20], &two), "K....K");
        assert_eq!(judged("a9- a8", &[20], &below(&[("a", "a")])), "K.");
    }

    #[test]
    fn over_anything_deletions_stay() {
        let (order, snapshots) = (order().user, [SeqNo(20)]);
        let mut retention = Retention::keeping_deletions(&order, &snapshots);
        let mut judge = |user: &[u8], seqno, kind| {
            retention.judge(&ParsedKey { user, seqno: SeqNo(seqno), kind })
        };
        assert_eq!(judge(b"a", 9, ValueKind::Deletion), Verdict::KeepFirst);
        assert_eq!(judge(b"a", 8, ValueKind::Deletion), Verdict::Drop);
        assert_eq!(judge(b"b", 7, ValueKind::Value), Verdict::KeepFirst);
    }

    /// Not among any job's inputs today; a snapshot between two of them may be taken meanwhile.
    #[test]
    fn entries_newer_than_the_start_stay() {
        assert_eq!(judged("a9 a8- a7 a6", &[7], &[]), "Koo.");
        assert_eq!(judged("a9 a8 a7 a6 a5", &[5, 7], &[]), "Koo.o");
    }
}
