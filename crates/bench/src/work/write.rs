//! Benchmarks that write.

use std::sync::atomic::Ordering::Relaxed;

use super::{Job, Worker};
use crate::benchmark::Order;
use crate::engine::{Batch, Engine, Result};

/// Puts entries, in batches of one or more.
pub(super) fn fill<D: Engine>(job: &Job<'_, D>, worker: &mut Worker, order: Order) -> Result<()> {
    let plan = job.plan;
    if plan.num != job.flags.num {
        worker.stats.add_message(&format!("({} ops)", plan.num));
    }
    let mut values = job.pool.values();
    let bytes = in_batches(job, worker, order, |batch, key| {
        batch.put(key, values.next(plan.value_size));
        (key.len() + plan.value_size) as u64
    });
    worker.stats.add_bytes(bytes.map_err(|error| format!("put error: {error}"))?);
    Ok(())
}

pub(super) fn delete<D: Engine>(job: &Job<'_, D>, worker: &mut Worker, order: Order) -> Result<()> {
    let deleted = in_batches(job, worker, order, |batch, key| {
        batch.delete(key);
        0
    });
    deleted.map(drop).map_err(|error| format!("del error: {error}"))
}

/// Writes batches that `add` fills with one key after the other. Returns the sum of what it returns.
fn in_batches<D: Engine>(
    job: &Job<'_, D>,
    worker: &mut Worker,
    order: Order,
    mut add: impl FnMut(&mut D::Batch, &[u8]) -> u64,
) -> Result<u64> {
    let (plan, range) = (job.plan, job.range());
    let mut batch = job.db.batch();
    let mut key = job.key_buffer();
    let mut bytes = 0;
    let mut at = 0;
    while at < plan.num {
        worker.begin_batch(plan.entries_per_batch.unsigned_abs());
        batch.clear();
        for number in at..at.saturating_add(plan.entries_per_batch) {
            let number = match order {
                Order::Sequential => number as u64,
                Order::Random => worker.random.below(range).into(),
            };
            bytes += add(&mut batch, key.set(number));
        }
        job.db.write(&mut batch, plan.sync)?;
        // LevelDB counts an operation before it is written. The sum is the same; this way a
        // histogram shows a slow write where it was.
        for _ in 0..plan.entries_per_batch {
            worker.stats.finished_op();
        }
        at = at.saturating_add(plan.entries_per_batch);
    }
    Ok(bytes)
}

/// Overwrites at random, beside the readers of readwhilewriting, until they are done. Not measured.
pub(super) fn until_others_finish<D: Engine>(job: &Job<'_, D>, worker: &mut Worker) -> Result<()> {
    let mut batch = job.db.batch();
    let mut key = job.key_buffer();
    let mut values = job.pool.values();
    while job.finished.load(Relaxed) + 1 < job.threads {
        batch.clear();
        let number = worker.random.below(job.range());
        batch.put(key.set(number.into()), values.next(job.plan.value_size));
        job.db.write(&mut batch, job.plan.sync).map_err(|error| format!("put error: {error}"))?;
    }
    worker.stats.restart();
    Ok(())
}
