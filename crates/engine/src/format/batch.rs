//! Write batches: the unit of writing, and the payload of a WAL record. Users fill a
//! [`WriteBatch`]; recovery and the dumps take records apart with [`BatchReader`].
//!
//! **Layout**
//!
//! | offset | size | field | encoding |
//! |-------:|-----:|-------|----------|
//! | 0 | 8 | sequence number of the first entry | little-endian |
//! | 8 | 4 | count of entries | little-endian |
//! | 12 | .. | the entries | see below |
//!
//! An entry is the byte 1, key and value, or the byte 0 and a key; key and value each follow their
//! length (varint32). Entry `i` has the sequence number of the first plus `i`. An empty batch is a
//! sync mark in our logs.
//!
//! **Invariants**
//!
//! - I1. A `WriteBatch` holds a header, whose sequence number is zero, and whole entries.
//! - I2. Its header's count is the number of its entries, unless it is marked as too large.

use std::fmt;

use crate::base::coding::{Reader, put_length_prefixed};
use crate::base::error::{Error, Result};
use crate::base::key::{SEQNO_MAX, SeqNo, TAG_BYTES, ValueKind};

/// Bytes before the first entry.
pub(crate) const HEADER_BYTES: usize = COUNT_AT + 4;
const COUNT_AT: usize = 8;
const _: () = assert!(HEADER_BYTES == 12);

/// An internal key, too, must tell its length in 32 bits.
const KEY_BYTES_MAX: usize = u32::MAX as usize - TAG_BYTES;
const VALUE_BYTES_MAX: usize = u32::MAX as usize;

/// Updates that take effect together or not at all.
///
/// Filling a batch costs one copy of each key and value and never blocks; nothing is visible or
/// durable before [`Db::write`](crate::Db::write) succeeds. Within a batch, the later of two
/// updates of a key wins. A cleared batch keeps its memory for the next round.
///
/// Keys may have up to `u32::MAX - 8` bytes, values up to `u32::MAX`, and a batch up to `u32::MAX`
/// updates. A batch that was asked to hold more leaves that update out, and then writing it fails
/// with [`ErrorKind::InvalidArgument`](crate::ErrorKind); no method panics.
///
/// ```
/// use siltstone::{BatchOp, WriteBatch};
///
/// let mut batch = WriteBatch::default();
/// batch.put("moved", "42");
/// batch.delete(b"old place");
/// assert_eq!(batch.len(), 2);
///
/// let ops: Vec<BatchOp<'_>> = batch.iter().collect();
/// assert_eq!(ops[0], BatchOp::Put { key: b"moved", value: b"42" });
/// assert_eq!(ops[1], BatchOp::Delete { key: b"old place" });
/// ```
#[derive(Clone)]
pub struct WriteBatch {
    rep: Vec<u8>,
    /// Something did not fit the format and was left out.
    too_large: bool,
}

/// One update of a [`WriteBatch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BatchOp<'a> {
    /// Sets the value of a key.
    Put {
        /// The key.
        key: &'a [u8],
        /// Its new value.
        value: &'a [u8],
    },
    /// Removes a key.
    Delete {
        /// The key.
        key: &'a [u8],
    },
}

impl WriteBatch {
    /// An empty batch.
    pub fn new() -> Self {
        WriteBatch { rep: vec![0; HEADER_BYTES], too_large: false }
    }

    /// A batch from the bytes of another ([`as_bytes`](Self::as_bytes)), or of a WAL record.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Corruption`](crate::ErrorKind) unless all of `bytes` is one well-formed batch.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        if bytes.len() < HEADER_BYTES {
            return Err(Error::corruption("malformed WriteBatch (too small)"));
        }
        let reader = BatchReader::new(bytes)?;
        let first = header(SeqNo(0), reader.count());
        reader.check()?;
        Ok(WriteBatch { rep: [&first, reader.body].concat(), too_large: false })
    }

    /// Sets the value of `key`.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        let (key, value) = (key.as_ref(), value.as_ref());
        if self.make_room(key.len(), value.len()) {
            encode_entry(&mut self.rep, ValueKind::Value, key, value);
        }
    }

    /// Removes `key`; fine if it has no value.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) {
        let key = key.as_ref();
        if self.make_room(key.len(), 0) {
            encode_entry(&mut self.rep, ValueKind::Deletion, key, &[]);
        }
    }

    /// Drops all updates and keeps the memory.
    pub fn clear(&mut self) {
        self.rep.truncate(HEADER_BYTES);
        self.set_count(0);
        self.too_large = false;
    }

    /// Adds the updates of `other` behind its own.
    pub fn append(&mut self, other: &WriteBatch) {
        match self.count().checked_add(other.count()) {
            Some(count) => {
                self.set_count(count);
                self.rep.extend_from_slice(other.body());
                self.too_large |= other.too_large;
            }
            None => self.too_large = true,
        }
    }

    /// Bytes that writing the batch appends to the log, but for its record headers.
    pub fn approximate_size(&self) -> usize {
        self.rep.len()
    }

    /// The number of updates.
    pub fn len(&self) -> usize {
        self.count() as usize
    }

    /// True without updates.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// The updates, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = BatchOp<'_>> {
        BatchReader::over_body(self.body()).map(|entry| {
            match entry.expect("I1: entries are whole") {
                (ValueKind::Value, key, value) => BatchOp::Put { key, value },
                (ValueKind::Deletion, key, _) => BatchOp::Delete { key },
            }
        })
    }

    /// The batch as LevelDB lays it out, with the sequence number zero.
    pub fn as_bytes(&self) -> &[u8] {
        &self.rep
    }

    /// The entries alone.
    pub(crate) fn body(&self) -> &[u8] {
        &self.rep[HEADER_BYTES..]
    }

    /// The header's count.
    pub(crate) fn count(&self) -> u32 {
        let bytes = self.rep[COUNT_AT..].first_chunk().expect("I1: a batch has a header");
        u32::from_le_bytes(*bytes)
    }

    /// Fails if an update was left out because the format cannot hold it. To be asked before the
    /// batch is written.
    pub(crate) fn check(&self) -> Result<()> {
        if self.too_large {
            let message = "write batch holds a key, a value or a count beyond 32 bits";
            return Err(Error::invalid_argument(message));
        }
        Ok(())
    }

    /// Counts one more entry of these lengths; false, and noted, if the format cannot hold it.
    fn make_room(&mut self, key_bytes: usize, value_bytes: usize) -> bool {
        let fits = key_bytes <= KEY_BYTES_MAX && value_bytes <= VALUE_BYTES_MAX;
        match self.count().checked_add(1) {
            Some(count) if fits => self.set_count(count),
            _ => {
                self.too_large = true;
                return false;
            }
        }
        true
    }

    fn set_count(&mut self, count: u32) {
        self.rep[COUNT_AT..HEADER_BYTES].copy_from_slice(&count.to_le_bytes());
    }
}

impl Default for WriteBatch {
    fn default() -> Self {
        WriteBatch::new()
    }
}

impl fmt::Debug for WriteBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteBatch")
            .field("len", &self.len())
            .field("bytes", &self.rep.len())
            .finish_non_exhaustive()
    }
}

/// The header of a record that holds `count` entries from `seqno` on. The bodies of several batches
/// may follow it: that is how a write group becomes one record.
pub(crate) fn header(seqno: SeqNo, count: u32) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..COUNT_AT].copy_from_slice(&seqno.0.to_le_bytes());
    bytes[COUNT_AT..].copy_from_slice(&count.to_le_bytes());
    bytes
}

/// Appends one entry; the value of a deletion is not written. The caller counts entries, and has
/// checked that their lengths fit the format.
pub(crate) fn encode_entry(out: &mut Vec<u8>, kind: ValueKind, key: &[u8], value: &[u8]) {
    out.push(kind as u8);
    put_length_prefixed(out, key);
    if kind == ValueKind::Value {
        put_length_prefixed(out, value);
    }
}

/// An entry: what it does, its key, its value (empty for a deletion).
pub(crate) type Entry<'a> = (ValueKind, &'a [u8], &'a [u8]);

/// Takes a WAL record apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchReader<'a> {
    seqno: SeqNo,
    count: u32,
    body: &'a [u8],
}

impl<'a> BatchReader<'a> {
    pub(crate) fn new(record: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(record);
        let (Some(seqno), Some(count)) = (reader.fixed64(), reader.fixed32()) else {
            return Err(Error::corruption("log record too small"));
        };
        // Later arithmetic on sequence numbers relies on their fitting a tag.
        if seqno > SEQNO_MAX.0 - u64::from(count) {
            return Err(Error::corruption("WriteBatch sequence number out of range"));
        }
        Ok(BatchReader { seqno: SeqNo(seqno), count, body: reader.rest() })
    }

    /// The sequence number of the first entry.
    pub(crate) fn seqno(&self) -> SeqNo {
        self.seqno
    }

    /// How many entries the header promises.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// The entries. After an error, which may come last and say that their number is not the one
    /// that the header promises, there are no more.
    pub(crate) fn entries(&self) -> Entries<'a> {
        Entries { rest: Reader::new(self.body), found: 0, promised: Some(self.count), ended: false }
    }

    /// Fails if an entry cannot be decoded, or if there are not as many as promised.
    pub(crate) fn check(&self) -> Result<()> {
        self.entries().try_for_each(|entry| entry.map(drop))
    }

    /// The entries of a [`WriteBatch::body`], whose count is known elsewhere.
    pub(crate) fn over_body(body: &'a [u8]) -> Entries<'a> {
        Entries { rest: Reader::new(body), found: 0, promised: None, ended: false }
    }
}

/// The entries of a record; see [`BatchReader::entries`].
#[derive(Debug)]
pub(crate) struct Entries<'a> {
    rest: Reader<'a>,
    found: u64,
    promised: Option<u32>,
    /// True behind the last entry, and after an error.
    ended: bool,
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Result<Entry<'a>>> {
        if self.ended {
            return None;
        }
        if self.rest.is_empty() {
            self.ended = true;
            let as_promised = self.promised.is_none_or(|count| u64::from(count) == self.found);
            return (!as_promised).then(|| Err(wrong_count()));
        }
        self.found += 1;
        match decode_entry(&mut self.rest) {
            // More than promised are not handed out: they would have no sequence numbers.
            Ok(_) if self.promised.is_some_and(|count| u64::from(count) < self.found) => {
                self.ended = true;
                Some(Err(wrong_count()))
            }
            Ok(entry) => Some(Ok(entry)),
            Err(what) => {
                self.ended = true;
                Some(Err(Error::corruption(what)))
            }
        }
    }
}

fn wrong_count() -> Error {
    Error::corruption("WriteBatch has wrong count")
}

/// Reads one entry from bytes that are not empty; fails with what is wrong with it.
#[inline]
fn decode_entry<'a>(entries: &mut Reader<'a>) -> std::result::Result<Entry<'a>, &'static str> {
    match entries.u8().and_then(ValueKind::from_byte) {
        Some(ValueKind::Value) => {
            let key = decode_key(entries).ok_or("bad WriteBatch Put")?;
            let value = entries.length_prefixed().ok_or("bad WriteBatch Put")?;
            Ok((ValueKind::Value, key, value))
        }
        Some(ValueKind::Deletion) => {
            let key = decode_key(entries).ok_or("bad WriteBatch Delete")?;
            Ok((ValueKind::Deletion, key, &[]))
        }
        None => Err("unknown WriteBatch tag"),
    }
}

#[inline]
fn decode_key<'a>(entries: &mut Reader<'a>) -> Option<&'a [u8]> {
    entries.length_prefixed().filter(|key| key.len() <= KEY_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
