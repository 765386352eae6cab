//! The one merge loop: a job's inputs become tables. Local lanes, manual compactions and repair all
//! end here.

use crate::base::error::Result;
use crate::base::iter::InternalIterator;
use crate::base::key::{self, InternalKey, SEQNO_MAX, user_key};
use crate::base::merging::MergingIter;
use crate::base::slot::Slot;
use crate::compaction::cut::Cutter;
use crate::compaction::executor::JobContext;
use crate::compaction::hot_map::KeyHash;
use crate::compaction::job::{Job, Output};
use crate::compaction::parts::Part;
use crate::compaction::retention::{Retention, Verdict};
use crate::format::filename::FileNumber;
use crate::format::table::builder::TableSummary;
use crate::format::table::{ScanOptions, TableBuilder, TableSettings};
use crate::version::Tables;
use crate::version::level_iter::Source;

/// Entries between looks around: some ten microseconds, and below a millisecond with values of thousands of bytes.
const CHECK_INTERVAL: u64 = 32;

/// As L2SM's prototype does.
const ENTRIES_PER_SAMPLE: u64 = 100;

pub(crate) fn run(job: &Job, context: &JobContext<'_>) -> Result<Output> {
    let output = run_part(job, context, &job.part)?;
    join(job, context, vec![output])
}

/// Merges one part. Its tables are durable, their names not yet: see [`join`]. After an error nothing of it is left.
pub(crate) fn run_part(job: &Job, context: &JobContext<'_>, part: &Part) -> Result<Output> {
    let mut input = inputs(job, context)?;
    match &part.from {
        None => input.seek_to_first()?,
        Some(user) => input.seek(InternalKey::seek_to(user, SEQNO_MAX).as_bytes())?,
    }
    write(job, context, (&mut input, part.until.as_deref()))
}

/// Merges what lies behind a user key with which a table of the job's has ended: what is written from there on is what
/// the whole job would have written. Tables never part the entries of a user key, and neither what is dropped nor where
/// tables end depends on what lies before them.
pub(crate) fn run_behind(job: &Job, context: &JobContext<'_>, user: &[u8]) -> Result<Output> {
    let mut input = inputs(job, context)?;
    input.seek(InternalKey::seek_to(user, SEQNO_MAX).as_bytes())?;
    while input.valid() && context.order.user.compare(user_key(input.key()), user).is_le() {
        input.next()?;
    }
    write(job, context, (&mut input, job.part.until.as_deref()))
}

/// Makes outputs of parts, in order, the job's, and all names durable (rule R1), and opens the tables: so no reader has to,
/// and inputs do not go before what replaces them has shown that it can be read. After an error nothing of it is left.
pub(crate) fn join(job: &Job, context: &JobContext<'_>, parts: Vec<Output>) -> Result<Output> {
    let mut all = Output { bytes_read: job.input_bytes(&context.order.user), ..Output::default() };
    for part in parts {
        all.tables.extend(part.tables);
        all.hotness.extend(part.hotness);
        all.bytes_written += part.bytes_written;
        all.entries_dropped += part.entries_dropped;
    }
    if !all.tables.is_empty() {
        let named = context.store.sync_names();
        named.and_then(|()| open(context, &all)).inspect_err(|_| discard(context, &all))?;
    }
    Ok(all)
}

fn open(context: &JobContext<'_>, output: &Output) -> Result<()> {
    output
        .tables
        .iter()
        .try_for_each(|built| context.cache.get(built.number, built.bytes).map(drop))
}

/// As [`run`], but over entries from anywhere: repair brings what it could read of damaged tables.
pub(crate) fn run_over(
    job: &Job,
    context: &JobContext<'_>,
    input: &mut impl InternalIterator,
) -> Result<Output> {
    input.seek_to_first()?;
    let output = write(job, context, (input, None))?;
    join(job, context, vec![output])
}

/// Removes what a job made in vain. Failing at that leaves orphans, which the next open sweeps.
pub(crate) fn discard(context: &JobContext<'_>, output: &Output) {
    for built in &output.tables {
        context.cache.evict(built.number);
        let _ = context.store.remove(built.number);
    }
}

/// Writes what stays of the entries from where the input stands, up to a user key.
fn write(
    job: &Job,
    context: &JobContext<'_>,
    (input, until): (&mut impl InternalIterator, Option<&[u8]>),
) -> Result<Output> {
    let settings = context.table_settings(job);
    let (open, done) = (None, Output::default());
    let mut output = Writer { context, settings, open, entries: 0, sampled: Vec::new(), done };
    let merged = merge(job, context, (input, until), &mut output);
    match merged.and_then(|()| output.end_table()) {
        Ok(()) => Ok(output.done),
        Err(error) => {
            output.give_up();
            Err(error)
        }
    }
}

fn merge(
    job: &Job,
    context: &JobContext<'_>,
    (input, until): (&mut impl InternalIterator, Option<&[u8]>),
    output: &mut Writer<'_>,
) -> Result<()> {
    let order = &context.order.user;
    let mut retention = Retention::new(order, &job.snapshots, &job.below);
    let mut cutter = Cutter::new(&job.cut, context.order);
    let mut entries = 0u64;
    while input.valid() {
        entries += 1;
        if entries.is_multiple_of(CHECK_INTERVAL) {
            context.check_in()?;
        }
        let Some(parsed) = key::parse(input.key()) else {
            return Err(input.corrupted_key());
        };
        if until.is_some_and(|until| order.compare(parsed.user, until).is_ge()) {
            break;
        }
        match retention.judge(&parsed) {
            Verdict::Drop => output.done.entries_dropped += 1,
            verdict => {
                let first = verdict == Verdict::KeepFirst;
                if first && cutter.cuts_before(input.key(), output.bytes()) {
                    output.end_table()?;
                }
                if !output.may_follow(input.key()) {
                    return Err(input.corrupted_key());
                }
                output.add(input.key(), input.value())?;
            }
        }
        input.next()?;
    }
    Ok(())
}

fn inputs(job: &Job, context: &JobContext<'_>) -> Result<MergingIter<Source>> {
    let of_slot = |(slot, tables): &(Slot, Tables)| tables.sources(*slot, &context.order.user);
    let scan = ScanOptions::for_merge(job.inputs.iter().map(of_slot).sum());
    let mut sources = Vec::new();
    for (slot, tables) in &job.inputs {
        Source::of_slot(context.order, context.cache, scan, (*slot, tables), &mut sources)?;
    }
    Ok(MergingIter::new(context.order.clone(), sources))
}

/// Writes output tables one after the other.
struct Writer<'a> {
    context: &'a JobContext<'a>,
    settings: &'a TableSettings,
    open: Option<(FileNumber, TableBuilder)>,
    /// Of the open table, if hotness is wanted.
    entries: u64,
    sampled: Vec<KeyHash>,
    done: Output,
}

impl Writer<'_> {
    fn bytes(&self) -> u64 {
        self.open.as_ref().map_or(0, |(_, builder)| builder.estimated_bytes())
    }

    /// False if a source is not sorted: its table is damaged, and would damage ours.
    fn may_follow(&self, key: &[u8]) -> bool {
        self.open.as_ref().is_none_or(|(_, builder)| builder.may_follow(key))
    }

    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.open.is_none() {
            let number = (self.context.new_number)();
            let file = self.context.store.create(number)?;
            let told = if self.context.tells_numbers { number } else { FileNumber(0) };
            let builder = TableBuilder::new(file, told, self.settings.clone());
            self.open = Some((number, builder));
        }
        if self.context.hotness.is_some() {
            self.sample(key);
        }
        let (_, builder) = self.open.as_mut().expect("opened just above");
        builder.add(key, value)
    }

    fn sample(&mut self, key: &[u8]) {
        if self.entries.is_multiple_of(ENTRIES_PER_SAMPLE) {
            self.sampled.push(KeyHash::of(user_key(key)));
        }
        self.entries += 1;
    }

    fn end_table(&mut self) -> Result<()> {
        let Some((number, builder)) = self.open.take() else { return Ok(()) };
        let built = builder.finish().inspect_err(|_| self.remove(number))?;
        let summary = TableSummary { number, ..built };
        self.done.bytes_written += summary.bytes;
        (self.context.finished)(&summary).inspect_err(|_| self.remove(number))?;
        self.done.tables.push(summary);
        if let Some(hotness) = self.context.hotness {
            self.done.hotness.push(hotness(&self.sampled));
            self.sampled.clear();
            self.entries = 0;
        }
        Ok(())
    }

    fn give_up(&mut self) {
        if let Some((number, builder)) = self.open.take() {
            builder.abandon();
            self.remove(number);
        }
        discard(self.context, &self.done);
    }

    fn remove(&self, number: FileNumber) {
        let _ = self.context.store.remove(number);
    }
}

#[cfg(test)]
mod tests;
