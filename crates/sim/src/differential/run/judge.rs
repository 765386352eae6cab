//! Compares what a database shows with what it should show, and sums up all that was shown.

use std::hash::Hasher;

use siltstone::DbIterator;

use crate::differential::operation::ShortKey;
use crate::differential::order::Order;
use crate::differential::reference::Entry;
use crate::differential::value::{Scribe, Value};
use crate::hash::Mixer;

/// How a database differed from what it should be.
#[derive(Debug)]
pub struct Mismatch(pub String);

impl From<siltstone::Error> for Mismatch {
    fn from(error: siltstone::Error) -> Self {
        Mismatch(format!("unexpected error: {error}"))
    }
}

pub type Checked = Result<(), Mismatch>;

/// A difference, unless `right`.
pub fn expect(right: bool, told: impl FnOnce() -> String) -> Checked {
    if right { Ok(()) } else { Err(Mismatch(told())) }
}

/// Where an iterator stands: its key and value.
pub type Place<'a> = Option<(&'a [u8], &'a [u8])>;

pub fn place(iter: &DbIterator) -> Place<'_> {
    iter.valid().then(|| (iter.key(), iter.value()))
}

pub struct Judge {
    pub scribe: Scribe,
    /// The bytes that a value should have.
    expected: Vec<u8>,
    answers: Mixer,
}

impl Judge {
    pub fn new(seed: u64, order: Order) -> Self {
        let scribe = Scribe { seed, order };
        Judge { scribe, expected: Vec::new(), answers: Mixer::default() }
    }

    /// A digest of every answer so far.
    pub fn answers(&self) -> u64 {
        self.answers.finish()
    }

    /// The bytes of a value.
    pub fn bytes(&mut self, key: &[u8], value: Value) -> &[u8] {
        self.scribe.write(key, value, &mut self.expected);
        &self.expected
    }

    /// Judges what a get found.
    pub fn got(&mut self, key: &[u8], found: Option<&[u8]>, expected: Option<&Entry>) -> Checked {
        self.answers.write_u64(u64::from(found.is_some()));
        self.answers.write(found.unwrap_or_default());
        self.is_value(key, found, expected)
            .map_err(|told| Mismatch(format!("get {}: {told}", ShortKey(key))))
    }

    /// As [`got`](Self::got), of what does not count as an answer: it may differ between runs that
    /// are otherwise alike.
    pub fn is_value(
        &mut self,
        key: &[u8],
        found: Option<&[u8]>,
        expected: Option<&Entry>,
    ) -> Result<(), String> {
        let right = match (found, expected) {
            (None, None) => true,
            // It may be spelled otherwise than asked for.
            (Some(found), Some(entry)) => found == self.bytes(&entry.key, entry.value),
            _ => false,
        };
        if right {
            return Ok(());
        }
        let found = found.map_or("nothing".to_owned(), |value| self.described(key, value));
        let expected = expected.map(|entry| entry.value);
        Err(format!("found {found}, expected {expected:?}"))
    }

    /// Judges where an iterator stands.
    pub fn stands(&mut self, found: Place<'_>, expected: Option<&Entry>) -> Checked {
        let right = match (found, expected) {
            (None, None) => true,
            (Some((key, value)), Some(entry)) => {
                *key == *entry.key && value == self.bytes(&entry.key, entry.value)
            }
            _ => false,
        };
        if right {
            let (key, value) = found.unwrap_or_default();
            self.answers.write(key);
            self.answers.write(value);
            return Ok(());
        }
        let found = self.placed(found);
        let expected = match expected {
            Some(entry) => format!("{} with {:?}", ShortKey(&entry.key), entry.value),
            None => "nowhere".to_owned(),
        };
        Err(Mismatch(format!("iterator stands at {found}, expected {expected}")))
    }

    /// Judges a whole scan.
    pub fn scans<'a>(
        &mut self,
        iter: &mut DbIterator,
        expected: impl Iterator<Item = &'a Entry>,
    ) -> Checked {
        iter.seek_to_first()?;
        for expected in expected {
            self.stands(place(iter), Some(expected))?;
            iter.next()?;
        }
        self.stands(place(iter), None)
    }

    /// Both iterators show the same from first to last, and each value is its key's own. What the
    /// model says does not count here.
    pub fn same(&self, left: &mut DbIterator, right: &mut DbIterator) -> Checked {
        left.seek_to_first()?;
        right.seek_to_first()?;
        loop {
            self.both(place(left), place(right))?;
            if !left.valid() {
                return Ok(());
            }
            left.next()?;
            right.next()?;
        }
    }

    /// Both stand at the same entry, whose value is its own.
    pub fn both(&self, left: Place<'_>, right: Place<'_>) -> Checked {
        expect(left == right, || format!("{} is not {}", self.placed(left), self.placed(right)))?;
        match left {
            Some((key, value)) => {
                self.scribe.read(key, value).map(drop).map_err(|told| {
                    Mismatch(format!("the value of {} holds {told}", ShortKey(key)))
                })
            }
            None => Ok(()),
        }
    }

    fn placed(&self, place: Place<'_>) -> String {
        match place {
            Some((key, value)) => format!("{} with {}", ShortKey(key), self.described(key, value)),
            None => "nowhere".to_owned(),
        }
    }

    /// A value by what it says of itself.
    fn described(&self, key: &[u8], value: &[u8]) -> String {
        match self.scribe.read(key, value) {
            Ok(Some(value)) => format!("{value:?}"),
            Ok(None) => format!("{} bytes", value.len()),
            Err(told) => told,
        }
    }
}
