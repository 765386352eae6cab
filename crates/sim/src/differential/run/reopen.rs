//! Closing and opening again, gently or not.

use siltstone::{Background, Db, ErrorKind, destroy};

use super::Run;
use super::judge::{Checked, expect};
use crate::differential::operation::{Closing, Movement, SLOTS};

impl Run<'_> {
    pub(super) fn reopen(&mut self, closing: Closing, variant: Option<u32>) -> Checked {
        self.close(closing)?;
        self.variant = variant.unwrap_or(self.variant);
        self.open_again()?;
        self.scan_forward(None)?;
        if self.set.background == Background::ByHand { self.look_for_orphans() } else { Ok(()) }
    }

    pub(super) fn close(&mut self, closing: Closing) -> Checked {
        self.note_shape();
        let metrics = self.db().metrics();
        self.tally.flushes += metrics.flushes;
        self.tally.compactions += metrics.merges + metrics.moves;
        self.tally.reopens += 1;
        if closing != Closing::UnderReaders {
            self.end_readers();
        }
        if closing == Closing::Killed {
            return self.kill();
        }
        let db = self.db.take().expect("open, save while reopening");
        match closing {
            Closing::Close => db.close()?,
            Closing::UnderReaders => self.close_under_readers(db)?,
            Closing::Drop | Closing::Killed => drop(db),
        }
        self.end_readers();
        Ok(())
    }

    pub(super) fn open_again(&mut self) -> Checked {
        self.db = Some(Db::open(&self.folder, self.options())?);
        self.reference.reopen();
        Ok(())
    }

    fn close_under_readers(&mut self, db: Db) -> Checked {
        let clone = db.clone();
        db.close()?;
        let late = clone.put("late", "").map_err(|error| error.kind());
        expect(late == Err(ErrorKind::Closed), || format!("a write after closing: {late:?}"))?;
        for slot in (0..SLOTS).filter(|slot| self.cursors[*slot].is_some()).collect::<Vec<_>>() {
            self.move_iterator(slot, &Movement::Wander { turns: 0b1100_1011, steps: 8 })?;
            self.move_iterator(slot, &Movement::First)?;
        }
        self.db = Some(clone);
        let scanned = self.scan_forward(self.snapshots[0].is_some().then_some(0));
        self.db = None;
        scanned
    }

    /// What lies in the folder now, which is what the death of the process would leave, becomes the
    /// database; the old one is closed and destroyed.
    fn kill(&mut self) -> Checked {
        let first = self.folder.ends_with("db");
        let copy = self.beside(if first { "db-again" } else { "db" });
        self.copy_files(&copy)?;
        self.db = None;
        self.remove(&self.folder)?;
        self.folder = copy;
        Ok(())
    }

    pub(super) fn destroy_and_recreate(&mut self) -> Checked {
        self.close(Closing::Close)?;
        destroy(&self.folder, &self.options())?;
        let left = self.env.file_system.list(&self.folder);
        expect(left.is_err(), || format!("left of a destroyed database: {left:?}"))?;
        self.open_again()?;
        self.reference.clear();
        self.scan_forward(None)
    }

    /// With nothing left to do, the folder holds the version's tables and no others.
    fn look_for_orphans(&self) -> Checked {
        while self.db().run_background_step()? {}
        let names = self.env.file_system.list(&self.folder)?;
        let mut present: Vec<String> =
            names.into_iter().filter(|name| name.ends_with(".ldb")).collect();
        let levels = self.db().levels();
        let tables = levels.iter().flat_map(|level| &level.tables);
        let mut needed: Vec<String> =
            tables.map(|table| format!("{:06}.ldb", table.number.0)).collect();
        present.sort();
        needed.sort();
        expect(present == needed, || {
            format!("tables in the folder: {present:?}, in the version: {needed:?}")
        })
    }
}
