//! What was written to a specimen, batch by batch, and what must be found after any number of
//! batches. Authors write a database and its history together.

use std::collections::{BTreeMap, BTreeSet};

use siltstone::{Db, WriteBatch, WriteOptions};

use crate::Dice;

/// Sorted pairs: all that a database holds.
pub(super) type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// A key, and its value or its deletion.
pub(super) type Update = (Vec<u8>, Option<Vec<u8>>);

/// The batches written, the oldest first.
#[derive(Clone)]
pub(super) struct History {
    batches: Vec<Vec<Update>>,
    /// After so many batches; one more than there are batches.
    states: Vec<Pairs>,
}

impl History {
    pub(super) fn new() -> Self {
        History { batches: Vec::new(), states: vec![Pairs::new()] }
    }

    pub(super) fn push(&mut self, batch: Vec<Update>) {
        let mut state: BTreeMap<_, _> =
            self.states.last().cloned().unwrap_or_default().into_iter().collect();
        for (key, value) in &batch {
            match value {
                Some(value) => state.insert(key.clone(), value.clone()),
                None => state.remove(key),
            };
        }
        self.states.push(state.into_iter().collect());
        self.batches.push(batch);
    }

    pub(super) fn len(&self) -> usize {
        self.batches.len()
    }

    /// What is there after the first `batches`.
    pub(super) fn after(&self, batches: usize) -> &Pairs {
        &self.states[batches]
    }

    pub(super) fn last(&self) -> &Pairs {
        self.after(self.len())
    }

    /// Every key ever written, and some that never were: between, before and behind them.
    pub(super) fn keys_to_ask(&self) -> Vec<Vec<u8>> {
        let written = self.batches.iter().flatten().map(|(key, _)| key.clone());
        let mut keys: BTreeSet<Vec<u8>> = written.collect();
        let between = keys.iter().step_by(5).map(|key| [&key[..], b"-"].concat());
        let absent: Vec<_> = between.chain([b"\0".to_vec(), b"\xff\xff".to_vec()]).collect();
        keys.extend(absent);
        keys.into_iter().collect()
    }

    /// The batch that begins with a sequence number: no number is left out.
    pub(super) fn batch_at(&self, seqno: u64) -> usize {
        let mut next = 1;
        for (index, batch) in self.batches.iter().enumerate() {
            if next >= seqno {
                return index;
            }
            next += batch.len() as u64;
        }
        self.len()
    }
}

/// Writes to an open database and keeps the history. The shape of what is written (which keys, how
/// long the values, what is deleted) follows one seed, what is in the values another: twins of one
/// shape have files of the same names and mostly the same sizes, and nothing else in common.
pub(super) struct Author<'a> {
    pub(super) db: &'a Db,
    pub(super) history: History,
    shape: Dice,
    content: Dice,
}

/// How many keys there are to choose from.
const KEYS: u64 = 24;

impl<'a> Author<'a> {
    pub(super) fn new(db: &'a Db, shape_seed: u64, content_seed: u64) -> Self {
        let history = History::new();
        let (shape, content) = (Dice::new(shape_seed | 1), Dice::new(content_seed | 1));
        Author { db, history, shape, content }
    }

    /// Batches of one to three updates; of a hundred, `synced` are synced.
    pub(super) fn write(&mut self, batches: u64, synced: u64) {
        for _ in 0..batches {
            let sync = self.shape.roll(100) < synced;
            let updates = (0..=self.shape.roll(3)).map(|_| self.update()).collect();
            self.commit(updates, sync);
        }
    }

    /// One put a batch, keys in order, with values of one length: files of several rounds are alike
    /// to the byte but for what is in the values.
    pub(super) fn write_row(&mut self, keys: u64, value_bytes: u64, sync: bool) {
        for key in 0..keys {
            let value = self.value(value_bytes);
            self.commit(vec![(name(key), Some(value))], sync);
        }
    }

    pub(super) fn commit(&mut self, updates: Vec<Update>, sync: bool) {
        let mut batch = WriteBatch::new();
        for (key, value) in &updates {
            match value {
                Some(value) => batch.put(key, value),
                None => batch.delete(key),
            }
        }
        self.db.write(&batch, WriteOptions { sync }).unwrap();
        self.history.push(updates);
    }

    fn update(&mut self) -> Update {
        let key = name(self.shape.roll(KEYS));
        if self.shape.roll(5) == 0 {
            return (key, None);
        }
        let bytes = 6 + self.shape.roll(12);
        (key, Some(self.value(bytes)))
    }

    fn value(&mut self, bytes: u64) -> Vec<u8> {
        (0..bytes).map(|_| b"0123456789abcdef"[self.content.roll(16) as usize]).collect()
    }
}

fn name(key: u64) -> Vec<u8> {
    format!("k{key:02}").into_bytes()
}
