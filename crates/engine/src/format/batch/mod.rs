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

mod reader;
#[cfg(test)]
mod tests;

use std::fmt;

use crate::base::coding::put_length_prefixed;
use crate::base::error::{Error, Result};
use crate::base::key::{SeqNo, TAG_BYTES, ValueKind};

pub(crate) use reader::BatchReader;

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
