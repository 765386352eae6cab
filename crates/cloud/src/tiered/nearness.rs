//! What readers had near stays near when merges replace tables, and when copies go: of new tables copies are made, or parts of them
//! cached, before they are shown, and a copy that goes leaves in the cache what was read of it.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use siltstone::{FileNumber, RandomAccessFile, Result};

use super::copies::Fetch;
use super::remote;
use super::shared::Shared;
use super::tables::Placed;

/// Which of a table's bytes readers had lately, and find near.
pub(super) fn of(shared: &Shared, number: u64) -> Vec<Range<u64>> {
    let read = shared.open.heat(number);
    match (read, shared.tables.cache(), remote::object_of(shared, number)) {
        (Some((Placed::Here(_), read)), ..) => read,
        // What readers had since has gone from there, if it is not there.
        (_, Some(cache), Some(object)) => cache.cached(&object),
        (Some((_, read)), ..) => read,
        (None, ..) => Vec::new(),
    }
}

/// Waits until so much of new tables is near, as far as can be, or the database closes.
pub(super) fn bring(shared: &Arc<Shared>, tables: &[(FileNumber, Vec<Range<u64>>)]) {
    let wanted = tables.iter().filter_map(|(number, ranges)| {
        shared.open.lend_heat(number.0, ranges);
        fetch_of(shared, number.0, ranges)
    });
    let wanted: Vec<Fetch> = wanted.collect();
    if wanted.is_empty() {
        return;
    }
    let numbers: Vec<u64> = wanted.iter().map(Fetch::number).collect();
    shared.change(|state| state.copies.want_now(wanted));
    shared.wait(|state| {
        let is_over = state.closing || state.stopping || state.failed.is_some();
        (is_over || state.copies.are_made(&numbers)).then_some(())
    });
}

/// What is to be fetched, if something is: of a table in the folder nothing.
fn fetch_of(shared: &Shared, number: u64, ranges: &[Range<u64>]) -> Option<Fetch> {
    if shared.local.size(number).is_some() {
        return None;
    }
    let object = remote::object_of(shared, number)?;
    match shared.options.local.takes(object.bytes) {
        true => Some(Fetch::Copy(number)),
        false => shared.tables.cache().map(|_| Fetch::Parts(number, ranges.to_vec())),
    }
}

/// A copy is about to go: what readers had of it lately goes into the cache, if there is one.
pub(super) fn keep_of(shared: &Shared, number: u64) -> Result<()> {
    let Some((Placed::Here(file), ranges)) = shared.open.heat(number) else {
        return Ok(());
    };
    let Some(object) = remote::object_of(shared, number) else { return Ok(()) };
    shared.tables.keep_parts(&object, &ranges, |range| read_all(&*file, range))
}

fn read_all(file: &dyn RandomAccessFile, range: &Range<u64>) -> Result<Bytes> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    // What is short is not kept.
    let read = file.read_at(&mut bytes, range.start)?;
    bytes.truncate(read);
    Ok(bytes.into())
}
