//! What a scan takes in one stride: entries of one block, parsed in one go, of which it is known that all are answers. A
//! step from one to the next is an index that goes up or down; no source is asked, and no key is rebuilt.
//!
//! Only plain entries are gathered, those that a few fixed copies take apart: with lengths as keys and values mostly have
//! them. Who meets another one goes over it by itself.
//!
//! **Invariants.**
//! - I1: the entries follow each other, each a value that the scan sees, the newest one of its user key.
//! - I2: no other source of the scan has a key between the first and the last, or one of theirs.

mod slot;

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

use crate::base::key::{SeqNo, leading_words};
use crate::base::prefetch::Stream;
use crate::base::sync::thread_local;
use crate::format::table::block::Block;
use crate::format::table::cache::CachedBlock;
use crate::format::table::key_buf::KeyBuf;
use crate::format::table::stride::slot::{Beginning, KEY_BYTES, Slot};

/// Going back, all from a restart point on is parsed, or nothing if that is more.
const BACKWARD_ENTRIES_MAX: usize = 128;
/// So many bytes it goes back for an entry that is asked for, at least.
const USUAL_BYTES_MIN: usize = 32;

thread_local! {
    /// Of a stride that is gone, for one to come: scans are short, and to clear memory takes as long as to fill it.
    static SPARE: Cell<Vec<Slot>> = const { Cell::new(Vec::new()) };
}

/// What a scan takes without looking at it, in the bytewise order.
pub(crate) struct Answers {
    /// What the scan sees.
    pub(crate) seqno: SeqNo,
    /// The leading words of the nearest key that another source has.
    pub(crate) others: Option<u128>,
    /// How many: at the most, going forward; backward, it goes back as far as so many may reach.
    pub(crate) entries: usize,
}

/// On one of its entries, unless it has none.
#[derive(Default)]
pub(crate) struct Stride {
    /// Of whose entries these are.
    block: Option<Arc<CachedBlock>>,
    /// The first one lies before the entries.
    slots: Vec<Slot>,
    /// Where in `slots` it stands; 0 if there are no entries.
    at: usize,
    /// Behind the last entry.
    end: usize,
    /// What is brought near meanwhile.
    pub(super) coming: Stream,
}

impl Stride {
    /// To the next entry; false, and nothing else, if it stands on the last.
    #[inline(always)]
    pub(crate) fn step(&mut self) -> bool {
        let steps = self.at + 1 < self.end;
        self.coming.go_on();
        self.at += usize::from(steps);
        steps
    }

    /// To the entry before; false, and nothing else, if it stands on the first.
    #[inline(always)]
    pub(crate) fn step_back(&mut self) -> bool {
        let steps = self.at > 1;
        self.coming.go_on();
        self.at -= usize::from(steps);
        steps
    }

    /// The internal key; `None` if there are no entries.
    #[inline(always)]
    pub(crate) fn key(&self) -> Option<&[u8]> {
        self.current().map(Slot::key)
    }

    /// `None` if there are no entries.
    #[inline(always)]
    pub(crate) fn value(&self) -> Option<&[u8]> {
        let block = self.block.as_ref()?;
        self.current().map(|slot| block.block.slice(slot.value.clone()))
    }

    /// How many steps it has gone from where it was filled: from the first entry on, or from the last one back.
    #[inline]
    pub(crate) fn steps(&self, is_forward: bool) -> usize {
        let gone = if is_forward { self.at } else { self.end - self.at };
        gone.saturating_sub(1)
    }

    #[inline(always)]
    fn current(&self) -> Option<&Slot> {
        self.slots.get(self.at).filter(|_| self.at > 0)
    }

    /// Has no entries any more.
    #[inline]
    pub(crate) fn clear(&mut self) {
        (self.at, self.end) = (0, 0);
    }

    /// As [`clear`](Self::clear), and lets go of the block.
    pub(crate) fn release(&mut self) {
        self.clear();
        self.block = None;
    }

    /// Takes the entries that start at `start`, behind one with the key `key`, and stands on the first. Returns where the
    /// last one starts and its value lies, with its key in `key`; `None` if there are no answers there.
    pub(super) fn fill_forward(
        &mut self,
        block: &Arc<CachedBlock>,
        start: usize,
        key: &mut KeyBuf,
        answers: &Answers,
    ) -> Option<(usize, Range<usize>)> {
        self.make_room(answers.entries);
        let first = self.slots.first_mut()?;
        (first.key, first.key_len) = (*key.beginning()?, key.len());
        first.value = start..start;
        self.gather_forward(&block.block, start, answers);
        let last = self.end.checked_sub(2)? + 1;
        self.hold(block, 1);
        self.stand_on(last, key)
    }

    /// Takes entries that lie before `until`, where one starts, and stands on the last. Returns of the first what
    /// [`fill_forward`](Self::fill_forward) does of the last.
    pub(super) fn fill_backward(
        &mut self,
        block: &Arc<CachedBlock>,
        until: usize,
        key: &mut KeyBuf,
        answers: &Answers,
    ) -> Option<(usize, Range<usize>)> {
        self.make_room(BACKWARD_ENTRIES_MAX);
        let start = block.block.restart_well_before(until, answers.entries * USUAL_BYTES_MIN)?;
        // Nothing is greater: of the first entry's user key one before it may be.
        let greatest = Slot { key: [u8::MAX; KEY_BYTES], key_len: KEY_BYTES, value: start..start };
        *self.slots.first_mut()? = greatest;
        let gathered = self.gather_backward(&block.block, start..until, answers);
        let last = self.end.checked_sub(2)? + 1;
        if gathered.is_none() {
            self.clear();
            return None;
        }
        self.hold(block, last);
        self.stand_on(1, key)
    }

    /// Room for so many entries and for the one before.
    #[inline]
    fn make_room(&mut self, entries: usize) {
        self.clear();
        if self.slots.is_empty() {
            self.slots = SPARE.try_with(Cell::take).unwrap_or_default();
        }
        if self.slots.len() <= entries {
            self.slots.resize(entries + 1, Slot::default());
        }
    }

    /// Parses from `at` on, up to what is no answer, and at the latest behind so many as are asked for.
    #[inline(never)] // So that the loop has the registers to itself.
    fn gather_forward(&mut self, block: &Block, mut at: usize, answers: &Answers) {
        let (mut beginning, mut matched) = (Beginning::default(), usize::MAX);
        let slots = self.slots.get_mut(..=answers.entries).unwrap_or_default();
        let mut end = 1;
        while let Some([before, slot]) = slots.get_mut(end - 1..end + 1)
            && let Some(look) = slot.parse(block, at, before, &mut beginning)
            && look.is_answer(before, slot, answers)
            && answers.others.is_none_or(|others| look.lies_before(others, slot, &mut matched))
        {
            at = slot.value.end;
            end += 1;
        }
        self.end = end;
    }

    /// Parses what lies in `range`; what is no answer makes it begin anew behind that. `None` if the range is too long, or
    /// does not end where an entry does.
    #[inline(never)]
    fn gather_backward(
        &mut self,
        block: &Block,
        range: Range<usize>,
        answers: &Answers,
    ) -> Option<()> {
        let mut beginning = Beginning::default();
        let mut at = range.start;
        self.end = 1;
        while at < range.end {
            let [before, slot] = self.slots.get_mut(self.end - 1..self.end + 1)? else {
                return None;
            };
            let is_answer = match slot.parse(block, at, before, &mut beginning) {
                Some(look) => {
                    let lies_behind = |others| leading_words(slot.key()) > others;
                    // So does what follows one that does.
                    look.is_answer(before, slot, answers)
                        && (self.end > 1 || answers.others.is_none_or(lies_behind))
                }
                None => {
                    beginning = Beginning::default();
                    slot.parse_any(block, at, before)?;
                    false
                }
            };
            at = slot.value.end;
            self.end += 1;
            if !is_answer {
                self.slots.swap(0, self.end - 1);
                self.end = 1;
            }
        }
        (at == range.end).then_some(())
    }

    /// Where the entry starts and its value lies, with its key in `key`.
    #[inline]
    fn stand_on(&self, index: usize, key: &mut KeyBuf) -> Option<(usize, Range<usize>)> {
        let [before, slot] = self.slots.get(index - 1..index + 1)? else { return None };
        key.clear();
        key.rebuild(0, &slot.key, slot.key_len);
        Some((before.value.end, slot.value.clone()))
    }

    #[inline]
    fn hold(&mut self, block: &Arc<CachedBlock>, at: usize) {
        self.at = at;
        if !self.block.as_ref().is_some_and(|held| Arc::ptr_eq(held, block)) {
            self.block = Some(Arc::clone(block));
        }
    }
}

impl Drop for Stride {
    fn drop(&mut self) {
        if !self.slots.is_empty() {
            // A thread that is ending has no place for it any more.
            let _ = SPARE.try_with(|spare| spare.set(std::mem::take(&mut self.slots)));
        }
    }
}

#[cfg(test)]
mod tests;
