//! The workloads of YCSB: a mix of operations on records whose keys are scattered over the key space.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{Job, Worker};
use crate::engine::{Batch, Cursor, Engine, Result};
use crate::keys::KeyBuffer;
use crate::popularity::{Law, Popularity, scatter};
use crate::random::{SplitMix, Values};

/// The longest scan, in entries.
const SCAN_ENTRIES_MAX: u64 = 100;
/// Keys are the last sixteen digits of a hash.
const KEYS: u64 = 10_000_000_000_000_000;

/// What is done with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Read,
    Update,
    Insert,
    Scan,
    ReadAndUpdate,
}

/// Shares of the operations in per cent, in sum 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mix {
    shares: [(Operation, u8); 2],
    /// How records are chosen if no flag says otherwise.
    pub(crate) law: Law,
}

impl Mix {
    /// The mixes A to F, by letter.
    pub(crate) fn named(letter: &str) -> Option<Mix> {
        use Operation::{Insert, Read, ReadAndUpdate, Scan, Update};
        let (shares, law) = match letter {
            "a" => ([(Read, 50), (Update, 50)], Law::Zipfian),
            "b" => ([(Read, 95), (Update, 5)], Law::Zipfian),
            "c" => ([(Read, 100), (Update, 0)], Law::Zipfian),
            "d" => ([(Read, 95), (Insert, 5)], Law::Latest),
            "e" => ([(Scan, 95), (Insert, 5)], Law::Zipfian),
            "f" => ([(Read, 50), (ReadAndUpdate, 50)], Law::Zipfian),
            _ => return None,
        };
        Some(Mix { shares, law })
    }

    /// The operation that a number below 100 stands for.
    #[inline]
    fn operation(self, percent: u64) -> Operation {
        let [(first, share), (second, _)] = self.shares;
        if percent < u64::from(share) { first } else { second }
    }

    fn scans(self) -> bool {
        self.shares[0].0 == Operation::Scan
    }
}

/// The records of all threads together.
pub(crate) struct Records {
    pub(crate) popularity: Popularity,
    /// How many there are. A thread counts its insertion before it is done, so another may look for
    /// a record a moment too early, and not find it.
    pub(crate) present: AtomicU64,
}

/// Inserts the first records, in an order that is none for their keys.
pub(super) fn load<D: Engine>(job: &Job<'_, D>, worker: &mut Worker) -> Result<()> {
    let mut hand = Hand::new(job, worker);
    let records = u64::try_from(job.plan.num).unwrap_or(0);
    for record in 0..records {
        worker.begin();
        hand.write(record)?;
        worker.stats.finished_op();
    }
    let entry_bytes = hand.key.set(0).len() + job.plan.value_size;
    worker.stats.add_bytes(records * entry_bytes as u64);
    Ok(())
}

/// Does the mix.
pub(super) fn mixed<D: Engine>(job: &Job<'_, D>, worker: &mut Worker, mix: Mix) -> Result<()> {
    let records = job.records.as_ref().expect("the session has laid them out");
    let mut hand = Hand::new(job, worker);
    let (mut asked, mut found, mut entries) = (0, 0, 0);
    for _ in 0..job.plan.reads {
        worker.begin();
        let operation = mix.operation(hand.random.below(100));
        let present = records.present.load(Relaxed).max(1);
        let record = match operation {
            Operation::Insert => records.present.fetch_add(1, Relaxed),
            _ => records.popularity.pick(&mut hand.random, present),
        };
        match operation {
            Operation::Insert | Operation::Update => hand.write(record)?,
            Operation::Scan => entries += hand.scan(record)?,
            Operation::Read | Operation::ReadAndUpdate => {
                asked += 1;
                found += u64::from(hand.read(record)?);
                if operation == Operation::ReadAndUpdate {
                    hand.write(record)?;
                }
            }
        }
        worker.stats.finished_op();
    }
    worker.stats.add_message(&match mix.scans() {
        true => format!("({entries} entries)"),
        false => format!("({found} of {asked} found)"),
    });
    Ok(())
}

/// What a thread works with, made once.
struct Hand<'a, D: Engine> {
    db: &'a D,
    random: SplitMix,
    key: KeyBuffer,
    value: Vec<u8>,
    values: Values<'a>,
    value_size: usize,
    batch: D::Batch,
}

impl<'a, D: Engine> Hand<'a, D> {
    fn new(job: &Job<'a, D>, worker: &mut Worker) -> Self {
        Hand {
            db: job.db,
            random: SplitMix::new(worker.random.next().into()),
            key: job.key_buffer(),
            value: Vec::with_capacity(job.plan.value_size),
            values: job.pool.values(),
            value_size: job.plan.value_size,
            batch: job.db.batch(),
        }
    }

    #[inline]
    fn write(&mut self, record: u64) -> Result<()> {
        self.batch.clear();
        let key = self.key.set(scatter(record) % KEYS);
        self.batch.put(key, self.values.next(self.value_size));
        self.db.write(&mut self.batch, false).map_err(|error| format!("put error: {error}"))
    }

    #[inline]
    fn read(&mut self, record: u64) -> Result<bool> {
        self.db.get(self.key.set(scatter(record) % KEYS), &mut self.value)
    }

    /// Reads on from a record. Returns how many entries there were.
    fn scan(&mut self, record: u64) -> Result<u64> {
        let wanted = 1 + self.random.below(SCAN_ENTRIES_MAX);
        let mut cursor = self.db.cursor()?;
        cursor.seek(self.key.set(scatter(record) % KEYS))?;
        let (mut read, mut bytes) = (0, 0);
        while read < wanted && cursor.valid() {
            bytes += cursor.key().len() + cursor.value().len();
            read += 1;
            cursor.next()?;
        }
        std::hint::black_box(bytes);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_have_the_shares_of_ycsb() {
        use Operation::{Insert, Read, ReadAndUpdate, Update};
        let reads = |letter: &str| {
            let mix = Mix::named(letter).unwrap();
            (0..100).filter(|&percent| mix.operation(percent) == Read).count()
        };
        assert_eq!(["a", "b", "c", "d", "e", "f"].map(reads), [50, 95, 100, 95, 0, 50]);
        let last = |letter: &str| Mix::named(letter).unwrap().operation(99);
        let operations = [Update, Update, Read, Insert, Insert, ReadAndUpdate];
        assert_eq!(["a", "b", "c", "d", "e", "f"].map(last), operations);
        assert!(Mix::named("g").is_none() && Mix::named("load").is_none());
    }
}
