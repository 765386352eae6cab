//! Tables in the database's folder: the store that every database has.
//!
//! New tables are named `.ldb`. Databases older than LevelDB 1.14 have some named `.sst`, which are
//! read and removed just as well.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::error::Result;
use crate::env::fs::{FileSystem, RandomAccessFile, WritableFile};
use crate::env::site::Site;
use crate::format::filename::{FileName, FileNumber};
use crate::store::TableStore;

/// Tables as files in a folder: for stores of one's own that keep some of theirs so.
pub struct LocalStore {
    file_system: Arc<dyn FileSystem>,
    folder: PathBuf,
}

impl LocalStore {
    /// Of a folder, which is not made.
    pub fn new(file_system: Arc<dyn FileSystem>, folder: &Path) -> Self {
        LocalStore { file_system, folder: folder.to_owned() }
    }
}

/// Opens a table in a database's folder, whichever name it has.
pub(crate) fn open_table(
    fs: &dyn FileSystem,
    folder: &Path,
    number: FileNumber,
) -> Result<Arc<dyn RandomAccessFile>> {
    under_either_name(folder, number, |path| fs.open(path))
}

/// Under neither name: the error is about the name that the table should have.
fn under_either_name<T>(
    folder: &Path,
    number: FileNumber,
    act: impl Fn(&Path) -> Result<T>,
) -> Result<T> {
    match act(&FileName::Table(number).in_dir(folder)) {
        Err(missing) if missing.is_not_found() => act(&FileName::OldTable(number).in_dir(folder))
            .map_err(|error| if error.is_not_found() { missing } else { error }),
        done => done,
    }
}

impl TableStore for LocalStore {
    fn create(&self, number: FileNumber) -> Result<Box<dyn WritableFile>> {
        self.file_system.create(&FileName::Table(number).in_dir(&self.folder), Site::TableCreate)
    }

    fn open(&self, number: FileNumber) -> Result<Arc<dyn RandomAccessFile>> {
        open_table(&*self.file_system, &self.folder, number)
    }

    fn remove(&self, number: FileNumber) -> Result<()> {
        under_either_name(&self.folder, number, |path| {
            self.file_system.remove_file(path, Site::TableRemove)
        })
    }

    fn list(&self) -> Result<Vec<FileNumber>> {
        let names = self.file_system.list(&self.folder)?;
        let numbers = names.iter().filter_map(|name| match FileName::parse(name) {
            Some(FileName::Table(number) | FileName::OldTable(number)) => Some(number),
            _ => None,
        });
        let mut numbers: Vec<FileNumber> = numbers.collect();
        numbers.sort_unstable();
        numbers.dedup();
        Ok(numbers)
    }

    fn sync_names(&self) -> Result<()> {
        self.file_system.sync_dir(&self.folder, Site::TableDirSync)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Env;

    fn store() -> (Arc<dyn FileSystem>, LocalStore) {
        let file_system = Env::memory().file_system;
        file_system.create_dir(Path::new("db"), Site::DbDirCreate).unwrap();
        (file_system.clone(), LocalStore::new(file_system, Path::new("db")))
    }

    fn write(file: Result<Box<dyn WritableFile>>, bytes: &[u8]) {
        let mut file = file.unwrap();
        file.append(bytes, Site::TableAppend).unwrap();
        file.close(Site::TableClose).unwrap();
    }

    #[test]
    fn tables_are_made_listed_and_removed() {
        let (files, store) = store();
        write(store.create(FileNumber(7)), b"seven");
        write(files.create(Path::new("db/000005.log"), Site::WalCreate), b"");
        store.sync_names().unwrap();
        assert_eq!(store.list().unwrap(), [FileNumber(7)]);
        assert_eq!(store.open(FileNumber(7)).unwrap().len(), 5);
        store.remove(FileNumber(7)).unwrap();
        assert!(store.list().unwrap().is_empty());
        let missing = store.open(FileNumber(7)).err().unwrap();
        assert!(missing.is_not_found());
        assert!(missing.file().unwrap().ends_with("000007.ldb"));
        assert!(store.remove(FileNumber(7)).unwrap_err().is_not_found());
    }

    #[test]
    fn tables_of_the_old_name_are_found() {
        let (files, store) = store();
        write(files.create(Path::new("db/000003.sst"), Site::TableCreate), b"old");
        assert_eq!(store.list().unwrap(), [FileNumber(3)]);
        assert_eq!(store.open(FileNumber(3)).unwrap().len(), 3);
        store.remove(FileNumber(3)).unwrap();
        assert!(store.list().unwrap().is_empty());
    }
}
