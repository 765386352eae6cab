//! Tables as files in the database's folder: where they are written, and where copies of those in the bucket stay while
//! there is room.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use siltstone::{Error, ErrorKind, FileSystem, RandomAccessFile, Result, Site, WritableFile};

/// No table is larger: they are cut at some mebibytes, but for a single value of up to 4 GiB.
const TABLE_BYTES_MAX: u64 = 5 << 30;

pub(crate) struct LocalTables {
    fs: Arc<dyn FileSystem>,
    folder: PathBuf,
}

impl LocalTables {
    pub(crate) fn new(fs: Arc<dyn FileSystem>, folder: &Path) -> Self {
        LocalTables { fs, folder: folder.to_owned() }
    }

    /// As this engine names them, and as LevelDB did before 1.14.
    fn paths(&self, number: u64) -> [PathBuf; 2] {
        ["ldb", "sst"].map(|suffix| self.folder.join(format!("{number:06}.{suffix}")))
    }

    fn path(&self, number: u64) -> PathBuf {
        let [path, _] = self.paths(number);
        path
    }

    /// Under the first name that there is; the error of the first if under none.
    fn under_either<T>(&self, number: u64, act: impl Fn(&Path) -> Result<T>) -> Result<T> {
        let [new, old] = self.paths(number);
        match act(&new) {
            Err(error) if error.kind() == ErrorKind::NotFound => act(&old).map_err(|_| error),
            done => done,
        }
    }

    pub(crate) fn create(&self, number: u64) -> Result<Box<dyn WritableFile>> {
        self.fs.create(&self.path(number), Site::TableCreate)
    }

    pub(crate) fn open(&self, number: u64) -> Result<Arc<dyn RandomAccessFile>> {
        self.under_either(number, |path| self.fs.open(path))
    }

    /// Its bytes; `None` if it is not here.
    pub(crate) fn size(&self, number: u64) -> Option<u64> {
        self.under_either(number, |path| self.fs.metadata(path)).ok().map(|found| found.len)
    }

    pub(crate) fn remove(&self, number: u64) -> Result<()> {
        self.under_either(number, |path| self.fs.remove_file(path, Site::TableRemove))
    }

    pub(crate) fn sync_names(&self) -> Result<()> {
        self.fs.sync_dir(&self.folder, Site::TableDirSync)
    }

    /// The numbers of all that are here, ascending.
    pub(crate) fn list(&self) -> Result<Vec<u64>> {
        let names = self.fs.list(&self.folder)?;
        let mut numbers: Vec<u64> = names.iter().filter_map(|name| number_of(name)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        Ok(numbers)
    }

    /// All of a table.
    pub(crate) fn read(&self, number: u64) -> Result<Bytes> {
        let file = self.open(number)?;
        let bytes = file.len();
        if bytes > TABLE_BYTES_MAX {
            let message = format!("a table of {bytes} bytes, more than {TABLE_BYTES_MAX}");
            return Err(Error::corruption(message).in_file(file.path()));
        }
        let mut body = vec![0; bytes as usize];
        let read = file.read_at(&mut body, 0)?;
        if read as u64 != bytes {
            let message = format!("read {read} bytes of {bytes}: the file has become shorter");
            return Err(Error::corruption(message).at(read as u64).in_file(file.path()));
        }
        Ok(Bytes::from(body))
    }
}

fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".ldb").or_else(|| name.strip_suffix(".sst"))?;
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use siltstone::Env;

    use super::*;

    #[test]
    fn tables_are_found_under_both_names() {
        let fs = Env::memory().file_system;
        fs.create_dir("db".as_ref(), Site::DbDirCreate).unwrap();
        let tables = LocalTables::new(Arc::clone(&fs), "db".as_ref());
        let write = |mut file: Box<dyn WritableFile>, body: &[u8]| {
            file.append(body, Site::TableAppend).unwrap();
            file.close(Site::TableClose).unwrap();
        };
        write(tables.create(7).unwrap(), b"seven");
        write(fs.create("db/000003.sst".as_ref(), Site::TableCreate).unwrap(), b"old");
        write(fs.create("db/000009.log".as_ref(), Site::WalCreate).unwrap(), b"");
        assert_eq!(tables.list().unwrap(), [3, 7]);
        assert_eq!(tables.read(3).unwrap(), &b"old"[..]);
        assert_eq!((tables.size(7), tables.size(9)), (Some(5), None));
        assert_eq!(tables.open(9).err().unwrap().kind(), ErrorKind::NotFound);
        tables.remove(3).unwrap();
        assert_eq!(tables.list().unwrap(), [7]);
        assert_eq!(tables.remove(3).unwrap_err().kind(), ErrorKind::NotFound);
    }
}
