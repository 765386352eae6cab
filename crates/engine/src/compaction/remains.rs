//! What of an SST log's tables still counts once a slice of them has been merged.

use std::sync::Arc;

use crate::base::error::{Error, Result};
use crate::base::iter::InternalIterator;
use crate::base::key::{InternalKey, SEQNO_MAX};
use crate::base::slot::{Area, Slot};
use crate::compaction::executor::JobContext;
use crate::compaction::job::Job;
use crate::compaction::parts::Part;
use crate::format::manifest::edit::{Live, Span};
use crate::format::table::{ScanOptions, Table, TableIter};
use crate::version::table_meta::TableMeta;

/// The job's inputs of which something stays, as they are from now on, with their slots. Reads a block or two of each at
/// either end of the slice.
pub(crate) fn remains(job: &Job, context: &JobContext<'_>) -> Result<Vec<(Slot, Arc<TableMeta>)>> {
    let mut remaining = Vec::new();
    if job.part == Part::all() {
        return Ok(remaining);
    }
    for (slot, meta) in job.input_tables().filter(|(slot, _)| slot.area == Area::SstLog) {
        let table = meta.open(context.cache)?;
        let mut iter = table.iter(ScanOptions::default());
        let parts = parts_outside(job, context, meta, &mut iter);
        let parts = parts.map_err(|error| error.in_file(table.path()))?;
        let bytes = bytes_of(&table, &parts).min(meta.size.saturating_sub(1));
        let narrowed = meta.narrowed(Live { bytes, parts });
        remaining.extend(narrowed.map(|meta| (slot, Arc::new(meta))));
    }
    Ok(remaining)
}

fn parts_outside(
    job: &Job,
    context: &JobContext<'_>,
    meta: &TableMeta,
    iter: &mut TableIter,
) -> Result<Vec<Span>> {
    let order = &context.order.user;
    let mut parts = Vec::new();
    for (smallest, largest) in (0..).map_while(|nth| meta.stretch(nth)) {
        let is_before =
            |key: &InternalKey, border: &[u8]| order.compare(key.user(), border).is_lt();
        if let Some(from) = job.part.from.as_deref().filter(|from| is_before(smallest, from)) {
            let last = match is_before(largest, from) {
                true => largest.clone(),
                false => last_before(iter, from)?,
            };
            parts.push(Span { smallest: smallest.clone(), largest: last });
        }
        if let Some(until) = job.part.until.as_deref().filter(|until| !is_before(largest, until)) {
            let first = match is_before(smallest, until) {
                true => first_from(iter, until)?,
                false => smallest.clone(),
            };
            parts.push(Span { smallest: first, largest: largest.clone() });
        }
    }
    Ok(parts)
}

/// The last entry before a user key; there is one.
fn last_before(iter: &mut TableIter, user: &[u8]) -> Result<InternalKey> {
    iter.seek(InternalKey::seek_to(user, SEQNO_MAX).as_bytes())?;
    match iter.valid() {
        true => iter.prev()?,
        false => iter.seek_to_last()?,
    }
    key(iter)
}

/// The first entry of a user key, or of one behind it; there is one.
fn first_from(iter: &mut TableIter, user: &[u8]) -> Result<InternalKey> {
    iter.seek(InternalKey::seek_to(user, SEQNO_MAX).as_bytes())?;
    key(iter)
}

fn key(iter: &TableIter) -> Result<InternalKey> {
    let key = iter.valid().then(|| InternalKey::from_bytes(iter.key())).flatten();
    key.ok_or_else(|| Error::corruption("a table lacks an entry that the manifest names"))
}

fn bytes_of(table: &Table, parts: &[Span]) -> u64 {
    let offset = |key: &InternalKey| table.approximate_offset_of(key.as_bytes());
    // A block at least: whatever counts is read with its block.
    let bytes = |part: &Span| offset(&part.largest).saturating_sub(offset(&part.smallest)).max(1);
    parts.iter().map(bytes).sum()
}
