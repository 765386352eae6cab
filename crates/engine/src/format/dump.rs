//! WALs and manifests as text, in the words of `leveldbutil dump`, so that scripts made for it go
//! on working. The tools call it.

use std::io::Write;
use std::sync::Arc;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::escape::Escaped;
use crate::base::key::ValueKind;
use crate::env::fs::RandomAccessFile;
use crate::format::batch::{self, BatchReader};
use crate::format::manifest::VersionEdit;
use crate::format::record::{RecordReader, Step};

/// Writes each batch of a WAL to `out`. What cannot be read becomes a line of text; only failing
/// to read the file or to write the text is an error.
pub(crate) fn dump_wal(file: Arc<dyn RandomAccessFile>, out: &mut dyn Write) -> Result<()> {
    dump_records(file, out, dump_batch)
}

/// Writes each edit of a manifest to `out`, as [`dump_wal`] does for batches.
pub(crate) fn dump_manifest(file: Arc<dyn RandomAccessFile>, out: &mut dyn Write) -> Result<()> {
    dump_records(file, out, |record, out| match VersionEdit::decode(record) {
        Ok(edit) => writeln!(out, "{edit}"),
        Err(error) => writeln!(out, "{error}"),
    })
}

fn dump_records(
    file: Arc<dyn RandomAccessFile>,
    out: &mut dyn Write,
    dump_one: impl Fn(&[u8], &mut dyn Write) -> std::io::Result<()>,
) -> Result<()> {
    let mut reader = RecordReader::new(file);
    let mut record = Vec::new();
    loop {
        let written = match reader.next(&mut record)? {
            Step::Record { offset, .. } => {
                write!(out, "--- offset {offset}; ").and_then(|()| dump_one(&record, out))
            }
            Step::Damage(damage) => {
                let error = Error::corruption(damage.reason);
                writeln!(out, "corruption: {} bytes; {error}", damage.bytes)
            }
            Step::TornTail { .. } | Step::End => return Ok(()),
        };
        written.map_err(|cause| Error::new(ErrorKind::Io, format!("write dump: {cause}")))?;
    }
}

fn dump_batch(record: &[u8], out: &mut dyn Write) -> std::io::Result<()> {
    if record.len() < batch::HEADER_BYTES {
        return writeln!(out, "log record length {} is too small", record.len());
    }
    let reader = match BatchReader::new(record) {
        Ok(reader) => reader,
        Err(error) => return writeln!(out, "{error}"),
    };
    writeln!(out, "sequence {}", reader.seqno())?;
    for entry in reader {
        match entry {
            Ok((ValueKind::Value, key, value)) => {
                writeln!(out, "  put '{}' '{}'", Escaped(key), Escaped(value))?;
            }
            Ok((ValueKind::Deletion, key, _)) => writeln!(out, "  del '{}'", Escaped(key))?,
            Err(error) => writeln!(out, "  error: {error}")?,
        }
    }
    Ok(())
}
