//! Tables as files in the database's folder: where they are written, and where copies of those in the bucket stay while
//! there is room. Whole tables are read and written here in pieces, between which others may have the processor: who puts
//! entries, where there is but one, would wait for milliseconds.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use siltstone::{
    Env, Error, ErrorKind, FileNumber, FileSystem, LocalStore, RandomAccessFile, Result, Site,
    TableStore, Threads, WritableFile,
};

/// No table is larger: they are cut at some mebibytes, but for a single value of up to 4 GiB.
const TABLE_BYTES_MAX: u64 = 5 << 30;
/// A piece takes some 50 microseconds.
const PIECE_BYTES: usize = 128 << 10;

pub(crate) struct LocalTables {
    store: LocalStore,
    fs: Arc<dyn FileSystem>,
    threads: Arc<dyn Threads>,
    folder: PathBuf,
    /// Who reads a whole table: one at a time, for several would keep a processor from whoever puts entries.
    turn: Mutex<()>,
}

impl LocalTables {
    pub(crate) fn new(env: &Env, folder: &Path) -> Self {
        let (fs, threads) = (Arc::clone(&env.file_system), Arc::clone(&env.threads));
        let store = LocalStore::new(Arc::clone(&fs), folder);
        LocalTables { store, fs, threads, folder: folder.to_owned(), turn: Mutex::default() }
    }

    pub(crate) fn create(&self, number: u64) -> Result<Box<dyn WritableFile>> {
        self.store.create(FileNumber(number))
    }

    /// `None` if it is not here.
    pub(crate) fn open(&self, number: u64) -> Result<Option<Arc<dyn RandomAccessFile>>> {
        match self.store.open(FileNumber(number)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            opened => opened.map(Some),
        }
    }

    /// Its bytes; `None` if it is not here, or cannot be opened.
    pub(crate) fn size(&self, number: u64) -> Option<u64> {
        self.open(number).ok().flatten().map(|file| file.len())
    }

    /// Removes it, if it is here.
    pub(crate) fn remove(&self, number: u64) -> Result<()> {
        match self.store.remove(FileNumber(number)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    pub(crate) fn sync_names(&self) -> Result<()> {
        self.store.sync_names()
    }

    /// The numbers of all that are here, ascending.
    pub(crate) fn list(&self) -> Result<Vec<u64>> {
        Ok(self.store.list()?.into_iter().map(|number| number.0).collect())
    }

    /// All of a table.
    pub(crate) fn read(&self, number: u64) -> Result<Bytes> {
        let file = self.store.open(FileNumber(number))?;
        let bytes = file.len();
        if bytes > TABLE_BYTES_MAX {
            let message = format!("a table of {bytes} bytes, more than {TABLE_BYTES_MAX}");
            return Err(Error::corruption(message).in_file(file.path()));
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut body = vec![0; bytes as usize];
        let mut at = 0;
        for piece in body.chunks_mut(PIECE_BYTES) {
            let read = file.read_at(piece, at)?;
            at += read as u64;
            if read < piece.len() {
                let message = format!("read {at} bytes of {bytes}: the file has become shorter");
                return Err(Error::corruption(message).at(at).in_file(file.path()));
            }
            self.threads.give_way();
        }
        Ok(Bytes::from(body))
    }

    /// Makes a table's file, whole or not at all. What a crash leaves is swept when the database is opened.
    pub(crate) fn write(&self, number: u64, body: &[u8]) -> Result<()> {
        let temp = self.folder.join(format!("{number:06}.dbtmp"));
        let path = self.folder.join(format!("{number:06}.ldb"));
        let written = self.write_to(&temp, body);
        let named = written.and_then(|()| self.fs.rename(&temp, &path, Site::CurrentRename));
        named.inspect_err(|_| {
            // A disk that is full needs the room now.
            let _ = self.fs.remove_file(&temp, Site::TempRemove);
        })?;
        self.sync_names()
    }

    fn write_to(&self, path: &Path, body: &[u8]) -> Result<()> {
        let mut file = self.fs.create(path, Site::TableCreate)?;
        for piece in body.chunks(PIECE_BYTES) {
            file.append(piece, Site::TableAppend)?;
            self.threads.give_way();
        }
        file.sync(Site::TableSync)?;
        file.close(Site::TableClose)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use siltstone::Lane;

    use super::*;

    #[test]
    fn tables_are_written_whole_found_and_removed() {
        let env = Env::memory();
        env.file_system.create_dir("db".as_ref(), Site::DbDirCreate).unwrap();
        let tables = LocalTables::new(&env, "db".as_ref());
        tables.write(7, b"seven").unwrap();
        assert_eq!(tables.list().unwrap(), [7]);
        assert_eq!(tables.read(7).unwrap(), &b"seven"[..]);
        assert_eq!((tables.size(7), tables.size(9)), (Some(5), None));
        assert!(tables.open(9).unwrap().is_none());
        assert_eq!(tables.read(9).unwrap_err().kind(), ErrorKind::NotFound);
        tables.remove(7).unwrap();
        tables.remove(7).unwrap();
        assert!(tables.list().unwrap().is_empty());
    }

    #[derive(Default)]
    struct Polite(AtomicUsize);

    impl Threads for Polite {
        fn spawn(&self, _: &str, _: Box<dyn FnOnce() + Send>) -> Result<Box<dyn Lane>> {
            unreachable!("tables start no threads")
        }

        fn give_way(&self) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn long_tables_go_in_pieces_between_which_others_have_their_turn() {
        let polite = Arc::new(Polite::default());
        let env = Env { threads: Arc::clone(&polite) as _, ..Env::memory() };
        env.file_system.create_dir("db".as_ref(), Site::DbDirCreate).unwrap();
        let tables = LocalTables::new(&env, "db".as_ref());
        let body: Vec<u8> = (0..3 * PIECE_BYTES + 7).map(|at| (at / 5) as u8).collect();
        tables.write(7, &body).unwrap();
        assert_eq!(polite.0.swap(0, Relaxed), 4);
        assert!(tables.read(7).unwrap() == body);
        assert_eq!(polite.0.load(Relaxed), 4);
    }

    #[test]
    fn what_could_not_be_written_takes_no_room() {
        let env = Env::memory();
        let fs = &env.file_system;
        fs.create_dir("db".as_ref(), Site::DbDirCreate).unwrap();
        let tables = LocalTables::new(&env, "db".as_ref());
        // Nothing can take the place of a folder.
        fs.create_dir("db/000008.ldb".as_ref(), Site::DbDirCreate).unwrap();
        tables.write(8, b"eight").unwrap_err();
        let names = fs.list("db".as_ref()).unwrap();
        assert!(!names.iter().any(|name| name.ends_with("dbtmp")), "{names:?}");
    }
}
