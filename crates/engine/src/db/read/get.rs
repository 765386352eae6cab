//! Point reads.

use crate::base::error::Result;
use crate::base::key::{SeekKey, SeqNo};
use crate::db::core::Core;
use crate::db::options::ReadOptions;
use crate::format::table::GetOptions;
use crate::memtable::Found;
use crate::version::lookup::{Hit, Lookup, Target};

impl Core {
    /// Finds `key` and hands its value to `found`, without copying it.
    pub(crate) fn get<R>(
        &self,
        key: &[u8],
        options: &ReadOptions,
        mut found: impl FnMut(&[u8]) -> R,
    ) -> Result<Option<R>> {
        self.readers.note();
        // The order of these two loads matters; see `View::visible`.
        let pinned = self.view.load();
        let seqno = self.read_seqno(options);
        for memtable in pinned.memtables() {
            match memtable.get(key, seqno) {
                Some(Found::Value(value)) => return Ok(Some(found(value))),
                Some(Found::Deleted) => return Ok(None),
                None => {}
            }
        }
        let seek = SeekKey::new(key, seqno);
        let lookup = Lookup {
            order: &self.settings.order,
            cache: &self.tables,
            options: GetOptions {
                verify: options.verify_checksums,
                fill_cache: options.fill_cache,
            },
            counts_seeks: self.settings.seek_compaction,
        };
        let target = Target::new(key, seek.as_bytes());
        let answer = lookup.get(&pinned.version, &target, found)?;
        self.bill_get(&pinned, &target);
        if let Some((slot, table)) = answer.wasted {
            self.charge_seek(slot, table);
        }
        if answer.wants_filter {
            self.ring_for_work();
        }
        Ok(match answer.hit {
            Some(Hit::Value(value)) => Some(value),
            Some(Hit::Deleted) | None => None,
        })
    }

    pub(crate) fn read_seqno(&self, options: &ReadOptions) -> SeqNo {
        match &options.snapshot {
            Some(snapshot) => snapshot.seqno(),
            None => self.visible_seqno(),
        }
    }
}
