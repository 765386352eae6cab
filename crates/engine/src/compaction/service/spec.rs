//! A job as plain data, complete in itself: all that it takes, beside its inputs' bytes, to make its tables anywhere. The
//! database makes one of a job it gives away, and whoever runs it makes a job of that again.
//!
//! Whoever runs one need not believe it: what makes no sense is an error before anything is read.

use std::collections::HashSet;
use std::sync::Arc;

use crate::base::comparator::{InternalOrder, UserOrder};
use crate::base::error::{Error, Result};
use crate::base::key::{InternalKey, SEQNO_MAX, SeqNo, parse};
use crate::base::slot::{Area, Level, Slot};
use crate::compaction::cut::CutRule;
use crate::compaction::job::Job;
use crate::compaction::parts::Part;
use crate::format::filename::FileNumber;
use crate::format::manifest::edit::{Live, NewTable, Span};
use crate::format::table::TableSettings;
use crate::format::table::builder::TableSummary;
use crate::format::table::compress::Compression;
use crate::format::table::filter::Filter;
use crate::format::table::properties::TableProperties;
use crate::version::Tables;
use crate::version::graveyard::Graveyard;
use crate::version::table_meta::TableMeta;

/// What to merge, where to, what may be dropped on the way, and how to write what stays. Keys called *internal* end with a
/// tag of eight bytes (sequence number and kind); *user* keys have none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobSpec {
    /// From the database's count of files: while it is open, no file and no other job has it.
    pub number: FileNumber,
    /// In search order: by slot, then by key where the slot is sorted, newest first elsewhere.
    pub inputs: Vec<JobInput>,
    /// Where the outputs go.
    pub target: Slot,
    /// Which of the inputs' keys are merged.
    pub part: KeyPart,
    /// Live snapshots, ascending; the last is the newest state that anybody sees.
    pub snapshots: Vec<SeqNo>,
    /// What tables behind the target in the search order may hold, by slot: deletions of it stay.
    pub below: Vec<Vec<KeyRange>>,
    /// When an output ends.
    pub cut: TableCut,
    /// How outputs are laid out.
    pub layout: TableLayout,
}

/// A table to be merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobInput {
    /// The database's number of it.
    pub number: FileNumber,
    /// All its bytes.
    pub bytes: u64,
    /// Where it is in the version.
    pub slot: Slot,
    /// The first and the last entry that count.
    pub span: KeySpan,
    /// The parts that count, ascending; empty if all of it does.
    pub live: Vec<KeySpan>,
    /// How many entries it has; 0 if nobody knows.
    pub entries: u64,
    /// No entry is newer.
    pub largest_seqno: SeqNo,
}

/// Two entries, and all between them, as internal keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySpan {
    /// The first one.
    pub smallest: Vec<u8>,
    /// The last one.
    pub largest: Vec<u8>,
}

/// User keys from one on, up to another and without it; all of them where there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyPart {
    /// The first.
    pub from: Option<Vec<u8>>,
    /// The first that does not belong to it.
    pub until: Option<Vec<u8>>,
}

/// User keys from one to another, both included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// The first.
    pub low: Vec<u8>,
    /// The last.
    pub high: Vec<u8>,
}

/// When an output ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableCut {
    /// When it is so large.
    pub table_bytes: u64,
    /// When it overlaps more than this of the level below the target.
    pub grandparent_bytes: u64,
    /// That level's tables, by key: the last internal key, and the bytes, of each.
    pub borders: Vec<(Vec<u8>, u64)>,
}

/// How tables are laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableLayout {
    /// The comparator's name.
    pub comparator: String,
    /// The filter policy, if tables are to have a filter.
    pub filter: Option<FilterLayout>,
    /// How blocks are compressed.
    pub compression: Compression,
    /// A block ends when it has so many bytes, before compression.
    pub block_bytes: u64,
    /// Entries between two restarts of a block.
    pub restart_interval: u64,
}

/// A filter policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterLayout {
    /// Its name.
    pub name: String,
    /// Of the built-in policies, how many bits it has for a key; of others 0: what they are set to is their own affair.
    pub bits_per_key: u32,
}

/// A table that a job has made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobTable {
    /// All its bytes.
    pub bytes: u64,
    /// Its first and its last entry.
    pub span: KeySpan,
    /// Its entries, deletions included.
    pub entries: u64,
    /// How many of them are deletions.
    pub deletions: u64,
    /// No entry is older ..
    pub smallest_seqno: SeqNo,
    /// .. and none newer.
    pub largest_seqno: SeqNo,
}

impl JobSpec {
    /// Of a job that the database has accepted.
    pub(crate) fn of(job: &Job, number: FileNumber, settings: &TableSettings) -> Self {
        let below = |tables: &Tables| tables.iter().map(|table| KeyRange::of(table)).collect();
        let border = |(largest, bytes): &(InternalKey, u64)| (largest.as_bytes().to_vec(), *bytes);
        JobSpec {
            number,
            inputs: job.input_tables().map(|(slot, table)| JobInput::of(slot, table)).collect(),
            target: job.to,
            part: KeyPart { from: job.part.from.clone(), until: job.part.until.clone() },
            snapshots: job.snapshots.clone(),
            below: job.below.iter().map(below).collect(),
            cut: TableCut {
                table_bytes: job.cut.table_bytes,
                grandparent_bytes: job.cut.grandparent_bytes,
                borders: job.cut.grandparents.iter().map(border).collect(),
            },
            layout: TableLayout::of(settings),
        }
    }

    /// All bytes of its inputs.
    pub fn input_bytes(&self) -> u64 {
        self.inputs.iter().fold(0, |sum, input| sum.saturating_add(input.bytes))
    }

    /// Whether what comes of it may take the place of the inputs of `job`, which is accepted now: it is of the same tables,
    /// and whatever lies below them it knew of.
    pub(crate) fn fits(&self, order: &UserOrder, job: &Job) -> bool {
        let inputs: Vec<JobInput> =
            job.input_tables().map(|(slot, table)| JobInput::of(slot, table)).collect();
        let are_same = inputs.len() == self.inputs.len()
            && inputs.iter().zip(&self.inputs).all(|(now, then)| now.is_same_table(then));
        let part = (&job.part.from, &job.part.until);
        let knows = |table: &TableMeta| {
            let (low, high) = (table.smallest.user(), table.largest.user());
            self.below.iter().flatten().any(|range| {
                order.compare(&range.low, low).is_le() && order.compare(high, &range.high).is_le()
            })
        };
        are_same
            && self.target == job.to
            && part == (&self.part.from, &self.part.until)
            && job.below.iter().flat_map(|tables| tables.iter()).all(|table| knows(table))
    }

    /// The job, with tables that nothing buries.
    pub(crate) fn job(&self, order: &InternalOrder) -> Result<Job> {
        self.check(order)?;
        let graveyard = Arc::new(Graveyard::new());
        let mut inputs: Vec<(Slot, Vec<Arc<TableMeta>>)> = Vec::new();
        for input in &self.inputs {
            let table = Arc::new(TableMeta::recovered(input.table()?, &graveyard));
            match inputs.last_mut() {
                Some((slot, tables)) if *slot == input.slot => tables.push(table),
                _ => inputs.push((input.slot, vec![table])),
            }
        }
        let shared = |tables: Vec<Arc<TableMeta>>| Arc::new(tables.into_iter().collect());
        let below = |ranges: &Vec<KeyRange>| {
            shared(ranges.iter().map(|range| Arc::new(range.table(&graveyard))).collect())
        };
        let border = |(largest, bytes): &(Vec<u8>, u64)| Ok((internal(largest)?, *bytes));
        Ok(Job {
            id: 0,
            inputs: inputs.into_iter().map(|(slot, tables)| (slot, shared(tables))).collect(),
            part: Part { from: self.part.from.clone(), until: self.part.until.clone() },
            to: self.target,
            snapshots: self.snapshots.clone(),
            below: self.below.iter().map(below).collect(),
            cut: CutRule {
                table_bytes: self.cut.table_bytes,
                grandparent_bytes: self.cut.grandparent_bytes,
                grandparents: self.cut.borders.iter().map(border).collect::<Result<_>>()?,
            },
        })
    }

    /// What the merge takes for granted of a version's own jobs.
    fn check(&self, order: &InternalOrder) -> Result<()> {
        let mut numbers = HashSet::new();
        let slots = || self.inputs.iter().map(|input| input.slot);
        if self.inputs.is_empty() || !slots().is_sorted() || !slots().all(is_there) {
            return Err(senseless("inputs are some tables, slot by slot"));
        }
        if !self.inputs.iter().all(|input| numbers.insert(input.number)) {
            return Err(senseless("no table is an input twice"));
        }
        if self.snapshots.is_empty() || !self.snapshots.is_sorted() {
            return Err(senseless("there is one snapshot at least, and they ascend"));
        }
        if self.cut.table_bytes == 0 || !self.target.is_sorted() {
            return Err(senseless("outputs have bytes, and go to a sorted slot"));
        }
        if self.layout.block_bytes == 0 || self.layout.restart_interval == 0 {
            return Err(senseless("blocks have bytes and restarts"));
        }
        self.inputs.iter().try_for_each(|input| input.check(order))
    }
}

impl JobInput {
    fn of(slot: Slot, table: &TableMeta) -> Self {
        let span = |part: &Span| KeySpan::of(&part.smallest, &part.largest);
        let stats = table.stats();
        JobInput {
            number: table.number,
            bytes: table.size,
            slot,
            span: KeySpan::of(&table.smallest, &table.largest),
            live: table.parts().iter().map(span).collect(),
            entries: stats.map_or(0, |stats| stats.entries),
            largest_seqno: stats.map_or(SEQNO_MAX, |stats| stats.largest_seqno),
        }
    }

    /// Whatever is known of its entries: that may be learned later.
    fn is_same_table(&self, other: &JobInput) -> bool {
        (self.number, self.bytes, self.slot) == (other.number, other.bytes, other.slot)
            && (&self.span, &self.live) == (&other.span, &other.live)
    }

    fn table(&self) -> Result<NewTable> {
        let Span { smallest, largest } = self.span.internal()?;
        let parts = self.live.iter().map(KeySpan::internal).collect::<Result<Vec<_>>>()?;
        // How many bytes count is for policies, of which there is none here.
        let live = (!parts.is_empty()).then_some(Live { bytes: self.bytes, parts });
        Ok(NewTable { number: self.number, size: self.bytes, smallest, largest, live, hotness: 0 })
    }

    fn check(&self, order: &InternalOrder) -> Result<()> {
        if !self.live.is_empty() && self.slot.area != Area::SstLog {
            return Err(senseless("only tables of an SST log count in part"));
        }
        let parts = self.live.iter().map(KeySpan::internal).collect::<Result<Vec<_>>>()?;
        let whole = self.span.internal()?;
        let ends_first =
            |span: &Span| order.compare(span.largest.as_bytes(), span.smallest.as_bytes()).is_lt();
        if std::iter::once(&whole).chain(&parts).any(ends_first) {
            return Err(senseless("a span ends behind its beginning"));
        }
        let meets = |pair: &[Span]| {
            order.user.compare(pair[0].largest.user(), pair[1].smallest.user()).is_ge()
        };
        if parts.windows(2).any(meets) {
            return Err(senseless("parts ascend and share no key"));
        }
        Ok(())
    }
}

impl KeySpan {
    fn of(smallest: &InternalKey, largest: &InternalKey) -> Self {
        KeySpan { smallest: smallest.as_bytes().to_vec(), largest: largest.as_bytes().to_vec() }
    }

    fn internal(&self) -> Result<Span> {
        Ok(Span { smallest: internal(&self.smallest)?, largest: internal(&self.largest)? })
    }
}

impl KeyRange {
    fn of(table: &TableMeta) -> Self {
        KeyRange { low: table.smallest.user().to_vec(), high: table.largest.user().to_vec() }
    }

    /// A table of which only the ends are asked for.
    fn table(&self, graveyard: &Arc<Graveyard>) -> TableMeta {
        let ends = [&self.low, &self.high].map(|user| InternalKey::seek_to(user, SEQNO_MAX));
        let [smallest, largest] = ends;
        let number = FileNumber(0);
        let table = NewTable { number, size: 0, smallest, largest, live: None, hotness: 0 };
        TableMeta::recovered(table, graveyard)
    }
}

impl TableLayout {
    fn of(settings: &TableSettings) -> Self {
        TableLayout {
            comparator: settings.order.user.name().to_owned(),
            filter: settings.filter.as_ref().map(FilterLayout::of),
            compression: settings.compression,
            block_bytes: settings.block_bytes as u64,
            restart_interval: settings.restart_interval as u64,
        }
    }
}

impl FilterLayout {
    fn of(filter: &Filter) -> Self {
        let bits = match filter {
            Filter::Bloom(bloom) => u32::try_from(bloom.bits_per_key()).unwrap_or(u32::MAX),
            Filter::Custom(_) => 0,
        };
        FilterLayout { name: filter.name().to_owned(), bits_per_key: bits }
    }
}

impl JobTable {
    pub(crate) fn of(built: &TableSummary) -> Self {
        JobTable {
            bytes: built.bytes,
            span: KeySpan::of(&built.smallest, &built.largest),
            entries: built.properties.entries,
            deletions: built.properties.deletions,
            smallest_seqno: built.properties.smallest_seqno,
            largest_seqno: built.properties.largest_seqno,
        }
    }

    /// The table under its number in the database; an error if its ends are no keys of entries, or it has none.
    pub(crate) fn summary(&self, number: FileNumber) -> Result<TableSummary> {
        let Span { smallest, largest } = self.span.internal()?;
        let all_parse = [&smallest, &largest].iter().all(|key| parse(key.as_bytes()).is_some());
        if !all_parse || self.entries == 0 || self.deletions > self.entries {
            return Err(Error::corruption("a table that cannot be"));
        }
        let properties = TableProperties {
            entries: self.entries,
            deletions: self.deletions,
            smallest_seqno: self.smallest_seqno,
            largest_seqno: self.largest_seqno,
            ..TableProperties::default()
        };
        Ok(TableSummary { number, bytes: self.bytes, properties, smallest, largest })
    }
}

fn is_there(slot: Slot) -> bool {
    let has_log = slot.level != Level::ZERO && slot.level != Level::LAST;
    slot.area == Area::Tree || has_log
}

fn internal(bytes: &[u8]) -> Result<InternalKey> {
    InternalKey::from_bytes(bytes).ok_or_else(|| senseless("internal keys have a tag"))
}

fn senseless(rule: &str) -> Error {
    Error::invalid_argument(format!("not a job: {rule}"))
}
