//! A patient user of a database on a bad disk: goes on after every failure, keeps account of all
//! answers, and believes none of them unchecked.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use siltstone::{
    Background, BlockCache, Db, Env, Error, ErrorKind, Event, EventListener, Options, Snapshot,
    WriteBatch, WriteOptions,
};

use super::ledger::{Ledger, Loss, Pairs};
use super::promise::{Checked, Promise};
use super::reads::read_all;
use crate::fs::fault::Fired;
use crate::{FaultFs, Folder, PowerFs};

/// Where the database lies.
pub(crate) const DIR: &str = "/db";
/// More background steps than any workload's data can give work for.
const STEPS_MAX: usize = 1000;

/// Files of a folder with their bytes.
pub(crate) type Files = Vec<(String, Vec<u8>)>;

pub(crate) struct User {
    pub(crate) faults: Arc<FaultFs>,
    power: Arc<PowerFs>,
    pub(crate) db: Option<Db>,
    pub(crate) ledger: Ledger,
    pub(crate) snapshots: Vec<(Snapshot, Pairs)>,
    /// Calls that had failed when the database was opened.
    fired_before: usize,
    /// What may be missing at the next open.
    pub(crate) loss: Loss,
    /// What this workload sets otherwise.
    tune: fn(&mut Options),
    /// Failures that the database told its listeners.
    told: Arc<Told>,
    /// Databases made from this one, and what a successful call promised they hold.
    pub(crate) copies: Vec<(PathBuf, Option<Pairs>)>,
}

#[derive(Default)]
struct Told(Mutex<Vec<String>>);

impl EventListener for Told {
    fn on_event(&self, event: &Event) {
        if let Event::BackgroundError { error, .. } = event {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(error.to_string());
        }
    }
}

impl User {
    pub(crate) fn new(tune: fn(&mut Options)) -> Self {
        let power = PowerFs::new(Env::memory().file_system);
        User {
            faults: FaultFs::new(power.clone()),
            power,
            db: None,
            ledger: Ledger::default(),
            snapshots: Vec::new(),
            fired_before: 0,
            loss: Loss::Nothing,
            tune,
            told: Arc::default(),
            copies: Vec::new(),
        }
    }

    /// Tiny buffers, tables and caches: a few dozen writes fill several levels.
    pub(crate) fn options(&self) -> Options {
        let mut options = Options {
            create_if_missing: true,
            env: Env { file_system: self.faults.clone(), ..Env::memory() },
            listeners: vec![self.told.clone()],
            info_log: false,
            write_buffer_size: 1 << 10,
            max_file_size: 1 << 10,
            level1_bytes: 3 << 10,
            max_open_files: 14,
            block_cache: Some(Arc::new(BlockCache::new(0))),
            background: Background::ByHand,
            unclamped: true,
            ..Default::default()
        };
        options.level0.compact = 2;
        (self.tune)(&mut options);
        options
    }

    /// The database's folder, past the faults.
    pub(crate) fn folder(&self) -> Folder {
        self.folder_of(DIR)
    }

    pub(crate) fn folder_of(&self, dir: impl AsRef<Path>) -> Folder {
        Folder::new(self.power.clone(), dir)
    }

    /// What a power cut would leave now.
    pub(crate) fn after_power_cut(&self, dir: impl AsRef<Path>) -> Files {
        self.power.after_power_cut(dir.as_ref())
    }

    /// A failure needs a fault: without one it is a wrong answer.
    pub(crate) fn excuse(&self, what: &str, error: &Error) -> Checked {
        if self.faults.fired() > 0 {
            return Ok(());
        }
        Promise::RightAnswers.broken(format!("{what} failed, and no call had: {error}"))
    }

    pub(crate) fn excused<T>(
        &self,
        what: &str,
        result: siltstone::Result<T>,
    ) -> Checked<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) => self.excuse(what, &error).map(|()| None),
        }
    }

    pub(crate) fn open(&mut self) -> Checked {
        let opened = Db::open(DIR, self.options());
        if let Some(db) = self.excused("open", opened)? {
            self.db = Some(db);
            self.fired_before = self.faults.all_fired().len();
            self.learn()?;
        }
        Ok(())
    }

    /// What a fresh open shows is durable, and settles what became of failed writes.
    fn learn(&mut self) -> Checked {
        if self.ledger.has_doubts() || self.loss != Loss::Nothing {
            let found = self.look_into(&self.folder().files(), "opened")?;
            self.ledger.check(&found, self.loss, "opened")?;
            self.ledger.adopt(found);
        }
        self.ledger.all_durable();
        self.loss = Loss::Nothing;
        self.told.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
        Ok(())
    }

    /// Opens a copy of these files on a good disk; all that it shows.
    pub(crate) fn look_into(&self, files: &Files, when: &str) -> Checked<Pairs> {
        let env = Env::memory();
        let folder = Folder::new(env.file_system.clone(), DIR);
        folder.put_files(files);
        let options = Options { env, listeners: Vec::new(), ..self.options() };
        let db = match Db::open(DIR, options.clone()) {
            Ok(db) => db,
            Err(error) => return Promise::Opens.broken(format!("{when}: {error}")),
        };
        let found = read_all(&db, None).and_then(|found| db.close().map(|()| found));
        check_files(&options, Path::new(DIR), when)?;
        found.or_else(|error| Promise::RightAnswers.broken(format!("{when}: {error}")))
    }

    /// The next write, and what became of it.
    pub(crate) fn try_write(&mut self, sync: bool) -> siltstone::Result<()> {
        let Some(db) = &self.db else { return Ok(()) };
        let (number, changes) = self.ledger.begin();
        let written = match &changes[..] {
            [(key, Some(value))] if !sync => db.put(key, value),
            _ => {
                let mut batch = WriteBatch::new();
                for (key, value) in &changes {
                    match value {
                        Some(value) => batch.put(key, value),
                        None => batch.delete(key),
                    }
                }
                db.write(&batch, WriteOptions { sync })
            }
        };
        match &written {
            Ok(()) => self.ledger.acknowledge(number, sync),
            Err(error) if matches!(error.kind(), ErrorKind::ReadOnly | ErrorKind::Closed) => {
                self.ledger.refuse(number);
            }
            Err(_) => {} // Unknown.
        }
        written
    }

    pub(crate) fn write(&mut self, sync: bool) -> Checked {
        let written = self.try_write(sync);
        self.excused("write", written).map(drop)
    }

    /// So many writes; each third is synced.
    pub(crate) fn write_many(&mut self, count: usize) -> Checked {
        (0..count).try_for_each(|number| self.write(number % 3 == 2))
    }

    pub(crate) fn snapshot(&mut self) {
        if let Some(db) = &self.db {
            self.snapshots.push((db.snapshot(), self.ledger.now.clone()));
        }
    }

    pub(crate) fn flush(&mut self) -> Checked {
        self.maintain("flush", Db::flush)
    }

    pub(crate) fn compact(&mut self) -> Checked {
        self.maintain("compact_range", |db| db.compact_range(None, None))
    }

    pub(crate) fn drain(&mut self) -> Checked {
        let Some(db) = &self.db else { return Ok(()) };
        self.excused("drain_logs", db.drain_logs()).map(drop)
    }

    /// A call after which all that was written is in tables, if it succeeds.
    fn maintain(&mut self, what: &str, call: impl FnOnce(&Db) -> siltstone::Result<()>) -> Checked {
        let Some(db) = &self.db else { return Ok(()) };
        if self.excused(what, call(db))?.is_some() {
            self.ledger.all_durable();
        }
        Ok(())
    }

    pub(crate) fn step(&self) -> Checked {
        let Some(db) = &self.db else { return Ok(()) };
        self.excused("background step", db.run_background_step()).map(drop)
    }

    /// Background work until there is none, or it fails.
    pub(crate) fn idle(&self) -> Checked {
        let Some(db) = &self.db else { return Ok(()) };
        for _ in 0..STEPS_MAX {
            if self.excused("background step", db.run_background_step())? != Some(true) {
                return Ok(());
            }
        }
        Promise::NoHang.broken("background work has no end")
    }

    pub(crate) fn close(&mut self) -> Checked {
        self.snapshots.clear();
        let Some(db) = self.db.take() else { return Ok(()) };
        if self.excused("close", db.close())?.is_some() {
            self.ledger.all_durable();
        }
        Ok(())
    }

    /// The process dies; the disk has all that was written.
    pub(crate) fn crash(&mut self) {
        self.die();
        self.faults = self.faults.onto(self.power.clone());
    }

    /// The power fails; the disk has what was synced.
    pub(crate) fn cut_power(&mut self) {
        let files = self.power.after_power_cut(Path::new(DIR));
        self.die();
        self.power = PowerFs::new(Env::memory().file_system);
        self.folder().put_files(&files);
        self.power.settle();
        self.faults = self.faults.onto(self.power.clone());
        self.loss = Loss::Unsynced;
    }

    /// The files of the database's folder are these again, and durable.
    pub(crate) fn put_back(&mut self, files: &Files) {
        let folder = self.folder();
        folder.files().iter().for_each(|(name, _)| folder.remove(name));
        folder.put_files(files);
        self.power.settle();
    }

    fn die(&mut self) {
        self.faults.kill();
        self.snapshots.clear();
        self.db = None;
    }

    /// Calls that failed since the database was opened.
    pub(crate) fn fired_since_open(&self) -> Vec<Fired> {
        self.faults.all_fired().split_off(self.fired_before)
    }

    /// True if the database has told of the failure that `refusal` gives as its cause.
    pub(crate) fn was_told(&self, refusal: &Error) -> bool {
        let told = self.told.0.lock().unwrap_or_else(PoisonError::into_inner);
        let refusal = refusal.to_string();
        told.iter().any(|cause| refusal.contains(cause))
    }
}

/// Verifies the database in `dir`.
pub(crate) fn check_files(options: &Options, dir: &Path, when: &str) -> Checked {
    match siltstone::verify(dir, options) {
        Ok(report) if report.is_ok() => Ok(()),
        Ok(report) => Promise::SoundFiles.broken(format!("{when}: {report}")),
        Err(error) => Promise::SoundFiles.broken(format!("{when}: {error}")),
    }
}
