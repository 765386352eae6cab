//! Histories: what concurrent callers asked of a database, what they were told, and when.
//!
//! Keys come in groups of three, and a batch or a snapshot stays within one group: so a history
//! falls into parts, one per group, that are linearizable or not independently of each other
//! (Horn and Kroening, FORTE 2015).

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use siltstone::{Db, ErrorKind, ReadOptions, WriteBatch, WriteOptions};

use crate::Dice;

/// Groups of keys.
pub(super) const GROUPS: usize = 8;
/// Keys in a group.
pub(super) const KEYS: usize = 3;

/// The value under a key: written once in a history, and 0 where there is none.
pub(super) type Value = u32;

/// One operation on one group.
#[derive(Clone, Debug)]
pub(super) struct Op {
    pub(super) thread: usize,
    pub(super) call: u64,
    /// `None` if it failed: it may have been done, at once or later, or not at all.
    pub(super) answered: Option<u64>,
    pub(super) action: Action,
}

impl Op {
    /// What it writes.
    pub(super) fn updates(&self) -> &[(usize, Value)] {
        match &self.action {
            Action::Write(written) => written,
            Action::Read(_) => &[],
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Sets these keys in one step.
    Write(Vec<(usize, Value)>),
    /// Found these keys so at one moment.
    Read(Vec<(usize, Value)>),
}

/// What all threads of one history share.
pub(super) struct Recorder {
    stamps: AtomicU64,
    values: AtomicU64,
}

impl Recorder {
    pub(super) fn new() -> Self {
        Recorder { stamps: AtomicU64::new(0), values: AtomicU64::new(1) }
    }

    fn stamp(&self) -> u64 {
        self.stamps.fetch_add(1, SeqCst)
    }

    fn fresh_value(&self) -> Value {
        self.values.fetch_add(1, SeqCst) as Value
    }
}

/// One caller.
pub(super) struct Caller<'a> {
    db: &'a Db,
    recorder: &'a Recorder,
    dice: Dice,
    thread: usize,
    /// What it did, with the group it did it to.
    pub(super) done: Vec<(usize, Op)>,
}

impl<'a> Caller<'a> {
    pub(super) fn new(db: &'a Db, recorder: &'a Recorder, thread: usize, seed: u64) -> Self {
        Caller { db, recorder, dice: Dice::new(seed | 1), thread, done: Vec::new() }
    }

    /// Does one thing, drawn by chance.
    pub(super) fn act(&mut self) {
        let group = self.dice.roll(GROUPS as u64) as usize;
        let first = self.dice.roll(KEYS as u64) as usize;
        match self.dice.roll(10) {
            0..3 => self.write(group, &[first], false),
            3 => self.write(group, &[first], true),
            4..6 => {
                let keys = self.some_keys(first);
                let delete = self.dice.roll(4) == 0;
                self.write(group, &keys, delete);
            }
            6..8 => self.read(group, &[first]),
            _ => {
                let keys = self.some_keys(first);
                self.read(group, &keys);
            }
        }
    }

    /// Two or three different keys.
    fn some_keys(&mut self, first: usize) -> Vec<usize> {
        let count = 2 + self.dice.roll(KEYS as u64 - 1) as usize;
        (0..count).map(|at| (first + at) % KEYS).collect()
    }

    /// Writes all keys in one step; with `delete`, the last of them goes.
    fn write(&mut self, group: usize, keys: &[usize], delete: bool) {
        let mut batch = WriteBatch::new();
        let mut written = Vec::new();
        for (at, &key) in keys.iter().enumerate() {
            let value = match delete && at + 1 == keys.len() {
                true => 0,
                false => self.recorder.fresh_value(),
            };
            match value {
                0 => batch.delete(name(group, key)),
                _ => batch.put(name(group, key), bytes_of(value)),
            }
            written.push((key, value));
        }
        let sync = self.dice.roll(20) == 0;
        let call = self.recorder.stamp();
        let result = self.db.write(&batch, WriteOptions { sync });
        let answered = self.recorder.stamp();
        let answered = match result {
            Ok(()) => Some(answered),
            // Refused before anything was tried.
            Err(error) if error.kind() == ErrorKind::ReadOnly => return,
            Err(_) => None,
        };
        self.note(group, call, answered, Action::Write(written));
        if answered.is_none() {
            // Has the background try again at once: until it does, all writes may fail.
            let _ = self.db.flush();
        }
    }

    /// Reads all keys as of one moment: one key as it is, several through a snapshot.
    pub(super) fn read(&mut self, group: usize, keys: &[usize]) {
        let call = self.recorder.stamp();
        let snapshot = (keys.len() > 1).then(|| self.db.snapshot());
        let options = ReadOptions { snapshot, ..ReadOptions::default() };
        let found = keys.iter().map(|&key| {
            let got = self.db.get_with(name(group, key), &options).unwrap();
            (key, got.map_or(0, |bytes| value_of(&bytes)))
        });
        let found = found.collect();
        let answered = self.recorder.stamp();
        self.note(group, call, Some(answered), Action::Read(found));
    }

    fn note(&mut self, group: usize, call: u64, answered: Option<u64>, action: Action) {
        self.done.push((group, Op { thread: self.thread, call, answered, action }));
    }
}

/// Keys of a group lie far apart.
fn name(group: usize, key: usize) -> String {
    format!("{key}/{group}")
}

/// Long enough that memtables fill up.
fn bytes_of(value: Value) -> Vec<u8> {
    let mut bytes = vec![b'.'; 60];
    bytes[..4].copy_from_slice(&value.to_le_bytes());
    bytes
}

fn value_of(bytes: &[u8]) -> Value {
    let (value, rest) = bytes.split_first_chunk().expect("values are longer");
    assert!(rest.iter().all(|byte| *byte == b'.') && rest.len() == 56, "a whole value");
    Value::from_le_bytes(*value)
}
