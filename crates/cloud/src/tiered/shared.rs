//! What the store of tables and its lanes share: the ledger behind a lock, files, the bucket, and how all is going.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use siltstone::{Db, Event, EventListener, Options, RandomAccessFile, Result};

use super::arrivals::Arrivals;
use super::away::JobRecords;
use super::copies::Copies;
use super::lanes::Failed;
use super::ledger::Ledger;
use super::local::LocalTables;
use super::notes::Notes;
use super::tables::OpenTables;
use super::{CloudOptions, TieredMetrics};
use crate::archive::ship::Archive;
use crate::error::Error;
use crate::home::Home;
use crate::log::state::VersionState;
use crate::reads::tables::RemoteTables;

/// How long waiters look away at most: nobody rings for the clock.
const GLANCE: Duration = Duration::from_millis(20);

pub(super) struct Shared {
    pub(super) home: Home,
    pub(super) local: LocalTables,
    pub(super) notes: Notes,
    pub(super) options: CloudOptions,
    listeners: Vec<Arc<dyn EventListener>>,
    pub(super) open: OpenTables,
    pub(super) tables: RemoteTables,
    /// Tables in the bucket that will be opened soon, with what is known of them.
    expected: Mutex<BTreeMap<u64, File>>,
    pub(super) archive: Option<Arc<Archive>>,
    pub(super) counters: Counters,
    state: Mutex<State>,
    changed: Condvar,
    /// For lanes that wait for tasks, and nobody else.
    tasks: Condvar,
}

pub(super) struct State {
    pub(super) ledger: Ledger,
    /// The last version that is committed, for where tables lie.
    pub(super) version: Arc<VersionState>,
    pub(super) arrivals: Arrivals,
    pub(super) records: JobRecords,
    pub(super) copies: Copies,
    /// Nobody waits for room any more.
    pub(super) closing: bool,
    pub(super) stopping: bool,
    pub(super) failed: Option<Error>,
    /// Told of a failure.
    pub(super) db: Option<Db>,
}

#[derive(Default)]
pub(super) struct Counters {
    pub(super) uploads: AtomicU64,
    pub(super) upload_bytes: AtomicU64,
    pub(super) failures: AtomicU64,
    pub(super) commits: AtomicU64,
    pub(super) edits: AtomicU64,
    pub(super) waits: AtomicU64,
    pub(super) wait_micros: AtomicU64,
    pub(super) evicted: AtomicU64,
}

impl Shared {
    pub(super) fn new(
        home: Home,
        (local, notes): (LocalTables, Notes),
        options: CloudOptions,
        engine: &Options,
        (version, archive): (VersionState, Option<Arc<Archive>>),
    ) -> Result<Self> {
        let mut ledger = Ledger::new(version.tables().clone());
        for (number, table) in notes.read()? {
            match ledger.table(number) {
                // The end came before the note was removed.
                Some(_) => notes.remove(number),
                None => ledger.adopt(number, table),
            }
        }
        let state = State {
            ledger,
            version: Arc::new(version),
            arrivals: Arrivals::default(),
            records: JobRecords::default(),
            copies: Copies::default(),
            closing: false,
            stopping: false,
            failed: None,
            db: None,
        };
        let tables = RemoteTables::new(Arc::clone(home.bucket()), options.reads.clone())?;
        Ok(Shared {
            tables,
            expected: Mutex::default(),
            home,
            local,
            notes,
            options,
            listeners: engine.listeners.clone(),
            open: OpenTables::default(),
            archive,
            counters: Counters::default(),
            state: Mutex::new(state),
            changed: Condvar::new(),
            tasks: Condvar::new(),
        })
    }

    pub(super) fn expected(&self) -> MutexGuard<'_, BTreeMap<u64, File>> {
        self.expected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        // Nothing under the lock stops half way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and wakes whoever waits for that; of those who wait for tasks one, unless all are to end.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state();
        let changed = change(&mut state);
        let is_over = state.stopping || state.failed.is_some();
        drop(state);
        self.changed.notify_all();
        match is_over {
            true => self.tasks.notify_all(),
            false => self.tasks.notify_one(),
        }
        changed
    }

    /// Waits until `ready` has something.
    pub(super) fn wait<T>(&self, mut ready: impl FnMut(&mut State) -> Option<T>) -> T {
        let mut state = self.state();
        loop {
            if let Some(done) = ready(&mut state) {
                return done;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The same for one of many lanes, any of which will do: all of them awake for each change would take turns from writers.
    pub(super) fn wait_for_task<T>(&self, mut ready: impl FnMut(&mut State) -> Option<T>) -> T {
        let mut state = self.state();
        loop {
            if let Some(task) = ready(&mut state) {
                // There may be more, and somebody has to look at the clock.
                self.tasks.notify_one();
                return task;
            }
            state = if state.copies.are_awaited() {
                let awake = self.tasks.wait_timeout(state, GLANCE);
                awake.unwrap_or_else(PoisonError::into_inner).0
            } else {
                self.tasks.wait(state).unwrap_or_else(PoisonError::into_inner)
            };
        }
    }

    /// As [`wait`](Self::wait), for so long at most.
    pub(super) fn wait_within<T>(
        &self,
        within: Duration,
        mut ready: impl FnMut(&mut State) -> Option<T>,
    ) -> Option<T> {
        let until = self.home.now().saturating_add(within);
        let mut state = self.state();
        loop {
            if let Some(done) = ready(&mut state) {
                return Some(done);
            }
            if self.home.now() >= until {
                return None;
            }
            let (awake, _) =
                self.changed.wait_timeout(state, GLANCE).unwrap_or_else(PoisonError::into_inner);
            state = awake;
        }
    }

    /// Nothing is written from now on, as nobody can learn of the failure and then write.
    pub(super) fn fail(&self, error: Error) {
        let stop = |db: Option<Db>| db.iter().for_each(|db| db.stop_writes(error.clone().into()));
        let db = self.state().db.clone();
        stop(db);
        // Who is opening it meanwhile sees either of the two.
        let db = self.change(|state| {
            state.failed.get_or_insert_with(|| error.clone());
            state.db.clone()
        });
        stop(db);
    }

    /// Tells all threads to end.
    pub(super) fn stop(&self) {
        self.change(|state| {
            (state.closing, state.stopping) = (true, true);
            state.db = None;
        });
        self.archive.iter().for_each(|archive| archive.stop());
    }

    /// Something went wrong that is tried again.
    pub(super) fn tell(&self, failed: &Failed) {
        let error = match failed {
            Failed::Here(error) => error.clone(),
            Failed::There(error) => error.clone().into(),
        };
        self.tell_listeners(&Event::BackgroundError { error, retries: true });
    }

    /// Something went wrong that can be done without.
    pub(super) fn tell_once(&self, error: siltstone::Error) {
        self.tell_listeners(&Event::BackgroundError { error, retries: false });
    }

    fn tell_listeners(&self, event: &Event) {
        self.listeners.iter().for_each(|listener| listener.on_event(event));
    }

    /// Waits a little after a failure, unless all is about to end.
    pub(super) fn rest(&self, pause: Duration) {
        self.wait_within(pause, |state| state.stopping.then_some(()));
    }

    pub(super) fn metrics(&self) -> TieredMetrics {
        let state = self.state();
        let counters = &self.counters;
        let read = |counter: &AtomicU64| counter.load(Relaxed);
        let of_log = |counter: fn(&Archive) -> &AtomicU64| {
            self.archive.as_ref().map_or(0, |archive| read(counter(archive)))
        };
        TieredMetrics {
            epoch: state.version.epoch().0,
            version: state.version.version().0,
            tables: state.version.tables().len() as u64,
            table_bytes: state.version.tables().values().map(|table| table.bytes).sum(),
            edits_waiting: state.ledger.changes_waiting() as u64,
            bytes_waiting: state.ledger.bytes_waiting(),
            uploads: read(&counters.uploads),
            upload_bytes: read(&counters.upload_bytes),
            failures: read(&counters.failures) + of_log(|archive| &archive.failures),
            commits: read(&counters.commits),
            edits: read(&counters.edits),
            waits: read(&counters.waits),
            wait_micros: read(&counters.wait_micros),
            evicted: read(&counters.evicted),
            log_pieces: of_log(|archive| &archive.pieces),
            log_bytes: of_log(|archive| &archive.bytes),
            log_lag: self.archive.as_ref().map_or(0, |archive| archive.lag()),
        }
    }
}

/// A table's file, wherever it is.
pub(super) type File = Arc<dyn RandomAccessFile>;
