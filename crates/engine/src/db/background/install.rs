//! Installing an edit: the one way in which the set of tables changes.
//!
//! **Concurrency.** Take `manifest`; read the version under `state` and let go; append and sync;
//! take `state`, swap, publish; let go of both. Only holders of `manifest` change the version, so
//! what was read stays true. No writer ever waits for the manifest's I/O.

use std::sync::Arc;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::event::Event;
use crate::base::slot::Slot;
use crate::base::sync::Guard;
use crate::base::sync::atomic::Ordering;
use crate::db::core::Core;
use crate::db::state::{Floor, State};
use crate::db::write::read_only;
use crate::format::filename::{FileName, FileNumber};
use crate::format::manifest::edit::{NewTable, VersionEdit};
use crate::store::Installed;
use crate::version::builder::{self, Change};
use crate::version::manifest_log::ManifestLog;
use crate::version::table_meta::TableMeta;
use crate::version::{Version, check};

impl Core {
    /// Makes a change durable and visible. `floor` is what recovery needs afterwards, if that
    /// changes. `settle` updates the rest of the state in the same step.
    ///
    /// After an error the change may or may not be durable (M2): its new tables must stay.
    pub(crate) fn install(
        &self,
        change: Change,
        floor: Option<Floor>,
        settle: impl FnOnce(&mut State),
    ) -> Result<()> {
        let mut manifest = self.manifest.lock();
        let base = Arc::clone(&self.state.lock().version);
        let next = builder::apply(&self.settings.order, &base, change.clone())?;
        check::check(&self.settings.order, &next)?;
        let floor = floor.unwrap_or_else(|| self.floor());
        let rotated = self.commit_edit(&mut manifest, &change, &next, floor)?;
        self.set_floor(floor);
        let removed = removed_tables(&base, &next, &change);
        let next = Arc::new(next);
        let mut state = self.state.lock();
        state.version = next;
        settle(&mut state);
        self.retire_wals(&mut state, floor.wal);
        self.publish(&state);
        drop(state);
        drop(manifest);
        if let Some(number) = rotated {
            self.listeners.tell(&Event::ManifestRotated { number: number.0 });
        }
        // Rule R5: the edit is durable, so the files may go when their last reader does.
        for table in &removed {
            table.mark_obsolete();
        }
        Ok(())
    }

    /// Makes the edit durable; returns the number of a new manifest that took over for it.
    fn commit_edit(
        &self,
        manifest: &mut Guard<'_, Option<ManifestLog>>,
        change: &Change,
        next: &Version,
        floor: Floor,
    ) -> Result<Option<FileNumber>> {
        let log = manifest.as_mut().ok_or_else(read_only)?;
        if log.wants_rotation() {
            return self.rotate(manifest, next, floor).map(Some);
        }
        let edit = VersionEdit {
            removed: change.removed.clone(),
            added: change.added.iter().map(|added| self.recorded(added)).collect(),
            ..self.edit_header(floor)
        };
        let appended = log.append(&edit);
        if appended.is_ok() {
            self.tell_store(log.last_edit(), &edit, false);
        }
        if let Err(error) = &appended
            && error.kind() != ErrorKind::NoSpace
        {
            self.fail(error.clone());
        }
        self.counters.manifest_edits.add(1);
        appended.map(|()| None)
    }

    /// Begins a new manifest with the whole next version, and retires the old one. Returns the new
    /// one's number.
    fn rotate(
        &self,
        manifest: &mut Guard<'_, Option<ManifestLog>>,
        next: &Version,
        floor: Floor,
    ) -> Result<FileNumber> {
        let number = self.new_file_number();
        let snapshot = self.snapshot_edit(next, floor);
        let fs = &self.env.file_system;
        let fresh = ManifestLog::create(fs, &self.dir, number, &snapshot).inspect_err(|_| {
            // CURRENT may name either by now: nothing more goes into the old one (M2).
            manifest.iter_mut().for_each(ManifestLog::give_up);
        })?;
        self.tell_store(fresh.last_edit(), &snapshot, true);
        if let Some(old) = manifest.replace(fresh) {
            self.graveyard.bury(FileName::Manifest(old.number()));
            let _ = old.close(); // Replaced: nothing in it matters any more.
        }
        self.counters.manifest_rotations.add(1);
        Ok(number)
    }

    /// A store of the user's wants to know which tables count. The edit is durable, and the caller holds the manifest or is
    /// alone with the database.
    pub(crate) fn tell_store(&self, encoded: &[u8], edit: &VersionEdit, is_whole: bool) {
        if self.options.table_store.is_none() {
            return;
        }
        let added: Vec<FileNumber> = edit.added.iter().map(|(_, table)| table.number).collect();
        let removed: Vec<FileNumber> = edit.removed.iter().map(|(_, number)| *number).collect();
        let (added, removed) = (&added[..], &removed[..]);
        self.store.installed(&Installed { edit: encoded, is_whole, added, removed });
    }

    /// Begins a new manifest that says what the old one does, without its history.
    pub(crate) fn renew_manifest(&self) -> Result<()> {
        let mut manifest = self.manifest.lock();
        if manifest.is_none() {
            return Err(read_only());
        }
        let version = Arc::clone(&self.state.lock().version);
        let number = self.rotate(&mut manifest, &version, self.floor())?;
        drop(manifest);
        self.listeners.tell(&Event::ManifestRotated { number: number.0 });
        Ok(())
    }

    /// What every edit repeats, as LevelDB's do.
    fn edit_header(&self, floor: Floor) -> VersionEdit {
        VersionEdit {
            log_number: Some(floor.wal),
            prev_log_number: Some(FileNumber(0)),
            next_file: Some(self.next_file_number()),
            last_seqno: Some(floor.last_seqno),
            ..VersionEdit::default()
        }
    }

    pub(crate) fn snapshot_edit(&self, version: &Version, floor: Floor) -> VersionEdit {
        let snapshot =
            snapshot_of(version, self.settings.order.user.name(), self.edit_header(floor));
        let tables = version.tables().map(|(slot, table)| (slot, Arc::clone(table)));
        VersionEdit { added: tables.map(|added| self.recorded(&added)).collect(), ..snapshot }
    }

    fn recorded(&self, (slot, table): &(Slot, Arc<TableMeta>)) -> (Slot, NewTable) {
        // Stored before the manifest is begun anew, under its lock, which orders the two.
        let hotness = if self.tells_hotness.load(Ordering::Relaxed) { table.hotness() } else { 0 };
        (*slot, NewTable { hotness, ..table.recorded() })
    }
}

/// A whole version as one edit, the way every manifest begins. How hot tables are is not in it: LevelDB reads it if no SST
/// log is.
pub(crate) fn snapshot_of(version: &Version, comparator: &str, header: VersionEdit) -> VersionEdit {
    let added =
        version.tables().map(|(slot, table)| (slot, NewTable { hotness: 0, ..table.recorded() }));
    VersionEdit { comparator: Some(comparator.to_owned()), added: added.collect(), ..header }
}

/// Tables that the change takes out of the version altogether: a moved one is still there.
fn removed_tables(base: &Version, next: &Version, change: &Change) -> Vec<Arc<TableMeta>> {
    let gone = |(slot, number): &(Slot, FileNumber)| {
        let table = base.slot(*slot).iter().find(|table| table.number == *number)?;
        next.find(*number).is_none().then(|| Arc::clone(table))
    };
    change.removed.iter().filter_map(gone).collect()
}

/// A job whose output breaks the rules is refused, whoever ran it.
pub(crate) fn refused(job: u64) -> Error {
    let message = format!("job {job}: the output is not within its inputs' range, or not in order");
    Error::corruption(message)
}
