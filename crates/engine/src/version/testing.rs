//! Tables and versions made up for the tests of this floor and the next: bounds without files.
pub(crate) mod files;

use std::sync::Arc;

use crate::base::comparator::{InternalOrder, UserOrder};
use crate::base::key::{InternalKey, SeqNo, ValueKind};
use crate::base::slot::{Area, Level, Slot};
use crate::format::filename::FileNumber;
use crate::version::builder::{self, Change};
use crate::version::graveyard::Graveyard;
use crate::version::table_meta::TableMeta;
use crate::version::{Version, check};

pub(crate) fn order() -> InternalOrder {
    InternalOrder::new(UserOrder::Bytewise)
}

pub(crate) fn level(number: u8) -> Level {
    Level::new(number).unwrap()
}

pub(crate) fn tree(number: u8) -> Slot {
    Slot::tree(level(number))
}

pub(crate) fn sst_log(number: u8) -> Slot {
    Slot { level: level(number), area: Area::SstLog }
}

/// A value's key.
pub(crate) fn key(user: &str, seqno: u64) -> InternalKey {
    InternalKey::new(user.as_bytes(), SeqNo(seqno), ValueKind::Value)
}

/// A table from one user key to another, of ten bytes.
pub(crate) fn table(number: u64, smallest: &str, largest: &str) -> Arc<TableMeta> {
    bounded(number, key(smallest, 100), key(largest, 100))
}

pub(crate) fn bounded(number: u64, smallest: InternalKey, largest: InternalKey) -> Arc<TableMeta> {
    sized(number, 10, (smallest, largest))
}

pub(crate) fn sized(number: u64, size: u64, bounds: (InternalKey, InternalKey)) -> Arc<TableMeta> {
    Arc::new(TableMeta::new(FileNumber(number), size, bounds, Arc::new(Graveyard::new())))
}

/// A version that keeps the rules, of tables as one edit would add them.
pub(crate) fn version(added: impl IntoIterator<Item = (Slot, Arc<TableMeta>)>) -> Version {
    let added = added.into_iter().collect();
    let change = Change { added, removed: Vec::new() };
    let version = builder::apply(&order(), &Version::default(), change).unwrap();
    check::check(&order(), &version).unwrap();
    version
}

/// The numbers of some tables, in their order.
pub(crate) fn numbers<'t>(tables: impl IntoIterator<Item = &'t Arc<TableMeta>>) -> Vec<u64> {
    tables.into_iter().map(|table| table.number.0).collect()
}

/// Small random numbers, the same for the same seed.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5eed)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }

    pub(crate) fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}
