//! WALs and manifests as text, in the words of `leveldbutil dump`, so that scripts made for it go
//! on working. The tools call it.

use std::io::Write;
use std::sync::Arc;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::escape::Escaped;
use crate::base::key::ValueKind;
use crate::env::fs::RandomAccessFile;
use crate::format::batch::{self, BatchReader};
use crate::format::manifest::edit::VersionEdit;
use crate::format::record::reader::{RecordReader, Step};

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
    for entry in reader.entries() {
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

/// Files that LevelDB wrote; see `testdata/leveldb-1.23/README.md`.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::checksum::crc32c;
    use crate::base::key::SeqNo;
    use crate::format::batch::WriteBatch;
    use crate::format::filename::FileNumber;
    use crate::format::manifest::current::parse_current;
    use crate::format::manifest::reader::ManifestReader;
    use crate::format::record::encoder::RecordEncoder;
    use crate::format::record::testing::{ByteFile, encode_all, read_all};

    macro_rules! golden {
        ($name:literal) => {
            include_bytes!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../../testdata/leveldb-1.23/",
                $name
            ))
        };
    }

    fn text(dump: impl Fn(&mut dyn Write) -> Result<()>) -> String {
        let mut out = Vec::new();
        dump(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn wal_text(bytes: &[u8]) -> String {
        text(|out| dump_wal(ByteFile::new("000003.log", bytes), out))
    }

    fn manifest_text(bytes: &[u8]) -> String {
        text(|out| dump_manifest(ByteFile::new("MANIFEST-000002", bytes), out))
    }

    #[test]
    fn leveldbs_wal_is_dumped_as_leveldb_dumps_it() {
        let dumped = wal_text(golden!("small/000007.log"));
        assert_eq!(dumped.as_bytes(), golden!("small.000007.log.dump"));
    }

    #[test]
    fn leveldbs_manifest_is_dumped_as_leveldb_dumps_it() {
        let dumped = manifest_text(golden!("small/MANIFEST-000004"));
        assert_eq!(dumped.as_bytes(), golden!("small.MANIFEST-000004.dump"));
    }

    #[test]
    fn leveldbs_files_encode_again_to_the_same_bytes() {
        let current = golden!("small/CURRENT");
        assert_eq!(parse_current(current).unwrap(), FileNumber(4));

        let wal = golden!("small/000007.log");
        let batches = read_all(wal).into_iter().map(|(_, record)| {
            let reader = BatchReader::new(&record).unwrap();
            let mut batch = WriteBatch::new();
            for entry in reader.entries() {
                match entry.unwrap() {
                    (ValueKind::Value, key, value) => batch.put(key, value),
                    (ValueKind::Deletion, key, _) => batch.delete(key),
                }
            }
            [&batch::header(reader.seqno(), batch.count()), batch.body()].concat()
        });
        assert_eq!(encode_all(batches), wal);

        let manifest = golden!("small/MANIFEST-000004");
        let mut reader = ManifestReader::new(ByteFile::new("MANIFEST-000004", *manifest));
        let mut records = Vec::new();
        while let Some(edit) = reader.next().unwrap() {
            let mut record = Vec::new();
            edit.encode(&mut record).unwrap();
            records.push(record);
        }
        assert_eq!(records.len(), 4);
        assert_eq!(encode_all(records), manifest);
    }

    /// The batches of `make long`; their WAL has records on all sides of block borders.
    #[test]
    fn long_records_are_cut_as_leveldb_cuts_them() {
        let mut wal = Vec::new();
        let mut encoder = RecordEncoder::new(0);
        for (bytes, seqno) in
            [10, 32700, 1, 32725, 32726, 32727, 32728, 0, 100_000, 5].into_iter().zip(1..)
        {
            let mut value: String =
                (0..=bytes as u32).map(|line| format!("{},", line * 7919)).collect();
            value.truncate(bytes);
            let mut batch = WriteBatch::new();
            batch.put(format!("k{bytes}"), value);
            encoder.encode(&[&batch::header(SeqNo(seqno), 1), batch.body()], &mut wal);
        }
        assert_eq!(wal.len(), 263_945);
        assert_eq!(crc32c(&wal), 0x60b8_444e);
    }

    #[test]
    fn what_cannot_be_read_becomes_text() {
        let mut short = encode_all([&b"short"[..], &batch::header(SeqNo(7), 1)]);
        let sound = short.len();
        RecordEncoder::new(sound as u64).encode(&[b"x"], &mut short);
        short[sound] ^= 1;
        assert_eq!(
            wal_text(&short),
            "--- offset 0; log record length 5 is too small\n\
             --- offset 12; sequence 7\n  error: Corruption: WriteBatch has wrong count\n\
             corruption: 8 bytes; Corruption: checksum mismatch\n"
        );
        let bytes = encode_all([b"\x08"]);
        assert_eq!(manifest_text(&bytes), "--- offset 0; Corruption: VersionEdit: unknown tag\n");
    }
}
