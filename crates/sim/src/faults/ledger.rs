//! What a database was told and what it answered; from this, what it must hold and may hold.
//!
//! Every write carries a key of its own, its mark, beside the keys that others overwrite and delete.
//! So what is found says which writes it holds, and these, one after the other, must give all of it.

use std::collections::BTreeMap;

use super::promise::{Checked, Promise};

pub(crate) type Pairs = BTreeMap<String, String>;

/// A key and its new value; `None` deletes it.
pub(crate) type Change = (String, Option<String>);

/// Keys that writes share.
const KEYS: usize = 29;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Acknowledged,
    /// It failed: whole or absent, until a reopen has shown which.
    Unknown,
    /// It was refused before it was tried, or a reopen has shown that it is not there.
    Never,
}

struct Write {
    changes: Vec<Change>,
    fate: Fate,
}

/// What may be missing of what was acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    Nothing,
    /// A suffix that no sync has promised.
    Unsynced,
}

#[derive(Default)]
pub(crate) struct Ledger {
    writes: Vec<Write>,
    /// Acknowledged writes before this one survive a power cut.
    durable: usize,
    /// What the open database shows.
    pub(crate) now: Pairs,
}

fn mark(number: usize) -> String {
    format!("mark{number:04}")
}

impl Ledger {
    /// The next write: its number and what it changes. Unknown until its answer is noted.
    pub(crate) fn begin(&mut self) -> (usize, Vec<Change>) {
        let number = self.writes.len();
        let key = |number: usize| format!("key{:02}", number % KEYS);
        let value = format!("{number}-").repeat(12 + number % 9);
        let mut changes = vec![(mark(number), Some(value.clone()))];
        match number % 4 {
            0 | 2 => changes.push((key(number * 7), Some(value))),
            3 => {
                changes.push((key(number * 7 - 7), None));
                changes.push((key(number * 11), Some(value)));
            }
            _ => {} // A single put.
        }
        self.writes.push(Write { changes: changes.clone(), fate: Fate::Unknown });
        (number, changes)
    }

    pub(crate) fn acknowledge(&mut self, number: usize, synced: bool) {
        self.writes[number].fate = Fate::Acknowledged;
        apply(&mut self.now, &self.writes[number].changes);
        if synced {
            self.durable = number + 1;
        }
    }

    pub(crate) fn refuse(&mut self, number: usize) {
        self.writes[number].fate = Fate::Never;
    }

    /// All that was acknowledged is durable from now on.
    pub(crate) fn all_durable(&mut self) {
        self.durable = self.writes.len();
    }

    /// The database is gone, and nothing of it may come back.
    pub(crate) fn destroyed(&mut self) {
        self.writes.iter_mut().for_each(|write| write.fate = Fate::Never);
        self.now.clear();
    }

    /// True if only a look at the database tells what it holds.
    pub(crate) fn has_doubts(&self) -> bool {
        self.writes.iter().any(|write| write.fate == Fate::Unknown)
    }

    /// Takes what a reopened database shows as what it holds from now on, durably (rule R7).
    pub(crate) fn adopt(&mut self, found: Pairs) {
        for (number, write) in self.writes.iter_mut().enumerate() {
            let is_there = found.contains_key(&mark(number));
            write.fate = if is_there { Fate::Acknowledged } else { Fate::Never };
        }
        self.now = found;
        self.all_durable();
    }

    /// Whether `found` is what a database may hold that lost no more than `loss`.
    pub(crate) fn check(&self, found: &Pairs, loss: Loss, when: &str) -> Checked {
        let mut expected = Pairs::new();
        let mut missing = None;
        for (number, write) in self.writes.iter().enumerate() {
            let is_there = found.contains_key(&mark(number));
            let must = loss == Loss::Nothing || number < self.durable;
            match (write.fate, is_there) {
                (Fate::Acknowledged, false) if must => {
                    return Promise::KeptWrites.broken(format!("{when}: write {number} is lost"));
                }
                (Fate::Never, true) => {
                    let how = format!("{when}: write {number} appears, which was refused or gone");
                    return Promise::KeptWrites.broken(how);
                }
                (Fate::Acknowledged, false) => missing = missing.or(Some(number)),
                (_, true) if missing.is_some() => {
                    let how = format!("{when}: write {number} is there, {missing:?} before it not");
                    return Promise::KeptWrites.broken(how);
                }
                _ => {}
            }
            if is_there {
                apply(&mut expected, &write.changes);
            }
        }
        if *found == expected {
            return Ok(());
        }
        Promise::KeptWrites.broken(format!("{when}: {}", difference(found, &expected)))
    }
}

fn apply(pairs: &mut Pairs, changes: &[Change]) {
    for (key, value) in changes {
        match value {
            Some(value) => pairs.insert(key.clone(), value.clone()),
            None => pairs.remove(key),
        };
    }
}

/// The first key at which two states differ.
pub(crate) fn difference(found: &Pairs, expected: &Pairs) -> String {
    let keys = found.keys().chain(expected.keys());
    let first = keys.filter(|key| found.get(*key) != expected.get(*key)).min();
    let Some(key) = first else { return "no difference".to_owned() };
    let (found, expected) = (found.get(key), expected.get(key));
    format!("{key} is {found:?}, expected {expected:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(answers: &[Option<bool>]) -> Ledger {
        let mut ledger = Ledger::default();
        for answer in answers {
            let (number, _) = ledger.begin();
            if let Some(synced) = answer {
                ledger.acknowledge(number, *synced);
            }
        }
        ledger
    }

    fn holding(ledger: &Ledger, numbers: &[usize]) -> Pairs {
        let mut pairs = Pairs::new();
        numbers.iter().for_each(|number| apply(&mut pairs, &ledger.writes[*number].changes));
        pairs
    }

    #[test]
    fn what_was_acknowledged_must_be_there_and_unsynced_writes_form_a_prefix() {
        let ledger = ledger(&[Some(true), Some(false), None, Some(false)]);
        let check = |numbers: &[usize], loss| {
            ledger.check(&holding(&ledger, numbers), loss, "test").is_ok()
        };
        for whole in [&[0, 1, 3][..], &[0, 1, 2, 3]] {
            assert!(check(whole, Loss::Nothing) && check(whole, Loss::Unsynced));
        }
        for prefix in [&[0][..], &[0, 1], &[0, 1, 2]] {
            assert!(!check(prefix, Loss::Nothing) && check(prefix, Loss::Unsynced));
        }
        for hole in [&[][..], &[1], &[0, 2], &[0, 3], &[0, 2, 3]] {
            assert!(!check(hole, Loss::Unsynced), "{hole:?}");
        }
    }

    #[test]
    fn parts_of_batches_and_what_came_back_are_seen() {
        let mut ledger = ledger(&[Some(true), Some(true), None, None]);
        let mut torn = holding(&ledger, &[0, 1, 2]);
        torn.remove("key14");
        assert!(ledger.check(&torn, Loss::Nothing, "half a batch").is_err());
        ledger.adopt(holding(&ledger, &[0, 1, 3]));
        let later = holding(&ledger, &[0, 1, 2, 3]);
        assert!(ledger.check(&later, Loss::Nothing, "2 was not there").is_err());
        assert!(ledger.check(&holding(&ledger, &[0, 1]), Loss::Unsynced, "3 was").is_err());
    }
}
