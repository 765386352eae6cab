//! Opening: whose folder it is, whose database, and what of it is where.
//!
//! | folder | bucket | then |
//! | --- | --- | --- |
//! | empty | nothing | a new database, if it may be made |
//! | empty | a database | the folder is made from it |
//! | tables or logs without CURRENT | | refused |
//! | a database, unmarked | nothing | it becomes the bucket's: its tables are uploaded |
//! | a database, unmarked | a database | refused: two databases |
//! | a database of the last owner | his | goes on; what the bucket lacks is uploaded |
//! | a database of an owner before | somebody else's | refused, or thrown away on request |

use std::ops::Deref;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use siltstone::{
    Db, Error, ErrorKind, FileLock, Lane, Options, Result, Site, fold_edits, oldest_log_of,
    restore_manifest,
};

use super::folder::{Folder, Mark};
use super::handle::CloudTables;
use super::lanes::{self, Committer, Failed};
use super::local::LocalTables;
use super::notes::Notes;
use super::shared::Shared;
use super::store::TieredStore;
use super::{CloudOptions, LocalCopies, LogArchive, TieredMetrics, remote};
use crate::archive::files::ArchivedFiles;
use crate::archive::restore::{self as archive, Archived};
use crate::archive::ship::Archive;
use crate::bucket::Purpose;
use crate::home::Home;
use crate::log::owner;
use crate::log::record::Kind;
use crate::log::replay::{self, Replay};
use crate::log::version_log::{Opening, VersionLog};
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
        let here = (LocalTables::new(Arc::clone(fs), path), Notes::new(fs, path));
        let state = claimed.replay.state.clone();
        let place = (state, claimed.archive.clone());
        let shared = Arc::new(Shared::new(home.clone(), here, cloud, &options, place)?);
        if shared.options.local == LocalCopies::All {
            fetch_all(&shared)?;
        }
        let tables = CloudTables { shared: Arc::clone(&shared), epoch: claimed.log.epoch() };
        let (mut log, edits) = (claimed.log, claimed.replay.payloads);
        shared.options.announce.iter().for_each(|announce| log.announce_to(Arc::clone(announce)));
        let committer = Committer { shared: Arc::clone(&shared), log, edits };
        let lanes = lanes::start(&shared, &*options.env.threads, committer)?;
        let store = Arc::new(TieredStore { shared: Arc::clone(&shared) });
        // Whether it may be made was decided where the bucket was looked at, too.
        let create_if_missing = claimed.is_new || options.create_if_missing;
        let mut options = Options { table_store: Some(store), create_if_missing, ..options };
        if let Some(archive) = shared.archive.as_ref().filter(|archive| archive.is_on()) {
            let (inner, archive) = (Arc::clone(&options.env.file_system), Arc::clone(archive));
            options.env.file_system = Arc::new(ArchivedFiles { inner, archive });
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

/// A database that is ours, and a folder that fits to it.
struct Claimed {
    log: VersionLog,
    replay: Replay,
    archive: Option<Arc<Archive>>,
    owner: (Epoch, Token),
    is_new: bool,
}

impl Claimed {
    fn claim(
        home: &Home,
        folder: &Folder,
        options: &Options,
        cloud: &CloudOptions,
    ) -> Result<Self> {
        let owner = owner::look(home, Purpose::Manifest)?.map(|(owner, _)| owner);
        let exists = exists(home)?;
        let last = folder.mark()?;
        let goes_on = goes_on(home, folder, last.as_ref(), (owner.as_ref(), exists), cloud)?;
        if let Some(owner) = &owner
            && !goes_on
            && cloud.unless_owned
            && !owner.is_released()
        {
            return Err(owned(home, owner));
        }
        let is_new = !goes_on && !exists;
        may_be_opened(home, options, !is_new)?;
        let epoch = owner.as_ref().map_or(Epoch(0), |owner| owner.epoch);
        let token = cloud.token.unwrap_or_else(|| Token::fresh(&options.env));
        let owned = owner.map_or(Token(0), |owner| owner.token);
        let root = home.root().as_str().to_owned();
        let mark = Mark { is_whole: goes_on, root, epoch, token: owned, next: token };
        folder.set_mark(&mark)?;
        if !goes_on {
            folder.clear()?;
        }
        let opening = Opening {
            address: cloud.address.clone(),
            snapshot_every: cloud.snapshot_every,
            ..Opening::new(token)
        };
        let (log, replay) = VersionLog::open(home, &opening)?;
        if goes_on && log.epoch().0 != epoch.0 + 1 {
            return Err(overtaken(folder, log.epoch().0 - 1));
        }
        let archived = archived(home, (&log, token), goes_on, cloud)?;
        if !goes_on && !replay.payloads.is_empty() {
            restore(home, folder, options, (&replay, archived.as_ref()))?;
        }
        folder.set_mark(&Mark { is_whole: true, epoch: log.epoch(), token, ..mark })?;
        let archive = archived.map(|archived| {
            let there = archived.pieces.iter().map(|piece| (*piece, 0)).collect();
            let (fs, owner) = (&options.env.file_system, (log.epoch(), token));
            Arc::new(Archive::new(home, fs, owner, cloud.log, (archived.next, there)))
        });
        let owner = (log.epoch(), token);
        Ok(Claimed { log, replay, archive, owner, is_new })
    }
}

/// Pieces of the log that are in the bucket, and no more can come of others. `None` if there are none, nor will be.
fn archived(
    home: &Home,
    (log, token): (&VersionLog, Token),
    goes_on: bool,
    cloud: &CloudOptions,
) -> Result<Option<Archived>> {
    let will_be = cloud.log != LogArchive::Off;
    // Who goes on has all of it here.
    let may_be = !goes_on && !archive::list(home)?.is_empty();
    let fence = || archive::fence(home, log.epoch(), token);
    Ok((will_be || may_be).then(fence).transpose()?)
}

/// Makes the folder out of the bucket: logs first, for the manifest says whether there are any.
fn restore(
    home: &Home,
    folder: &Folder,
    options: &Options,
    (replay, archived): (&Replay, Option<&Archived>),
) -> Result<()> {
    if let Some(archived) = archived {
        let needed = oldest_log_of(&fold_edits(&replay.payloads)?)?.map_or(0, |log| log.0);
        let place = (needed, &*options.env.file_system, folder.path());
        archive::restore(home, &*options.env.threads, &archived.pieces, place)?;
    }
    restore_manifest(&options.env, folder.path(), &replay.payloads)
}

/// Whether what is in the folder goes on; if not, the folder is made anew.
fn goes_on(
    home: &Home,
    folder: &Folder,
    mark: Option<&Mark>,
    (owner, exists): (Option<&owner::Owner>, bool),
    cloud: &CloudOptions,
) -> Result<bool> {
    let has_database = folder.has_database()?;
    let Some(mark) = mark else {
        return match (has_database, exists) {
            (true, true) => {
                let message = format!(
                    "holds a database of its own, and there is another one at {:?} of the bucket; \
                     give an empty folder, or another place in the bucket",
                    home.root().as_str()
                );
                Err(Error::invalid_argument(message).in_file(folder.path()))
            }
            (true, false) => Ok(true),
            (false, _) => folder.check_no_remains().map(|()| false),
        };
    };
    if mark.root != home.root().as_str() {
        let message =
            format!("belongs to {:?} of a bucket, not {:?}", mark.root, home.root().as_str());
        return Err(Error::invalid_argument(message).in_file(folder.path()));
    }
    if !mark.is_whole {
        return Ok(false);
    }
    if !has_database {
        // Of a new database that never came to be, or destroyed; or CURRENT was lost.
        return folder.check_no_remains().map(|()| false);
    }
    match owner {
        Some(owner) if mark.is_of(owner) => Ok(true),
        // It was to become the bucket's, and that was not reached.
        None if mark.epoch == Epoch(0) && !exists => Ok(true),
        Some(_) if cloud.discard_overtaken => Ok(false),
        Some(owner) => Err(overtaken(folder, owner.epoch.0)),
        None => {
            let message = "was part of a database in the bucket, which is not there any more; restore the \
                           bucket, or remove the file CLOUD to upload what is here";
            Err(Error::corruption(message).in_file(folder.path()))
        }
    }
}

fn owned(home: &Home, owner: &owner::Owner) -> Error {
    let at = if owner.address.is_empty() { "an unknown address" } else { &owner.address };
    let message = format!(
        "is owned by somebody at {} since epoch {}: who has it open could commit no more; take it over if that \
         machine is gone",
        at.escape_debug(),
        owner.epoch.0
    );
    Error::new(ErrorKind::Locked, message).in_file(Path::new(home.root().as_str()))
}

fn overtaken(folder: &Folder, epoch: u64) -> Error {
    let message = format!(
        "another machine has owned the database since, in epoch {epoch}: what only this folder knows was \
         never part of that; copy the folder away if it matters, and discard it"
    );
    Error::new(ErrorKind::Fenced, message).in_file(folder.path())
}

/// True if somebody has committed something.
fn exists(home: &Home) -> Result<bool> {
    let Some(last) = replay::newest(home, Purpose::Manifest)? else { return Ok(false) };
    Ok(match last.kind {
        Kind::Edit | Kind::Snapshot => true,
        Kind::Takeover | Kind::Restart => {
            !replay::replay_to(home, &last, Purpose::Manifest)?.payloads.is_empty()
        }
    })
}

fn may_be_opened(home: &Home, options: &Options, is_there: bool) -> Result<()> {
    let place = Path::new(home.root().as_str());
    match is_there {
        true if options.error_if_exists => {
            Err(Error::invalid_argument("exists (error_if_exists is true)").in_file(place))
        }
        false if !options.create_if_missing => {
            let message = "does not exist in the bucket (create_if_missing is false)";
            Err(Error::invalid_argument(message).in_file(place))
        }
        _ => Ok(()),
    }
}
