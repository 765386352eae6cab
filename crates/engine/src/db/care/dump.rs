//! One file of a database as text. The tools call it.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use crate::base::comparator::{InternalOrder, UserOrder};
use crate::base::error::{Error, Result};
use crate::env::Env;
use crate::format::dump;
use crate::format::filename::FileName;
use crate::format::table::{ReadSettings, Table, dump as table_dump};
use crate::store::block_cache::BlockCache;

/// Writes a log, a manifest or a table to `out` as text, in the words of LevelDB's `leveldbutil
/// dump`. What kind of file it is, its name tells. Needs no lock, and no comparator.
///
/// Damage within a log or a manifest becomes a line of text; a table is printed up to its first
/// damaged block.
///
/// # Errors
///
/// `InvalidArgument` for any other name; `Corruption` for a damaged table; `Io` if the file cannot be
/// read or `out` fails, with the cause as its source.
pub fn dump_file(path: impl AsRef<Path>, env: &Env, out: &mut dyn Write) -> Result<()> {
    let path = path.as_ref();
    let name = path.file_name().and_then(|name| name.to_str()).and_then(FileName::parse);
    let open = || env.file_system.open(path);
    match name {
        Some(FileName::Wal(_)) => dump::dump_wal(open()?, out),
        Some(FileName::Manifest(_)) => dump::dump_manifest(open()?, out),
        Some(FileName::Table(_) | FileName::OldTable(_)) => {
            // A scan from front to back compares no keys, so any order will do.
            let order = InternalOrder::new(UserOrder::Bytewise);
            let settings = ReadSettings { order, filter: None, check_places: false };
            let table = Table::open(open()?, settings, Arc::new(BlockCache::new(0)))?;
            dump_table(&Arc::new(table), path, out)
        }
        _ => {
            let message = "expected the name of a log, a manifest or a table";
            Err(Error::invalid_argument(message).in_file(path))
        }
    }
}

fn dump_table(table: &Arc<Table>, path: &Path, out: &mut dyn Write) -> Result<()> {
    let mut text = Text { out, failure: None };
    let dumped = table_dump::dump(table, &mut text);
    match text.failure {
        Some(cause) => Err(Error::io("write dump of", path, cause)),
        None => dumped,
    }
}

/// Text for a writer of bytes; keeps the cause that `fmt::Error` cannot carry.
struct Text<'a> {
    out: &'a mut dyn Write,
    failure: Option<io::Error>,
}

impl fmt::Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.out.write_all(text.as_bytes()).map_err(|cause| {
            self.failure = Some(cause);
            fmt::Error
        })
    }
}
