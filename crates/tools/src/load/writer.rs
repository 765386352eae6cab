//! The writing half of `load`: batches of pairs into the database, under a policy for keys that
//! are there already. Runs on the verb's own thread while the parser thread reads on.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use siltstone::{Db, WriteBatch, WriteOptions};

use super::Pair;
use crate::errors::{Exit, Failure};

/// What happens to a pair whose key is in the database or came before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Duplicates {
    /// The later value wins; no look-ups, so the fastest
    Last,
    /// The earlier value stays
    First,
    /// Stop at the first one
    Error,
    /// The later value wins, and each one is counted by a look-up
    Count,
}

/// Writes batches and keeps count.
pub(crate) struct Writer<'db> {
    db: &'db Db,
    policy: Duplicates,
    /// Pairs that are in the database now, replaced ones included.
    pub(crate) written: u64,
    /// Pairs whose key was there before; zero under `last`, which does not look.
    pub(crate) duplicates: u64,
    /// Time spent in the engine.
    pub(crate) time: Duration,
}

impl<'db> Writer<'db> {
    pub(crate) fn new(db: &'db Db, policy: Duplicates) -> Writer<'db> {
        Writer { db, policy, written: 0, duplicates: 0, time: Duration::ZERO }
    }

    /// Writes `pairs` as one batch: after a crash all of them are there or none.
    pub(crate) fn write(&mut self, pairs: &[Pair]) -> Result<(), Failure> {
        let start = Instant::now();
        let result = self.write_batch(pairs);
        self.time += start.elapsed();
        result
    }

    fn write_batch(&mut self, pairs: &[Pair]) -> Result<(), Failure> {
        let mut batch = WriteBatch::new();
        let mut count = 0;
        let mut in_batch = HashSet::new();
        let mut refused = None;
        for (key, value) in pairs {
            if self.policy != Duplicates::Last {
                let known = !in_batch.insert(key.as_slice()) || self.db.get(key)?.is_some();
                self.duplicates += u64::from(known);
                if known && self.policy == Duplicates::First {
                    continue;
                }
                if known && self.policy == Duplicates::Error {
                    refused = Some(key);
                    break;
                }
            }
            batch.put(key, value);
            count += 1;
        }
        // What came before a refused pair goes in, so that the count is exact.
        self.db.write(&batch, WriteOptions::default())?;
        self.written += count;
        match refused {
            None => Ok(()),
            Some(key) => Err(Failure::new(
                Exit::Absent,
                "E-DUPLICATE",
                format!("the key {} is there already", crate::bytes::ByteFormat::Auto.show(key)),
            )
            .detail(format!("the {} pairs before it are in the database", self.written))
            .step("keep the earlier value", "--duplicates first")
            .step("take the later value", "--duplicates last")),
        }
    }
}
