//! What each writer has written, and what a database may therefore hold.
//!
//! Every writer writes batches numbered from 1, and what the `n`-th leaves behind depends on `n`
//! alone: two keys whose values add up to the same in every batch, a key of its own, and a deletion
//! of the key that the batch [`KEPT`] before it left. So one number per writer, its *count*, tells
//! all that a database must hold; anything else is a lost, torn or reordered write.

use std::sync::{Mutex, MutexGuard, PoisonError};

use siltstone::{Db, DbIterator, WriteBatch, WriteOptions};

/// Keys of its own that a writer leaves behind.
const KEPT: usize = 3;
/// What a writer's two accounts hold together.
const SUM: usize = 1000;

/// Counts of writes, one per writer.
pub(super) type Counts = Vec<usize>;

pub(super) struct Ledger {
    pages: Mutex<Pages>,
    /// Bytes that fill up each value.
    padding: usize,
}

#[derive(Clone, Default)]
struct Pages {
    now: u64,
    writers: Vec<Vec<Entry>>,
}

/// One write: when it was first tried, and when it was acknowledged.
#[derive(Clone)]
struct Entry {
    begun: u64,
    done: Option<u64>,
    sync: bool,
}

impl Ledger {
    pub(super) fn new(writers: usize, padding: usize) -> Self {
        let pages = Pages { now: 0, writers: vec![Vec::new(); writers] };
        Ledger { pages: Mutex::new(pages), padding }
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the next batch of `writer`; after a failure that is the one which failed, whose
    /// outcome is not known.
    pub(super) fn write(&self, db: &Db, writer: usize, sync: bool) -> siltstone::Result<()> {
        let count = self.pages().begin(writer);
        db.write(&self.batch(writer, count), WriteOptions { sync })?;
        self.pages().finish(writer, sync);
        Ok(())
    }

    fn batch(&self, writer: usize, count: usize) -> WriteBatch {
        let mut batch = WriteBatch::new();
        batch.put(format!("{writer}/a"), self.value(count));
        batch.put(format!("{writer}/b"), self.value(SUM - count));
        batch.put(own_key(writer, count), self.value(count));
        if count > KEPT {
            batch.delete(own_key(writer, count - KEPT));
        }
        batch
    }

    fn value(&self, number: usize) -> Vec<u8> {
        let mut value = format!("{number:04}").into_bytes();
        value.resize(4 + self.padding, b'.');
        value
    }

    /// The number that a value stands for.
    pub(super) fn number(&self, value: &[u8]) -> usize {
        assert_eq!(value.len(), 4 + self.padding, "a whole value");
        std::str::from_utf8(&value[..4]).unwrap().parse().unwrap()
    }

    /// Writes that are acknowledged now.
    pub(super) fn acknowledged(&self) -> Counts {
        let pages = self.pages();
        let done = |entries: &Vec<Entry>| {
            // Only the last can be open: a failed write is tried again before the next.
            entries.len() - usize::from(entries.last().is_some_and(|last| last.done.is_none()))
        };
        pages.writers.iter().map(done).collect()
    }

    /// Writes that asked for a sync and are acknowledged.
    pub(super) fn synced(&self) -> u64 {
        let pages = self.pages();
        pages.writers.iter().flatten().filter(|entry| entry.sync && entry.done.is_some()).count()
            as u64
    }

    /// Writes that were tried up to now.
    pub(super) fn begun(&self) -> Counts {
        self.pages().writers.iter().map(Vec::len).collect()
    }

    /// The ledger as it stands, for a look at what a power cut of this moment must leave.
    pub(super) fn copy(&self) -> Ledger {
        Ledger { pages: Mutex::new(self.pages().clone()), padding: self.padding }
    }

    /// Everything in `iter`, which must be what some counts demand, found in both directions.
    ///
    /// # Panics
    ///
    /// If it is not.
    pub(super) fn read(&self, iter: &mut DbIterator) -> Counts {
        let forward = crate::scan(iter).unwrap();
        let mut backward = crate::scan_back(iter).unwrap();
        backward.reverse();
        assert_eq!(forward, backward, "both directions show the same");
        let writers = self.pages().writers.len();
        let counts: Counts = (0..writers).map(|writer| count_of(&forward, writer)).collect();
        assert_eq!(forward, self.content(&counts), "what {counts:?} writes leave behind");
        counts
    }

    /// What is there after so many writes.
    fn content(&self, counts: &[usize]) -> Vec<(String, String)> {
        let text = |number| String::from_utf8(self.value(number)).unwrap();
        let mut pairs = Vec::new();
        for (writer, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            pairs.push((format!("{writer}/a"), text(count)));
            pairs.push((format!("{writer}/b"), text(SUM - count)));
            let own = count.saturating_sub(KEPT) + 1..=count;
            pairs.extend(own.map(|number| (own_key(writer, number), text(number))));
        }
        pairs
    }

    /// Checks what a power cut left: all that was synced, and with each write all that had been
    /// acknowledged before it began.
    ///
    /// # Panics
    ///
    /// If something is missing, or was never written.
    pub(super) fn check_after_power_cut(&self, found: &[usize]) {
        let pages = self.pages();
        for (writer, entries) in pages.writers.iter().enumerate() {
            assert!(found[writer] <= entries.len(), "{found:?}: writer {writer} wrote less");
            let synced = entries.iter().rposition(|entry| entry.sync && entry.done.is_some());
            let synced = synced.map_or(0, |at| at + 1);
            assert!(found[writer] >= synced, "{found:?}: writer {writer} synced {synced}");
        }
        let latest = pages.writers.iter().zip(found).filter_map(|(entries, &count)| {
            entries[..count].last().map(|entry| entry.begun) // They begin one after another.
        });
        let latest = latest.max().unwrap_or(0);
        for (writer, entries) in pages.writers.iter().enumerate() {
            let before = |entry: &&Entry| entry.done.is_some_and(|done| done < latest);
            let before = entries.iter().take_while(before).count();
            assert!(found[writer] >= before, "{found:?}: a hole, writer {writer} had {before}");
        }
    }
}

impl Pages {
    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    fn begin(&mut self, writer: usize) -> usize {
        let now = self.tick();
        let entries = &mut self.writers[writer];
        if entries.last().is_none_or(|last| last.done.is_some()) {
            entries.push(Entry { begun: now, done: None, sync: false });
        }
        entries.len()
    }

    fn finish(&mut self, writer: usize, sync: bool) {
        let now = self.tick();
        let last = self.writers[writer].last_mut().expect("a write begins before it ends");
        (last.done, last.sync) = (Some(now), sync);
    }
}

fn own_key(writer: usize, count: usize) -> String {
    format!("{writer}/n{count:04}")
}

/// How many of a writer's batches were applied, going by its first account.
fn count_of(pairs: &[(String, String)], writer: usize) -> usize {
    let name = format!("{writer}/a");
    let found = pairs.iter().find(|(key, _)| *key == name);
    found.map_or(0, |(_, value)| value[..4].parse().unwrap())
}

/// True if every count of `a` is at most that of `b`.
pub(super) fn at_most(a: &[usize], b: &[usize]) -> bool {
    a.iter().zip(b).all(|(a, b)| a <= b)
}
