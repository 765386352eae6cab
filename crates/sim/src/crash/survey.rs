//! What is found after a crash: opened, read in every way, held against what was promised, written to,
//! and written down again, so that the recovery can be crashed in its turn.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use siltstone::{Db, ErrorKind, Options, ReadOptions, Snapshot, verify};

use super::history::{Contents, Effect, History, StateHash};
use super::mutant::Mutant;
use super::run::{Copied, Expectation, Recorder, Run};
use super::script::{self, DIR};
use crate::Dice;
use crate::disk::{Disk, Step, StrictFs};

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    FailedOpen(String),
    /// Acknowledged writes are gone: so many were promised, so many are found.
    Lost {
        promised: usize,
        found: usize,
    },
    /// What is found is the contents after no number of writes: a hole, a part of a batch, a deleted
    /// key that came back.
    NoPrefix(String),
    /// Two ways of reading differ, or reading fails.
    Unreadable(String),
    /// The structure check found something.
    Broken(String),
    /// A checkpoint or a mended copy is not what it must be.
    BadCopy(String),
    /// A sequence number fell, a file number came twice, a file was left over.
    Untidy(String),
    Panicked(String),
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

type Result<T> = std::result::Result<T, Violation>;

/// How thorough a survey is; the costly parts are for a share of all images.
#[derive(Clone, Copy, Debug)]
pub struct Depth {
    /// Flush, compact, verify, and look for files that are left over.
    pub thorough: bool,
}

/// Reads all of a database both ways and by key.
pub fn contents(db: &Db, snapshot: Option<&Snapshot>) -> std::result::Result<Contents, String> {
    let options = ReadOptions { snapshot: snapshot.cloned(), ..Default::default() };
    read_all(db, &options).map_err(|error| error.to_string())?
}

fn read_all(
    db: &Db,
    options: &ReadOptions,
) -> siltstone::Result<std::result::Result<Contents, String>> {
    let mut iter = db.iter_with(options)?;
    let mut forward = Vec::new();
    iter.seek_to_first()?;
    while iter.valid() {
        forward.push((iter.key().to_vec(), iter.value().to_vec()));
        iter.next()?;
    }
    iter.seek_to_last()?;
    for (key, value) in forward.iter().rev() {
        if !iter.valid() || iter.key() != key || iter.value() != value {
            return Ok(Err(format!("backwards, {} is missing", key.escape_ascii())));
        }
        iter.prev()?;
    }
    if iter.valid() {
        return Ok(Err("there is more backwards than forwards".to_owned()));
    }
    for (key, value) in forward.iter().step_by(3) {
        if db.get_with(key, options)?.as_ref() != Some(value) {
            return Ok(Err(format!("get does not find {}", key.escape_ascii())));
        }
    }
    Ok(Ok(forward.into_iter().collect()))
}

/// Opens what is on `disk` and checks it. The run that comes back begins with the recovery.
pub fn survey(
    seed: u64,
    disk: &Disk,
    mutant: Option<Mutant>,
    expected: &Expectation<'_>,
    depth: Depth,
    dice: &mut Dice,
) -> Result<Run> {
    let fs = StrictFs::with_mutant(disk.clone(), mutant);
    let surveyor = Surveyor {
        options: script::options(seed, Arc::new(fs.clone())),
        recorder: Recorder::new(fs.clone(), disk.clone(), History::new(Contents::new())),
        fs,
        expected,
    };
    let looked = catch_unwind(AssertUnwindSafe(|| surveyor.look(depth, dice)));
    looked.unwrap_or_else(|payload| Err(Violation::Panicked(message_of(&*payload))))
}

/// The text of a panic.
pub fn message_of(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default()
}

struct Surveyor<'a> {
    options: Options,
    fs: StrictFs,
    recorder: Recorder,
    expected: &'a Expectation<'a>,
}

impl Surveyor<'_> {
    fn look(mut self, depth: Depth, dice: &mut Dice) -> Result<Run> {
        let db = Db::open(DIR, self.options.clone())
            .map_err(|error| Violation::FailedOpen(error.to_string()))?;
        let found = contents(&db, None).map_err(Violation::Unreadable)?;
        self.compare(&found)?;
        self.check_numbers()?;
        for copy in &self.expected.copies {
            self.check_copy(copy)?;
        }
        // What was shown stays, whatever happens to the disk from now on (R7).
        self.recorder.known(History::new(found));
        self.write_on(&db, dice)?;
        if depth.thorough {
            self.go_through(&db)?;
        }
        let now = contents(&db, None).map_err(Violation::Unreadable)?;
        if now != *self.recorder.history().visible() {
            return Err(Violation::NoPrefix("the next writes changed more than they said".into()));
        }
        drop(db);
        Ok(self.recorder.end())
    }

    fn compare(&self, found: &Contents) -> Result<()> {
        let (span, hash) = (&self.expected.span, StateHash::of(found));
        if span.find(hash).is_some() {
            return Ok(());
        }
        match span.find_anywhere(hash) {
            Some(count) if count < span.from => {
                Err(Violation::Lost { promised: span.from, found: count })
            }
            _ => Err(Violation::NoPrefix(format!(
                "{} keys, as after no number of writes from {} to {}",
                found.len(),
                span.from,
                span.to
            ))),
        }
    }

    /// O4: no file takes the name of one that is there. Temporary files and info logs may.
    fn check_numbers(&self) -> Result<()> {
        for entry in self.fs.entries() {
            if let Step::Create { path } = &entry.step {
                let name = path.to_string_lossy();
                let numbered = name.ends_with(".log") || name.ends_with(".ldb");
                if entry.replaced && (numbered || name.contains("MANIFEST")) {
                    return Err(Violation::Untidy(format!("{name} was there and is made again")));
                }
            }
        }
        Ok(())
    }

    fn check_copy(&self, copy: &Copied) -> Result<()> {
        let bad = |what: String| Violation::BadCopy(format!("{}: {what}", copy.path.display()));
        let options = Options { create_if_missing: false, ..self.options.clone() };
        match Db::open_read_only(&copy.path, options) {
            Ok(db) => {
                let found = contents(&db, None).map_err(bad)?;
                if StateHash::of(&found) != copy.hash {
                    return Err(bad(format!("holds {} other keys", found.len())));
                }
                Ok(())
            }
            Err(error) if copy.done => Err(bad(error.to_string())),
            Err(error) => match error.kind() {
                ErrorKind::NotFound | ErrorKind::InvalidArgument => Ok(()),
                _ => Err(bad(error.to_string())),
            },
        }
    }

    /// The database goes on: a write that is synced, one that is not.
    fn write_on(&mut self, db: &Db, dice: &mut Dice) -> Result<()> {
        for synced in [dice.roll(2) == 0, true, false] {
            let key = format!("key{:02}", dice.roll(20)).into_bytes();
            let value = format!("later.{}", self.recorder.history().len()).into_bytes();
            let mut batch = siltstone::WriteBatch::new();
            batch.put(&key, &value);
            self.recorder.begin();
            db.write(&batch, siltstone::WriteOptions { sync: synced })
                .map_err(|error| Violation::Unreadable(format!("a write fails: {error}")))?;
            self.recorder.done(Effect::Batch(vec![(key, Some(value))]), synced);
        }
        Ok(())
    }

    /// Flush, compaction, structure check (O5), nothing left over (O9).
    fn go_through(&mut self, db: &Db) -> Result<()> {
        let failed = |error: siltstone::Error| Violation::Broken(error.to_string());
        db.flush().map_err(failed)?;
        self.recorder.promise_all();
        while db.run_background_step().map_err(failed)? {}
        let report = verify(DIR, &self.options).map_err(failed)?;
        if !report.is_ok() {
            return Err(Violation::Broken(format!("{:?}", report.problems().collect::<Vec<_>>())));
        }
        self.check_tidy(db)
    }

    fn check_tidy(&self, db: &Db) -> Result<()> {
        let disk = self.fs.disk();
        let names = disk.files().filter(|(path, _)| path.parent() == Some(Path::new(DIR)));
        let names: Vec<_> = names.filter_map(|(path, _)| path.file_name()?.to_str()).collect();
        let count =
            |wanted: &dyn Fn(&str) -> bool| names.iter().filter(|name| wanted(name)).count();
        let tables: usize = db.levels().iter().map(|level| level.tables.len()).sum();
        let tidy = count(&|name| name.ends_with(".ldb")) == tables
            && count(&|name| name.ends_with(".log")) == 1
            && count(&|name| name.starts_with("MANIFEST")) == 1
            && count(&|name| name.ends_with(".dbtmp")) == 0;
        if tidy {
            Ok(())
        } else {
            Err(Violation::Untidy(format!("{tables} tables, and {names:?}")))
        }
    }
}
