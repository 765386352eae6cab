//! Reading a database in a bucket without owning it: one version, or one after the other as they come.
//!
//! Nothing is written to a folder: manifests lie in memory, tables in the bucket and in a cache of it. What reads were begun
//! on stays as it is; who asks again is given the newest version that the replica has.
//!
//! I1: a version is shown once its new tables are open, and what was cached of those that they replace is cached of them. So the first
//! reads after a switch cost what those before did.
//! I2: a replica that follows has a lease for the oldest version that somebody still reads. One that does not has none:
//! its tables stay for as long as collectors let pass, an hour unless they were told otherwise.
//! I3: what is shown was read in the bucket. News ([`News`]) has a follower look sooner, and no more.

mod eager;
mod news;
mod store;
mod track;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use siltstone::{
    Db, Env, Error as EngineError, ErrorKind as EngineKind, FileSystem, Lane, Options, Result,
    Site, fold_edits, oldest_log_of, restore_manifest,
};

use crate::archive::restore as archive;
use crate::bucket::{Bucket, Purpose};
use crate::error::{Error, ErrorKind};
use crate::home::Home;
use crate::log::replay::{self, Replay, read_newest};
use crate::log::state::VersionState;
use crate::names::{Token, VersionNumber};
use crate::pins::follow::{Follower, Following};
use crate::reads::tables::{RemoteOptions, RemoteTables};
use eager::Eager;
use news::Ear;
pub use news::News;
use store::BucketTables;
use track::Track;

/// Of requests that a new version waits for.
const REQUESTS_AT_ONCE: usize = 4;

/// The folder's name in memory.
const FOLDER: &str = "replica";

/// How a replica reads.
#[derive(Clone)]
#[non_exhaustive]
pub struct ReplicaOptions {
    /// How tables are read, and where what was read is kept. Default: nowhere.
    pub reads: RemoteOptions,
    /// Shows what is in the archived log as well, as of the moment when a version is opened. Default: true.
    pub with_log: bool,
    /// How often each request is made at once while a version of which there was [`News`] is opened, up to 8: the first
    /// answer counts, and of four the first is seldom late. On a store like S3 Standard one version in a hundred is shown later than 39 ms
    /// after its commit; with 1, which costs a quarter, later than 116. Default: 4.
    pub requests_at_once: usize,
    /// By which its leases are known. Default: made from the environment's seed and time.
    pub token: Option<Token>,
}

impl Default for ReplicaOptions {
    fn default() -> Self {
        let reads = RemoteOptions::default();
        ReplicaOptions { reads, with_log: true, requests_at_once: REQUESTS_AT_ONCE, token: None }
    }
}

impl ReplicaOptions {
    /// The same, reading so.
    pub fn with_reads(self, reads: RemoteOptions) -> Self {
        ReplicaOptions { reads, ..self }
    }

    /// The same, asking for what is new so many times at once.
    pub fn with_requests_at_once(self, requests_at_once: usize) -> Self {
        ReplicaOptions { requests_at_once, ..self }
    }
}

impl fmt::Debug for ReplicaOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplicaOptions")
            .field("with_log", &self.with_log)
            .field("requests_at_once", &self.requests_at_once)
            .finish_non_exhaustive()
    }
}

/// A database in a bucket, to be read.
pub struct Replica {
    shared: Arc<Shared>,
    lane: Option<Box<dyn Lane>>,
}

struct Shared {
    home: Home,
    engine: Options,
    options: ReplicaOptions,
    tables: Arc<RemoteTables>,
    state: Mutex<State>,
    /// For the thread that follows: there is news, or it is to end.
    rung: Condvar,
}

struct State {
    current: Arc<Db>,
    version: VersionNumber,
    /// What makes up the current version, for the next.
    edits: Vec<Bytes>,
    /// Versions that somebody may still read.
    older: Vec<(VersionNumber, Weak<Db>)>,
    switches: u64,
    ear: Ear,
    failed: Option<Error>,
    stopping: bool,
}

impl Replica {
    /// Opens the newest version, and stays there. Some three requests, and one for each record since the last whole one.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](EngineKind::InvalidArgument) if there is no database; those of the bucket, and of
    /// [`Db::open_read_only`].
    pub fn open(home: &Home, engine: Options, options: ReplicaOptions) -> Result<Self> {
        let replay = read_newest(home)?.ok_or_else(|| none(home))?;
        let shared = Shared::open(home, engine, options, replay)?;
        Ok(Replica { shared: Arc::new(shared), lane: None })
    }

    /// Opens the newest version, and follows the log from there, with a thread and a lease of its own.
    ///
    /// # Errors
    ///
    /// As for [`open`](Self::open).
    pub fn follow(
        home: &Home,
        engine: Options,
        options: ReplicaOptions,
        following: Following,
    ) -> Result<Self> {
        let threads = Arc::clone(&engine.env.threads);
        let eager = Eager::new(home.bucket(), options.requests_at_once, &threads);
        let home = &match &eager {
            Some(eager) => home.through(Arc::clone(eager) as Arc<dyn Bucket>),
            None => home.clone(),
        };
        let token = options.token.unwrap_or_else(|| Token::fresh(&engine.env));
        let (follower, replay) = Follower::start(home, following, token).map_err(|error| {
            if error.kind() == ErrorKind::Gone { none(home) } else { error.into() }
        })?;
        let shared = Arc::new(Shared::open(home, engine, options, replay)?);
        let track = Track { shared: Arc::clone(&shared), follower, following, token, eager };
        let lane = threads.spawn("siltstone-follow", Box::new(move || track.run()))?;
        Ok(Replica { shared, lane: Some(lane) })
    }

    /// The newest version that is here, to be read. It stays as it is for as long as it is held.
    pub fn db(&self) -> Arc<Db> {
        Arc::clone(&self.shared.state().current)
    }

    /// Which one that is.
    pub fn version(&self) -> u64 {
        self.shared.state().version.0
    }

    /// How often it has gone on.
    pub fn switches(&self) -> u64 {
        self.shared.state().switches
    }

    /// For who knows sooner than the next look that there is a new version: without news, a replica that follows looks as
    /// often as its [`Following`] says; what it is told of it looks for at once, and at the idle pace as long as news
    /// tells of all there is.
    pub fn news(&self) -> News {
        News::new(Arc::downgrade(&self.shared))
    }

    /// Why it follows no more, if it does not. Reads go on.
    pub fn failure(&self) -> Option<Error> {
        self.shared.state().failed.clone()
    }

    /// What its reads have cost.
    pub fn tables(&self) -> &RemoteTables {
        &self.shared.tables
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.shared.state().stopping = true;
        self.shared.rung.notify_all();
        self.lane.take().into_iter().for_each(Lane::join);
    }
}

impl fmt::Debug for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replica").field("version", &self.version()).finish_non_exhaustive()
    }
}

impl Shared {
    fn open(home: &Home, engine: Options, options: ReplicaOptions, replay: Replay) -> Result<Self> {
        let tables = RemoteTables::new(Arc::clone(home.bucket()), options.reads.clone())?;
        let tables = Arc::new(tables);
        let (version, edits) = (replay.state.version(), replay.payloads);
        let source = Source { home, engine: &engine, with_log: options.with_log, tables: &tables };
        let current = Arc::new(source.open(&replay.state, &edits)?);
        let state = State {
            current,
            version,
            edits,
            older: Vec::new(),
            switches: 0,
            ear: Ear::default(),
            failed: None,
            stopping: false,
        };
        let home = home.clone();
        let (state, rung) = (Mutex::new(state), Condvar::new());
        Ok(Shared { home, engine, options, tables, state, rung })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing under the lock stops half way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows a version.
    fn show(&self, state: &VersionState, edits: Vec<Bytes>) -> Result<()> {
        let (home, engine, with_log) = (&self.home, &self.engine, self.options.with_log);
        let source = Source { home, engine, with_log, tables: &self.tables };
        let db = Arc::new(source.open(state, &edits)?);
        let shown = Arc::clone(&self.state().current);
        db.bring_near_of(&shown);
        drop(shown);
        let mut shown = self.state();
        let old = std::mem::replace(&mut shown.current, db);
        let version = std::mem::replace(&mut shown.version, state.version());
        shown.older.push((version, Arc::downgrade(&old)));
        shown.older.retain(|(_, db)| db.strong_count() > 0);
        shown.edits = edits;
        shown.switches += 1;
        drop(shown);
        drop(old);
        Ok(())
    }

    /// The oldest version that somebody may be reading.
    fn oldest(&self) -> VersionNumber {
        let mut state = self.state();
        state.older.retain(|(_, db)| db.strong_count() > 0);
        state.older.iter().map(|(version, _)| *version).fold(state.version, VersionNumber::min)
    }
}

/// What versions are opened from.
struct Source<'a> {
    home: &'a Home,
    engine: &'a Options,
    with_log: bool,
    tables: &'a Arc<RemoteTables>,
}

impl Source<'_> {
    fn open(&self, state: &VersionState, edits: &[Bytes]) -> Result<Db> {
        if edits.is_empty() {
            return Err(none(self.home));
        }
        let by = (self.tables, &self.engine.env.threads);
        let store = Arc::new(BucketTables::new(self.home, state, by));
        // Both ask the bucket, and neither needs the other.
        let lanes = store.start_opening();
        let logs = if self.with_log { self.logs(state, edits) } else { Ok(None) };
        store.finish_opening(lanes)?;
        let logs = logs?;
        let file_system = logs.map_or_else(empty_folder, Ok)?;
        let env = Env { file_system, ..self.engine.env.clone() };
        restore_manifest(&env, FOLDER, edits)?;
        let table_store = Some(store as Arc<dyn siltstone::TableStore>);
        let options = Options { env, table_store, info_log: false, ..self.engine.clone() };
        Db::open_read_only(FOLDER, options)
    }

    /// What of the archived log comes behind a version, in a folder; `None` if that is not sure: once there is a later
    /// version, its owner may have removed a part of it.
    fn logs(&self, state: &VersionState, edits: &[Bytes]) -> Result<Option<Arc<dyn FileSystem>>> {
        let pieces = archive::list(self.home)?;
        if pieces.is_empty() {
            return Ok(None);
        }
        let file_system = empty_folder()?;
        let needed = oldest_log_of(&fold_edits(edits)?)?.map_or(0, |log| log.0);
        let place = (needed, &*file_system, FOLDER.as_ref());
        let restored = archive::restore(self.home, &pieces, place);
        if replay::fetch(self.home, state.version().next(), Purpose::Replica)?.is_some() {
            return Ok(None);
        }
        restored.map(|()| Some(file_system))
    }
}

/// In memory.
fn empty_folder() -> Result<Arc<dyn FileSystem>> {
    let file_system = Env::memory().file_system;
    file_system.create_dir(FOLDER.as_ref(), Site::DbDirCreate)?;
    Ok(file_system)
}

fn none(home: &Home) -> EngineError {
    let message = format!("there is no database at {:?} of the bucket", home.root().as_str());
    EngineError::new(EngineKind::InvalidArgument, message)
}
