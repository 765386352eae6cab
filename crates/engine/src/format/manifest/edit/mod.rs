//! Version edits: what a manifest's records say. The version set makes and applies them.
//!
//! **Layout.** Fields follow each other, each behind its tag (varint32); order and presence are
//! free. Tags up to 9 are format version 1, LevelDB's, which refuses any other tag. Version 2 is those and
//! the SST logs': an edit has them only if it names one or tells hotness, and a database is of version 2 while an edit of
//! its manifest has. They begin at 40, to leave LevelDB's successors room.
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
//! | 40 | table removed from an SST log | level varint32, number varint64 |
//! | 41 | table added to an SST log | level varint32, number varint64, size varint64, live bytes varint64, number of parts varint32 (at least 1), of each part the smallest and largest internal key length-prefixed |
//!
//! | 42 | hotness of the table that the edit has just added | number varint64, varint64 |
//!
//! The *parts* of a table are the ranges of its keys that count; what lies elsewhere in the file has been
//! merged into the next level already. A whole table has one part, and as many live bytes as its file has.

pub(crate) mod fold;
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
const TAG_REMOVED_FROM_LOG: u32 = 40;
const TAG_ADDED_TO_LOG: u32 = 41;
const TAG_HOTNESS: u32 = 42;

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
    /// What of it counts; `None` is all.
    pub(crate) live: Option<Live>,
    /// How often its keys were written lately, for policies that ask; 0 is unknown.
    pub(crate) hotness: u64,
}

/// What counts of a table of which a part has been merged already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Live {
    /// About how many of its file's bytes.
    pub(crate) bytes: u64,
    /// Ascending, at least one.
    pub(crate) parts: Vec<Span>,
}

/// Two entries of a table, and all between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) smallest: InternalKey,
    pub(crate) largest: InternalKey,
}

impl VersionEdit {
    /// Appends the edit, byte for byte as LevelDB would write it if it names no SST log.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Incompatible`] if a table that counts in part only is not in an SST log; `out` may
    /// then hold a part of the edit.
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
            let tag = if slot.area == Area::Tree { TAG_REMOVED } else { TAG_REMOVED_FROM_LOG };
            put_varint32(out, tag);
            put_varint32(out, u32::from(slot.level.number()));
            put_varint64(out, number.0);
        }
        self.added.iter().try_for_each(|(slot, table)| table.encode(*slot, out))
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
                TAG_REMOVED => ("deleted file", edit.read_removed(&mut reader, Area::Tree)),
                TAG_ADDED => ("new-file entry", edit.read_added(&mut reader)),
                TAG_REMOVED_FROM_LOG => {
                    ("file deleted from a log", edit.read_removed(&mut reader, Area::SstLog))
                }
                TAG_ADDED_TO_LOG => ("new-log-file entry", edit.read_added_to_log(&mut reader)),
                TAG_HOTNESS => ("hotness", edit.read_hotness(&mut reader)),
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

    fn read_removed(&mut self, reader: &mut Reader<'_>, area: Area) -> Option<()> {
        let slot = read_slot(reader, area)?;
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
            live: None,
            hotness: 0,
        };
        self.added.push((slot, table));
        Some(())
    }

    fn read_added_to_log(&mut self, reader: &mut Reader<'_>) -> Option<()> {
        let slot = read_slot(reader, Area::SstLog)?;
        let (number, size) = (FileNumber(reader.varint64()?), reader.varint64()?);
        let bytes = reader.varint64()?;
        // Each part takes room in the record, which bounds what is allocated.
        let mut parts = Vec::new();
        for _ in 0..reader.varint32()? {
            parts.push(Span { smallest: read_key(reader)?, largest: read_key(reader)? });
        }
        let smallest = parts.first()?.smallest.clone();
        let largest = parts.last()?.largest.clone();
        let is_whole = bytes == size && parts.len() == 1;
        let live = (!is_whole).then_some(Live { bytes, parts });
        self.added.push((slot, NewTable { number, size, smallest, largest, live, hotness: 0 }));
        (bytes <= size).then_some(())
    }

    fn read_hotness(&mut self, reader: &mut Reader<'_>) -> Option<()> {
        let number = FileNumber(reader.varint64()?);
        let (_, table) = self.added.last_mut().filter(|(_, table)| table.number == number)?;
        table.hotness = reader.varint64()?;
        Some(())
    }
}

impl NewTable {
    fn encode(&self, slot: Slot, out: &mut Vec<u8>) -> Result<()> {
        let level = u32::from(slot.level.number());
        let is_logged = slot.area == Area::SstLog;
        if self.live.is_some() && !is_logged {
            let message =
                format!("table {} counts in part only, which {slot} cannot say", self.number);
            return Err(Error::new(ErrorKind::Incompatible, message));
        }
        put_varint32(out, if is_logged { TAG_ADDED_TO_LOG } else { TAG_ADDED });
        put_varint32(out, level);
        put_varint64(out, self.number.0);
        put_varint64(out, self.size);
        if is_logged {
            put_varint64(out, self.live.as_ref().map_or(self.size, |live| live.bytes));
            put_varint32(out, self.live.as_ref().map_or(1, |live| live.parts.len() as u32));
        }
        let whole = [(&self.smallest, &self.largest)];
        let parts = self.live.iter().flat_map(|live| &live.parts);
        let parts = parts.map(|part| (&part.smallest, &part.largest));
        let whole = whole.into_iter().filter(|_| self.live.is_none());
        for (smallest, largest) in whole.chain(parts) {
            put_length_prefixed(out, smallest.as_bytes());
            put_length_prefixed(out, largest.as_bytes());
        }
        if self.hotness > 0 {
            put_varint32(out, TAG_HOTNESS);
            put_varint64(out, self.number.0);
            put_varint64(out, self.hotness);
        }
        Ok(())
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
            let NewTable { number, size, smallest, largest, live, hotness } = table;
            let slot = SlotText(*slot);
            write!(f, "\n  AddFile: {slot} {number} {size} {smallest} .. {largest}")?;
            if *hotness > 0 {
                write!(f, "\n    hotness: {hotness}")?;
            }
            let Some(live) = live else { continue };
            write!(f, "\n    live: {} bytes", live.bytes)?;
            for Span { smallest, largest } in &live.parts {
                write!(f, ", {smallest} .. {largest}")?;
            }
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

fn read_number(reader: &mut Reader<'_>, field: &mut Option<FileNumber>) -> Option<()> {
    *field = Some(FileNumber(reader.varint64()?));
    Some(())
}

fn read_level(reader: &mut Reader<'_>) -> Option<Level> {
    Level::new(u8::try_from(reader.varint32()?).ok()?)
}

/// Level 0 and the last have no SST log.
fn read_slot(reader: &mut Reader<'_>, area: Area) -> Option<Slot> {
    let level = read_level(reader)?;
    let has_log = level != Level::ZERO && level != Level::LAST;
    (area == Area::Tree || has_log).then_some(Slot { level, area })
}

fn read_key(reader: &mut Reader<'_>) -> Option<InternalKey> {
    InternalKey::from_bytes(reader.length_prefixed()?)
}

fn corruption(what: &str) -> Error {
    Error::corruption(format!("VersionEdit: {what}"))
}
