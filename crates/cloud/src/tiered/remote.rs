//! Tables of the committed version, read from the bucket.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use siltstone::Result;

use super::shared::{File, Shared};
use crate::bucket::Purpose;
use crate::pins::clone::home_of;
use crate::reads::object::TableObject;
use crate::table::download;

/// A table that is in the bucket; `None` if the committed version has none of this number, and none was adopted.
pub(super) fn open(shared: &Arc<Shared>, number: u64) -> Result<Option<File>> {
    let expected = shared.expected().remove(&number);
    if let Some(table) = expected {
        return Ok(Some(table));
    }
    let Some(object) = object_of(shared, number) else { return Ok(None) };
    Ok(Some(shared.tables.open(&object, Purpose::Get)? as File))
}

/// A table will be opened soon, of which the last bytes are known: they are kept until then.
/// If the folder is to have a copy, the cache need not have them, too: one that goes later is worth a request.
pub(super) fn expect(shared: &Arc<Shared>, number: u64, end: &Bytes) -> Result<()> {
    let Some(object) = object_of(shared, number) else { return Ok(()) };
    if !shared.options.local.takes(object.bytes) {
        shared.tables.keep_end(&object, end)?;
    }
    let table = shared.tables.open_by_its_end(&object, end, Purpose::Get)?;
    shared.expected().insert(number, table);
    Ok(())
}

/// Brings parts of a table into the cache.
pub(super) fn warm(shared: &Arc<Shared>, number: u64, parts: &[Range<u64>]) -> Result<()> {
    object_of(shared, number).map_or(Ok(()), |object| shared.tables.warm_parts(&object, parts))
}

/// The table is needed no more: nor is what is cached of it.
pub(super) fn forget(shared: &Shared, number: u64) {
    shared.expected().remove(&number);
    if let (Some(cache), Some(object)) = (shared.tables.cache(), object_of(shared, number)) {
        cache.forget(&object);
    }
}

/// Where a table lies, if it is in the bucket.
pub(super) fn object_of(shared: &Shared, number: u64) -> Option<TableObject> {
    let state = shared.state();
    let table = state.ledger.table(number)?;
    Some(TableObject::of(&shared.home, &state.version, &table))
}

/// Makes a copy of a table in the folder, unless there is one.
pub(super) fn fetch(shared: &Arc<Shared>, number: u64) -> Result<()> {
    let there = shared.state().ledger.table(number);
    let Some(table) = there.filter(|table| shared.local.size(number) != Some(table.bytes)) else {
        return Ok(());
    };
    let body = {
        let version = Arc::clone(&shared.state().version);
        let home = home_of(&shared.home, &version, &table).unwrap_or_else(|| shared.home.clone());
        download(&home, &table, Purpose::Warm)?
    };
    shared.local.write(number, &body)
}
