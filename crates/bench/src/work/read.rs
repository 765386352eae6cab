//! Benchmarks that read. An absent key is counted; any error ends the run.

use super::{Job, Worker};
use crate::engine::{Cursor, Engine, Result};

pub(super) fn sequential<D: Engine>(job: &Job<'_, D>, worker: &mut Worker) -> Result<()> {
    scan(job, worker, Cursor::seek_to_first, Cursor::next)
}

pub(super) fn reverse<D: Engine>(job: &Job<'_, D>, worker: &mut Worker) -> Result<()> {
    scan(job, worker, Cursor::seek_to_last, Cursor::prev)
}

fn scan<'a, D: Engine>(
    job: &'a Job<'_, D>,
    worker: &mut Worker,
    begin: impl Fn(&mut D::Cursor<'a>) -> Result<()>,
    step: impl Fn(&mut D::Cursor<'a>) -> Result<()>,
) -> Result<()> {
    let mut cursor = job.db.cursor()?;
    let (mut read, mut bytes) = (0, 0);
    begin(&mut cursor)?;
    while read < job.plan.reads && cursor.valid() {
        worker.begin();
        bytes += cursor.key().len() + cursor.value().len();
        worker.stats.finished_op();
        read += 1;
        step(&mut cursor)?;
    }
    worker.stats.add_bytes(bytes as u64);
    Ok(())
}

pub(super) fn random<D: Engine>(job: &Job<'_, D>, worker: &mut Worker) -> Result<()> {
    let found = gets(job, worker, job.range(), |key| key)?;
    worker.stats.add_message(&format!("({found} of {} found)", job.plan.num));
    Ok(())
}

/// Asks for keys without their last digit: none is there, and each would lie between two that are.
pub(super) fn missing<D: Engine>(job: &Job<'_, D>, worker: &mut Worker) -> Result<()> {
    gets(job, worker, job.range(), |key| &key[..key.len() - 1]).map(drop)
}

/// Asks for the first hundredth of the keys.
pub(super) fn hot<D: Engine>(job: &Job<'_, D>, worker: &mut Worker) -> Result<()> {
    gets(job, worker, job.range().div_ceil(100), |key| key).map(drop)
}

/// Gets keys at random, and counts those that are there.
fn gets<D: Engine>(
    job: &Job<'_, D>,
    worker: &mut Worker,
    range: u32,
    asked: impl Fn(&[u8]) -> &[u8],
) -> Result<u64> {
    let mut key = job.key_buffer();
    let mut value = Vec::with_capacity(job.plan.value_size);
    let mut found = 0;
    for _ in 0..job.plan.reads {
        worker.begin();
        let key = key.set(worker.random.below(range).into());
        found += u64::from(job.db.get(asked(key), &mut value)?);
        worker.stats.finished_op();
    }
    Ok(found)
}

/// Each seek has an iterator of its own.
pub(super) fn seek_random<D: Engine>(job: &Job<'_, D>, worker: &mut Worker) -> Result<()> {
    let mut key = job.key_buffer();
    let mut found = 0;
    for _ in 0..job.plan.reads {
        worker.begin();
        let mut cursor = job.db.cursor()?;
        let key = key.set(worker.random.below(job.range()).into());
        cursor.seek(key)?;
        found += u64::from(cursor.valid() && cursor.key() == key);
        drop(cursor);
        worker.stats.finished_op();
    }
    worker.stats.add_message(&format!("({found} of {} found)", job.plan.num));
    Ok(())
}

/// One iterator, which moves on by up to a hundred entries each time.
pub(super) fn seek_ordered<D: Engine>(job: &Job<'_, D>, worker: &mut Worker) -> Result<()> {
    let mut key = job.key_buffer();
    let mut cursor = job.db.cursor()?;
    let (mut found, mut number) = (0, 0);
    for _ in 0..job.plan.reads {
        worker.begin();
        number = (number + worker.random.below(100)) % job.range().max(1);
        let key = key.set(number.into());
        cursor.seek(key)?;
        found += u64::from(cursor.valid() && cursor.key() == key);
        worker.stats.finished_op();
    }
    worker.stats.add_message(&format!("({found} of {} found)", job.plan.num));
    Ok(())
}
