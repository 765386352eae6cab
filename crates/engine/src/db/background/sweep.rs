//! Housekeeping: removes the files that the graveyard names, closes those that it has, and prepares what writers will need.

use crate::base::event::Event;
use crate::db::core::Core;
use crate::env::site::Site;
use crate::format::filename::FileName;
use crate::version::table_meta::Graves;

impl Core {
    /// Removes files. One that cannot be removed stays, and the next open sweeps it: an orphan
    /// costs space, never data.
    pub(crate) fn sweep(&self, graves: Graves) {
        if graves.wants_memory {
            self.memory.stock_up();
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
        drop(graves.maps);
    }

    fn remove(&self, name: FileName, site: Site) -> crate::base::error::Result<()> {
        self.env.file_system.remove_file(&name.in_dir(&self.dir), site)
    }
}
