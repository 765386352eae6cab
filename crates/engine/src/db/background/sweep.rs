//! Housekeeping: removes the files that the graveyard names, closes those that it has, and prepares what writers will need, and readers who fill a large cache.

use crate::base::event::Event;
use crate::base::sync::atomic::Ordering;
use crate::db::core::Core;
use crate::env::site::Site;
use crate::format::filename::FileName;
use crate::version::graveyard::Graves;

/// A merge takes about so much memory.
const MERGE_BYTES: usize = 3 << 20;
/// A table of level 0 takes about so much: its filter, its index, and what will be read ahead of it when it is merged.
const LEVEL0_TABLE_BYTES: usize = 256 << 10;

/// A database that is written to takes about so much besides: what lanes and logs need.
const WRITING_BYTES: usize = 7 << 20;
/// But no more than this share is taken off for it, so that small budgets leave something.
const WRITING_SHARE: usize = 3;
/// With memtables of less it is one that is read.
const MEMTABLE_BYTES_MIN: usize = 64 << 10;

impl Core {
    /// Removes files. One that cannot be removed stays, and the next open sweeps it: an orphan
    /// costs space, never data.
    pub(crate) fn sweep(&self, graves: Graves) {
        if graves.wants_memory {
            self.memory.stock_up();
        }
        if graves.wants_log {
            self.make_spare_log();
        }
        if graves.wants_cache_memory {
            self.settings.block_cache.stock_up();
        }
        for name in graves.names {
            let removed = match name {
                FileName::Table(number) => {
                    self.tables.evict(number);
                    self.store.remove(number)
                }
                FileName::Wal(_) => self.remove(name, Site::WalRemove),
                FileName::Manifest(_) => self.remove(name, Site::ManifestRemove),
                _ => self.remove(name, Site::TempRemove),
            };
            if removed.is_ok() {
                self.listeners.tell(&Event::FileRemoved { name: name.to_string() });
            }
        }
        for mut log in graves.logs {
            let _ = log.close(Site::WalClose); // Nothing in it is needed.
        }
        drop(graves.scraps);
        if graves.wants_residents {
            self.tables.settle_residents(self.resident_bytes_max());
        }
    }

    /// What tables may take in memory: what memtables and merges leave of it.
    pub(crate) fn resident_bytes_max(&self) -> u64 {
        let merges = self.merges.load(Ordering::Relaxed) as usize * MERGE_BYTES;
        let level0 = self.level0_tables.load(Ordering::Relaxed) as usize * LEVEL0_TABLE_BYTES;
        let memtables = self.memory.all_bytes();
        let is_written_to = memtables >= MEMTABLE_BYTES_MIN || merges > 0;
        let all = self.options.resident_bytes;
        let writing = if is_written_to { WRITING_BYTES.min(all / WRITING_SHARE) } else { 0 };
        let others = memtables + merges + level0 + writing;
        all.saturating_sub(others) as u64
    }

    /// Called where memory is needed.
    pub(crate) fn let_residents_go(&self) {
        let bytes = self.tables.resident_bytes();
        if bytes > 0 && bytes > self.resident_bytes_max() {
            self.graveyard.ask_for_residents();
        }
    }

    fn remove(&self, name: FileName, site: Site) -> crate::base::error::Result<()> {
        self.env.file_system.remove_file(&name.in_dir(&self.dir), site)
    }
}
