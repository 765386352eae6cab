//! Is a history linearizable? Could every operation have been done at one moment between its call and
//! its answer, in an order in which every read finds what was written last?
//!
//! Searches as Wing and Gong do (JPDC 1993), with Lowe's memory of what was tried (2017): a point of
//! the search is how many operations of each thread have been done, which of the failed ones, and
//! the values that follow. Shortcuts keep it near linear, and miss nothing:
//!
//! - A read that fits is done as soon as it may be: it changes nothing for the others.
//! - A failed write that no read can have seen is taken for not done: what is right with it is right
//!   without it.
//! - Any other is done as late as possible: before a read that sees it or, if it has several keys,
//!   before a write to one of them.

use std::collections::HashSet;

use super::history::{Action, KEYS, Op, Value};

const THREADS_MAX: usize = 9;

/// A point of the search.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Point {
    /// Operations done of each thread.
    done: [u16; THREADS_MAX],
    /// Failed writes that turned out to be done; one bit each.
    revived: u64,
    values: [Value; KEYS],
}

struct Search<'a> {
    /// By thread, in order; only what was answered.
    threads: Vec<Vec<&'a Op>>,
    /// Failed writes that may matter.
    failed: Vec<&'a Op>,
}

/// True if there is such an order for the operations of one group, beginning without any values.
pub(super) fn linearizable(ops: &[Op]) -> bool {
    let search = Search::new(ops);
    let start = Point { done: [0; THREADS_MAX], revived: 0, values: [0; KEYS] };
    let mut seen = HashSet::new();
    let mut open = vec![search.settle(start)];
    while let Some(point) = open.pop() {
        if search.is_over(&point) {
            return true;
        }
        if seen.insert(point) {
            search.steps(&point, |next| open.push(search.settle(next)));
        }
    }
    false
}

impl<'a> Search<'a> {
    fn new(ops: &'a [Op]) -> Self {
        let mut search = Search { threads: vec![Vec::new(); THREADS_MAX], failed: Vec::new() };
        let read: HashSet<Value> = ops.iter().flat_map(values_read).collect();
        for op in ops {
            match op.answered {
                Some(_) => search.threads[op.thread].push(op),
                None if may_matter(op, &read) => search.failed.push(op),
                None => {}
            }
        }
        assert!(search.failed.len() <= 64, "more failed writes in a group than bits");
        search.threads.iter_mut().for_each(|ops| ops.sort_by_key(|op| op.call));
        search
    }

    fn next(&self, point: &Point, thread: usize) -> Option<&'a Op> {
        self.threads[thread].get(point.done[thread] as usize).copied()
    }

    fn is_over(&self, point: &Point) -> bool {
        (0..THREADS_MAX).all(|thread| self.next(point, thread).is_none())
    }

    /// The first answer that is still to be given: what was called after it must wait.
    fn horizon(&self, point: &Point) -> u64 {
        let next = (0..THREADS_MAX).filter_map(|thread| self.next(point, thread));
        next.filter_map(|op| op.answered).min().unwrap_or(u64::MAX)
    }

    /// Does all reads that fit.
    fn settle(&self, mut point: Point) -> Point {
        loop {
            let horizon = self.horizon(&point);
            let fits = |op: &Op| op.call < horizon && reads_fit(&op.action, &point.values);
            let thread =
                (0..THREADS_MAX).find(|thread| self.next(&point, *thread).is_some_and(fits));
            let Some(thread) = thread else { return point };
            point.done[thread] += 1;
        }
    }

    /// Every write that may come next.
    fn steps(&self, point: &Point, mut step: impl FnMut(Point)) {
        let horizon = self.horizon(point);
        for (at, op) in self.failed.iter().enumerate() {
            let is_left = op.call < horizon && point.revived & (1 << at) == 0;
            if is_left && self.may_be_seen(point, op, horizon) {
                let revived = point.revived | 1 << at;
                step(Point { revived, values: after(op, point.values), ..*point });
            }
        }
        for thread in 0..THREADS_MAX {
            let Some(op) = self.next(point, thread) else { continue };
            if op.call < horizon && matches!(op.action, Action::Write(_)) {
                let mut next = Point { values: after(op, point.values), ..*point };
                next.done[thread] += 1;
                step(next);
            }
        }
    }

    /// Whether some operation that may come next is a reason to do a failed write before it.
    fn may_be_seen(&self, point: &Point, failed: &Op, horizon: u64) -> bool {
        let written = failed.updates();
        let next = (0..THREADS_MAX).filter_map(|thread| self.next(point, thread));
        next.filter(|op| op.call < horizon).any(|op| match &op.action {
            Action::Read(found) => found.iter().any(|pair| written.contains(pair)),
            Action::Write(others) => {
                written.len() > 1
                    && others.iter().any(|(key, _)| written.iter().any(|w| w.0 == *key))
            }
        })
    }
}

fn values_read(op: &Op) -> Vec<Value> {
    match &op.action {
        Action::Read(found) => found.iter().map(|(_, value)| *value).collect(),
        Action::Write(_) => Vec::new(),
    }
}

fn may_matter(op: &Op, read: &HashSet<Value>) -> bool {
    op.updates().iter().any(|(_, value)| *value == 0 || read.contains(value))
}

fn reads_fit(action: &Action, values: &[Value; KEYS]) -> bool {
    match action {
        Action::Read(found) => found.iter().all(|(key, value)| values[*key] == *value),
        Action::Write(_) => false,
    }
}

fn after(op: &Op, mut values: [Value; KEYS]) -> [Value; KEYS] {
    op.updates().iter().for_each(|(key, value)| values[*key] = *value);
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(thread: usize, time: (u64, u64), written: &[(usize, Value)]) -> Op {
        let action = Action::Write(written.to_vec());
        Op { thread, call: time.0, answered: Some(time.1), action }
    }

    fn failed(thread: usize, call: u64, written: &[(usize, Value)]) -> Op {
        Op { answered: None, ..write(thread, (call, call), written) }
    }

    fn read(thread: usize, time: (u64, u64), found: &[(usize, Value)]) -> Op {
        Op { action: Action::Read(found.to_vec()), ..write(thread, time, &[]) }
    }

    #[test]
    fn overlapping_operations_may_be_in_either_order() {
        let mut ops = vec![write(0, (0, 10), &[(0, 1)]), write(1, (1, 9), &[(0, 2)])];
        ops.push(read(2, (2, 3), &[(0, 2)]));
        ops.push(read(2, (4, 5), &[(0, 1)]));
        assert!(linearizable(&ops));
        ops.push(read(2, (6, 7), &[(0, 2)]));
        assert!(!linearizable(&ops), "2 was overwritten by 1");
    }

    #[test]
    fn a_stale_read_is_caught() {
        let ops =
            [write(0, (0, 1), &[(0, 1)]), write(0, (2, 3), &[(0, 2)]), read(1, (4, 5), &[(0, 1)])];
        assert!(!linearizable(&ops));
        assert!(linearizable(&[ops[0].clone(), ops[1].clone(), read(1, (2, 5), &[(0, 1)])]));
    }

    #[test]
    fn a_lost_write_is_caught() {
        assert!(!linearizable(&[write(0, (0, 1), &[(1, 7)]), read(1, (2, 3), &[(1, 0)])]));
    }

    #[test]
    fn a_torn_batch_is_caught() {
        let batch = write(0, (0, 9), &[(0, 1), (1, 2)]);
        assert!(linearizable(&[batch.clone(), read(1, (3, 4), &[(0, 0), (1, 0)])]));
        assert!(linearizable(&[batch.clone(), read(1, (3, 4), &[(0, 1), (1, 2)])]));
        assert!(!linearizable(&[batch, read(1, (3, 4), &[(0, 1), (1, 0)])]));
    }

    #[test]
    fn readers_may_not_disagree_on_the_order() {
        let writes = [write(0, (0, 10), &[(0, 1)]), write(1, (0, 10), &[(1, 1)])];
        let one = read(2, (1, 9), &[(0, 1), (1, 0)]);
        let other = read(3, (1, 9), &[(0, 0), (1, 1)]);
        assert!(!linearizable(&[&writes[..], &[one, other]].concat()));
    }

    #[test]
    fn a_failed_write_is_done_later_or_never_but_not_undone() {
        let unknown = failed(0, 0, &[(0, 5)]);
        let late = |values: &[Value]| {
            let reads = values.iter().enumerate().map(|(at, value)| {
                let at = 10 * (at as u64 + 1);
                read(1, (at, at + 1), &[(0, *value)])
            });
            let mut ops = vec![unknown.clone()];
            ops.extend(reads);
            linearizable(&ops)
        };
        assert!(late(&[0, 0, 5, 5]) && late(&[0, 0]) && late(&[5]));
        assert!(!late(&[5, 0]));
        let deletion = failed(0, 4, &[(0, 0)]);
        let put = write(0, (0, 1), &[(0, 3)]);
        let gone = read(1, (6, 7), &[(0, 0)]);
        assert!(linearizable(&[put.clone(), deletion, gone.clone()]));
        assert!(!linearizable(&[put, gone]));
    }
}
