//! Checks one log, then all of them together. Stricter than recovery: a bad record that a crash may
//! have left, since no sync had promised it, is told too.

use std::path::Path;
use std::sync::Arc;

use super::Findings;
use crate::base::error::{Error, Result};
use crate::base::key::SeqNo;
use crate::db::open::wal_replay::{ReplaySettings, WalReplay};
use crate::env::fs::{FileSystem, RandomAccessFile};
use crate::format::batch::BatchReader;
use crate::format::filename::FileNumber;
use crate::format::record::mark::find_sync_mark;
use crate::format::record::reader::{RecordReader, Step};
use crate::format::record::resync::half_stored;
use crate::memtable::MemTable;

/// Reads every record, and every update in it.
pub(super) fn check(file: Arc<dyn RandomAccessFile>) -> Findings {
    let mut findings = Findings::default();
    if let Err(error) = read(&file, &mut findings) {
        findings.error = Some(error.in_file(file.path()));
    }
    findings
}

/// Reads to the first thing that is wrong.
fn read(file: &Arc<dyn RandomAccessFile>, findings: &mut Findings) -> Result<()> {
    let mut reader = RecordReader::of_log(Arc::clone(file));
    let mut record = Vec::new();
    let mut next = None;
    loop {
        match reader.next(&mut record)? {
            Step::End => return Ok(()),
            Step::Record { offset, after_zeros, .. } => {
                let batch = read_batch(&record, next, after_zeros);
                let batch = batch.map_err(|error| error.at(offset))?;
                findings.entries += u64::from(batch.count());
                next = Some(batch.seqno().plus(u64::from(batch.count())));
            }
            Step::Damage(damage) => {
                return match half_stored(&damage, &**file)? {
                    Some(bytes) => tail(&**file, (damage.offset, bytes), findings),
                    None => Err(damaged(&**file, damage.offset, damage.reason)?),
                };
            }
            Step::TornTail { offset, bytes } => return tail(&**file, (offset, bytes), findings),
        }
    }
}

/// A part of a record at the end.
fn tail(
    file: &dyn RandomAccessFile,
    (offset, bytes): (u64, u64),
    findings: &mut Findings,
) -> Result<()> {
    findings.torn_bytes = bytes;
    match find_sync_mark(file, offset)? {
        Some(_) => Err(damaged(file, offset, "a record is cut short")?),
        None => Ok(()),
    }
}

/// `next` is the number behind the record before. It may be left out, by writes that failed, but not
/// behind a hole of zeros; and numbers never fall.
fn read_batch(record: &[u8], next: Option<SeqNo>, after_zeros: bool) -> Result<BatchReader<'_>> {
    let batch = BatchReader::new(record)?;
    let (found, next) = (batch.seqno(), next.unwrap_or(batch.seqno()));
    if found < next {
        return Err(Error::corruption(format!("write {found} stands where {next} belongs")));
    }
    if found > next && after_zeros {
        let last = found.0 - 1;
        return Err(Error::corruption(format!("zeros where writes {next} to {last} were")));
    }
    batch.check().map(|()| batch)
}

fn damaged(file: &dyn RandomAccessFile, offset: u64, reason: &str) -> Result<Error> {
    let message = match find_sync_mark(file, offset)? {
        Some(mark) => format!("{reason}; a sync at byte {mark} had promised it"),
        None => format!("{reason}; recovery keeps the writes before it"),
    };
    Ok(Error::corruption(message).at(offset))
}

/// Replays the logs as recovery would, to nowhere: each may be sound, and the next one show that it
/// was longer.
pub(super) fn check_together(
    fs: &dyn FileSystem,
    dir: &Path,
    settings: ReplaySettings,
    wals: &[FileNumber],
) -> Result<()> {
    let mut forget = |_: &Arc<MemTable>| Ok(());
    WalReplay::new(settings, fs, dir, &mut forget).run(wals).map(drop)
}
