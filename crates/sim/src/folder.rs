//! A database's folder in the hands of a test: its files listed, read, damaged, copied.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use siltstone::{FileSystem, Result, Site};

/// A folder of some file system. Calls go past the rules of a `FaultFs` only if it was made from
/// the file system below it.
#[derive(Clone)]
pub struct Folder {
    pub fs: Arc<dyn FileSystem>,
    pub dir: PathBuf,
}

impl Folder {
    pub fn new(fs: Arc<dyn FileSystem>, dir: impl AsRef<Path>) -> Self {
        Folder { fs, dir: dir.as_ref().to_owned() }
    }

    /// All names, sorted; none if the folder is not there.
    pub fn names(&self) -> Vec<String> {
        let mut names = self.fs.list(&self.dir).unwrap_or_default();
        names.sort();
        names
    }

    /// Names that end so, sorted: numbers are written with six digits, so the oldest comes first.
    pub fn ending(&self, end: &str) -> Vec<String> {
        self.names().into_iter().filter(|name| name.ends_with(end)).collect()
    }

    pub fn wals(&self) -> Vec<String> {
        self.ending(".log")
    }

    pub fn tables(&self) -> Vec<String> {
        self.ending(".ldb")
    }

    pub fn manifests(&self) -> Vec<String> {
        self.names().into_iter().filter(|name| name.starts_with("MANIFEST-")).collect()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        self.try_read(name).unwrap()
    }

    fn try_read(&self, name: &str) -> Result<Vec<u8>> {
        let file = self.fs.open(&self.path(name))?;
        let mut bytes = vec![0; file.len() as usize];
        let read = file.read_at(&mut bytes, 0)?;
        bytes.truncate(read);
        Ok(bytes)
    }

    pub fn len(&self, name: &str) -> u64 {
        self.fs.metadata(&self.path(name)).unwrap().len
    }

    pub fn write(&self, name: &str, bytes: &[u8]) {
        self.fs.create_dir(&self.dir, Site::DbDirCreate).unwrap();
        let mut file = self.fs.create(&self.path(name), Site::TempRemove).unwrap();
        file.append(bytes, Site::TempRemove).unwrap();
        file.close(Site::TempRemove).unwrap();
    }

    /// Makes a folder in it.
    pub fn make_folder(&self, name: &str) {
        self.fs.create_dir(&self.path(name), Site::DbDirCreate).unwrap();
    }

    /// Reads a file, lets `change` have its way with the bytes, and writes them back.
    pub fn edit(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = self.read(name);
        change(&mut bytes);
        self.write(name, &bytes);
    }

    /// Turns one bit of the byte at `offset`.
    pub fn flip(&self, name: &str, offset: u64) {
        self.edit(name, |bytes| bytes[offset as usize] ^= 0x10);
    }

    pub fn remove(&self, name: &str) {
        self.fs.remove_file(&self.path(name), Site::TempRemove).unwrap();
    }

    /// Every file but the lock, with its bytes. If the folder changes meanwhile, by a database's lanes, it is looked at
    /// once more.
    pub fn files(&self) -> Vec<(String, Vec<u8>)> {
        loop {
            let names = self.names();
            let files: Result<Vec<_>> = names.iter().filter_map(|name| self.file(name)).collect();
            match files {
                Ok(files) if names == self.names() => return files,
                Err(error) if !error.is_not_found() => panic!("{error}"),
                _ => {}
            }
        }
    }

    /// None for the lock, and for folders.
    fn file(&self, name: &str) -> Option<Result<(String, Vec<u8>)>> {
        let read = || {
            let is_dir = self.fs.metadata(&self.path(name))?.is_dir;
            let bytes = if is_dir { None } else { Some(self.try_read(name)?) };
            Ok(bytes.map(|bytes| (name.to_owned(), bytes)))
        };
        if name == "LOCK" { None } else { read().transpose() }
    }

    /// Puts files in, as [`files`](Self::files) gives them.
    pub fn put_files(&self, files: &[(String, Vec<u8>)]) {
        for (name, bytes) in files {
            self.write(name, bytes);
        }
    }

    /// Bytes of all tables and logs.
    pub fn data_bytes(&self) -> u64 {
        let names = self.tables().into_iter().chain(self.wals());
        names.map(|name| self.len(&name)).sum()
    }
}
