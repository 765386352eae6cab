//! The tables of one version, as the engine reads them: nothing is written here. They are opened by several threads, for
//! each may take a request, and the version is shown when the last of them is open, and as near as what it replaces.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use siltstone::{
    Error, ErrorKind, FileNumber, Lane, RandomAccessFile, Result, TableStore, Threads, WritableFile,
};

use crate::bucket::Purpose;
use crate::home::Home;
use crate::log::state::VersionState;
use crate::reads::object::TableObject;
use crate::reads::remote_table::RemoteTable;
use crate::reads::tables::RemoteTables;

/// Threads that open tables.
const LANES: usize = 8;

pub(super) struct BucketTables {
    numbers: Vec<FileNumber>,
    tables: Arc<RemoteTables>,
    threads: Arc<dyn Threads>,
    state: Mutex<State>,
}

/// Parts of tables that are to be near, and that nobody is at yet.
type Lacking = Mutex<VecDeque<(TableObject, Vec<Range<u64>>)>>;

struct State {
    /// Those that nobody is at yet.
    waiting: VecDeque<(FileNumber, TableObject)>,
    /// Those that were opened before the engine asks for them.
    open: BTreeMap<FileNumber, Arc<RemoteTable>>,
    failed: Option<Error>,
}

impl BucketTables {
    pub(super) fn new(
        home: &Home,
        state: &VersionState,
        (tables, threads): (&Arc<RemoteTables>, &Arc<dyn Threads>),
    ) -> Self {
        let objects = state
            .tables()
            .iter()
            .map(|(number, table)| (FileNumber(*number), TableObject::of(home, state, table)));
        let waiting: VecDeque<_> = objects.collect();
        let numbers = waiting.iter().map(|(number, _)| *number).collect();
        let state = State { waiting, open: BTreeMap::new(), failed: None };
        let (tables, threads) = (Arc::clone(tables), Arc::clone(threads));
        BucketTables { numbers, tables, threads, state: Mutex::new(state) }
    }

    /// Begins to open all tables: one request for each that is not open already, or cached. The lanes are for
    /// [`finish_opening`](Self::finish_opening).
    pub(super) fn start_opening(self: &Arc<Self>) -> Vec<Box<dyn Lane>> {
        let count = self.numbers.len().min(LANES);
        self.start(count, || {
            let store = Arc::clone(self);
            Box::new(move || store.open_waiting())
        })
    }

    fn start(
        &self,
        count: usize,
        work: impl Fn() -> Box<dyn FnOnce() + Send>,
    ) -> Vec<Box<dyn Lane>> {
        // Where one cannot be had, others do more.
        (0..count).filter_map(|_| self.threads.spawn("siltstone-open", work()).ok()).collect()
    }

    /// Opens what is left, and waits for the rest.
    pub(super) fn finish_opening(&self, lanes: Vec<Box<dyn Lane>>) -> Result<()> {
        self.open_waiting();
        lanes.into_iter().for_each(Lane::join);
        self.state().failed.take().map_or(Ok(()), Err)
    }

    fn open_waiting(&self) {
        while let Some((number, object)) = self.next() {
            let opened = self.tables.open(&object, Purpose::Replica);
            let mut state = self.state();
            match opened {
                Ok(table) => drop(state.open.insert(number, table)),
                Err(error) => {
                    state.waiting.clear();
                    state.failed.get_or_insert(error);
                }
            }
        }
    }

    fn next(&self) -> Option<(FileNumber, TableObject)> {
        self.state().waiting.pop_front()
    }

    fn object_of(&self, number: FileNumber) -> Option<TableObject> {
        self.state().open.get(&number).map(|table| table.object().clone())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing under the lock stops half way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TableStore for BucketTables {
    fn create(&self, number: FileNumber) -> Result<Box<dyn WritableFile>> {
        Err(Error::new(ErrorKind::ReadOnly, format!("a replica writes no table {number}")))
    }

    fn open(&self, number: FileNumber) -> Result<Arc<dyn RandomAccessFile>> {
        match self.state().open.get(&number) {
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
        Ok(self.numbers.clone())
    }

    fn sync_names(&self) -> Result<()> {
        Ok(())
    }

    fn near(&self, number: FileNumber) -> Vec<Range<u64>> {
        let (cache, object) = (self.tables.cache(), self.object_of(number));
        cache.zip(object).map_or_else(Vec::new, |(cache, object)| cache.cached(&object))
    }

    fn bring_near(&self, tables: &[(FileNumber, Vec<Range<u64>>)]) {
        let object = |(number, parts): &(FileNumber, Vec<Range<u64>>)| {
            Some((self.object_of(*number)?, parts.clone()))
        };
        let lacking: Arc<Lacking> =
            Arc::new(Mutex::new(tables.iter().filter_map(object).collect()));
        let lanes = self.start(tables.len().clamp(1, LANES) - 1, || {
            let (tables, lacking) = (Arc::clone(&self.tables), Arc::clone(&lacking));
            Box::new(move || warm(&tables, &lacking))
        });
        warm(&self.tables, &lacking);
        lanes.into_iter().for_each(Lane::join);
    }
}

fn warm(tables: &RemoteTables, lacking: &Lacking) {
    let next = || lacking.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    while let Some((object, parts)) = next() {
        // What cannot be brought now its readers ask for.
        let _ = tables.warm_parts(&object, &parts);
    }
}
