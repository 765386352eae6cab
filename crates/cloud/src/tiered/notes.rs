//! Notes in the folder of tables that workers have made: an edit of the engine's may name one, durably, before the bucket's
//! log of versions does, and nothing else here says where it lies.
//!
//! I1: a note is durable before the engine is told that the table is there, and stays until a committed version has it, or
//! nobody needs it.
//!
//! `<number>.elsewhere` has the frame `slte` ([`coding`](crate::coding)), and a table as records of versions have it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use siltstone::{FileSystem, Result, Site};

use super::folder::write_small;
use crate::coding::{Reader, Writer};
use crate::error::Outcome;
use crate::log::record::{Table, decode_table, encode_table};

const MAGIC: [u8; 4] = *b"slte";
pub(super) const SUFFIX: &str = ".elsewhere";
const BYTES_MAX: u64 = 4 << 10;

pub(super) struct Notes {
    fs: Arc<dyn FileSystem>,
    folder: PathBuf,
    /// Numbers of those that are there: most tables have none.
    there: Mutex<BTreeSet<u64>>,
}

impl Notes {
    pub(super) fn new(fs: &Arc<dyn FileSystem>, folder: &Path) -> Self {
        Notes { fs: Arc::clone(fs), folder: folder.to_owned(), there: Mutex::default() }
    }

    fn there(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        // Nothing under the lock stops half way.
        self.there.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn name(number: u64) -> String {
        format!("{number:06}{SUFFIX}")
    }

    pub(super) fn write(&self, number: u64, table: &Table) -> Result<()> {
        let mut writer = Writer::new(MAGIC);
        encode_table(&mut writer, number, table);
        self.there().insert(number);
        write_small(&*self.fs, &self.folder, &Notes::name(number), &writer.finish())
    }

    /// All of them. One that cannot be read is an error: what it tells is known nowhere else.
    pub(super) fn read(&self) -> Result<Vec<(u64, Table)>> {
        let names = self.fs.list(&self.folder)?;
        let notes = names.iter().filter(|name| name.ends_with(SUFFIX));
        let notes: Vec<_> = notes.map(|name| self.read_one(name)).collect::<Result<_>>()?;
        self.there().extend(notes.iter().map(|(number, _)| number));
        Ok(notes)
    }

    fn read_one(&self, name: &str) -> Result<(u64, Table)> {
        let path = self.folder.join(name);
        let file = self.fs.open(&path)?;
        let mut bytes = vec![0; file.len().min(BYTES_MAX) as usize];
        let read = file.read_at(&mut bytes, 0)?;
        bytes.truncate(read);
        Ok(decode(&path.display().to_string(), &Bytes::from(bytes))?)
    }

    /// Best effort: a note that stays is removed when the database is opened next.
    pub(super) fn remove(&self, number: u64) {
        if !self.there().remove(&number) {
            return;
        }
        let _ = self.fs.remove_file(&self.folder.join(Notes::name(number)), Site::TempRemove);
    }
}

fn decode(name: &str, bytes: &Bytes) -> Outcome<(u64, Table)> {
    let mut reader = Reader::new(name, MAGIC, bytes)?;
    let noted = decode_table(&mut reader)?;
    reader.end()?;
    Ok(noted)
}

#[cfg(test)]
mod tests {
    use siltstone::{Env, ErrorKind};

    use super::*;
    use crate::names::{Attempt, Epoch, JobId, TableId};

    fn table() -> Table {
        let (job, attempt) = (JobId { epoch: Epoch(3), number: 9 }, Attempt { term: 7, count: 2 });
        Table { home: 0, id: TableId::Worked { job, attempt, ordinal: 4 }, bytes: 70, crc32c: 5 }
    }

    #[test]
    fn notes_are_read_back_until_they_are_removed_and_damage_is_told() {
        let fs = Env::memory().file_system;
        fs.create_dir("db".as_ref(), Site::DbDirCreate).unwrap();
        let notes = Notes::new(&fs, "db".as_ref());
        notes.write(12, &table()).unwrap();
        notes.write(13, &table()).unwrap();
        notes.remove(13);
        notes.remove(14);
        // As a crash leaves it.
        fs.create("db/000015.elsewhere.new".as_ref(), Site::CurrentCreate).unwrap();
        assert_eq!(notes.read().unwrap(), [(12, table())]);
        fs.create("db/000016.elsewhere".as_ref(), Site::CurrentCreate).unwrap();
        let error = notes.read().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert!(error.to_string().contains("000016"), "{error}");
    }
}
