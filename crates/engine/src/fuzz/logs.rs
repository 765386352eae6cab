//! Bodies for what lies in logs and manifests: records, batches, edits.

use std::path::Path;
use std::sync::Arc;

use super::pieces;
use crate::base::comparator::{InternalOrder, UserOrder};
use crate::base::key::{SeqNo, ValueKind};
use crate::env::fs::FileSystem;
use crate::env::memory::MemoryFileSystem;
use crate::env::site::Site;
use crate::format::batch::{self, BatchOp, BatchReader, WriteBatch};
use crate::format::dump::{dump_manifest, dump_wal};
use crate::format::filename::{FileName, FileNumber};
use crate::format::manifest::edit::VersionEdit;
use crate::format::manifest::reader::ManifestReader;
use crate::format::record::encoder::RecordEncoder;
use crate::format::record::mark::{find_sync_mark, is_sync_mark};
use crate::format::record::reader::{RecordReader, Step};
use crate::format::record::testing::ByteFile;
use crate::version::graveyard::Graveyard;
use crate::version::recover::recover_manifest;
use crate::version::{Version, check};

/// How much of a file's end is searched for marks.
const SEARCHED_BYTES: usize = 1 << 10;

/// The whole input is a file of records.
pub(super) fn record(bytes: &[u8]) {
    let records = read_records(bytes);
    let file = ByteFile::new("000003.log", bytes);
    // Every byte is tried as a start; in what fills the blocks before there is nothing to find.
    let from = bytes.len().saturating_sub(SEARCHED_BYTES) as u64;
    let first_mark = find_sync_mark(&*file, from).expect("memory can be read");
    for (offset, record) in records.iter().filter(|(offset, _)| *offset >= from) {
        let in_one_piece = bytes[*offset as usize + 6] == 1;
        if in_one_piece && is_sync_mark(record) {
            assert!(first_mark.is_some_and(|mark| mark <= *offset), "the mark is found");
        }
    }
    if let Some(mark) = first_mark {
        assert_eq!(find_sync_mark(&*file, mark).ok(), Some(Some(mark)));
    }

    let mut again = Vec::new();
    let mut encoder = RecordEncoder::new(0);
    for (_, record) in &records {
        let (head, tail) = record.split_at(record.len() / 2);
        encoder.encode(&[head, tail], &mut again);
    }
    let reread = read_records(&again);
    assert!(records.iter().map(|(_, record)| record).eq(reread.iter().map(|(_, record)| record)));
    dump_wal(file.clone(), &mut std::io::sink()).expect("a sink takes all");
    dump_manifest(file, &mut std::io::sink()).expect("a sink takes all");
}

/// Every record with its offset, each step checked against the file.
fn read_records(bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let len = bytes.len() as u64;
    let mut reader = RecordReader::new(ByteFile::new("000003.log", bytes));
    let mut records = Vec::new();
    let mut record = Vec::new();
    let mut behind = 0;
    // Every step but the last passes over a header or tells of one passed over.
    for _ in 0..=2 * bytes.len() {
        match reader.next(&mut record).expect("memory can be read") {
            Step::Record { offset, end, .. } => {
                assert!(behind <= offset && offset < end && end <= len);
                assert!(record.len() as u64 <= end - offset);
                behind = end;
                records.push((offset, record.clone()));
            }
            Step::Damage(damage) => assert!(damage.offset + damage.bytes <= len),
            Step::TornTail { offset, bytes } => {
                assert_eq!(offset + bytes, len);
                assert_eq!(reader.next(&mut record).ok(), Some(Step::End));
                return records;
            }
            Step::End => return records,
        }
    }
    panic!("the reader does not come to an end");
}

/// The input is a record of a log; and, cut into pieces, the updates of a batch.
pub(super) fn batch(bytes: &[u8]) {
    let decoded = WriteBatch::from_bytes(bytes);
    let reader = BatchReader::new(bytes);
    let sound = reader.as_ref().is_ok_and(|reader| reader.check().is_ok());
    assert_eq!(decoded.is_ok(), sound);
    if let Ok(reader) = reader {
        assert_eq!(reader.entries().all(|entry| entry.is_ok()), sound);
        assert!(reader.entries().count() <= bytes.len());
    }
    if let Ok(decoded) = decoded {
        assert_eq!(decoded.len(), decoded.iter().count());
        check_again(&decoded);
    }

    let mut built = WriteBatch::new();
    for pair in pieces(bytes).chunks(2) {
        match pair {
            [key, value] => built.put(key, value),
            [key] => built.delete(key),
            _ => unreachable!("chunks of one or two"),
        }
    }
    check_again(&built);
}

/// The same updates, encoded anew, decode to themselves.
fn check_again(batch: &WriteBatch) {
    let mut again = WriteBatch::new();
    for op in batch.iter() {
        match op {
            BatchOp::Put { key, value } => again.put(key, value),
            BatchOp::Delete { key } => again.delete(key),
        }
    }
    assert!(again.iter().eq(batch.iter()));
    let record = [&batch::header(SeqNo(7), again.count()), again.body()].concat();
    let reread = WriteBatch::from_bytes(&record).expect("an encoded batch decodes");
    assert_eq!(reread.as_bytes(), again.as_bytes());
    let entries = BatchReader::new(&record).expect("an encoded batch has a header").entries();
    let kinds = entries.map(|entry| entry.expect("an encoded entry decodes").0);
    let is_put = |op| matches!(op, BatchOp::Put { .. });
    assert!(kinds.map(|kind| kind == ValueKind::Value).eq(again.iter().map(is_put)));
}

/// The input is a record of a manifest.
pub(super) fn edit(bytes: &[u8]) {
    let Ok(edit) = VersionEdit::decode(bytes) else { return };
    let _ = edit.to_string();
    let encoded = encode(&edit);
    let again = VersionEdit::decode(&encoded).expect("an encoded edit decodes");
    let mut removed = edit.removed.clone();
    removed.sort_unstable();
    removed.dedup();
    assert_eq!(again, VersionEdit { removed, ..edit });
    assert_eq!(encode(&again), encoded);
}

fn encode(edit: &VersionEdit) -> Vec<u8> {
    let mut bytes = Vec::new();
    edit.encode(&mut bytes).expect("what decodes names no slot that LevelDB lacks");
    bytes
}

/// The whole input is a manifest.
pub(super) fn manifest(bytes: &[u8]) {
    let Some((version, edits)) = recover(bytes) else { return };
    check::check(&order(), &version).expect("a recovered version keeps the rules");

    // The same edits in a manifest of our own, and all of them as one snapshot.
    let mut rewritten = Vec::new();
    let mut encoder = RecordEncoder::new(0);
    for edit in &edits {
        encoder.encode(&[&encode(edit)], &mut rewritten);
    }
    let (again, _) = recover(&rewritten).expect("a rewritten manifest recovers");
    assert_eq!(shape(&again), shape(&version));
}

/// The version that a manifest of these bytes leads to, and the edits in it.
fn recover(bytes: &[u8]) -> Option<(Version, Vec<VersionEdit>)> {
    let (fs, dir) = (MemoryFileSystem::new(), Path::new("/"));
    let path = FileName::Manifest(FileNumber(2)).in_dir(dir);
    let written = fs.create(&path, Site::ManifestCreate);
    let written = written.and_then(|mut file| file.append(bytes, Site::ManifestAppend));
    written.expect("memory can be written");
    let graveyard = Arc::new(Graveyard::new());
    let recovered = recover_manifest(&fs, dir, &order(), &graveyard, FileNumber(2)).ok()?;
    assert!(recovered.oldest_log() <= recovered.log_number);
    for (_, table) in recovered.version.tables() {
        assert!(table.number < recovered.next_file && table.number <= FileNumber::MAX);
    }
    let mut reader = ManifestReader::new(ByteFile::new("MANIFEST-000002", bytes));
    let mut edits = Vec::new();
    while let Some(edit) = reader.next().expect("recovery has read it to its end") {
        edits.push(edit);
    }
    Some((recovered.version, edits))
}

fn order() -> InternalOrder {
    InternalOrder::new(UserOrder::Bytewise)
}

fn shape(version: &Version) -> Vec<String> {
    let text = |(slot, table): (crate::base::slot::Slot, &Arc<_>)| {
        let table: &crate::version::table_meta::TableMeta = table;
        format!("{slot} {} {} {} {}", table.number, table.size, table.smallest, table.largest)
    };
    version.tables().map(text).collect()
}
