//! Tables' objects, written and read whole: by owners after a flush, by clones that detach. Reads by ranges are the table
//! readers' affair.

use bytes::Bytes;

use crate::bucket::Purpose;
use crate::error::{Error, Outcome};
use crate::home::Home;
use crate::log::record::Table;
use crate::log::state::VersionState;
use crate::names::TableId;
use crate::pins::clone::home_of;

/// Where a table of a version lies: its object's name in the bucket.
pub fn object_of(home: &Home, state: &VersionState, table: &Table) -> String {
    match home_of(home, state, table) {
        Some(theirs) => theirs.root().table(table.id),
        None => home.root().table(table.id),
    }
}

/// Writes a table, and says what a version record needs to know of it. When it returns, the table is there; after an
/// error it may be, or come to be, and its number must not be used for anything else.
pub fn upload(home: &Home, id: TableId, body: &Bytes, purpose: Purpose) -> Result<Table, Error> {
    home.write(&home.root().table(id), body, purpose)?;
    Ok(Table { home: 0, id, bytes: body.len() as u64, crc32c: crc32c::crc32c(body) })
}

/// Reads all of a table that lies at `home`, and checks it.
pub(crate) fn download(home: &Home, table: &Table, purpose: Purpose) -> Outcome<Bytes> {
    let name = home.root().table(table.id);
    let object = home.read(&name, purpose, table.bytes)?;
    let body =
        object.ok_or_else(|| Error::damaged(&name, "is missing, and a version names it"))?.body;
    if body.len() as u64 != table.bytes || crc32c::crc32c(&body) != table.crc32c {
        return Err(Error::damaged(&name, "is not the table that the version names"));
    }
    Ok(body)
}
