//! The tables of one version, as the engine reads them: nothing is written here.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use siltstone::{Error, ErrorKind, FileNumber, RandomAccessFile, Result, TableStore, WritableFile};

use crate::bucket::Purpose;
use crate::home::Home;
use crate::log::state::VersionState;
use crate::reads::object::TableObject;
use crate::reads::remote_table::RemoteTable;
use crate::reads::tables::RemoteTables;

pub(super) struct BucketTables {
    objects: BTreeMap<FileNumber, TableObject>,
    tables: Arc<RemoteTables>,
    /// Those that were opened before the engine asks for them.
    open: Mutex<BTreeMap<FileNumber, Arc<RemoteTable>>>,
}

impl BucketTables {
    pub(super) fn new(home: &Home, state: &VersionState, tables: &Arc<RemoteTables>) -> Self {
        let objects = state
            .tables()
            .iter()
            .map(|(number, table)| (FileNumber(*number), TableObject::of(home, state, table)));
        let (objects, tables) = (objects.collect(), Arc::clone(tables));
        BucketTables { objects, tables, open: Mutex::default() }
    }

    /// Opens all tables: one request for each that is not open already, or cached.
    pub(super) fn open_all(&self) -> Result<()> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        for (number, object) in &self.objects {
            open.insert(*number, self.tables.open(object, Purpose::Replica)?);
        }
        Ok(())
    }
}

impl TableStore for BucketTables {
    fn create(&self, number: FileNumber) -> Result<Box<dyn WritableFile>> {
        Err(Error::new(ErrorKind::ReadOnly, format!("a replica writes no table {number}")))
    }

    fn open(&self, number: FileNumber) -> Result<Arc<dyn RandomAccessFile>> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        match open.get(&number) {
            Some(table) => Ok(Arc::clone(table) as Arc<dyn RandomAccessFile>),
            None => {
                Err(Error::new(ErrorKind::NotFound, format!("the version has no table {number}")))
            }
        }
    }

    fn remove(&self, number: FileNumber) -> Result<()> {
        Err(Error::new(ErrorKind::ReadOnly, format!("a replica removes no table {number}")))
    }

    fn list(&self) -> Result<Vec<FileNumber>> {
        Ok(self.objects.keys().copied().collect())
    }

    fn sync_names(&self) -> Result<()> {
        Ok(())
    }
}
