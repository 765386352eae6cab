//! Opening and closing. Whose folder and whose database it is, is [`claim`](super::claim)'s.

use std::ops::Deref;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use siltstone::{Db, Error, ErrorKind, FileLock, Lane, Options, Result, Site};

use super::claim::Claimed;
use super::folder::Folder;
use super::handle::CloudTables;
use super::lanes::{self, Committer, Failed};
use super::lease::{Gate, Prover};
use super::local::LocalTables;
use super::notes::Notes;
use super::shared::Shared;
use super::store::TieredStore;
use super::{CloudOptions, LocalCopies, TieredMetrics, remote};
use crate::archive::files::LogFiles;
use crate::home::Home;
use crate::log::owner;
use crate::names::{Epoch, Token};
use crate::reads::counters::ReadStats;

/// Held while the folder is in use: who does not get it must not claim the database from who has it.
const LOCK: &str = "CLOUD.lock";

/// An open database whose tables lie in a bucket. Everything else it does as a [`Db`].
///
/// Dropping it leaves what is not uploaded yet to the next opening; [`close`](Self::close) waits for it.
pub struct CloudDb {
    db: Db,
    shared: Arc<Shared>,
    lanes: Mutex<Vec<Box<dyn Lane>>>,
    owner: (Epoch, Token),
    _lock: Box<dyn FileLock>,
}

impl CloudDb {
    /// Opens the database at `home` for writing, with its log in `folder`. Whoever had it open before cannot commit any
    /// more.
    ///
    /// Takes some ten requests, and one for each record since the last whole one. `options` are the engine's; its
    /// `table_store` is set here.
    ///
    /// # Errors
    ///
    /// [`Fenced`](ErrorKind::Fenced) if another machine has owned the database since the folder was last open: see
    /// [`CloudOptions::discard_overtaken`]. [`InvalidArgument`](ErrorKind::InvalidArgument) if there is no database and
    /// none is to be made, or the folder has another one. [`Locked`](ErrorKind::Locked) if the folder is in use. Those of
    /// the bucket and of [`Db::open`].
    pub fn open(
        home: &Home,
        folder: impl AsRef<Path>,
        options: Options,
        cloud: CloudOptions,
    ) -> Result<Self> {
        let fs = &options.env.file_system;
        let path = folder.as_ref();
        fs.create_dir(path, Site::DbDirCreate)?;
        let lock = fs.lock(&path.join(LOCK), Site::LockCreate)?;
        let folder = Folder::new(fs, path);
        let claimed = Claimed::claim(home, &folder, &options, &cloud)?;
        let here = (LocalTables::new(&options.env, path), Notes::new(fs, path));
        let state = claimed.replay.state.clone();
        let place = (state, claimed.archive.clone());
        let shared = Arc::new(Shared::new(home.clone(), here, cloud, &options, place)?);
        if shared.options.local == LocalCopies::All {
            fetch_all(&shared)?;
        }
        let tables = CloudTables { shared: Arc::clone(&shared), epoch: claimed.log.epoch() };
        let lease = claimed.log.lease();
        let gate = Gate::new(home, &lease);
        let prover = gate.clone().map(|gate| Prover { shared: Arc::clone(&shared), lease, gate });
        let (mut log, edits) = (claimed.log, claimed.replay.payloads);
        shared.options.announce.iter().for_each(|announce| log.announce_to(Arc::clone(announce)));
        let committer = Committer { shared: Arc::clone(&shared), log, edits };
        let lanes = lanes::start(&shared, &*options.env.threads, (committer, prover))?;
        let store = Arc::new(TieredStore { shared: Arc::clone(&shared) });
        // Whether it may be made was decided where the bucket was looked at, too.
        let create_if_missing = claimed.is_new || options.create_if_missing;
        let mut options = Options { table_store: Some(store), create_if_missing, ..options };
        let archive = shared.archive.clone().filter(|archive| archive.is_on());
        if archive.is_some() || gate.is_some() {
            let inner = Arc::clone(&options.env.file_system);
            options.env.file_system = Arc::new(LogFiles { inner, archive, gate });
        }
        if let Some(prepare) = &shared.options.prepare {
            prepare(&tables, &mut options);
        }
        let db = match Db::open(path, options) {
            Ok(db) => db,
            Err(error) => {
                end(&shared, lanes);
                return Err(error);
            }
        };
        let failed = shared.change(|state| {
            state.db = Some(db.clone());
            state.failed.clone()
        });
        if let Some(failed) = failed {
            db.stop_writes(failed.into());
        }
        Ok(CloudDb { db, shared, lanes: Mutex::new(lanes), owner: claimed.owner, _lock: lock })
    }

    /// Waits until the bucket has all that was flushed before the call: what a lost machine could not take away. Flush
    /// first what must be among it.
    ///
    /// # Errors
    ///
    /// The failure that ended writing, if one did; [`Io`](ErrorKind::Io) if it takes longer than `within`.
    pub fn wait_for_bucket(&self, within: std::time::Duration) -> Result<()> {
        let done = self.shared.wait_within(within, |state| match &state.failed {
            Some(failed) => Some(Err(failed.clone().into())),
            None => state.ledger.is_level().then_some(Ok(())),
        });
        done.unwrap_or_else(|| {
            let bytes = self.shared.state().ledger.bytes_waiting();
            let message = format!("the bucket lacks {bytes} bytes of tables after {within:?}");
            Err(Error::new(ErrorKind::Io, message))
        })
    }

    /// How its tables and versions are getting to the bucket.
    pub fn cloud_metrics(&self) -> TieredMetrics {
        self.shared.metrics()
    }

    /// What reads from the bucket have cost.
    pub fn read_stats(&self) -> ReadStats {
        self.shared.tables.stats()
    }

    /// Where it lies.
    pub fn home(&self) -> &Home {
        &self.shared.home
    }

    /// Flushes and closes the database, and waits until the bucket has all of it, for as long as the options say. What it
    /// does not have by then goes there when the folder is opened again; nothing of it is lost here.
    ///
    /// # Errors
    ///
    /// As for [`Db::flush`] and [`Db::close`], or that the bucket does not have all.
    pub fn close(self) -> Result<()> {
        // What waits for room must not keep it open.
        self.shared.change(|state| state.closing = true);
        let flushed = self.db.flush();
        let closed = flushed.and(self.db.clone().close());
        let level = self.wait_for_bucket(self.shared.options.close_within);
        self.end();
        let whole = closed.and(level);
        if whole.is_ok() {
            // For those who ask before they take over; who does not get to know it asks for nothing.
            let _ = owner::release(&self.shared.home, self.owner.0, self.owner.1);
        }
        whole
    }

    fn end(&self) {
        let lanes = std::mem::take(&mut *self.lanes.lock().unwrap_or_else(PoisonError::into_inner));
        end(&self.shared, lanes);
    }
}

impl Deref for CloudDb {
    type Target = Db;

    fn deref(&self) -> &Db {
        &self.db
    }
}

impl Drop for CloudDb {
    fn drop(&mut self) {
        self.end();
        // Other handles must not write on, now that nothing follows to the bucket. Nobody but listeners can be told.
        if let Err(error) = self.db.clone().close() {
            self.shared.tell(&Failed::Here(error));
        }
    }
}

impl std::fmt::Debug for CloudDb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CloudDb").field("db", &self.db).finish_non_exhaustive()
    }
}

fn end(shared: &Shared, lanes: Vec<Box<dyn Lane>>) {
    shared.stop();
    lanes.into_iter().for_each(Lane::join);
}

/// Fetches what the folder lacks.
fn fetch_all(shared: &Arc<Shared>) -> Result<()> {
    let numbers: Vec<u64> = shared.state().ledger.committed().keys().copied().collect();
    numbers.into_iter().try_for_each(|number| remote::fetch(shared, number))
}
