//! Housekeeping: removes the files that the graveyard names.

use crate::base::event::Event;
use crate::db::core::Core;
use crate::env::site::Site;
use crate::format::filename::FileName;

impl Core {
    /// Removes files. One that cannot be removed stays, and the next open sweeps it: an orphan
    /// costs space, never data.
    pub(crate) fn sweep(&self, names: Vec<FileName>) {
        for name in names {
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
    }

    fn remove(&self, name: FileName, site: Site) -> crate::base::error::Result<()> {
        self.env.file_system.remove_file(&name.in_dir(&self.dir), site)
    }
}
