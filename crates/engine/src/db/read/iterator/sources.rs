//! What a scan goes over.

use std::sync::Arc;

use crate::base::error::Result;
use crate::base::slot::{Area, Slot};
use crate::db::core::Core;
use crate::db::options::ReadOptions;
use crate::db::super_version::SuperVersion;
use crate::format::table::ScanOptions;
use crate::version::Tables;
use crate::version::level_iter::{LevelIter, Source};
use crate::version::run_iter::RunIter;

/// Sources in search order: equal keys cannot be, since sequence numbers differ.
pub(super) fn sources(
    core: &Core,
    pinned: &SuperVersion,
    options: &ReadOptions,
) -> Result<Vec<Source>> {
    let scan = ScanOptions::for_reads(options.verify_checksums, options.fill_cache);
    let order = &core.settings.order;
    let of_slot = |(slot, tables): (Slot, &Tables)| match slot {
        Slot { area: Area::SstLog, .. } => tables.runs(&order.user).len(),
        slot => tables.len().min(if slot.is_sorted() { 1 } else { usize::MAX }),
    };
    let of_slots: usize = pinned.version.filled_slots().map(of_slot).sum();
    let mut sources = Vec::with_capacity(pinned.memtables().count() + of_slots);
    sources.extend(pinned.memtables().map(|memtable| Source::MemTable(memtable.iter())));
    for (slot, tables) in pinned.version.filled_slots() {
        if slot.is_sorted() && tables.len() > 1 {
            let cache = Arc::clone(&core.tables);
            let level = LevelIter::new(order.clone(), cache, scan, Arc::clone(tables));
            sources.push(Source::Level(level));
        } else if slot.area == Area::SstLog {
            for run in tables.runs(&order.user) {
                let (cache, tables) = (Arc::clone(&core.tables), Arc::clone(run));
                sources.push(Source::Run(RunIter::new(order.clone(), cache, scan, tables)));
            }
        } else {
            for meta in tables.iter() {
                let table = core.tables.get(meta.number, meta.size)?;
                sources.push(Source::Table(table.iter(scan)));
            }
        }
    }
    Ok(sources)
}
