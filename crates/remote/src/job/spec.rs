//! A job's spec: all that a worker needs to know to make, byte for byte, the tables that the database's own process
//! would make. It is the same for each attempt.

use std::fmt;

use crate::job::id::JobId;
use crate::job::invalid::{Invalid, at_most};
use crate::job::key::TaggedKey;
use crate::job::limits::{
    INPUTS_MAX, KEY_BYTES_MAX, LABEL_BYTES_MAX, LABELS_MAX, PARTS_MAX, RANGES_MAX, SNAPSHOTS_MAX,
};
use crate::job::name::{DbId, ObjectName};

/// The deepest level of the format.
pub(crate) const LEVEL_MAX: u8 = 6;
/// A sequence number has so many bits.
const SEQNO_MAX: u64 = (1 << 56) - 1;
/// Room for the attempt and the number in an output's name.
const PLACE_BYTES_MAX: usize = 512;
const BLOCK_BYTES_MAX: u32 = 64 << 20;

/// Which part of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Area {
    /// The level proper.
    Tree,
    /// The level's overflow, in which tables overlap.
    SstLog,
}

/// Where tables are in a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot {
    /// 0 to 6.
    pub level: u8,
    /// Which part of it.
    pub area: Area,
}

/// The least and the greatest sequence number of some entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeqRange {
    /// The least.
    pub smallest: u64,
    /// The greatest.
    pub largest: u64,
}

impl SeqRange {
    pub(crate) fn check(&self, what: &'static str) -> Result<(), Invalid> {
        if self.smallest > self.largest || self.largest > SEQNO_MAX {
            return Err(Invalid::new(what, "the sequence numbers are out of order, or too large"));
        }
        Ok(())
    }
}

/// Two entries of a table, and all between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first one.
    pub smallest: TaggedKey,
    /// The last one.
    pub largest: TaggedKey,
}

/// A table to be merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputTable {
    /// Where it lies.
    pub name: ObjectName,
    /// The database's number of it.
    pub number: u64,
    /// All its bytes.
    pub bytes: u64,
    /// CRC-32C of all its bytes, if it is known.
    pub crc32c: Option<u32>,
    /// Where it is in the version.
    pub slot: Slot,
    /// The first and the last entry that count.
    pub span: Span,
    /// Of its entries.
    pub seqnos: SeqRange,
    /// How many entries it has, deletions included; 0 if nobody knows.
    pub entries: u64,
    /// The parts that count, ascending; empty if all of it does.
    pub live: Vec<Span>,
}

/// User keys from one on, up to another and without it; all of them where there is none.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct KeyPart {
    /// The first.
    pub from: Option<Vec<u8>>,
    /// The first that does not belong to it.
    pub until: Option<Vec<u8>>,
}

impl fmt::Debug for KeyPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |end: &Option<Vec<u8>>| end.as_ref().map(Vec::len);
        write!(f, "keys of {:?} to {:?} bytes", shown(&self.from), shown(&self.until))
    }
}

/// User keys that a table below the target may hold, both ends included: deletions of them must stay.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyRange {
    /// The first.
    pub low: Vec<u8>,
    /// The last.
    pub high: Vec<u8>,
}

impl fmt::Debug for KeyRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "keys of {} to {} bytes", self.low.len(), self.high.len())
    }
}

/// The end of a table one level below the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Border {
    /// Its last entry.
    pub largest: TaggedKey,
    /// Its bytes.
    pub bytes: u64,
}

/// When an output ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CutRule {
    /// When it is so large.
    pub table_bytes: u64,
    /// When it overlaps more than this of the next level.
    pub grandparent_bytes: u64,
    /// The tables of the next level, by key.
    pub borders: Vec<Border>,
}

/// How blocks are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Compression {
    /// Not at all.
    None,
    /// Snappy.
    Snappy,
    /// Zstandard, at a level.
    Zstd(i32),
}

/// How tables are laid out. The names are those that tables and manifests hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The comparator's name.
    pub comparator: String,
    /// The filter's name, and how many bits it has for each key; `None` for tables without one.
    pub filter: Option<(String, u32)>,
    /// How blocks are compressed.
    pub compression: Compression,
    /// Bytes of a block before compression, about.
    pub block_bytes: u32,
    /// Entries between two restarts of a block.
    pub restart_interval: u32,
    /// The table format's version.
    pub format: u32,
}

/// What to merge, where to, what may be dropped on the way, and how to write what is left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobSpec {
    /// Its number.
    pub job: JobId,
    /// Whose it is.
    pub db: DbId,
    /// Which opening of the database asks for it: workers of older ones are fenced.
    pub epoch: u64,
    /// What a worker must know beyond what the fields below say. One that does not know them all is not asked.
    pub features: Vec<String>,
    /// Newest first within a slot that is not sorted, by key in others.
    pub inputs: Vec<InputTable>,
    /// Where the outputs go.
    pub target: Slot,
    /// Which of the inputs' keys are merged.
    pub part: KeyPart,
    /// Live snapshots, ascending; the last is the newest state that anybody sees.
    pub snapshots: Vec<u64>,
    /// Key ranges of the tables below the target, by slot, each slot's by key.
    pub below: Vec<Vec<KeyRange>>,
    /// When an output ends.
    pub cut: CutRule,
    /// How outputs are laid out.
    pub layout: Layout,
    /// Below which name outputs go: a place of this job's own, which no other job ever has.
    pub place: ObjectName,
}

impl JobSpec {
    /// All bytes of its inputs.
    pub fn input_bytes(&self) -> u64 {
        self.inputs.iter().fold(0, |sum, input| sum.saturating_add(input.bytes))
    }

    /// Whether it is the same job, whichever opening of the database asks for it.
    pub fn is_same_work(&self, other: &JobSpec) -> bool {
        self == other || *self == JobSpec { epoch: self.epoch, ..other.clone() }
    }

    /// Whether it makes sense by itself: limits, levels, ranges of numbers. The order of keys is not looked at, for only
    /// the database's comparator knows it.
    ///
    /// # Errors
    ///
    /// [`Invalid`] names the first part that does not.
    pub fn check(&self) -> Result<(), Invalid> {
        if self.inputs.is_empty() {
            return Err(Invalid::new("inputs", "a job merges one table at least"));
        }
        at_most("inputs", self.inputs.len(), INPUTS_MAX)?;
        self.inputs.iter().try_for_each(InputTable::check)?;
        self.target.check("target")?;
        for end in [&self.part.from, &self.part.until].into_iter().flatten() {
            at_most("bytes of a part's end", end.len(), KEY_BYTES_MAX)?;
        }
        at_most("snapshots", self.snapshots.len(), SNAPSHOTS_MAX)?;
        if self.snapshots.is_empty() || !self.snapshots.is_sorted() {
            return Err(Invalid::new("snapshots", "one at least, ascending"));
        }
        at_most("ranges below", self.below.iter().map(Vec::len).sum(), RANGES_MAX)?;
        at_most("slots below", self.below.len(), 2 * usize::from(LEVEL_MAX) + 2)?;
        for range in self.below.iter().flatten() {
            at_most(
                "bytes of a range's end",
                range.low.len().max(range.high.len()),
                KEY_BYTES_MAX,
            )?;
        }
        at_most("borders", self.cut.borders.len(), RANGES_MAX)?;
        if self.cut.table_bytes == 0 {
            return Err(Invalid::new("cut rule", "tables of no bytes never end"));
        }
        at_most("features", self.features.len(), LABELS_MAX)?;
        self.features.iter().try_for_each(|feature| check_label("feature", feature))?;
        at_most("bytes of the place for outputs", self.place.as_str().len(), PLACE_BYTES_MAX)?;
        self.layout.check()
    }
}

impl Slot {
    fn check(&self, what: &'static str) -> Result<(), Invalid> {
        if self.level > LEVEL_MAX {
            return Err(Invalid::new(
                what,
                format!("level {}, and {LEVEL_MAX} is the last", self.level),
            ));
        }
        Ok(())
    }
}

impl InputTable {
    fn check(&self) -> Result<(), Invalid> {
        self.slot.check("input's slot")?;
        self.seqnos.check("input's sequence numbers")?;
        at_most("live parts", self.live.len(), PARTS_MAX)?;
        if self.bytes == 0 {
            return Err(Invalid::new("input", "a table has bytes"));
        }
        Ok(())
    }
}

impl Layout {
    fn check(&self) -> Result<(), Invalid> {
        check_label("comparator", &self.comparator)?;
        if let Some((name, _)) = &self.filter {
            check_label("filter", name)?;
        }
        if self.block_bytes == 0 || self.block_bytes > BLOCK_BYTES_MAX {
            return Err(Invalid::new("block bytes", format!("not 1 to {BLOCK_BYTES_MAX}")));
        }
        if self.restart_interval == 0 {
            return Err(Invalid::new("restart interval", "must be 1 at least"));
        }
        Ok(())
    }
}

pub(crate) fn check_label(what: &'static str, label: &str) -> Result<(), Invalid> {
    if label.is_empty() || label.len() > LABEL_BYTES_MAX || label.chars().any(char::is_control) {
        return Err(Invalid::new(
            what,
            format!("1 to {LABEL_BYTES_MAX} bytes without control characters"),
        ));
    }
    Ok(())
}
