//! Tests of batches: their bytes, and what is wrong with broken ones.

use super::reader::Entry;
use super::*;
use crate::base::key::SEQNO_MAX;

fn sample() -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put("foo", "bar");
    batch.delete("box");
    batch.put("baz", "boo");
    batch
}

fn read(record: &[u8]) -> Result<Vec<Entry<'_>>> {
    BatchReader::new(record)?.entries().collect()
}

fn message(record: &[u8]) -> String {
    read(record).unwrap_err().to_string()
}

#[test]
fn golden_bytes() {
    let mut expected = vec![0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0];
    expected.extend_from_slice(b"\x01\x03foo\x03bar\x00\x03box\x01\x03baz\x03boo");
    assert_eq!(sample().as_bytes(), expected);
    assert_eq!(header(SeqNo(0x0102), 3), [2, 1, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0]);
}

#[test]
fn an_empty_batch_is_a_header() {
    let batch = WriteBatch::default();
    assert_eq!(batch.as_bytes(), [0; HEADER_BYTES]);
    assert_eq!((batch.len(), batch.is_empty()), (0, true));
    assert_eq!(batch.iter().next(), None);
    assert_eq!(read(batch.as_bytes()).unwrap(), []);
}

#[test]
fn updates_come_back_in_order() {
    let batch = sample();
    assert_eq!((batch.len(), batch.is_empty()), (3, false));
    let ops: Vec<_> = batch.iter().collect();
    assert_eq!(
        ops,
        [
            BatchOp::Put { key: b"foo", value: b"bar" },
            BatchOp::Delete { key: b"box" },
            BatchOp::Put { key: b"baz", value: b"boo" },
        ]
    );
    let record = [&header(SeqNo(100), batch.count()), batch.body()].concat();
    let reader = BatchReader::new(&record).unwrap();
    assert_eq!((reader.seqno(), reader.count()), (SeqNo(100), 3));
    let entries: Vec<_> = reader.entries().map(Result::unwrap).collect();
    let body_alone: Vec<_> = BatchReader::over_body(batch.body()).map(Result::unwrap).collect();
    assert_eq!(body_alone, entries);
    assert_eq!(
        entries,
        [
            (ValueKind::Value, &b"foo"[..], &b"bar"[..]),
            (ValueKind::Deletion, b"box", b""),
            (ValueKind::Value, b"baz", b"boo"),
        ]
    );
}

#[test]
fn a_cut_batch_is_corrupt() {
    let batch = sample();
    let bytes = batch.as_bytes();
    for len in 0..bytes.len() {
        let expected = match len {
            0..12 => "Corruption: log record too small",
            12 | 21 | 26 => "Corruption: WriteBatch has wrong count",
            22..26 => "Corruption: bad WriteBatch Delete",
            _ => "Corruption: bad WriteBatch Put",
        };
        assert_eq!(message(&bytes[..len]), expected, "cut at {len}");
        assert!(WriteBatch::from_bytes(&bytes[..len]).unwrap_err().is_corruption());
    }
}

#[test]
fn wrong_counts_and_tags_are_corrupt() {
    let body = sample().body().to_vec();
    for count in [0, 2, 4, u32::MAX] {
        let record = [&header(SeqNo(1), count)[..], &body].concat();
        assert_eq!(message(&record), "Corruption: WriteBatch has wrong count");
    }
    let record = [&header(SeqNo(1), 1)[..], &[2, 0, 0]].concat();
    assert_eq!(message(&record), "Corruption: unknown WriteBatch tag");
    // An error ends the entries.
    assert_eq!(BatchReader::new(&record).unwrap().entries().count(), 1);
}

#[test]
fn sequence_numbers_fit_a_tag() {
    let last = SeqNo(SEQNO_MAX.0 - 7);
    assert!(BatchReader::new(&header(last, 7)).is_ok());
    for (seqno, count) in [(last, 8), (SeqNo(u64::MAX), 0)] {
        let expected = "Corruption: WriteBatch sequence number out of range";
        assert_eq!(message(&header(seqno, count)), expected);
    }
}

#[test]
fn append_adds_updates_and_their_count() {
    let mut first = WriteBatch::new();
    let mut second = WriteBatch::new();
    first.append(&second);
    assert!(first.is_empty());
    second.put("a", "va");
    first.append(&second);
    assert_eq!(first.as_bytes(), second.as_bytes());
    second.clear();
    second.put("b", "vb");
    second.delete("foo");
    first.append(&second);
    assert_eq!(first.len(), 3);
    assert_eq!(first.iter().last(), Some(BatchOp::Delete { key: b"foo" }));
}

#[test]
fn the_size_is_that_of_the_bytes() {
    let mut batch = WriteBatch::new();
    assert_eq!(batch.approximate_size(), HEADER_BYTES);
    batch.put("foo", "bar");
    assert_eq!(batch.approximate_size(), HEADER_BYTES + 9);
    batch.delete("box");
    assert_eq!(batch.approximate_size(), HEADER_BYTES + 14);
    batch.clear();
    assert_eq!(batch.approximate_size(), HEADER_BYTES);
}

#[test]
fn bytes_make_a_batch_without_sequence_number() {
    let batch = sample();
    let record = [&header(SeqNo(9), 3), batch.body()].concat();
    assert_eq!(WriteBatch::from_bytes(&record).unwrap().as_bytes(), batch.as_bytes());
    let error = WriteBatch::from_bytes(&[0; 11]).unwrap_err();
    assert_eq!(error.to_string(), "Corruption: malformed WriteBatch (too small)");
}

#[test]
fn what_does_not_fit_is_left_out_and_told() {
    let mut full = WriteBatch::new();
    full.set_count(u32::MAX);
    full.put("k", "v");
    full.delete("k");
    full.append(&sample());
    assert_eq!((full.count(), full.approximate_size()), (u32::MAX, HEADER_BYTES));
    assert!(full.check().is_err());

    let mut batch = sample();
    assert!(batch.check().is_ok());
    assert!(batch.make_room(KEY_BYTES_MAX, VALUE_BYTES_MAX));
    for (key_bytes, value_bytes) in [(KEY_BYTES_MAX + 1, 0), (0, VALUE_BYTES_MAX + 1)] {
        let mut batch = WriteBatch::new();
        assert!(!batch.make_room(key_bytes, value_bytes));
        assert!(batch.is_empty());
        assert!(batch.check().is_err());
        let mut other = sample();
        other.append(&batch);
        assert!(other.check().is_err(), "appending a batch appends its fault");
        batch.clear();
        assert!(batch.check().is_ok());
    }
}
