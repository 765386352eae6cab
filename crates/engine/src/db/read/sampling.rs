//! What reads tell the policy.
//!
//! Scans pay for each table of level 0; when they have paid enough, it is merged:
//! [`Options::scan_compaction`](crate::Options::scan_compaction). What reads pay for logs is [another
//! matter](crate::db::read::log_bills).
//!
//! Seek compaction: reads that go through more tables than one charge the first of
//! them, and a table charged often enough is named to the policy. Only with
//! [`Options::seek_compaction`](crate::Options::seek_compaction).

use crate::base::slot::{Level, Slot};
use crate::compaction::policy::PolicyEvent;
use crate::db::core::Core;
use crate::db::super_version::SuperVersion;
use crate::version::KeyRange;
use crate::version::table_meta::TableMeta;

/// Scans are sampled once per so many bytes of keys and values, on average (LevelDB's figure).
const SAMPLE_BYTES: u64 = 1 << 20;

/// Counts down to a scan's next sample. Gaps are random, so that no pattern of keys hides from them.
pub(crate) struct Sampler {
    left: u64,
    random: u64,
}

impl Sampler {
    pub(crate) fn new(seed: u64) -> Self {
        let mut sampler = Sampler { left: 0, random: seed | 1 };
        sampler.left = sampler.gap();
        sampler
    }

    /// True if a sample is due after reading so many bytes.
    pub(crate) fn passes(&mut self, bytes: usize) -> bool {
        let due = bytes as u64 >= self.left;
        self.left = if due { self.gap() } else { self.left - bytes as u64 };
        due
    }

    /// Uniform, and twice the mean at most. By xorshift: quality matters little here.
    fn gap(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        1 + self.random % (2 * SAMPLE_BYTES)
    }
}

impl Core {
    /// A scan came by `key`: charges the first of several tables that may hold it.
    pub(crate) fn sample_read(&self, pinned: &SuperVersion, key: &[u8]) {
        let order = &self.settings.order.user;
        let range = KeyRange::closed(key, key);
        let slots = Slot::all();
        let mut meeting = slots.flat_map(|slot| {
            pinned.version.meeting(order, slot, range).map(move |(_, table)| (slot, table))
        });
        if let (Some((slot, first)), Some(_)) = (meeting.next(), meeting.next()) {
            self.charge_seek(slot, first);
        }
    }

    /// A scan begins: it visits every table of level 0. When scans have done that for long enough, the tables are merged.
    #[inline(always)]
    pub(crate) fn note_scan(&self, pinned: &SuperVersion) {
        self.bill_scan(pinned);
        let level0 = pinned.version.shared_slot(Slot::L0);
        let Some(newest) = level0.first().filter(|_| self.settings.scan_compaction) else { return };
        let bytes = || {
            let levels = Level::all().take(2);
            let bytes = levels.map(|level| pinned.version.level_bytes(level)).sum();
            // So many would have been merged, had there been scans before.
            let is_put_off = level0.len() >= self.settings.leveled.l0_trigger;
            if is_put_off { 0 } else { bytes }
        };
        if level0.note_scan(bytes) {
            let event = PolicyEvent::ScansSpent { newest: newest.number };
            self.state.lock().policy.observe(event);
            self.ring_for_work();
        }
    }

    pub(crate) fn charge_seek(&self, slot: Slot, table: &TableMeta) {
        if table.charge_seek() {
            let event = PolicyEvent::SeeksSpent { slot, table: table.number };
            self.state.lock().policy.observe(event);
            self.ring_for_work();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_come_once_a_mebibyte_on_average() {
        let mut sampler = Sampler::new(301);
        let samples = (0..1_000_000).filter(|_| sampler.passes(116)).count();
        let expected = 1_000_000.0 * 116.0 / SAMPLE_BYTES as f64;
        assert!((samples as f64 - expected).abs() < expected / 2.0, "{samples} of {expected}");
    }
}
