//! Takes WAL records apart into entries.

use super::KEY_BYTES_MAX;
use crate::base::coding::Reader;
use crate::base::error::{Error, Result};
use crate::base::key::{SEQNO_MAX, SeqNo, ValueKind};

/// An entry: what it does, its key, its value (empty for a deletion).
pub(crate) type Entry<'a> = (ValueKind, &'a [u8], &'a [u8]);

/// Takes a WAL record apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchReader<'a> {
    seqno: SeqNo,
    count: u32,
    pub(super) body: &'a [u8],
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
