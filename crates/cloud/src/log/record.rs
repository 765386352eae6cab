//! Records of the version log, one object each: what changed from one version to the next, or all of a version. Written
//! by owners, read by everyone.
//!
//! What the engine's version edits say is opaque here; the tables are listed once more for those who only care about
//! objects. I1: a record says what version it is, so that an object under a wrong name is noticed.
//!
//! | field | encoding |
//! | --- | --- |
//! | frame, `slvr` | [`coding`](crate::coding) |
//! | kind | u8: 1 edit, 2 snapshot, 3 takeover, 4 restart |
//! | version | u64 |
//! | epoch | u64 |
//! | token | 16 bytes, the owner's |
//! | base | u64: the last record that lists all tables; this one, if it does |
//! | spans | count, then each: epoch u64, from u64 |
//! | held jobs | count, then each: epoch u64, number u64 |
//! | ancestors | count, then each: version u64, token 16 bytes, root text, pin text |
//! | tables | count, then each: number u64, home u16, bytes u64, CRC-32C u32, id |
//! | removed | count, then each: number u64 |
//! | payloads | count, then each: length u32, the bytes of a version edit |
//!
//! An id is a u8, then for 1 (an owner's) epoch u64 and number u64; for 2 (a worker's) epoch u64, number u64, the attempt's
//! term u32 and count u32, and ordinal u32. A count is a u32.

use bytes::Bytes;

use crate::coding::{Reader, Writer};
use crate::error::Outcome;
use crate::names::{
    Attempt, Epoch, JobId, PinName, Root, TableId, Token, VersionNumber, root_from_record,
};

const MAGIC: [u8; 4] = *b"slvr";

/// More versions than anybody commits: there is always a next one.
const VERSION_MAX: u64 = 1 << 62;
/// Of more openings in a row that commit nothing, the oldest are not remembered: what they uploaded is given up.
const SPANS_MAX: usize = 64;

const SPAN_BYTES: usize = 16;
const JOB_BYTES: usize = 16;
const ANCESTOR_BYTES_MIN: usize = 28;
const TABLE_BYTES_MIN: usize = 39;
const NUMBER_BYTES: usize = 8;
const PAYLOAD_BYTES_MIN: usize = 4;

/// What a record does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Adds and removes tables.
    Edit,
    /// Says again what there is, so that nobody must read further back.
    Snapshot,
    /// A new owner's first; the tables stay as they are.
    Takeover,
    /// A new owner's first, which says what tables there are: of a new database, or one set back to a checkpoint.
    Restart,
}

impl Kind {
    /// True if the record lists all tables, and payloads that make up all of the version.
    pub fn is_whole(self) -> bool {
        matches!(self, Kind::Snapshot | Kind::Restart)
    }
}

/// A table's object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// Whose: 0 is this database, and `n` its ancestor `n - 1`.
    pub home: u16,
    /// Which.
    pub id: TableId,
    /// Its size.
    pub bytes: u64,
    /// Of all its bytes.
    pub crc32c: u32,
}

/// Tables of an epoch that may still be named: from this number on. Its owner moves it behind what he has given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Whose tables and jobs.
    pub epoch: Epoch,
    /// The first number.
    pub from: u64,
}

/// A database whose tables this one shares, and the pin there that keeps them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ancestor {
    /// Where it lies in the bucket.
    pub root: Root,
    /// The version that is pinned.
    pub version: VersionNumber,
    /// The pin's name.
    pub pin: PinName,
    /// The pin's token.
    pub token: Token,
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The version that comes of it.
    pub version: VersionNumber,
    /// What it does.
    pub kind: Kind,
    /// Whose time it is of.
    pub epoch: Epoch,
    /// The owner's.
    pub token: Token,
    /// The last record that lists all tables.
    pub base: VersionNumber,
    /// What may still be named.
    pub spans: Vec<Span>,
    /// Jobs of earlier epochs that go on.
    pub held: Vec<JobId>,
    /// Where shared tables lie; only in whole records, others leave it as it is.
    pub ancestors: Vec<Ancestor>,
    /// New tables, or all, with the numbers the engine knows them by.
    pub tables: Vec<(u64, Table)>,
    /// Numbers of tables that are no longer part of the version.
    pub removed: Vec<u64>,
    /// Version edits, as LevelDB encodes them.
    pub payloads: Vec<Bytes>,
}

impl Record {
    /// What may be named once `epoch` has begun: what was open stays so until its owner has had a look.
    pub(super) fn spans_for(&self, epoch: Epoch) -> Vec<Span> {
        let spare = (self.spans.len() + 1).saturating_sub(SPANS_MAX);
        let kept = self.spans.iter().skip(spare).copied();
        kept.chain([Span { epoch, from: 0 }]).collect()
    }

    /// As bytes.
    pub fn encode(&self) -> Bytes {
        let mut writer = Writer::new(MAGIC);
        writer.u8(match self.kind {
            Kind::Edit => 1,
            Kind::Snapshot => 2,
            Kind::Takeover => 3,
            Kind::Restart => 4,
        });
        writer.u64(self.version.0);
        writer.u64(self.epoch.0);
        writer.token(self.token);
        writer.u64(self.base.0);
        self.encode_what_may_be_named(&mut writer);
        writer.count(self.tables.len());
        self.tables.iter().for_each(|(number, table)| encode_table(&mut writer, *number, table));
        writer.count(self.removed.len());
        self.removed.iter().for_each(|number| writer.u64(*number));
        writer.count(self.payloads.len());
        for payload in &self.payloads {
            writer.count(payload.len());
            writer.bytes(payload);
        }
        writer.finish()
    }

    fn encode_what_may_be_named(&self, writer: &mut Writer) {
        writer.count(self.spans.len());
        for span in &self.spans {
            writer.u64(span.epoch.0);
            writer.u64(span.from);
        }
        writer.count(self.held.len());
        self.held.iter().for_each(|job| encode_job(writer, *job));
        writer.count(self.ancestors.len());
        for ancestor in &self.ancestors {
            writer.u64(ancestor.version.0);
            writer.token(ancestor.token);
            writer.text(ancestor.root.as_str());
            writer.text(ancestor.pin.as_str());
        }
    }

    /// Out of bytes. `name` is the object's, for errors, which are of the kind
    /// [`Damaged`](crate::ErrorKind::Damaged).
    pub fn decode(name: &str, bytes: &Bytes) -> Outcome<Self> {
        let mut reader = Reader::new(name, MAGIC, bytes)?;
        let kind = match reader.u8()? {
            1 => Kind::Edit,
            2 => Kind::Snapshot,
            3 => Kind::Takeover,
            4 => Kind::Restart,
            other => return Err(reader.wrong(format!("kind {other}"))),
        };
        let record = Record {
            version: VersionNumber(reader.u64()?),
            kind,
            epoch: Epoch(reader.u64()?),
            token: reader.token()?,
            base: VersionNumber(reader.u64()?),
            spans: each(&mut reader, SPAN_BYTES, |reader| {
                Ok(Span { epoch: Epoch(reader.u64()?), from: reader.u64()? })
            })?,
            held: each(&mut reader, JOB_BYTES, decode_job)?,
            ancestors: each(&mut reader, ANCESTOR_BYTES_MIN, |reader| {
                decode_ancestor(reader, name)
            })?,
            tables: each(&mut reader, TABLE_BYTES_MIN, decode_table)?,
            removed: each(&mut reader, NUMBER_BYTES, Reader::u64)?,
            payloads: each(&mut reader, PAYLOAD_BYTES_MIN, |reader| {
                let len = reader.u32()?;
                reader.bytes(len as usize)
            })?,
        };
        record.check(&reader)?;
        reader.end()?;
        Ok(record)
    }

    fn check(&self, reader: &Reader<'_>) -> Outcome<()> {
        let whole = self.kind.is_whole();
        let base_fits = if whole { self.base == self.version } else { self.base < self.version };
        let counted = self.version.0 != 0 && self.version.0 <= VERSION_MAX && self.base.0 != 0;
        if !counted || !base_fits {
            return Err(reader.wrong(format!("version {} on {}", self.version, self.base)));
        }
        let idle = |len: usize| len == 0;
        let fits = match self.kind {
            Kind::Edit => idle(self.ancestors.len()),
            Kind::Snapshot | Kind::Restart => idle(self.removed.len()),
            Kind::Takeover => {
                let lens = [self.ancestors.len(), self.tables.len(), self.removed.len()];
                lens.into_iter().all(idle) && self.payloads.is_empty()
            }
        };
        let known = |table: &Table| whole || table.home == 0;
        let homes = self
            .tables
            .iter()
            .all(|(_, table)| known(table) && usize::from(table.home) <= self.ancestors.len());
        if !fits || !homes {
            return Err(reader.wrong(format!("parts that a {:?} does not have", self.kind)));
        }
        Ok(())
    }
}

/// As many things as a count says.
fn each<'a, T>(
    reader: &mut Reader<'a>,
    bytes_min: usize,
    mut one: impl FnMut(&mut Reader<'a>) -> Outcome<T>,
) -> Outcome<Vec<T>> {
    let count = reader.count(bytes_min)?;
    (0..count).map(|_| one(reader)).collect()
}

fn encode_job(writer: &mut Writer, job: JobId) {
    writer.u64(job.epoch.0);
    writer.u64(job.number);
}

fn decode_job(reader: &mut Reader<'_>) -> Outcome<JobId> {
    Ok(JobId { epoch: Epoch(reader.u64()?), number: reader.u64()? })
}

fn decode_ancestor(reader: &mut Reader<'_>, name: &str) -> Outcome<Ancestor> {
    let (version, token) = (VersionNumber(reader.u64()?), reader.token()?);
    let root = root_from_record(&reader.text()?, name)?;
    let pin = reader.text()?;
    let pin = PinName::new(&pin).map_err(|error| reader.wrong(error))?;
    Ok(Ancestor { root, version, pin, token })
}

pub(crate) fn encode_table(writer: &mut Writer, number: u64, table: &Table) {
    writer.u64(number);
    writer.u16(table.home);
    writer.u64(table.bytes);
    writer.u32(table.crc32c);
    match table.id {
        TableId::Own { epoch, number } => {
            writer.u8(1);
            writer.u64(epoch.0);
            writer.u64(number);
        }
        TableId::Worked { job, attempt, ordinal } => {
            writer.u8(2);
            encode_job(writer, job);
            writer.u32(attempt.term);
            writer.u32(attempt.count);
            writer.u32(ordinal);
        }
    }
}

pub(crate) fn decode_table(reader: &mut Reader<'_>) -> Outcome<(u64, Table)> {
    let (number, home, bytes, crc32c) =
        (reader.u64()?, reader.u16()?, reader.u64()?, reader.u32()?);
    let id = match reader.u8()? {
        1 => TableId::Own { epoch: Epoch(reader.u64()?), number: reader.u64()? },
        2 => {
            let job = decode_job(reader)?;
            let attempt = Attempt { term: reader.u32()?, count: reader.u32()? };
            TableId::Worked { job, attempt, ordinal: reader.u32()? }
        }
        other => return Err(reader.wrong(format!("a table of kind {other}"))),
    };
    Ok((number, Table { home, id, bytes, crc32c }))
}

#[cfg(test)]
mod tests;
