//! Reads a whole table and checks what can be checked. The `verify` command and tests call it.

use std::ops::Range;
use std::sync::Arc;

use crate::base::error::{Error, Result};
use crate::base::iter::InternalIterator;
use crate::base::key::{ValueKind, parse, user_key};
use crate::format::filename::FileNumber;
use crate::format::table::filter::FilterKey;
use crate::format::table::iter::{ScanOptions, TableIter};
use crate::format::table::properties::TableProperties;
use crate::format::table::reader::Table;

/// Checks every block's checksum and restart points, that keys are well formed and ascend, that the index separates
/// the blocks, that the filter knows every key, and that the properties count right. Returns what
/// it counted.
pub(crate) fn verify(table: &Arc<Table>) -> Result<TableProperties> {
    let path = table.file().path();
    check(table).map_err(|error| error.in_file(path))
}

fn check(table: &Arc<Table>) -> Result<TableProperties> {
    let mut counted = TableProperties {
        data_blocks: table.index().len() as u64,
        number: table.properties().map_or(FileNumber(0), |recorded| recorded.number),
        ..Default::default()
    };
    let mut iter = table.iter(ScanOptions::for_compaction());
    let mut before: Vec<u8> = Vec::new();
    // Blocks up to this one are checked.
    let mut checked = 0;
    iter.seek_to_first()?;
    while iter.valid() {
        let block = iter.block_index();
        if checked <= block {
            check_skipped(table, checked..block)?;
            iter.check_block()?;
            checked = block + 1;
        }
        let at = table.index().handle(block)?.offset;
        check_entry(table, &iter, &before).map_err(|error| error.at(at))?;
        count(&mut counted, iter.key(), iter.value());
        before.clear();
        before.extend_from_slice(iter.key());
        iter.next()?;
    }
    check_skipped(table, checked..table.index().len())?;
    match table.properties() {
        Some(recorded) if *recorded != counted => {
            let message = format!("properties say {recorded:?}, the entries {counted:?}");
            Err(Error::corruption(message))
        }
        _ => Ok(counted),
    }
}

/// Blocks without an entry, in which nobody stops.
fn check_skipped(table: &Arc<Table>, blocks: Range<usize>) -> Result<()> {
    if blocks.is_empty() {
        return Ok(());
    }
    let mut iter = table.iter(ScanOptions::for_compaction());
    blocks.into_iter().try_for_each(|block| iter.check_block_at(block))
}

fn check_entry(table: &Table, iter: &TableIter, before: &[u8]) -> Result<()> {
    let (order, index, block) = (table.order(), table.index(), iter.block_index());
    let key = iter.key();
    if parse(key).is_none() {
        return Err(iter.corrupted_key());
    }
    // Equal keys are no error: other writers of tables are known to repeat them.
    if !before.is_empty() && order.compare(before, key).is_gt() {
        return Err(Error::corruption("keys descend"));
    }
    if order.compare(key, index.key(block)).is_gt() {
        return Err(Error::corruption("key behind its block's separator"));
    }
    if block > 0 && order.compare(key, index.key(block - 1)).is_lt() {
        return Err(Error::corruption("key before the separator of the block before"));
    }
    let (gate, user) = (table.gate(), user_key(key));
    if !gate.may_have(&FilterKey::new(user)) || !gate.may_have_at(index.handle(block)?.offset, user)
    {
        return Err(Error::corruption("filter denies a key of its table"));
    }
    Ok(())
}

fn count(counted: &mut TableProperties, key: &[u8], value: &[u8]) {
    let Some(parsed) = parse(key) else { return };
    if counted.entries == 0 {
        counted.smallest_seqno = parsed.seqno;
    }
    counted.entries += 1;
    counted.deletions += u64::from(parsed.kind == ValueKind::Deletion);
    counted.raw_key_bytes += key.len() as u64;
    counted.raw_value_bytes += value.len() as u64;
    counted.smallest_seqno = counted.smallest_seqno.min(parsed.seqno);
    counted.largest_seqno = counted.largest_seqno.max(parsed.seqno);
}
