//! Checks one table: what `format/table/verify.rs` checks of its entries, its parts behind them,
//! and what the manifest says of it.

use std::sync::Arc;

use super::Findings;
use crate::base::coding::Reader;
use crate::base::error::{Error, Result};
use crate::base::iter::InternalIterator;
use crate::base::key::{InternalKey, SEQNO_MAX, SeqNo};
use crate::env::fs::{Access, RandomAccessFile};
use crate::format::filename::FileNumber;
use crate::format::table::block::Block;
use crate::format::table::fetch::{Verify, fetch};
use crate::format::table::handle::{BlockHandle, FOOTER_BYTES, Footer};
use crate::format::table::{ReadSettings, ScanOptions, Table, verify};
use crate::store::block_cache::BlockCache;
use crate::store::table_cache::open_named;
use crate::version::table_meta::TableMeta;

/// What the manifest says.
pub(super) struct Expected<'a> {
    pub(super) number: FileNumber,
    pub(super) meta: Option<&'a TableMeta>,
    /// No entry may be newer.
    pub(super) last_seqno: SeqNo,
}

impl Expected<'_> {
    /// All that a table's name says.
    pub(super) fn by_name(number: FileNumber) -> Self {
        Expected { number, meta: None, last_seqno: SEQNO_MAX }
    }
}

/// Reads the whole table.
pub(super) fn check(
    file: Arc<dyn RandomAccessFile>,
    settings: ReadSettings,
    expected: &Expected<'_>,
) -> Findings {
    let mut findings = Findings::default();
    let checked = read(&file, settings, expected, &mut findings);
    findings.error = checked.err().map(|error| error.in_file(file.path()));
    findings
}

fn read(
    file: &Arc<dyn RandomAccessFile>,
    settings: ReadSettings,
    expected: &Expected<'_>,
    findings: &mut Findings,
) -> Result<()> {
    let size = expected.meta.map_or(file.len(), |meta| meta.size);
    let blocks = Arc::new(BlockCache::new(0));
    let table = open_named(Arc::clone(file), (expected.number, size), settings, blocks)?;
    let table = Arc::new(table);
    check_frame(&**file)?;
    let counted = verify::verify(&table)?;
    findings.entries = counted.entries;
    if counted.largest_seqno > expected.last_seqno {
        let (found, last) = (counted.largest_seqno, expected.last_seqno);
        let message =
            format!("an entry has sequence number {found}, the manifest's last is {last}");
        return Err(Error::corruption(message));
    }
    expected.meta.map_or(Ok(()), |meta| check_bounds(&table, meta))
}

/// Checks what opening passes over: the footer's padding, and blocks that no setting asks for, such
/// as the filter of a policy that is not ours.
fn check_frame(file: &dyn RandomAccessFile) -> Result<()> {
    let footer_at = file.len().saturating_sub(FOOTER_BYTES as u64);
    let mut stored = [0; FOOTER_BYTES];
    let read = file.read_at(&mut stored, footer_at)?;
    let footer = Footer::decode(stored.get(..read).unwrap_or_default())?;
    let mut again = Vec::new();
    footer.encode(&mut again);
    if again != stored {
        return Err(Error::corruption("footer has bytes set that mean nothing").at(footer_at));
    }
    let mut bytes = Vec::new();
    let how = (Access::Open, Verify::Yes);
    fetch(file, footer.metaindex, how, &mut bytes)?;
    let mut handles = Vec::new();
    let metaindex = Block::new(bytes).and_then(|block| {
        block.for_each(|_, value| {
            handles.extend(BlockHandle::decode(&mut Reader::new(value)));
            Ok(())
        })
    });
    metaindex.map_err(|error| error.at(footer.metaindex.offset))?;
    let mut bytes = Vec::new();
    handles.into_iter().try_for_each(|handle| fetch(file, handle, how, &mut bytes))
}

fn check_bounds(table: &Arc<Table>, meta: &TableMeta) -> Result<()> {
    let mut iter = table.iter(ScanOptions::for_compaction());
    if !meta.is_whole() {
        return meta.parts().iter().try_for_each(|part| {
            iter.seek(part.smallest.as_bytes())?;
            check_bound("a smallest", iter.valid().then(|| iter.key()), &part.smallest)?;
            iter.seek(part.largest.as_bytes())?;
            check_bound("a largest", iter.valid().then(|| iter.key()), &part.largest)
        });
    }
    iter.seek_to_first()?;
    check_bound("smallest", iter.valid().then(|| iter.key()), &meta.smallest)?;
    iter.seek_to_last()?;
    check_bound("largest", iter.valid().then(|| iter.key()), &meta.largest)
}

fn check_bound(which: &str, found: Option<&[u8]>, expected: &InternalKey) -> Result<()> {
    if found == Some(expected.as_bytes()) {
        return Ok(());
    }
    let found =
        found.and_then(InternalKey::from_bytes).map_or("none".to_owned(), |key| key.to_string());
    let message = format!("{which} key is {found}, the manifest says {expected}");
    Err(Error::corruption(message))
}
