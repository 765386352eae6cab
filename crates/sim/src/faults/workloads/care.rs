//! The calls that look after a database: copies, checks, repair, the end.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use siltstone::{Db, Options, Site, VerifyReport};

use crate::Fault;
use crate::faults::ledger::{Loss, Pairs};
use crate::faults::promise::{Checked, Promise};
use crate::faults::reads::read_all;
use crate::faults::user::{DIR, Files, User};

const COPY: &str = "/copies/of/db";

pub(super) fn checkpoint(user: &mut User) -> Checked {
    take_checkpoint(user, COPY)?;
    user.write(true)?;
    user.read()?;
    user.close()
}

/// Where tables cannot be linked.
pub(super) fn checkpoint_copy(user: &mut User) -> Checked {
    user.faults.fail_nth(Site::CheckpointLink, 1, Fault::ReadOnlyDisk);
    user.faults.fail_nth(Site::CheckpointLink, 2, Fault::ReadOnlyDisk);
    take_checkpoint(user, COPY)?;
    user.close()
}

fn take_checkpoint(user: &mut User, to: &str) -> Checked {
    let Some(db) = &user.db else { return Ok(()) };
    let made = db.checkpoint(to);
    let holds = user.ledger.now.clone();
    note_copy(user, to, made, Some(holds))
}

/// Keeps what a new database must hold; after a failure there is none, or all of it.
fn note_copy<T>(
    user: &mut User,
    to: &str,
    made: siltstone::Result<T>,
    holds: Option<Pairs>,
) -> Checked {
    match made {
        Ok(_) => user.copies.push((PathBuf::from(to), holds)),
        Err(error) => {
            user.excuse(to, &error)?;
            let left = user.folder_of(to).names();
            let healthy_again = user.faults.aside(|| Db::open_read_only(to, user.options()));
            if let Ok(copy) = healthy_again {
                // What could not be taken back is whole at least.
                let found = user.faults.aside(|| read_all(&copy, None));
                if found.ok() != holds {
                    let how = format!("{to} opens after {error}, with {left:?}");
                    return Promise::KeptWrites.broken(how);
                }
            }
        }
    }
    Ok(())
}

/// Opening without a trace, and a copy from there.
pub(super) fn read_only(user: &mut User) -> Checked {
    let before = user.folder().files();
    let opened = Db::open_read_only(DIR, user.options());
    match opened {
        Ok(db) => {
            user.db = Some(db);
            let read = user.read();
            let copied = take_checkpoint(user, COPY);
            user.db = None;
            read.and(copied)?;
        }
        Err(error) => user.excuse("open_read_only", &error)?,
    }
    unchanged(user, &before)
}

fn unchanged(user: &User, before: &[(String, Vec<u8>)]) -> Checked {
    if user.folder().files() == before {
        return Ok(());
    }
    Promise::KeptWrites.broken("files changed that were only to be read")
}

/// A check that finds nothing has looked at everything.
pub(super) fn verify(user: &mut User) -> Checked {
    let options = user.options();
    let entries = |report: &VerifyReport| -> Vec<(PathBuf, u64)> {
        report.files.iter().map(|file| (file.path.clone(), file.entries)).collect()
    };
    let whole = user.faults.aside(|| siltstone::verify(DIR, &options));
    let whole = whole.or_else(|error| Promise::SoundFiles.broken(error))?;
    match siltstone::verify(DIR, &options) {
        Ok(report) if report.is_ok() && entries(&report) != entries(&whole) => {
            Promise::RightAnswers.broken("a check that could not read everything finds no fault")
        }
        Ok(report) => match report.problems().next() {
            Some(problem) => user.excuse("verify", problem),
            None => Ok(()),
        },
        Err(error) => user.excuse("verify", &error),
    }
}

/// What a repair could not read it must tell of.
pub(super) fn repair(user: &mut User) -> Checked {
    let before = user.folder().files();
    let options = Options { create_if_missing: false, ..user.options() };
    if let Err(error) = siltstone::plan_repair(DIR, &options) {
        user.excuse("plan_repair", &error)?;
    }
    let repaired = siltstone::repair(DIR, COPY, &options);
    let is_whole = repaired.as_ref().is_ok_and(|report| report.found.is_whole());
    let holds = user.ledger.now.clone();
    if is_whole || repaired.is_err() {
        note_copy(user, COPY, repaired, Some(holds))?;
    }
    unchanged(user, &before)
}

/// A repair in the database's own place. Where it could not read all, it has kept all.
pub(super) fn repair_in_place(user: &mut User) -> Checked {
    const KEPT: &str = "/db/lost/repair-1";
    let (before, durable_before) = (user.folder().files(), user.after_power_cut(DIR));
    let options = Options { create_if_missing: false, ..user.options() };
    match siltstone::repair_in_place(DIR, &options) {
        Ok(report) if report.found.is_whole() => {
            user.ledger.all_durable();
            return Ok(());
        }
        Ok(_) => {}
        Err(error) => {
            user.excuse("repair_in_place", &error)?;
            let current = |files: &Files| files.iter().find(|(name, _)| name == "CURRENT").cloned();
            if current(&user.folder().files()) == current(&before) {
                return Ok(());
            }
        }
    }
    // A copy may be durable farther than the file was.
    let durable: BTreeMap<_, _> = user.after_power_cut(KEPT).into_iter().collect();
    let lost = durable_before
        .iter()
        .filter(|(name, _)| name != "LOCK")
        .any(|(name, bytes)| !durable.get(name).is_some_and(|kept| kept.starts_with(bytes)));
    if lost || user.folder_of(KEPT).files() != before {
        return Promise::KeptWrites.broken(format!("{KEPT} holds something else"));
    }
    user.put_back(&before);
    Ok(())
}

/// A database of which a part is left cannot be opened; the next call removes the rest.
pub(super) fn destroy(user: &mut User) -> Checked {
    let before = user.folder().files();
    let options = user.options();
    let destroyed = siltstone::destroy(DIR, &options);
    let current_is_left = user.folder().names().contains(&"CURRENT".to_owned());
    if let Err(error) = destroyed {
        user.excuse("destroy", &error)?;
        if current_is_left {
            return unchanged(user, &before); // D1: nothing goes before CURRENT.
        }
        let rest = user.faults.aside(|| siltstone::destroy(DIR, &options));
        rest.or_else(|error| Promise::NoLeakedFiles.broken(format!("again: {error}")))?;
    }
    if user.folder_of("/").names().contains(&DIR[1..].to_owned()) {
        let how = format!("{:?} outlive the database", user.folder().names());
        return Promise::NoLeakedFiles.broken(how);
    }
    user.ledger.destroyed();
    user.loss = Loss::Nothing;
    if Db::open(Path::new(DIR), Options { create_if_missing: false, ..options }).is_ok() {
        return Promise::KeptWrites.broken("a destroyed database opens");
    }
    Ok(())
}
