//! The names of all calls that change the disk. Tests fail them by name, and read off their order
//! whether the rules of durability are kept.

macro_rules! sites {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// The place in the engine that a durable call comes from.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Site {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Site {
            /// Every site.
            pub const ALL: &'static [Site] = &[$(Site::$variant,)+];

            /// A stable name such as `wal.sync`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Site::$variant => $name,)+
                }
            }
        }
    };
}

sites! {
    /// Making the database folder.
    DbDirCreate = "db.dir.create",
    /// Syncing the folder above the database's, so that a new database is found after a crash.
    DbParentSync = "db.parent.sync",
    /// Creating the lock file.
    LockCreate = "lock.create",
    /// Creating a write-ahead log.
    WalCreate = "wal.create",
    /// Syncing the folder after creating a log (rule R2).
    WalDirSync = "wal.dir.sync",
    /// Appending to a log.
    WalAppend = "wal.append",
    /// Syncing a log because a writer asked.
    WalSync = "wal.sync",
    /// Syncing an older log before a newer synced write is acknowledged (rule R3).
    WalSyncOlder = "wal.sync.older",
    /// Syncing a log that took over from a failed one, before anything new is acknowledged (R6).
    WalSyncRelog = "wal.sync.relog",
    /// Giving its name to a log that took over from a failed one, once it is durable.
    WalRename = "wal.rename",
    /// Closing a log.
    WalClose = "wal.close",
    /// Removing a log that the manifest no longer needs.
    WalRemove = "wal.remove",
    /// Putting aside a log of which recovery dropped a part.
    WalSetAside = "wal.set_aside",
    /// Creating a table.
    TableCreate = "table.create",
    /// Writing a table.
    TableAppend = "table.append",
    /// Syncing a table (rule R1).
    TableSync = "table.sync",
    /// Closing a table.
    TableClose = "table.close",
    /// Syncing the folder before an edit names new tables (rule R1).
    TableDirSync = "table.dir.sync",
    /// Removing a table that no version and no reader needs.
    TableRemove = "table.remove",
    /// Creating a manifest.
    ManifestCreate = "manifest.create",
    /// Writing a new manifest's snapshot.
    ManifestSnapshot = "manifest.snapshot",
    /// Appending an edit.
    ManifestAppend = "manifest.append",
    /// Syncing an edit or a snapshot.
    ManifestSync = "manifest.sync",
    /// Syncing the folder before CURRENT names a new manifest.
    ManifestDirSync = "manifest.dir.sync",
    /// Closing a manifest.
    ManifestClose = "manifest.close",
    /// Removing an old manifest.
    ManifestRemove = "manifest.remove",
    /// Creating the file that becomes CURRENT.
    CurrentCreate = "current.create",
    /// Writing it.
    CurrentAppend = "current.append",
    /// Syncing it.
    CurrentSync = "current.sync",
    /// Closing it.
    CurrentClose = "current.close",
    /// Renaming it to CURRENT.
    CurrentRename = "current.rename",
    /// Syncing the folder after the rename, before anything old goes (rule R4).
    CurrentDirSync = "current.dir.sync",
    /// Removing a left-over temporary file.
    TempRemove = "temp.remove",
    /// Starting the info log.
    InfoLogCreate = "info_log.create",
    /// Writing the info log.
    InfoLogAppend = "info_log.append",
    /// Closing the info log.
    InfoLogClose = "info_log.close",
    /// Keeping the info log of the run before.
    InfoLogRename = "info_log.rename",
    /// Making a checkpoint's folder.
    CheckpointDirCreate = "checkpoint.dir.create",
    /// Linking or copying a table into a checkpoint.
    CheckpointLink = "checkpoint.link",
    /// Making a repair's folder.
    RepairDirCreate = "repair.dir.create",
    /// Keeping the files of a damaged database that is mended in its place.
    RepairKeep = "repair.keep",
    /// Removing them from there when the mended one has taken it.
    RepairRemove = "repair.remove",
    /// Putting a mark in CURRENT's place before a database is destroyed.
    DestroyMark = "destroy.mark",
    /// Removing a file because the database is destroyed.
    DestroyRemove = "destroy.remove",
    /// Removing the folder of a destroyed database.
    DestroyRemoveDir = "destroy.dir.remove",
    /// Making it durable that CURRENT is gone, and later that all else is.
    DestroyDirSync = "destroy.dir.sync",
}
