//! What a database looks like from outside: tables by level, and sizes of ranges.

use crate::base::comparator::UserOrder;
use crate::base::error::Result;
use crate::base::key::{InternalKey, SEQNO_MAX};
use crate::base::slot::{Area, Level};
use crate::db::core::Core;
use crate::format::filename::FileNumber;
use crate::version::Version;
use crate::version::lookup::{Lookup, Target};
use crate::version::table_meta::TableMeta;

/// The tables of one part of a level.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LevelInfo {
    /// The level.
    pub level: Level,
    /// The part of it.
    pub area: Area,
    /// Its tables, in the order in which reads search them.
    pub tables: Vec<TableInfo>,
    /// What a scan merges of it: one source where tables are sorted, more where they lie on top of each other.
    pub sources: usize,
}

impl LevelInfo {
    /// Bytes of all its tables.
    pub fn bytes(&self) -> u64 {
        self.tables.iter().map(|table| table.bytes).sum()
    }
}

/// One table.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TableInfo {
    /// Its file's number.
    pub number: FileNumber,
    /// Its file's size.
    pub bytes: u64,
    /// Its first key.
    pub smallest: Vec<u8>,
    /// Its last key.
    pub largest: Vec<u8>,
    /// Entries and, of these, deletions; unknown for tables that LevelDB wrote, and for others
    /// until they were looked into.
    pub entries: Option<(u64, u64)>,
}

impl TableInfo {
    fn new(table: &TableMeta) -> Self {
        TableInfo {
            number: table.number,
            bytes: table.size,
            smallest: table.smallest.user().to_vec(),
            largest: table.largest.user().to_vec(),
            entries: table.stats().map(|stats| (stats.entries, stats.deletions)),
        }
    }
}

/// The levels of a version that hold tables.
pub(crate) fn levels_of(version: &Version, order: &UserOrder) -> Vec<LevelInfo> {
    let filled = version.slots().filter(|(_, tables)| !tables.is_empty());
    let info = filled.map(|(slot, tables)| LevelInfo {
        level: slot.level,
        area: slot.area,
        tables: tables.iter().map(|table| TableInfo::new(table)).collect(),
        sources: version.shared_slot(slot).sources(slot, order),
    });
    info.collect()
}

impl Core {
    pub(crate) fn levels(&self) -> Vec<LevelInfo> {
        levels_of(&self.view.load().version, &self.settings.order.user)
    }

    pub(crate) fn tables_over(&self, key: &[u8]) -> usize {
        let version = self.view.load().version.clone();
        let target = InternalKey::seek_to(key, SEQNO_MAX);
        let target = Target::new(key, target.as_bytes());
        Lookup::tables_over(&self.settings.order, &version, &target)
    }

    pub(crate) fn approximate_size(&self, from: &[u8], to: &[u8]) -> Result<u64> {
        let from = InternalKey::seek_to(from, SEQNO_MAX);
        let to = InternalKey::seek_to(to, SEQNO_MAX);
        Ok(self.approximate_offset(&to)?.saturating_sub(self.approximate_offset(&from)?))
    }

    /// Bytes of tables that lie before a key.
    fn approximate_offset(&self, key: &InternalKey) -> Result<u64> {
        let order = &self.settings.order;
        let version = self.view.load().version.clone();
        let mut offset = 0;
        for (_, table) in version.tables() {
            offset += if order.compare(table.largest.as_bytes(), key.as_bytes()).is_le() {
                table.size
            } else if order.compare(table.smallest.as_bytes(), key.as_bytes()).is_gt() {
                0
            } else {
                let open = table.open(&self.tables)?;
                open.approximate_offset_of(key.as_bytes())
            };
        }
        Ok(offset)
    }
}
