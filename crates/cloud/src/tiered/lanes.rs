//! The threads of a tiered database: some that upload tables, and fetch what workers have made, one that commits versions, and lets local copies go, one that
//! tells who waits for tables.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use bytes::Bytes;
use siltstone::{Lane, Result, Threads, fold_edits, oldest_log_of};

use super::arrivals;
use super::away::{self, Errand};
use super::copies::{self, Fetch};
use super::lease::Prover;
use super::ledger::Batch;
use super::room;
use super::shared::Shared;
use crate::bucket::Purpose;
use crate::error::{Error, ErrorKind, Outcome};
use crate::log::record::Table;
use crate::log::version_log::VersionLog;
use crate::names::{Epoch, TableId, VersionNumber};
use crate::reads::object::TableObject;
use crate::table;

const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Starts them. They end when the state says so.
pub(super) fn start(
    shared: &Arc<Shared>,
    threads: &dyn Threads,
    (committer, prover): (Committer, Option<Prover>),
) -> Result<Vec<Box<dyn Lane>>> {
    let epoch = committer.log.epoch();
    let mut lanes = Vec::new();
    let mut spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
        lanes.push(threads.spawn(name, work)?);
        Ok(())
    };
    let started = (|| {
        for _ in 0..shared.options.uploads.max(1) {
            let mut uploader = Uploader { shared: Arc::clone(shared), epoch, pause: PAUSE_MIN };
            spawn("siltstone-upload", Box::new(move || uploader.run()))?;
        }
        if let Some(archive) = shared.archive.clone() {
            let shared = Arc::clone(shared);
            let run = move || archive.run().into_iter().for_each(|error| shared.fail(error));
            spawn("siltstone-archive", Box::new(run))?;
        }
        if let Some(prover) = prover {
            spawn("siltstone-lease", Box::new(move || prover.run()))?;
        }
        let arriving = Arc::clone(shared);
        spawn("siltstone-arrivals", Box::new(move || arrivals::run(&arriving)))?;
        spawn("siltstone-commit", Box::new(move || committer.run()))
    })();
    if let Err(error) = started {
        shared.stop();
        lanes.into_iter().for_each(Lane::join);
        return Err(error);
    }
    Ok(lanes)
}

/// What goes next.
enum Task {
    /// A few bytes.
    Errand(Errand),
    /// A table, under this id.
    Upload((u64, u64)),
    /// The other way.
    Fetch(Fetch),
}

/// Takes tables to the bucket, one at a time, and fetches some.
struct Uploader {
    shared: Arc<Shared>,
    epoch: Epoch,
    pause: Duration,
}

impl Uploader {
    fn run(&mut self) {
        let shared = Arc::clone(&self.shared);
        while let Some(task) = shared.wait_for_task(|state| {
            if state.stopping || state.failed.is_some() {
                return Some(None);
            }
            let (lanes, now) = (shared.options.uploads, shared.home.now());
            let errand = state.records.next().map(Task::Errand);
            let task = errand
                .or_else(|| state.copies.next_urgent(lanes).map(Task::Fetch))
                .or_else(|| state.ledger.next_upload().map(Task::Upload));
            let is_quiet = task.is_none() && state.ledger.is_level();
            let copy = || state.copies.next(lanes, now).map(Task::Fetch);
            task.or_else(|| is_quiet.then(copy)?).map(Some)
        }) {
            match task {
                Task::Errand(errand) => away::run(&shared, errand),
                Task::Upload((number, id)) => self.upload(number, id),
                Task::Fetch(fetch) => copies::make(&shared, &fetch),
            }
        }
    }

    fn upload(&mut self, number: u64, id: u64) {
        let shared = &self.shared;
        let id = TableId::Own { epoch: self.epoch, number: id };
        let uploaded = shared.local.read(number).map_err(Failed::Here).and_then(|body| {
            let table = table::upload(&shared.home, id, &body, Purpose::Flush);
            let table = table.map_err(Failed::There)?;
            if !shared.options.local.takes(table.bytes) {
                keep_end(shared, &table, &body);
            }
            Ok(table)
        });
        match uploaded {
            Ok(table) => {
                shared.counters.uploads.fetch_add(1, Relaxed);
                shared.counters.upload_bytes.fetch_add(table.bytes, Relaxed);
                shared.change(|state| state.ledger.uploaded(number, table));
                self.pause = PAUSE_MIN;
            }
            Err(failed) => {
                let is_needed = shared.change(|state| state.ledger.not_uploaded(number));
                if !is_needed {
                    return;
                }
                shared.counters.failures.fetch_add(1, Relaxed);
                if let Failed::There(error) = &failed
                    && is_final(error)
                {
                    return shared.fail(error.clone());
                }
                shared.tell(&failed);
                shared.rest(self.pause);
                self.pause = (2 * self.pause).min(PAUSE_MAX);
            }
        }
    }
}

/// When the file is gone, and it goes at once, the table can be opened without a request.
fn keep_end(shared: &Shared, table: &Table, body: &Bytes) {
    let name = shared.home.root().table(table.id);
    let object = TableObject { name, bytes: table.bytes, crc32c: table.crc32c };
    let from = table.bytes - shared.tables.end_bytes(table.bytes).min(table.bytes);
    // Without it, a request more.
    let _ = shared.tables.keep_end(&object, &body.slice(from as usize..));
}

/// Why a table did not get to the bucket.
pub(super) enum Failed {
    Here(siltstone::Error),
    There(Error),
}

/// Nothing that comes later will help.
fn is_final(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Fenced | ErrorKind::Misuse)
}

/// Commits what the engine has told, as far as its tables are there.
pub(super) struct Committer {
    pub(super) shared: Arc<Shared>,
    pub(super) log: VersionLog,
    /// Edits since the last one that was folded into the first: they make up the committed version.
    pub(super) edits: Vec<Bytes>,
}

impl Committer {
    fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        while let Some(batch) = shared.wait(|state| {
            if state.failed.is_some() {
                return Some(None);
            }
            match state.ledger.batch() {
                Some(batch) => Some(Some(batch)),
                None => state.stopping.then_some(None),
            }
        }) {
            if let Err(error) = self.commit(&batch) {
                // What could not be decided before the end is left to the next opening: here all is durable.
                if is_final(&error) || !shared.state().stopping {
                    shared.fail(error);
                }
                return;
            }
            room::make(&shared);
            shared.open.cool(shared.home.now());
        }
    }

    /// Commits a batch, and does not rest before it is clear that it counts, or never will.
    fn commit(&mut self, batch: &Batch) -> Outcome<()> {
        let shared = Arc::clone(&self.shared);
        let epoch = self.log.epoch();
        let (from, mut held) =
            shared.change(|state| (state.ledger.keep_open_from(epoch), state.ledger.held(epoch)));
        held.retain(|job| self.log.state().is_alive(*job));
        self.log.keep_open(from, held)?;
        self.insist(|log| log.commit(batch.edit.clone()))?;
        self.edits.extend(batch.edit.payloads.iter().cloned());
        let version = Arc::new(self.log.state().clone());
        shared.change(|state| {
            state.ledger.settle(batch);
            state.version = version;
        });
        batch.edit.added.iter().for_each(|(number, _)| shared.notes.remove(*number));
        // The last that tells: a merge behind a flush in one batch has nothing to say of logs.
        let needed = |edit: &Bytes| oldest_log_of(edit).ok().flatten();
        if let (Some(archive), Some(log)) =
            (&shared.archive, batch.edit.payloads.iter().rev().find_map(needed))
        {
            archive.committed(log.0);
        }
        shared.counters.commits.fetch_add(1, Relaxed);
        shared.counters.edits.fetch_add(batch.changes as u64, Relaxed);
        if self.log.is_snapshot_due() { self.snapshot() } else { Ok(()) }
    }

    /// A record that says all, so that nobody must read more.
    fn snapshot(&mut self) -> Outcome<()> {
        let whole = fold_edits(&self.edits).map_err(|error| {
            Error::damaged(self.log.home().root().as_str(), format!("its edits: {error}"))
        })?;
        self.edits = vec![Bytes::from(whole)];
        let payloads = self.edits.clone();
        self.insist(|log| log.snapshot(payloads.clone()))?;
        let version = Arc::new(self.log.state().clone());
        self.shared.change(|state| state.version = version);
        Ok(())
    }

    /// Tries again while that may help, and the database is open.
    fn insist(
        &mut self,
        mut submit: impl FnMut(&mut VersionLog) -> Outcome<VersionNumber>,
    ) -> Outcome<()> {
        let mut pause = PAUSE_MIN;
        let mut outcome = submit(&mut self.log);
        loop {
            let error = match outcome {
                Ok(_) => return Ok(()),
                Err(error) => error,
            };
            if !error.may_pass() || self.shared.state().stopping {
                return Err(error);
            }
            self.shared.counters.failures.fetch_add(1, Relaxed);
            self.shared.tell(&Failed::There(error));
            self.shared.rest(pause);
            pause = (2 * pause).min(PAUSE_MAX);
            outcome = match self.log.settle() {
                Ok(Some(version)) => Ok(version),
                Ok(None) => submit(&mut self.log),
                Err(error) => Err(error),
            };
        }
    }
}
