//! What the killing process knows of a database: what each writer began and what was acknowledged.
//! From that it judges what was found after the end.
//!
//! **I1.** A writer's batches are numbered in order, and the next one begins when the last one has
//! returned. So a writer has at most one batch whose outcome is unknown.
//! **I2.** A batch that is there shows: it puts a key of its own, which only much later ones delete.
//! **I3.** If a message comes behind another in the pipe, the call it tells of began after the call
//! that the other tells the end of. So the acknowledgements before a batch's beginning are of batches
//! that must not be missing where it is found.

use std::collections::{BTreeMap, BTreeSet};

use siltstone_interop::peer::Change;

use crate::pipe::Message;
use crate::script::{Script, WRITERS_MAX, letter};

/// A database's content.
pub(crate) type Found = BTreeMap<Vec<u8>, Vec<u8>>;

/// What had to survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    /// The process died: every acknowledged batch.
    Process,
    /// The power went: synced batches, and all that were acknowledged before a synced one began.
    Power,
}

/// The last change of a key: by which batch, and to what.
#[derive(Clone)]
struct Mark {
    number: u64,
    value: Option<Vec<u8>>,
}

type State = BTreeMap<Vec<u8>, Mark>;

pub(crate) struct History {
    script: Script,
    writers: Vec<Writer>,
}

#[derive(Default)]
struct Writer {
    /// What was found when the present life began: it has been seen, so it must not go.
    base: State,
    /// The number of the first batch of this life.
    first: u64,
    /// In order.
    begun: Vec<Begun>,
    /// The last that was acknowledged. Those before it were, too, or have failed.
    acked: u64,
    /// All up to this number must survive a power cut.
    promised: u64,
}

struct Begun {
    synced: bool,
    failed: bool,
    /// Each writer's `acked` when it began.
    before: [u64; WRITERS_MAX],
}

/// What was wrong with what was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Batches that had to survive and did not, and were synced themselves.
    pub(crate) lost_synced: u64,
    /// Batches that had to survive and did not, and were not synced themselves.
    pub(crate) lost_unsynced: u64,
    /// Batches that are missing, whole, before one that is there.
    pub(crate) holes: u64,
    /// Batches of which a part is there.
    pub(crate) partial: u64,
    /// Values that no batch has put there.
    pub(crate) garbled: u64,
    /// Batches that are there although their write failed. No fault where it was the sync that
    /// failed: what is on the disk then nobody can know.
    pub(crate) shown: u64,
}

impl Verdict {
    pub(crate) fn is_clean(self) -> bool {
        Verdict { shown: 0, ..self } == Verdict::default()
    }

    pub(crate) fn add(&mut self, other: Verdict) {
        self.lost_synced += other.lost_synced;
        self.lost_unsynced += other.lost_unsynced;
        self.holes += other.holes;
        self.partial += other.partial;
        self.garbled += other.garbled;
        self.shown += other.shown;
    }
}

impl History {
    pub(crate) fn new(script: Script, writers: usize) -> History {
        let writers = (0..writers).map(|_| Writer { first: 1, ..Writer::default() }).collect();
        History { script, writers }
    }

    /// The numbers that the writers begin with in the present life.
    pub(crate) fn firsts(&self) -> Vec<u64> {
        self.writers.iter().map(|writer| writer.first).collect()
    }

    /// How many acknowledgements this life has had.
    pub(crate) fn acked(&self) -> u64 {
        self.writers.iter().map(|writer| writer.count_up_to(writer.acked)).sum()
    }

    /// How many of these must survive a power cut.
    pub(crate) fn promised(&self) -> u64 {
        self.writers.iter().map(|writer| writer.count_up_to(writer.promised)).sum()
    }

    /// Takes note of a message. Those that are not about batches change nothing.
    pub(crate) fn note(&mut self, message: Message) {
        match message {
            Message::Begun { writer, number, synced } => {
                let before = self.acked_by_writer();
                let writer = &mut self.writers[usize::from(writer)];
                assert_eq!(number, writer.next(), "I1: numbers come in order");
                writer.begun.push(Begun { synced, failed: false, before });
            }
            Message::Acked { writer, number } => self.note_ack(writer.into(), number),
            Message::Failed { writer, number } => {
                let writer = &mut self.writers[usize::from(writer)];
                assert_eq!(number + 1, writer.next(), "I1: one batch at a time");
                writer.begun.last_mut().expect("it was begun").failed = true;
            }
            _ => {}
        }
    }

    fn note_ack(&mut self, writer: usize, number: u64) {
        self.writers[writer].acked = number;
        assert_eq!(number + 1, self.writers[writer].next(), "I1: one batch at a time");
        let Begun { synced, before, .. } =
            *self.writers[writer].begun.last().expect("it was begun");
        if synced {
            for (other, acked) in self.writers.iter_mut().zip(before) {
                other.promised = other.promised.max(acked);
            }
            self.writers[writer].promised = number;
        }
    }

    fn acked_by_writer(&self) -> [u64; WRITERS_MAX] {
        let mut acked = [0; WRITERS_MAX];
        for (acked, writer) in acked.iter_mut().zip(&self.writers) {
            *acked = writer.acked;
        }
        acked
    }

    /// Judges what was found. If all is well, a new life begins from there.
    pub(crate) fn judge(&mut self, found: &Found, promise: Promise) -> Verdict {
        let mut verdict = Verdict::default();
        let mut ends = Vec::new();
        for writer in 0..self.writers.len() {
            let (of_writer, garbled) = self.split(found, writer);
            verdict.garbled += garbled;
            ends.push(self.judge_writer(writer, &of_writer, promise, &mut verdict));
        }
        let known: usize = ends.iter().map(|end| end.found).sum();
        verdict.garbled += (found.len() - known) as u64;
        for (writer, end) in self.writers.iter().zip(&ends) {
            verdict.holes += writer.holes_among(end.number, &ends);
        }
        if verdict.is_clean() {
            for (writer, end) in self.writers.iter_mut().zip(ends) {
                writer.begin_life(end.state);
            }
        }
        verdict
    }

    /// A writer's entries, without those that do not describe themselves, which are counted.
    fn split<'a>(&self, found: &'a Found, writer: usize) -> (Entries<'a>, u64) {
        let letters = [letter(writer)].to_vec()..[letter(writer) + 1].to_vec();
        let mut entries = Entries::new();
        let mut garbled = 0;
        for (key, value) in found.range(letters) {
            let origin = self.script.origin(key, value);
            let origin = origin.filter(|origin| usize::from(origin.writer) == writer);
            garbled += u64::from(origin.is_none());
            let number = origin.map_or(0, |origin| origin.number);
            entries.insert(key, (number, value));
        }
        (entries, garbled)
    }

    fn judge_writer(
        &self,
        index: usize,
        found: &Entries<'_>,
        promise: Promise,
        verdict: &mut Verdict,
    ) -> End {
        let writer = &self.writers[index];
        let required = match promise {
            Promise::Process => writer.acked,
            Promise::Power => writer.promised,
        };
        let newest = found.values().map(|(number, _)| *number).max().unwrap_or(0);
        let newest = newest.clamp(writer.first - 1, writer.next() - 1);
        let shown: BTreeSet<u64> = writer.failed_among(found).collect();
        verdict.shown += shown.len() as u64;
        let state = self.state_after(index, newest, &shown);
        let (mut missing, present) = differences(&state, found);
        verdict.partial += missing.intersection(&present).count() as u64;
        verdict.holes += missing.difference(&present).count() as u64;
        missing.extend(newest + 1..=required);
        for lost in missing.into_iter().filter(|lost| *lost <= required) {
            match writer.begun_at(lost) {
                Some(begun) if begun.failed => {}
                Some(begun) if !begun.synced => verdict.lost_unsynced += 1,
                // What was found at the last opening must not go, whether or not it was synced.
                _ => verdict.lost_synced += 1,
            }
        }
        End { number: newest, state, found: found.len() }
    }

    /// What a writer's keys must be after its batch `newest`, with those failed ones that show.
    fn state_after(&self, index: usize, newest: u64, shown: &BTreeSet<u64>) -> State {
        let writer = &self.writers[index];
        let mut state = writer.base.clone();
        let numbers = writer.first..=newest;
        let is_in = |number: &u64| {
            let failed = writer.begun_at(*number).is_some_and(|begun| begun.failed);
            !failed || shown.contains(number)
        };
        for number in numbers.filter(is_in) {
            for change in self.script.batch(index, number) {
                let (key, value) = match change {
                    Change::Put(key, value) => (key, Some(value)),
                    Change::Delete(key) => (key, None),
                };
                state.insert(key, Mark { number, value });
            }
        }
        state
    }
}

/// A writer's entries: by key, the batch that the value names, and the value.
type Entries<'a> = BTreeMap<&'a [u8], (u64, &'a [u8])>;

/// How far a writer's batches have got.
struct End {
    number: u64,
    state: State,
    /// How many entries were found.
    found: usize,
}

impl Writer {
    fn next(&self) -> u64 {
        self.first + self.begun.len() as u64
    }

    /// The failed batches of which a value was found. By I2 they show if they are there.
    fn failed_among<'a>(&self, found: &'a Entries<'_>) -> impl Iterator<Item = u64> + use<'a, '_> {
        let numbers = found.values().map(|(number, _)| *number);
        numbers.filter(|number| self.begun_at(*number).is_some_and(|begun| begun.failed))
    }

    fn begun_at(&self, number: u64) -> Option<&Begun> {
        self.begun.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// How many batches of this life, to the given one, have not failed.
    fn count_up_to(&self, number: u64) -> u64 {
        let begun = (self.first..=number).zip(&self.begun);
        begun.filter(|(_, begun)| !begun.failed).count() as u64
    }

    /// How many other writers lack a batch that was acknowledged before batch `number` began.
    fn holes_among(&self, number: u64, ends: &[End]) -> u64 {
        let Some(last) = self.begun_at(number) else { return 0 };
        let lacking = last.before.iter().zip(ends).filter(|(acked, end)| **acked > end.number);
        lacking.count() as u64
    }

    fn begin_life(&mut self, mut state: State) {
        state.retain(|_, mark| mark.value.is_some());
        self.base = state;
        self.first = self.next();
        self.acked = self.first - 1;
        self.promised = self.acked;
        self.begun.clear();
    }
}

/// Batches of which a change is missing, and batches of which one is there.
fn differences(state: &State, found: &Entries<'_>) -> (BTreeSet<u64>, BTreeSet<u64>) {
    let (mut gone, mut present) = (BTreeSet::new(), BTreeSet::new());
    for (key, mark) in state {
        let value = found.get(key.as_slice()).map(|(_, value)| *value);
        if value == mark.value.as_deref() {
            // That a key is absent proves nothing: it may never have been there.
            present.extend(value.map(|_| mark.number));
        } else {
            gone.insert(mark.number);
        }
    }
    // A key that the model does not know at all: of a failed batch, or back from the dead.
    let unknown = found.iter().filter(|(key, _)| !state.contains_key(**key));
    gone.extend(unknown.map(|(_, (number, _))| *number));
    (gone, present)
}

#[cfg(test)]
mod tests;
