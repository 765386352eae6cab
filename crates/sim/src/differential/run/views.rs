//! Snapshots and iterators, which last from one operation to the next.

use super::judge::{Checked, Judge, place};
use super::{Cursor, Run};
use crate::differential::operation::{Handle, Movement, SLOTS, Update};
use crate::differential::reference::{Entry, Reference};

impl Run<'_> {
    pub(super) fn take_snapshot(&mut self, slot: usize) -> Checked {
        self.release_snapshot(slot)?;
        self.snapshots[slot] = Some((self.db().snapshot(), self.reference.open_view()));
        Ok(())
    }

    pub(super) fn release_snapshot(&mut self, slot: usize) -> Checked {
        if let Some((_, view)) = self.snapshots[slot].take() {
            self.reference.close_view(view);
        }
        Ok(())
    }

    pub(super) fn open_iterator(&mut self, slot: usize, at: Option<usize>) -> Checked {
        self.drop_iterator(slot)?;
        let (options, view) = self.reading(at);
        let iter = self.db().iter_with(&options)?;
        self.reference.share_view(view);
        self.cursors[slot] = Some(Cursor { iter, view, at: None });
        Ok(())
    }

    pub(super) fn drop_iterator(&mut self, slot: usize) -> Checked {
        if let Some(cursor) = self.cursors[slot].take() {
            self.reference.close_view(cursor.view);
        }
        Ok(())
    }

    pub(super) fn end_readers(&mut self) {
        for slot in 0..SLOTS {
            let _ = self.release_snapshot(slot);
            let _ = self.drop_iterator(slot);
        }
    }

    pub(super) fn move_iterator(&mut self, slot: usize, to: &Movement) -> Checked {
        if self.cursors[slot].is_none() {
            self.open_iterator(slot, None)?;
        }
        let cursor = self.cursors[slot].as_mut().expect("it was just opened");
        cursor.apply(to, &self.reference, &mut self.judge)
    }

    /// From the first entry if it stands nowhere.
    pub(super) fn write_under_iterator(&mut self, slot: usize, updates: &[Update]) -> Checked {
        for update in updates {
            let stands = self.cursors[slot].as_ref().is_some_and(|cursor| cursor.at.is_some());
            let to = if stands { Movement::Next(1) } else { Movement::First };
            self.move_iterator(slot, &to)?;
            self.write(std::slice::from_ref(update), false, Handle::Own)?;
        }
        Ok(())
    }
}

impl Cursor {
    fn apply(&mut self, to: &Movement, reference: &Reference, judge: &mut Judge) -> Checked {
        match to {
            Movement::Seek(key) => {
                self.iter.seek(&key.0)?;
                self.stand(reference.at_or_after(&key.0, self.view), judge)
            }
            Movement::First => {
                self.iter.seek_to_first()?;
                self.stand(reference.entries(self.view).next(), judge)
            }
            Movement::Last => {
                self.iter.seek_to_last()?;
                self.stand(reference.entries(self.view).next_back(), judge)
            }
            Movement::Next(steps) => self.walk(*steps, |_| true, reference, judge),
            Movement::Prev(steps) => self.walk(*steps, |_| false, reference, judge),
            Movement::Wander { turns, steps } => {
                self.walk(*steps, |step| turns >> step & 1 == 1, reference, judge)
            }
        }
    }

    /// Steps forth or back, until it falls off an end.
    fn walk(
        &mut self,
        steps: u32,
        forth: impl Fn(u32) -> bool,
        reference: &Reference,
        judge: &mut Judge,
    ) -> Checked {
        for step in 0..steps {
            let Some(at) = self.at.take() else { break };
            let expected = if forth(step) {
                self.iter.next()?;
                reference.after(&at, self.view)
            } else {
                self.iter.prev()?;
                reference.before(&at, self.view)
            };
            self.stand(expected, judge)?;
        }
        Ok(())
    }

    fn stand(&mut self, expected: Option<&Entry>, judge: &mut Judge) -> Checked {
        self.at = expected.map(|entry| entry.key.clone());
        judge.stands(place(&self.iter), expected)
    }
}
