//! What a scan goes over.

use crate::base::error::Result;
use crate::base::slot::Slot;
use crate::db::core::Core;
use crate::db::options::ReadOptions;
use crate::db::super_version::SuperVersion;
use crate::format::table::ScanOptions;
use crate::version::Tables;
use crate::version::level_iter::Source;

/// Sources in search order: equal keys cannot be, since sequence numbers differ.
pub(super) fn sources(
    core: &Core,
    pinned: &SuperVersion,
    options: &ReadOptions,
) -> Result<Vec<Source>> {
    let scan = ScanOptions::for_reads(options.verify_checksums, options.fill_cache);
    let order = &core.settings.order;
    let of_slot = |(slot, tables): (Slot, &Tables)| tables.sources(slot, &order.user);
    let of_slots: usize = pinned.version.filled_slots().map(of_slot).sum();
    let mut sources = Vec::with_capacity(pinned.memtables().count() + of_slots);
    sources.extend(pinned.memtables().map(|memtable| Source::MemTable(memtable.iter())));
    for of_slot in pinned.version.filled_slots() {
        Source::of_slot(order, &core.tables, scan, of_slot, &mut sources)?;
    }
    Ok(sources)
}
