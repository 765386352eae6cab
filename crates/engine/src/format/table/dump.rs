//! A table as text, line by line as `leveldbutil dump` prints it.

use std::fmt;
use std::sync::Arc;

use crate::base::error::{Error, Result};
use crate::base::escape::Escaped;
use crate::base::iter::InternalIterator;
use crate::base::key::{ValueKind, parse};
use crate::format::table::iter::ScanOptions;
use crate::format::table::reader::Table;

/// Writes every entry to `out`, up to the first error.
pub(crate) fn dump(table: &Arc<Table>, out: &mut dyn fmt::Write) -> Result<()> {
    let mut iter = table.iter(ScanOptions::for_compaction());
    iter.seek_to_first()?;
    while iter.valid() {
        line(out, iter.key(), iter.value())
            .map_err(|_| Error::invalid_argument("the dump's output refused text"))?;
        iter.next()?;
    }
    Ok(())
}

fn line(out: &mut dyn fmt::Write, key: &[u8], value: &[u8]) -> fmt::Result {
    let Some(parsed) = parse(key) else {
        return writeln!(out, "badkey '{}' => '{}'", Escaped(key), Escaped(value));
    };
    let kind = match parsed.kind {
        ValueKind::Deletion => "del",
        ValueKind::Value => "val",
    };
    let (user, value) = (Escaped(parsed.user), Escaped(value));
    writeln!(out, "'{user}' @ {} : {kind} => '{value}'", parsed.seqno)
}
