//! A version whose manifest lies elsewhere, as of a database in a bucket: what its edits add up to, and whether a table is
//! what they say. Called by tools that have no folder to look into.

use std::sync::Arc;

use super::table::{Expected, check};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::key::SeqNo;
use crate::db::care::restore::fold_edits;
use crate::db::options::Options;
use crate::db::settings::Settings;
use crate::db::shape::{LevelInfo, levels_of};
use crate::env::fs::RandomAccessFile;
use crate::format::filename::FileNumber;
use crate::version::graveyard::Graveyard;
use crate::version::recover::{Recovered, recover_edits};

/// What a row of version edits adds up to.
pub struct EditedVersion {
    settings: Settings,
    recovered: Recovered,
}

impl EditedVersion {
    /// Applies edits in LevelDB's encoding, from the first of a manifest on; where another manifest begins, all is begun anew.
    /// Reads and writes no file; memory grows with the tables that are left.
    ///
    /// # Errors
    ///
    /// `Corruption` if they do not make up a version, `Incompatible` for another comparator's.
    pub fn replay<'a>(
        edits: impl IntoIterator<Item = &'a [u8]>,
        options: &Options,
    ) -> Result<Self> {
        let settings = Settings::resolve(options)?;
        let graveyard = Arc::new(Graveyard::new());
        let whole = fold_edits(edits)?;
        let recovered = recover_edits(&settings.order, &graveyard, [&whole[..]])?;
        Ok(EditedVersion { settings, recovered })
    }

    /// Its tables, by level.
    pub fn levels(&self) -> Vec<LevelInfo> {
        levels_of(&self.recovered.version, &self.settings.order.user)
    }

    /// The newest write that it has.
    pub fn last_seqno(&self) -> SeqNo {
        self.recovered.last_seqno
    }

    /// Reads all of a table, as [`verify`](crate::verify) does, and returns the number of its entries.
    ///
    /// # Errors
    ///
    /// `NotFound` if the version has no such table, `Corruption` for the first thing that is wrong with it.
    pub fn verify_table(&self, number: FileNumber, file: Arc<dyn RandomAccessFile>) -> Result<u64> {
        let meta = self.recovered.version.find(number).map(|(_, table)| table);
        let meta = meta.ok_or_else(|| absent(number))?;
        let last_seqno = self.recovered.last_seqno;
        let expected = Expected { number, meta: Some(meta), last_seqno };
        let findings = check(file, self.settings.read.clone(), &expected);
        findings.error.map_or(Ok(findings.entries), Err)
    }
}

fn absent(number: FileNumber) -> Error {
    Error::new(ErrorKind::NotFound, format!("the version has no table {number}"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Mutex;

    use super::*;
    use crate::db::handle::Db;
    use crate::env::Env;
    use crate::env::fs::{FileSystem, WritableFile};
    use crate::env::site::Site;
    use crate::store::local::LocalStore;
    use crate::store::{Installed, TableStore};

    /// Keeps edits as they come.
    struct Keeper {
        tables: LocalStore,
        edits: Mutex<Vec<Vec<u8>>>,
    }

    impl TableStore for Keeper {
        fn create(&self, number: FileNumber) -> Result<Box<dyn WritableFile>> {
            self.tables.create(number)
        }

        fn open(&self, number: FileNumber) -> Result<Arc<dyn RandomAccessFile>> {
            self.tables.open(number)
        }

        fn remove(&self, number: FileNumber) -> Result<()> {
            self.tables.remove(number)
        }

        fn list(&self) -> Result<Vec<FileNumber>> {
            self.tables.list()
        }

        fn sync_names(&self) -> Result<()> {
            self.tables.sync_names()
        }

        fn installed(&self, change: &Installed<'_>) {
            let mut edits = self.edits.lock().unwrap();
            edits.push(change.edit.to_vec());
        }
    }

    fn filled() -> (Options, Arc<Keeper>, Db) {
        let env = Env::memory();
        env.file_system.create_dir(Path::new("tables"), Site::DbDirCreate).unwrap();
        let tables = LocalStore::new(Arc::clone(&env.file_system), Path::new("tables"));
        let store = Arc::new(Keeper { tables, edits: Mutex::default() });
        let options = Options {
            create_if_missing: true,
            table_store: Some(store.clone()),
            env,
            ..Options::default()
        };
        let db = Db::open("db", options.clone()).unwrap();
        for round in 0..3 {
            (0..100).for_each(|key| db.put(format!("{key}"), format!("{round}")).unwrap());
            db.flush().unwrap();
        }
        db.compact_range(Some(b"1"), Some(b"2")).unwrap();
        db.put("late", "1").unwrap();
        db.flush().unwrap();
        db.wait_for_background().unwrap();
        (options, store, db)
    }

    fn replayed(store: &Keeper, options: &Options) -> Result<EditedVersion> {
        let edits = store.edits.lock().unwrap();
        EditedVersion::replay(edits.iter().map(Vec::as_slice), options)
    }

    #[test]
    fn edits_show_the_database_they_are_of() {
        let (options, store, db) = filled();
        let version = replayed(&store, &options).unwrap();
        let shape = |levels: Vec<LevelInfo>| {
            let tables = levels.into_iter().flat_map(|level| {
                level.tables.into_iter().map(move |table| (level.level, level.area, table))
            });
            let tables = tables.map(|(level, area, table)| {
                (level, area, table.number, table.bytes, table.smallest, table.largest)
            });
            tables.collect::<Vec<_>>()
        };
        assert!(shape(version.levels()).len() >= 2);
        assert_eq!(shape(version.levels()), shape(db.levels()));
        assert_eq!(version.last_seqno(), SeqNo(301));
        let numbers = version.levels().into_iter().flat_map(|level| level.tables);
        let entries = numbers.map(|table| {
            version.verify_table(table.number, store.open(table.number).unwrap()).unwrap()
        });
        assert!(entries.sum::<u64>() >= 101);
    }

    #[test]
    fn what_does_not_fit_is_told() {
        let (options, store, db) = filled();
        let version = replayed(&store, &options).unwrap();
        let tables: Vec<_> = db.levels().into_iter().flat_map(|level| level.tables).collect();
        let (first, second) = (tables[0].number, tables[1].number);
        let kind = |number, file| version.verify_table(number, file).unwrap_err().kind();
        assert_eq!(kind(first, store.open(second).unwrap()), ErrorKind::Corruption);
        assert_eq!(kind(FileNumber(900), store.open(first).unwrap()), ErrorKind::NotFound);
        let name = format!("tables/{:06}.ldb", first.0);
        let files: &dyn FileSystem = &*options.env.file_system;
        let whole = files.open(Path::new(&name)).unwrap();
        let mut bytes = vec![0; whole.len() as usize];
        whole.read_at(&mut bytes, 0).unwrap();
        bytes[20] ^= 1;
        let mut again = files.create(Path::new("tables/damaged"), Site::TableCreate).unwrap();
        again.append(&bytes, Site::TableAppend).unwrap();
        again.close(Site::TableClose).unwrap();
        let damaged = files.open(Path::new("tables/damaged")).unwrap();
        assert_eq!(kind(first, damaged), ErrorKind::Corruption);

        let nothing = EditedVersion::replay([], &options).err().unwrap();
        assert_eq!(nothing.kind(), ErrorKind::Corruption);
        let garbage = EditedVersion::replay([&b"edit"[..]], &options).err().unwrap();
        assert_eq!(garbage.kind(), ErrorKind::Corruption);
        store.edits.lock().unwrap().push(vec![1, 3, b'b', b'a', b'd']);
        assert_eq!(replayed(&store, &options).err().unwrap().kind(), ErrorKind::Incompatible);
    }
}
