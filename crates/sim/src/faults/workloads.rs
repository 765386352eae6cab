//! What is done while calls fail: small workloads that between them come by every place in the
//! engine that calls the disk. A failure stops none of them.

mod care;

use siltstone::{Compaction, Options, Site};

use super::ledger::Loss;
use super::promise::Checked;
use super::user::User;
use crate::Fault;

/// A named workload.
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    /// What it sets otherwise.
    pub(crate) tune: fn(&mut Options),
    /// What it does before calls fail.
    pub(crate) prepare: fn(&mut User) -> Checked,
    /// What it does while they do.
    pub(crate) run: fn(&mut User) -> Checked,
}

const fn plain(name: &'static str, run: fn(&mut User) -> Checked) -> Workload {
    Workload { name, tune: |_| {}, prepare: |_| Ok(()), run }
}

/// All of them.
pub(crate) const ALL: &[Workload] = &[
    Workload { tune: with_info_log, ..plain("fresh", fresh) },
    Workload { tune: with_seek_compaction, ..plain("levels", levels) },
    plain("ranges", ranges),
    Workload { tune: with_slices, ..plain("slices", levels) },
    Workload { tune: with_slices, ..plain("sliced-ranges", ranges) },
    Workload { tune: with_l2sm, ..plain("l2sm", levels) },
    Workload { tune: with_slices, prepare: some_levels, ..plain("drain", drain) },
    Workload { tune: with_slices, prepare: levels_left, ..plain("sliced-repair", care::repair) },
    plain("rotation", rotation),
    plain("rotation-full", rotation_full),
    Workload { tune: many_memtables, ..plain("healing", healing) },
    Workload { tune: many_memtables, prepare: some_logs, ..plain("recovery", recovery) },
    Workload { tune: reusing_logs, prepare: some_logs, ..plain("reuse-logs", recovery) },
    Workload { tune: many_memtables, prepare: some_logs, ..plain("power-cuts", power_cuts) },
    Workload { tune: damaged, prepare: a_damaged_log, ..plain("damaged-log", recovery) },
    Workload { prepare: some_levels, ..plain("checkpoint", care::checkpoint) },
    Workload { prepare: some_levels, ..plain("checkpoint-copy", care::checkpoint_copy) },
    Workload { prepare: some_logs, tune: many_memtables, ..plain("read-only", care::read_only) },
    Workload { prepare: some_levels, ..plain("verify", care::verify) },
    Workload { prepare: some_logs, tune: many_memtables, ..plain("repair", care::repair) },
    Workload { prepare: some_logs, tune: many_memtables, ..plain("mend", care::repair_in_place) },
    Workload { prepare: a_damaged_log, tune: damaged, ..plain("destroy", care::destroy) },
];

fn with_info_log(options: &mut Options) {
    options.info_log = true;
}

fn with_seek_compaction(options: &mut Options) {
    options.seek_compaction = true;
}

/// Levels of a table or two, so that there is always something in the logs beside them.
fn with_slices(options: &mut Options) {
    options.compaction = Compaction::Sliced;
    options.max_file_size = 256;
    options.level1_bytes = 512;
}

fn with_l2sm(options: &mut Options) {
    with_slices(options);
    options.compaction = Compaction::L2sm;
}

fn many_memtables(options: &mut Options) {
    options.max_immutable_memtables = 4;
}

fn reusing_logs(options: &mut Options) {
    many_memtables(options);
    options.reuse_logs = true;
}

/// One log takes all.
fn damaged(options: &mut Options) {
    options.write_buffer_size = 16 << 10;
}

/// A new database, all calls of a user's day, and the same again after a reopen.
fn fresh(user: &mut User) -> Checked {
    user.open()?;
    for _ in 0..2 {
        user.write_many(4)?;
        user.snapshot();
        user.write_many(5)?;
        user.read()?;
        user.close()?;
        user.open()?;
    }
    user.read()?;
    user.close()
}

/// Flushes, compactions over three levels, removal of what they made obsolete.
fn levels(user: &mut User) -> Checked {
    user.open()?;
    for round in 0..6 {
        user.write_many(6)?;
        user.step()?;
        if round == 2 {
            user.snapshot();
        }
        if round % 2 == 1 {
            user.idle()?;
            user.read()?;
        }
    }
    user.idle()?;
    user.read()?;
    user.close()
}

/// Logs are drained, and what is written then is found again by whoever opens.
fn drain(user: &mut User) -> Checked {
    user.drain()?;
    user.write_many(6)?;
    user.flush()?;
    user.idle()?;
    user.read()?;
    user.crash();
    user.open()?;
    user.read()?;
    user.close()
}

/// Flushes and compactions that a caller asks for.
fn ranges(user: &mut User) -> Checked {
    user.open()?;
    for _ in 0..3 {
        user.write_many(7)?;
        user.flush()?;
    }
    user.compact()?;
    user.write_many(4)?;
    user.compact()?;
    user.look()?;
    user.idle()?;
    user.read()
}

/// A manifest that takes over from one whose disk was full.
fn rotation(user: &mut User) -> Checked {
    user.open()?;
    user.write_many(3)?;
    user.faults.fail_nth(Site::ManifestAppend, 1, Fault::Full(9));
    user.flush()?;
    user.flush()?;
    user.write_many(3)?;
    user.flush()?;
    user.idle()?;
    user.read()
}

/// As before, after a sync that did not happen.
fn rotation_full(user: &mut User) -> Checked {
    user.open()?;
    user.write_many(3)?;
    user.flush()?;
    user.faults.fail_nth(Site::ManifestSync, 1, Fault::LostSyncFull);
    user.write_many(3)?;
    user.flush()?;
    user.flush()?;
    user.idle()?;
    user.close()?;
    user.open()?;
    user.read()
}

/// Logs that take over from those whose disk was full.
fn healing(user: &mut User) -> Checked {
    user.open()?;
    user.write_many(14)?;
    user.faults.fail_nth(Site::WalAppend, 1, Fault::Full(30));
    user.write_many(3)?;
    user.faults.fail_nth(Site::WalSync, 1, Fault::LostSyncFull);
    user.write_many(3)?;
    user.read()?;
    user.write_many(3)?;
    user.idle()?;
    user.read()
}

/// Leaves several logs, the last with unsynced writes at its end.
fn some_logs(user: &mut User) -> Checked {
    user.open()?;
    user.write_many(14)?;
    user.flush()?;
    user.write_many(22)?;
    user.crash();
    Ok(())
}

/// Recovery, a crash right behind it, recovery again.
fn recovery(user: &mut User) -> Checked {
    user.open()?;
    user.crash();
    user.open()?;
    user.write(false)?;
    user.read()?;
    user.crash();
    user.open()?;
    user.idle()?;
    user.read()
}

fn power_cuts(user: &mut User) -> Checked {
    user.open()?;
    user.cut_power();
    user.open()?;
    user.write_many(8)?;
    user.cut_power();
    user.open()?;
    user.idle()?;
    user.read()?;
    user.close()
}

/// Leaves a log of which recovery can read only a part, though no sync had promised the rest.
fn a_damaged_log(user: &mut User) -> Checked {
    user.open()?;
    for _ in 0..20 {
        user.write(false)?;
    }
    user.crash();
    let folder = user.folder();
    let log = folder.wals().pop().unwrap_or_default();
    folder.flip(&log, folder.len(&log) / 2);
    user.loss = Loss::Unsynced;
    Ok(())
}

/// Leaves tables on three levels, and an open database.
fn some_levels(user: &mut User) -> Checked {
    user.open()?;
    for _ in 0..3 {
        user.write_many(12)?;
        user.flush()?;
    }
    user.idle()?;
    user.write_many(4)
}

/// The same, by a process that died.
fn levels_left(user: &mut User) -> Checked {
    some_levels(user)?;
    user.crash();
    Ok(())
}
