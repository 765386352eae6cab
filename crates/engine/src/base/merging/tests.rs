//! The merge against a sorted list, through random turns.

use super::*;
use crate::base::comparator::UserOrder;
use crate::base::error::{Error, ErrorKind};
use crate::base::key::{InternalKey, SeqNo, ValueKind};
use proptest::prelude::*;

type Pair = (Vec<u8>, Vec<u8>);

/// Sorted pairs. Counts the times its keys are asked for, and fails a move on demand.
struct VecIter {
    order: InternalOrder,
    pairs: Vec<Pair>,
    at: Option<usize>,
    fails_at: Option<usize>,
    looks: std::cell::Cell<usize>,
}

impl VecIter {
    fn new(order: &InternalOrder, mut pairs: Vec<Pair>) -> Self {
        pairs.sort_by(|a, b| order.compare(&a.0, &b.0));
        pairs.dedup_by(|a, b| a.0 == b.0);
        let looks = std::cell::Cell::new(0);
        VecIter { order: order.clone(), pairs, at: None, fails_at: None, looks }
    }

    fn go(&mut self, at: Option<usize>) -> Result<()> {
        self.at = at.filter(|&at| at < self.pairs.len());
        if self.at.is_some() && self.at == self.fails_at {
            self.at = None;
            return Err(Error::corruption("on purpose"));
        }
        Ok(())
    }
}

impl InternalIterator for VecIter {
    fn valid(&self) -> bool {
        self.at.is_some()
    }
    fn seek_to_first(&mut self) -> Result<()> {
        self.go(Some(0))
    }
    fn seek_to_last(&mut self) -> Result<()> {
        self.go(self.pairs.len().checked_sub(1))
    }
    fn seek(&mut self, target: &[u8]) -> Result<()> {
        let at = self.pairs.partition_point(|(key, _)| self.order.compare(key, target).is_lt());
        self.go(Some(at))
    }
    fn next(&mut self) -> Result<()> {
        self.go(Some(self.at.unwrap() + 1))
    }
    fn prev(&mut self) -> Result<()> {
        self.go(self.at.unwrap().checked_sub(1))
    }
    fn key(&self) -> &[u8] {
        self.looks.set(self.looks.get() + 1);
        &self.pairs[self.at.unwrap()].0
    }
    fn value(&self) -> &[u8] {
        &self.pairs[self.at.unwrap()].1
    }
    /// Not known at every third, as at the beginning of what is unfolded at a time.
    fn key_before(&self) -> Option<&[u8]> {
        let at = self.at.filter(|at| at % 3 != 0)?;
        Some(&self.pairs[at - 1].0)
    }
}

/// The bytewise order backwards.
struct Reverse;

impl crate::base::comparator::Comparator for Reverse {
    fn name(&self) -> &str {
        "test.reverse"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }
}

fn bytewise() -> InternalOrder {
    InternalOrder::new(UserOrder::Bytewise)
}

fn key(user: &[u8], seqno: u64) -> Vec<u8> {
    InternalKey::new(user, SeqNo(seqno), ValueKind::Value).into_bytes()
}

fn pairs(users: &[&str]) -> Vec<Pair> {
    users.iter().map(|user| (key(user.as_bytes(), 1), user.as_bytes().to_vec())).collect()
}

fn merge(children: &[&[&str]]) -> MergingIter<VecIter> {
    let order = bytewise();
    let children = children.iter().map(|users| VecIter::new(&order, pairs(users))).collect();
    MergingIter::new(order, children)
}

fn current(iter: &impl InternalIterator) -> Option<&str> {
    iter.valid().then(|| std::str::from_utf8(iter.value()).unwrap())
}

#[test]
fn no_children_and_empty_children() {
    for children in [&[][..], &[&[][..], &[]]] {
        let mut iter = merge(children);
        assert!(!iter.valid());
        iter.seek_to_first().unwrap();
        assert!(!iter.valid());
        iter.seek_to_last().unwrap();
        assert!(!iter.valid());
        iter.seek(&key(b"a", 1)).unwrap();
        assert!(!iter.valid());
    }
}

#[test]
fn turning_at_either_end_keeps_every_entry() {
    let mut iter = merge(&[&["b", "d"], &["a", "c"], &[]]);
    iter.seek_to_first().unwrap();
    for expected in ["b", "c", "d"] {
        iter.next().unwrap();
        assert_eq!(current(&iter), Some(expected));
    }
    // The child of `c` has run out; going back must wake it.
    for expected in ["c", "b", "a"] {
        iter.prev().unwrap();
        assert_eq!(current(&iter), Some(expected));
    }
    iter.next().unwrap();
    assert_eq!(current(&iter), Some("b"));
}

#[test]
fn runs_of_one_child_cost_one_comparison_a_step() {
    let users: Vec<String> = (0..1000).map(|n| format!("common prefix {n:04}")).collect();
    let users: Vec<&str> = users.iter().map(String::as_str).collect();
    let mut iter = merge(&[&["d1"], &["d2"], &users, &["d3"], &["d4"]]);
    iter.seek_to_first().unwrap();
    let before: Vec<usize> = iter.children.iter().map(|child| child.looks.get()).collect();
    for _ in 0..999 {
        iter.next().unwrap();
    }
    assert_eq!(current(&iter), Some("common prefix 0999"));
    let looks = |child: usize| iter.children[child].looks.get() - before[child];
    // Other children are never asked, and their own child only for the integer.
    assert_eq!((looks(0), looks(1), looks(2), looks(3), looks(4)), (0, 0, 999, 0, 0));
}

#[test]
fn errors_pass_through_and_a_seek_recovers() {
    let mut iter = merge(&[&["a", "c", "e"], &["b", "d", "f"]]);
    iter.children[1].fails_at = Some(1);
    iter.seek_to_first().unwrap();
    iter.next().unwrap();
    assert_eq!(current(&iter), Some("b"));
    assert_eq!(iter.next().unwrap_err().kind(), ErrorKind::Corruption);
    assert!(!iter.valid());
    assert!(iter.seek(&key(b"c", 1)).is_err());
    assert!(!iter.valid());
    iter.seek_to_last().unwrap();
    assert_eq!(current(&iter), Some("f"));
    assert!(iter.prev().is_err());
    assert!(!iter.valid());
    iter.seek(&key(b"e", 1)).unwrap();
    assert!(iter.prev().is_err(), "the turn meets the failing entry");
    assert!(!iter.valid());
}

#[derive(Clone, Debug)]
enum Step {
    First,
    Last,
    Seek(Vec<u8>),
    Next(usize),
    Prev(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        1 => Just(Step::First),
        1 => Just(Step::Last),
        2 => internal_key().prop_map(Step::Seek),
        6 => (1_usize..5).prop_map(Step::Next),
        6 => (1_usize..5).prop_map(Step::Prev),
    ];
    proptest::collection::vec(step, 1..60)
}

/// Few keys, so that children share some; long and short ones, with zeros.
fn internal_key() -> impl Strategy<Value = Vec<u8>> {
    let user = prop_oneof![
        proptest::collection::vec(prop_oneof![Just(0), Just(b'a'), Just(0xff)], 0..4),
        (0_u8..20).prop_map(|n| format!("a long prefix {n:02}").into_bytes()),
    ];
    (user, 1_u64..4).prop_map(|(user, seqno)| key(&user, seqno))
}

fn check(order: &InternalOrder, children: Vec<Vec<Vec<u8>>>, steps: Vec<Step>) {
    let mut model = Vec::new();
    let children: Vec<_> = children
        .into_iter()
        .enumerate()
        .map(|(child, keys)| {
            let pairs = keys.into_iter().map(|key| (key, vec![child as u8])).collect();
            let iter = VecIter::new(order, pairs);
            model.extend(iter.pairs.iter().cloned());
            iter
        })
        .collect();
    model.sort_by(|a, b| order.compare(&a.0, &b.0)); // Stable: ties stay by child.
    let mut iter = MergingIter::new(order.clone(), children);
    let mut at: Option<usize> = None;
    let compare = |iter: &MergingIter<VecIter>, at: &mut Option<usize>| {
        *at = at.filter(|&at| at < model.len());
        let found = iter.valid().then(|| (iter.key().to_vec(), iter.value().to_vec()));
        assert_eq!(found, at.map(|at| model[at].clone()));
        let head = found.map(|(key, _)| KeyHead::of(&key, order.is_bytewise()));
        assert_eq!(iter.head(), head);
    };
    let is_last = |at: usize| {
        at.checked_sub(1).is_none_or(|before| user_key(&model[before].0) != user_key(&model[at].0))
    };
    for step in steps {
        match step {
            Step::First => {
                iter.seek_to_first().unwrap();
                at = Some(0);
            }
            Step::Last => {
                iter.seek_to_last().unwrap();
                at = model.len().checked_sub(1);
            }
            Step::Seek(target) => {
                iter.seek(&target).unwrap();
                at = Some(model.partition_point(|(key, _)| order.compare(key, &target).is_lt()));
            }
            Step::Next(count) => {
                for _ in 0..count {
                    if iter.valid() {
                        iter.next().unwrap();
                        at = at.map(|at| at + 1);
                    }
                    compare(&iter, &mut at);
                }
            }
            Step::Prev(count) => {
                for _ in 0..count {
                    if iter.valid() {
                        iter.prev().unwrap();
                        at = at.and_then(|at| at.checked_sub(1));
                        if let Some(at) = at.filter(|_| count % 2 == 0) {
                            assert!(is_last(at) || !iter.is_last_by_heads());
                            assert!(is_last(at) || !iter.is_last_of_its_user_key());
                        }
                    }
                    compare(&iter, &mut at);
                }
            }
        }
        compare(&iter, &mut at);
    }
}

proptest! {
    #[test]
    fn is_the_sorted_union(
        children in proptest::collection::vec(
            proptest::collection::vec(internal_key(), 0..20), 0..7),
        steps in steps(),
    ) {
        check(&bytewise(), children.clone(), steps.clone());
        let reverse = InternalOrder::new(UserOrder::Custom(std::sync::Arc::new(Reverse)));
        check(&reverse, children, steps);
    }
}
