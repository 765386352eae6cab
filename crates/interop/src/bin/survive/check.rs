//! Looks at what an end has left: opens the database as any next process would, reads all of it in
//! every way, and has the files checked.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use siltstone::{Db, Verdict as FileVerdict, VerifyReport, verify};
use siltstone_interop::candid::Result;
use siltstone_sim::Report;
use siltstone_sim::report::Goal;

use crate::history::{Found, History, Promise, Verdict};
use crate::store::{self, Engine, Tuning};

/// What was wrong, summed up over all looks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// Looks taken.
    pub(crate) looks: u64,
    /// Acknowledged batches that had to be there.
    pub(crate) required: u64,
    pub(crate) verdict: Verdict,
    /// Looks that found what must not be.
    pub(crate) unlucky: u64,
    /// Databases that did not open, or not to the end.
    pub(crate) unopenable: u64,
    /// Files missing or damaged, reads that disagree.
    pub(crate) unsound: u64,
    /// Files that nobody needs and nobody removed.
    pub(crate) leftovers: u64,
    /// Descriptors still open after closing.
    pub(crate) descriptors: u64,
    /// Processes that failed, or did nothing more, before their end came.
    pub(crate) failures: u64,
    pub(crate) checkpoints: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Tally) {
        self.looks += other.looks;
        self.required += other.required;
        self.verdict.add(other.verdict);
        self.unlucky += other.unlucky;
        self.unopenable += other.unopenable;
        self.unsound += other.unsound;
        self.leftovers += other.leftovers;
        self.descriptors += other.descriptors;
        self.failures += other.failures;
        self.checkpoints += other.checkpoints;
    }

    /// The figures that all campaigns here have.
    pub(crate) fn add_to(&self, report: &mut Report, engine: Engine) {
        let never = match engine {
            Engine::Siltstone => Goal::AtMost(0),
            // Told beside ours: nobody here can mend it.
            Engine::Leveldb => Goal::None,
        };
        report
            .figure("databases opened afterwards", self.looks, Goal::None)
            .figure("batches that had to be there", self.required, Goal::None)
            .figure("openings that found a fault", self.unlucky, never)
            .figure("lost synced batches", self.verdict.lost_synced, never)
            .figure("lost other batches", self.verdict.lost_unsynced, never)
            .figure("holes", self.verdict.holes, never)
            .figure("partial batches", self.verdict.partial, never)
            .figure("values not as written", self.verdict.garbled, never)
            .figure("unopenable", self.unopenable, never)
            .figure("unsound files or reads", self.unsound, never)
            .figure("files left over", self.leftovers, never)
            .figure("descriptors left open", self.descriptors, never)
            .figure("failures before the end", self.failures, never)
            .figure("checkpoints opened", self.checkpoints, Goal::None);
    }

    /// Whether anything was wrong.
    pub(crate) fn is_clean(&self) -> bool {
        let faults =
            [self.unopenable, self.unsound, self.leftovers, self.descriptors, self.failures];
        self.verdict.is_clean() && faults.iter().all(|count| *count == 0)
    }
}

/// A database on a real file system, and who has it.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) engine: Engine,
    pub(crate) folder: &'a Path,
    pub(crate) tuning: Tuning,
}

impl Place<'_> {
    /// Opens the database, and holds what it shows against what is known of it.
    pub(crate) fn look(self, history: &mut History, promise: Promise) -> Tally {
        let mut tally = Tally { looks: 1, ..Tally::default() };
        tally.required = match promise {
            Promise::Process => history.acked(),
            Promise::Power => history.promised(),
        };
        let read = match self.engine {
            Engine::Siltstone => self.read_ours(promise, &mut tally),
            Engine::Leveldb => self.read_theirs(&mut tally),
        };
        match read {
            Ok(found) => tally.verdict = history.judge(&found, promise),
            Err(error) => {
                println!("cannot be opened: {error}");
                tally.unopenable += 1;
            }
        }
        tally.descriptors += open_below(self.folder);
        if let Ok(report) = verify(self.folder, &store::ours(self.tuning)) {
            for problem in report.problems() {
                println!("unsound: {problem}");
                tally.unsound += 1;
            }
            // LevelDB has its own time for that; and before a recovery all may be of use.
            if self.engine == Engine::Siltstone && tally.unopenable == 0 {
                tally.leftovers += orphans(&report);
            }
        } else {
            tally.unsound += 1;
        }
        tally.unlucky = (!tally.is_clean()).into();
        tally
    }

    fn read_ours(self, promise: Promise, tally: &mut Tally) -> Result<Found> {
        let text = |error: siltstone::Error| error.to_string();
        let db = Db::open(self.folder, store::ours_at_rest(self.tuning)).map_err(text)?;
        if promise == Promise::Process {
            // The kernel has all that was written: at most the last record of a log is torn.
            for dropped in &db.recovery_report().dropped {
                println!("dropped: {dropped:?}");
                tally.unsound += 1;
            }
        }
        // What the end left unfinished, and the sweep of what nobody needs.
        while db.run_background_step().map_err(text)? {}
        tally.leftovers += strange_names(self.folder, &db, promise);
        let mut found = Found::new();
        let mut iter = db.iter().map_err(text)?;
        iter.seek_to_first().map_err(text)?;
        while iter.valid() {
            found.insert(iter.key().to_vec(), iter.value().to_vec());
            iter.next().map_err(text)?;
        }
        let mut backwards = found.iter().rev();
        iter.seek_to_last().map_err(text)?;
        while iter.valid() {
            let same = backwards.next().is_some_and(|(key, value)| {
                key.as_slice() == iter.key() && value.as_slice() == iter.value()
            });
            tally.unsound += u64::from(!same);
            iter.prev().map_err(text)?;
        }
        tally.unsound += backwards.count() as u64;
        for (key, value) in &found {
            tally.unsound += u64::from(db.get(key).map_err(text)?.as_ref() != Some(value));
        }
        drop(iter);
        db.close().map_err(text)?;
        Ok(found)
    }

    fn read_theirs(self, tally: &mut Tally) -> Result<Found> {
        let db = self.engine.open(self.folder, self.tuning)?;
        let (pairs, end) = db.scan();
        end?;
        for (key, value) in &pairs {
            tally.unsound += u64::from(db.get(key)?.as_ref() != Some(value));
        }
        db.close()?;
        Ok(pairs.into_iter().collect())
    }
}

/// Looks at the checkpoints beside a database, and removes them. Those that the end interrupted
/// have no CURRENT; all others are whole databases.
pub(crate) fn look_at_checkpoints(place: Place<'_>, tally: &mut Tally) {
    let parent = place.folder.parent().expect("a database lies in a folder of ours");
    for entry in fs::read_dir(parent).expect("it can be listed").flatten() {
        if !entry.file_name().to_string_lossy().starts_with("checkpoint-") {
            continue;
        }
        if entry.path().join("CURRENT").exists() {
            tally.checkpoints += 1;
            let options = store::ours_at_rest(place.tuning);
            let opened = Db::open(entry.path(), options).and_then(Db::close);
            tally.unopenable += u64::from(opened.is_err());
            let report = verify(entry.path(), &store::ours(place.tuning));
            tally.unsound += u64::from(!report.is_ok_and(|report| report.is_ok()));
        }
        fs::remove_dir_all(entry.path()).expect("nobody holds it");
    }
}

/// Names that a database must not have once it has recovered and all its work is done.
fn strange_names(folder: &Path, db: &Db, promise: Promise) -> u64 {
    let levels = db.levels();
    let live = levels.iter().flat_map(|level| &level.tables);
    let live: BTreeSet<String> = live.map(|table| format!("{:06}.ldb", table.number)).collect();
    let mut manifests = 0;
    let mut strange = 0;
    for entry in fs::read_dir(folder).expect("the folder can be listed").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        manifests += u64::from(name.starts_with("MANIFEST-"));
        let known = match name.as_str() {
            "CURRENT" | "LOCK" | "LOG" | "LOG.old" => true,
            // A power cut may leave logs of which more than the tail was dropped.
            "lost" => promise == Promise::Power,
            name if name.starts_with("MANIFEST-") => manifests == 1,
            name if name.ends_with(".log") => true,
            name => live.contains(name),
        };
        if !known {
            println!("left over: {name}");
            if name == "lost" {
                // Some opening put a log aside, perhaps in a process that was killed right after.
                print!("{}", fs::read_to_string(folder.join("LOG.old")).unwrap_or_default());
            }
            strange += 1;
        }
    }
    strange
}

fn orphans(report: &VerifyReport) -> u64 {
    let orphans = report.files.iter().filter(|file| matches!(file.verdict, FileVerdict::Orphan));
    orphans.inspect(|file| println!("orphan: {}", file.path.display())).count() as u64
}

/// How many descriptors of this process are open below `folder`.
fn open_below(folder: &Path) -> u64 {
    let fds = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let targets = fds.filter_map(|fd| fs::read_link(fd.path()).ok());
    targets.filter(|target| target.starts_with(folder)).count() as u64
}
