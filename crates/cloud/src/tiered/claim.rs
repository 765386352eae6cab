//! Claiming: whose folder it is, whose database, and what of it is where.
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

use std::path::Path;
use std::sync::Arc;

use siltstone::{Error, ErrorKind, Options, Result, fold_edits, oldest_log_of, restore_manifest};

use super::folder::{Folder, Mark};
use super::{CloudOptions, LogArchive};
use crate::archive::restore::{self as archive, Archived};
use crate::archive::ship::Archive;
use crate::bucket::Purpose;
use crate::home::Home;
use crate::log::owner;
use crate::log::record::{Kind, Record};
use crate::log::replay::{self, Replay};
use crate::log::version_log::{Opening, VersionLog};
use crate::names::{Epoch, Token};

/// A database that is ours, and a folder that fits to it.
pub(super) struct Claimed {
    pub(super) log: VersionLog,
    pub(super) replay: Replay,
    pub(super) archive: Option<Arc<Archive>>,
    pub(super) owner: (Epoch, Token),
    pub(super) is_new: bool,
}

impl Claimed {
    pub(super) fn claim(
        home: &Home,
        folder: &Folder,
        options: &Options,
        cloud: &CloudOptions,
    ) -> Result<Self> {
        let owner = owner::look(home, Purpose::Manifest)?.map(|(owner, _)| owner);
        let newest = replay::newest(home, Purpose::Manifest)?;
        let exists = exists(home, newest.as_ref())?;
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
            lease: cloud.lease,
            // His folder is ours, with its lock.
            last_is_gone: goes_on,
            ..Opening::new(token)
        };
        let (log, replay) = VersionLog::open_behind(home, &opening, newest)?;
        if goes_on && log.epoch().0 != epoch.0 + 1 {
            return Err(overtaken(folder, log.epoch().0 - 1));
        }
        let archived = archived(home, (&log, token), goes_on, cloud)?;
        if !goes_on && !replay.payloads.is_empty() {
            restore(home, folder, options, (&replay, archived.as_ref()))?;
        }
        folder.set_mark(&Mark { is_whole: true, epoch: log.epoch(), token, ..mark })?;
        let archive = archived.map(|archived| {
            let there = archived.pieces.iter().map(|piece| (piece.number, 0)).collect();
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
        archive::restore(home, &archived.pieces, place)?;
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

/// True if somebody has committed something, as the newest version tells.
fn exists(home: &Home, newest: Option<&Record>) -> Result<bool> {
    let Some(newest) = newest else { return Ok(false) };
    Ok(match newest.kind {
        Kind::Edit | Kind::Snapshot => true,
        Kind::Takeover | Kind::Restart => {
            !replay::replay_to(home, newest, Purpose::Manifest)?.payloads.is_empty()
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
