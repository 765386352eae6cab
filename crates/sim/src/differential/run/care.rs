//! Copies, checks and repairs, each of which must show what the database shows.

use std::path::Path;

use siltstone::{Db, ErrorKind, ReadOptions, Site, destroy, dump_file, repair, verify};

use super::Run;
use super::judge::{Checked, Mismatch, expect};

impl Run<'_> {
    /// A checkpoint is the snapshot of its moment, and a database of its own.
    pub(super) fn checkpoint(&mut self) -> Checked {
        let path = self.beside("checkpoint");
        let now = ReadOptions { snapshot: Some(self.db().snapshot()), ..ReadOptions::default() };
        self.db().checkpoint(&path)?;
        let copy = Db::open(&path, self.options())?;
        self.judge.same(&mut self.db().iter_with(&now)?, &mut copy.iter()?)?;
        copy.put("its own", "")?;
        copy.close()?;
        self.remove(&path)?;
        self.judge.same(&mut self.db().iter_with(&now)?, &mut self.db().iter()?)
    }

    /// What only the logs hold is in the copy, too; the database is left as it is.
    pub(super) fn checkpoint_read_only(&mut self) -> Checked {
        let path = self.beside("checkpoint");
        let beside = Db::open_read_only(&self.folder, self.options())?;
        beside.checkpoint(&path)?;
        let copy = Db::open(&path, self.options())?;
        self.judge.same(&mut self.db().iter()?, &mut copy.iter()?)?;
        copy.close()?;
        self.remove(&path)
    }

    pub(super) fn verify(&mut self) -> Checked {
        let report = verify(&self.folder, &self.options())?;
        match report.problems().next() {
            Some(problem) => Err(Mismatch(format!("verify: {problem}"))),
            None => Ok(()),
        }
    }

    /// What is repaired without damage is as it was.
    pub(super) fn repair_copy(&mut self) -> Checked {
        let (copy, repaired) = (self.beside("copy"), self.beside("repaired"));
        self.copy_files(&copy)?;
        let report = repair(&copy, &repaired, &self.options())?;
        let lost = &report.found.lost;
        expect(lost.is_empty(), || format!("repair lost of an undamaged database: {lost:?}"))?;
        let mended = Db::open(&repaired, self.options())?;
        self.judge.same(&mut self.db().iter()?, &mut mended.iter()?)?;
        mended.close()?;
        self.remove(&copy)?;
        self.remove(&repaired)
    }

    pub(super) fn dump_files(&mut self) -> Checked {
        self.let_lanes_finish()?;
        for name in self.env.file_system.list(&self.folder)? {
            let mut text = Vec::new();
            match dump_file(self.folder.join(&name), &self.env, &mut text) {
                Ok(()) if name.ends_with(".ldb") => {
                    expect(!text.is_empty(), || format!("{name} is dumped as nothing"))?;
                }
                Ok(()) => {}
                // Of no kind that can be dumped; or removed by a lane just now.
                Err(error) if error.kind() == ErrorKind::InvalidArgument => {}
                Err(error) if error.is_not_found() && !self.set.is_deterministic() => {}
                Err(error) => return Err(Mismatch(format!("dump of {name}: {error}"))),
            }
        }
        Ok(())
    }

    /// Copies the database's files as they are at one moment.
    pub(super) fn copy_files(&self, to: &Path) -> Checked {
        self.let_lanes_finish()?;
        let fs = &self.env.file_system;
        fs.create_dir(to, Site::TempRemove)?;
        for name in fs.list(&self.folder)? {
            let from = self.folder.join(&name);
            let file = match fs.metadata(&from).and_then(|found| {
                if found.is_dir || name == "LOCK" { Ok(None) } else { fs.open(&from).map(Some) }
            }) {
                Ok(Some(file)) => file,
                Ok(None) => continue,
                // No longer needed, and removed by a lane just now.
                Err(error) if error.is_not_found() => continue,
                Err(error) => return Err(error.into()),
            };
            let mut bytes = vec![0; file.len() as usize];
            let read = file.read_at(&mut bytes, 0)?;
            let mut copy = fs.create(&to.join(&name), Site::TempRemove)?;
            copy.append(&bytes[..read], Site::TempRemove)?;
            copy.close(Site::TempRemove)?;
        }
        Ok(())
    }

    /// A table that a lane is at work on is not whole.
    fn let_lanes_finish(&self) -> Checked {
        if !self.set.is_deterministic() {
            self.db().wait_for_background()?;
        }
        Ok(())
    }

    pub(super) fn remove(&self, path: &Path) -> Checked {
        destroy(path, &self.options())?;
        let left = self.env.file_system.list(path);
        expect(left.is_err(), || format!("left of a destroyed database: {left:?}"))
    }
}
