//! Version edits: what a manifest's records say. The version set makes and applies them.
//!
//! **Layout.** Fields follow each other, each behind its tag (varint32); order and presence are
//! free. This is format version 1, LevelDB's, which refuses any other tag.
//!
//! | tag | field | encoding |
//! |----:|-------|----------|
//! | 1 | comparator name | length-prefixed |
//! | 2 | number of the oldest WAL still needed | varint64 |
//! | 3 | next file number | varint64 |
//! | 4 | last sequence number | varint64 |
//! | 5 | compaction pointer | level varint32, internal key length-prefixed |
//! | 6 | removed table | level varint32, number varint64 |
//! | 7 | added table | level varint32, number varint64, size varint64, smallest and largest internal key length-prefixed |
//! | 8 | (once large values; refused) | |
//! | 9 | number of a WAL before it, unused since 2011 | varint64 |

#[cfg(test)]
mod tests;

use std::fmt;

use crate::base::coding::{Reader, put_length_prefixed, put_varint32, put_varint64};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::key::{InternalKey, SEQNO_MAX, SeqNo};
use crate::base::slot::{Area, Level, Slot};
use crate::format::filename::FileNumber;

const TAG_COMPARATOR: u32 = 1;
const TAG_LOG_NUMBER: u32 = 2;
const TAG_NEXT_FILE: u32 = 3;
const TAG_LAST_SEQNO: u32 = 4;
const TAG_COMPACT_POINTER: u32 = 5;
const TAG_REMOVED: u32 = 6;
const TAG_ADDED: u32 = 7;
const TAG_PREV_LOG_NUMBER: u32 = 9;

/// A change of a database's shape. Fields that are `None` stay as they were.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct VersionEdit {
    /// The name of the comparator. One that is no UTF-8 is refused: no comparator here can have it,
    /// and writing an approximation back would lock out the program whose name it is.
    pub(crate) comparator: Option<String>,
    /// WALs with smaller numbers are not needed any more.
    pub(crate) log_number: Option<FileNumber>,
    /// One smaller WAL that is. Always zero in what is written today.
    pub(crate) prev_log_number: Option<FileNumber>,
    /// No file has this number or a greater one.
    pub(crate) next_file: Option<FileNumber>,
    pub(crate) last_seqno: Option<SeqNo>,
    /// Where the next compaction of a level starts.
    pub(crate) compact_pointers: Vec<(Level, InternalKey)>,
    pub(crate) removed: Vec<(Slot, FileNumber)>,
    pub(crate) added: Vec<(Slot, NewTable)>,
}

/// A table as an edit adds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewTable {
    pub(crate) number: FileNumber,
    /// Bytes of the file.
    pub(crate) size: u64,
    pub(crate) smallest: InternalKey,
    pub(crate) largest: InternalKey,
}

impl VersionEdit {
    /// Appends the edit as LevelDB would write it, byte for byte.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Incompatible`] if it names a slot that LevelDB does not know; `out` may then
    /// hold a part of the edit.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        if let Some(name) = &self.comparator {
            put_varint32(out, TAG_COMPARATOR);
            put_length_prefixed(out, name.as_bytes());
        }
        put_number(out, TAG_LOG_NUMBER, self.log_number.map(|number| number.0));
        put_number(out, TAG_PREV_LOG_NUMBER, self.prev_log_number.map(|number| number.0));
        put_number(out, TAG_NEXT_FILE, self.next_file.map(|number| number.0));
        put_number(out, TAG_LAST_SEQNO, self.last_seqno.map(|seqno| seqno.0));
        for (level, key) in &self.compact_pointers {
            put_varint32(out, TAG_COMPACT_POINTER);
            put_varint32(out, u32::from(level.number()));
            put_length_prefixed(out, key.as_bytes());
        }
        for (slot, number) in self.removed_in_order() {
            put_varint32(out, TAG_REMOVED);
            put_slot(out, slot)?;
            put_varint64(out, number.0);
        }
        for (slot, table) in &self.added {
            put_varint32(out, TAG_ADDED);
            put_slot(out, *slot)?;
            put_varint64(out, table.number.0);
            put_varint64(out, table.size);
            put_length_prefixed(out, table.smallest.as_bytes());
            put_length_prefixed(out, table.largest.as_bytes());
        }
        Ok(())
    }

    /// LevelDB keeps removals in a set, so each comes once and by level, then number.
    fn removed_in_order(&self) -> Vec<(Slot, FileNumber)> {
        let mut removed = self.removed.clone();
        removed.sort_unstable();
        removed.dedup();
        removed
    }

    /// The edit that `bytes` encode.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Corruption`] naming the first field that is not whole or not allowed.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut edit = VersionEdit::default();
        let mut reader = Reader::new(bytes);
        while !reader.is_empty() {
            let tag = reader.varint32().ok_or_else(|| corruption("invalid tag"))?;
            let (what, field) = match tag {
                TAG_COMPARATOR => ("comparator name", edit.read_comparator(&mut reader)),
                TAG_LOG_NUMBER => ("log number", read_number(&mut reader, &mut edit.log_number)),
                TAG_PREV_LOG_NUMBER => {
                    ("previous log number", read_number(&mut reader, &mut edit.prev_log_number))
                }
                TAG_NEXT_FILE => {
                    ("next file number", read_number(&mut reader, &mut edit.next_file))
                }
                TAG_LAST_SEQNO => ("last sequence number", edit.read_last_seqno(&mut reader)),
                TAG_COMPACT_POINTER => {
                    ("compaction pointer", edit.read_compact_pointer(&mut reader))
                }
                TAG_REMOVED => ("deleted file", edit.read_removed(&mut reader)),
                TAG_ADDED => ("new-file entry", edit.read_added(&mut reader)),
                _ => ("unknown tag", None),
            };
            field.ok_or_else(|| corruption(what))?;
        }
        Ok(edit)
    }

    fn read_comparator(&mut self, reader: &mut Reader<'_>) -> Option<()> {
        let name = std::str::from_utf8(reader.length_prefixed()?).ok()?;
        self.comparator = Some(name.to_owned());
        Some(())
    }

    fn read_last_seqno(&mut self, reader: &mut Reader<'_>) -> Option<()> {
        let seqno = SeqNo(reader.varint64()?);
        self.last_seqno = Some(seqno);
        // Later arithmetic on sequence numbers relies on their fitting a tag.
        (seqno <= SEQNO_MAX).then_some(())
    }

    fn read_compact_pointer(&mut self, reader: &mut Reader<'_>) -> Option<()> {
        self.compact_pointers.push((read_level(reader)?, read_key(reader)?));
        Some(())
    }

    fn read_removed(&mut self, reader: &mut Reader<'_>) -> Option<()> {
        let slot = Slot::tree(read_level(reader)?);
        self.removed.push((slot, FileNumber(reader.varint64()?)));
        Some(())
    }

    fn read_added(&mut self, reader: &mut Reader<'_>) -> Option<()> {
        let slot = Slot::tree(read_level(reader)?);
        let table = NewTable {
            number: FileNumber(reader.varint64()?),
            size: reader.varint64()?,
            smallest: read_key(reader)?,
            largest: read_key(reader)?,
        };
        self.added.push((slot, table));
        Some(())
    }
}

/// The text that `leveldbutil dump` prints, but for its last newline.
impl fmt::Display for VersionEdit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VersionEdit {")?;
        if let Some(name) = &self.comparator {
            write!(f, "\n  Comparator: {name}")?;
        }
        if let Some(number) = self.log_number {
            write!(f, "\n  LogNumber: {number}")?;
        }
        if let Some(number) = self.prev_log_number {
            write!(f, "\n  PrevLogNumber: {number}")?;
        }
        if let Some(number) = self.next_file {
            write!(f, "\n  NextFile: {number}")?;
        }
        if let Some(seqno) = self.last_seqno {
            write!(f, "\n  LastSeq: {seqno}")?;
        }
        for (level, key) in &self.compact_pointers {
            write!(f, "\n  CompactPointer: {level} {key}")?;
        }
        for (slot, number) in self.removed_in_order() {
            write!(f, "\n  RemoveFile: {} {number}", SlotText(slot))?;
        }
        for (slot, table) in &self.added {
            let NewTable { number, size, smallest, largest } = table;
            let slot = SlotText(*slot);
            write!(f, "\n  AddFile: {slot} {number} {size} {smallest} .. {largest}")?;
        }
        f.write_str("\n}")
    }
}

/// A slot as dumps show it: the bare level, as LevelDB prints it, where that says all.
struct SlotText(Slot);

impl fmt::Display for SlotText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.area {
            Area::Tree => self.0.level.fmt(f),
            Area::SstLog => self.0.fmt(f),
        }
    }
}

fn put_number(out: &mut Vec<u8>, tag: u32, number: Option<u64>) {
    if let Some(number) = number {
        put_varint32(out, tag);
        put_varint64(out, number);
    }
}

fn put_slot(out: &mut Vec<u8>, slot: Slot) -> Result<()> {
    match slot.area {
        Area::Tree => put_varint32(out, u32::from(slot.level.number())),
        Area::SstLog => {
            let message = format!("a table in {slot} needs manifest format version 2");
            return Err(Error::new(ErrorKind::Incompatible, message));
        }
    }
    Ok(())
}

fn read_number(reader: &mut Reader<'_>, field: &mut Option<FileNumber>) -> Option<()> {
    *field = Some(FileNumber(reader.varint64()?));
    Some(())
}

fn read_level(reader: &mut Reader<'_>) -> Option<Level> {
    Level::new(u8::try_from(reader.varint32()?).ok()?)
}

fn read_key(reader: &mut Reader<'_>) -> Option<InternalKey> {
    InternalKey::from_bytes(reader.length_prefixed()?)
}

fn corruption(what: &str) -> Error {
    Error::corruption(format!("VersionEdit: {what}"))
}
