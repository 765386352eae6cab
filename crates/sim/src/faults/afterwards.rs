//! What is checked after each workload: while calls still fail, when the disk is well again, after a
//! crash or a power cut at that moment, and after a reopen.

use std::path::Path;

use siltstone::{Db, ErrorKind, Options, Site};

use super::ledger::{Loss, Pairs, difference};
use super::promise::{Checked, Promise};
use super::reads::read_all;
use super::user::{DIR, User, check_files};
use crate::fs::fault::{Fault, Fired};

pub(crate) fn check(user: &mut User) -> Checked {
    user.read()?; // With the fault still on.
    let (crashed, cut) = (user.folder().files(), user.after_power_cut(DIR));
    user.faults.heal();
    let found = user.look_into(&crashed, "after a crash")?;
    user.ledger.check(&found, user.loss, "after a crash")?;
    let found = user.look_into(&cut, "after a power cut")?;
    user.ledger.check(&found, Loss::Unsynced, "after a power cut")?;
    if user.db.is_some() {
        go_on(user)?;
        user.close()?;
        check_durable(user, "after closing")?;
    }
    check_copies(user)?;
    reopen(user)?;
    check_durable(user, "after reopening")?;
    work(user)?;
    check_what_is_left(user)
}

/// What a power cut would leave now, against what was promised.
fn check_durable(user: &User, when: &str) -> Checked {
    let found = user.look_into(&user.after_power_cut(DIR), when)?;
    user.ledger.check(&found, Loss::Unsynced, when)
}

/// The open database after healing: reads go on, and writes do, unless the failure was one that ends
/// writing.
fn go_on(user: &mut User) -> Checked {
    must_show_now(user, "healed")?;
    user.idle()?;
    let fired = user.fired_since_open();
    for sync in [false, true] {
        match user.try_write(sync) {
            Ok(()) if fired.iter().any(ends_writing) => {
                return Promise::Resumes
                    .broken("a write succeeds after a failure of log or manifest");
            }
            Ok(()) => {}
            Err(error) if !fired.iter().any(may_end_writing) => {
                return Promise::Resumes.broken(format!("after healing: {error}"));
            }
            Err(error) => {
                if error.kind() != ErrorKind::ReadOnly || !user.was_told(&error) {
                    let how = format!("not refused with the first cause: {error}");
                    return Promise::Resumes.broken(how);
                }
            }
        }
    }
    must_show_now(user, "after writing on")
}

/// Rule R6: after such a failure nobody knows what the disk holds. Lack of space heals.
fn ends_writing(fired: &Fired) -> bool {
    use Site::*;
    !fired.fault.is_full() && matches!(fired.site, Some(WalSync | WalSyncOlder | ManifestAppend))
}

/// As [`ends_writing`], or it depends on who called: healing also writes logs.
fn may_end_writing(fired: &Fired) -> bool {
    use Site::*;
    let uncertain = matches!(
        fired.site,
        Some(WalAppend | WalSync | WalSyncOlder | WalDirSync | ManifestAppend | ManifestSync)
    );
    // A table that ends too early is damage, as far as anybody can tell.
    !fired.fault.is_full() && (uncertain || fired.fault == Fault::ShortRead)
}

fn must_show_now(user: &User, when: &str) -> Checked {
    let Some(db) = &user.db else { return Ok(()) };
    must_read(db, when).and_then(|found| {
        if found == user.ledger.now {
            return Ok(());
        }
        let how = difference(&found, &user.ledger.now);
        Promise::RightAnswers.broken(format!("{when}: {how}"))
    })
}

fn must_read(db: &Db, when: &str) -> Checked<Pairs> {
    read_all(db, None).or_else(|error| Promise::RightAnswers.broken(format!("{when}: {error}")))
}

/// Databases made by a call that succeeded are whole and durable.
fn check_copies(user: &User) -> Checked {
    for (dir, promised) in &user.copies {
        let Some(promised) = promised else { continue };
        let when = format!("the copy in {}", dir.display());
        let live = user.folder_of(dir).files();
        for (files, what) in [(live, "now"), (user.after_power_cut(dir), "after a power cut")] {
            let found = user.look_into(&files, &format!("{when}, {what}"))?;
            if found != *promised {
                let how = difference(&found, promised);
                return Promise::KeptWrites.broken(format!("{when}, {what}: {how}"));
            }
        }
    }
    Ok(())
}

fn reopen(user: &mut User) -> Checked {
    if user.faults.open_files() > 0 {
        let how = format!("{} after closing", user.faults.open_files());
        return Promise::NoLeakedHandles.broken(how);
    }
    let before = user.faults.fired();
    user.open()?;
    if user.db.is_none() || user.faults.fired() > before {
        // Once more for the reason.
        let error = Db::open(DIR, user.options()).err();
        return Promise::Opens.broken(format!("after healing: {error:?}"));
    }
    must_show_now(user, "reopened")
}

/// A healed database does everything again.
fn work(user: &mut User) -> Checked {
    for number in 0..6 {
        must("write", user.try_write(number % 3 == 2))?;
    }
    if let Some(db) = &user.db {
        must("flush", db.flush())?;
        must("compact_range", db.compact_range(None, None))?;
    }
    user.ledger.all_durable();
    user.idle()?;
    must_show_now(user, "at the end")
}

fn must(what: &str, result: siltstone::Result<()>) -> Checked {
    result.or_else(|error| Promise::Resumes.broken(format!("{what} after a reopen: {error}")))
}

/// Closes; then only what the database needs is there, and nothing is open.
fn check_what_is_left(user: &mut User) -> Checked {
    if let Some(db) = user.db.take() {
        must("close", db.close())?;
    }
    if user.faults.open_files() > 0 {
        let how = format!("{} at the end", user.faults.open_files());
        return Promise::NoLeakedHandles.broken(how);
    }
    let options = user.options();
    check_files(&options, Path::new(DIR), "at the end")?;
    if check_names(user, &options).is_ok() {
        return Ok(());
    }
    // What a failure left, or a removal that failed, goes at the next open.
    user.open()?;
    user.idle()?;
    user.close()?;
    check_names(user, &options)
}

fn check_names(user: &User, options: &Options) -> Checked {
    let report = siltstone::verify(DIR, options);
    let report = report.or_else(|error| Promise::SoundFiles.broken(error))?;
    let needed = |name: &String| {
        let path = Path::new(DIR).join(name);
        report
            .files
            .iter()
            .any(|file| file.path == path && !matches!(file.verdict, siltstone::Verdict::Orphan))
    };
    let known = ["LOCK", "LOG", "LOG.old", "lost"];
    let names = user.folder().names();
    match names.iter().find(|name| !known.contains(&name.as_str()) && !needed(name)) {
        None => Ok(()),
        Some(name) => Promise::NoLeakedFiles.broken(format!("{name} is needed by nobody")),
    }
}
