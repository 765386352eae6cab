//! Checks a whole database without touching it: CURRENT, every edit of the manifest, every table,
//! every log. One bad file does not keep the others from being looked at.
//!
//! Beside a live writer the files change under our eyes: after a pass the manifest is read again,
//! and what it names anew is checked too. A file that is gone is a problem only if the last
//! manifest read still names it.

mod edited;
mod report;
mod table;
mod wal;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use edited::EditedVersion;
pub use report::{FileKind, Verdict, VerifiedFile, VerifyProgress, VerifyReport};

use crate::base::error::{Error, ErrorKind, Result};
use crate::db::open::files::{Files, check_logs};
use crate::db::open::wal_replay::ReplaySettings;
use crate::db::options::Options;
use crate::db::settings::{self, Settings};
use crate::env::fs::{FileSystem, RandomAccessFile};
use crate::format::filename::{FileName, FileNumber};
use crate::format::manifest::reader::ManifestReader;
use crate::store::local::open_table;
use crate::version::graveyard::Graveyard;
use crate::version::recover::{self, Recovered};
use crate::version::table_meta::TableMeta;

/// Passes over a database that changes meanwhile, before we leave the newest files to the next run.
const PASSES_MAX: usize = 20;

/// Checks the database in the folder `path`, reading all of it. Takes no lock, changes nothing, and
/// may run beside a live writer.
///
/// Set [`comparator`](Options::comparator) and [`filter_policy`](Options::filter_policy) as for
/// opening: a filter can be held against its keys only if its policy is known.
///
/// # Errors
///
/// Only what keeps it from looking at all: `NotFound` or `InvalidArgument` if no database is there,
/// `Incompatible` for another comparator's. Damage is in the report.
pub fn verify(path: impl AsRef<Path>, options: &Options) -> Result<VerifyReport> {
    verify_with(path, options, &mut |_| {})
}

/// As [`verify`], calling `progress` before each file and after the last.
///
/// # Errors
///
/// As [`verify`].
pub fn verify_with(
    path: impl AsRef<Path>,
    options: &Options,
    progress: &mut dyn FnMut(&VerifyProgress<'_>),
) -> Result<VerifyReport> {
    let dir = path.as_ref();
    let options = settings::clamp(options.clone());
    let fs = &*options.env.file_system;
    Files::check_any(fs, dir)?;
    let settings = Settings::resolve(&options)?;
    let verifier = Verifier {
        fs,
        dir,
        settings,
        progress,
        checked: BTreeMap::new(),
        bytes_done: 0,
        bytes_total: 0,
    };
    verifier.run()
}

struct Verifier<'a> {
    fs: &'a dyn FileSystem,
    dir: &'a Path,
    settings: Settings,
    progress: &'a mut dyn FnMut(&VerifyProgress<'_>),
    checked: BTreeMap<FileName, VerifiedFile>,
    bytes_done: u64,
    bytes_total: u64,
}

/// What a check of one file has counted, and the first thing that is wrong with it.
#[derive(Default)]
struct Findings {
    entries: u64,
    torn_bytes: u64,
    error: Option<Error>,
}

impl Findings {
    fn failed(error: Error) -> Self {
        Findings { error: Some(error), ..Findings::default() }
    }
}

impl Verifier<'_> {
    fn run(mut self) -> Result<VerifyReport> {
        match self.manifest()? {
            Some(recovered) => self.check_named(recovered)?,
            None => self.check_all()?,
        }
        self.tell_progress(self.dir.to_owned());
        Ok(VerifyReport { files: self.checked.into_values().collect() })
    }

    /// Reads CURRENT and the manifest; `None` if they do not yield a version.
    fn manifest(&mut self) -> Result<Option<Recovered>> {
        for _ in 0..PASSES_MAX {
            let before = self.current();
            match self.recover() {
                Ok(recovered) => {
                    self.note_current(None);
                    self.check_manifest(recovered.manifest);
                    return Ok(Some(recovered));
                }
                Err(error) if error.kind() == ErrorKind::Incompatible => return Err(error),
                // The writer went on to another manifest while we read this one.
                Err(_) if before.is_ok() && self.current().ok() != before.clone().ok() => {}
                Err(error) => {
                    self.note_bad_manifest(error);
                    return Ok(None);
                }
            }
        }
        Err(Error::new(ErrorKind::Io, "the database changes faster than it can be read")
            .in_file(self.dir))
    }

    fn current(&self) -> Result<Vec<u8>> {
        recover::read_current(self.fs, self.dir)
    }

    fn recover(&self) -> Result<Recovered> {
        let graveyard = Arc::new(Graveyard::new());
        recover::recover(self.fs, self.dir, &self.settings.order, &graveyard)
    }

    fn note_current(&mut self, error: Option<Error>) {
        let file = self.fs.open(&FileName::Current.in_dir(self.dir));
        let bytes = file.map_or(0, |file| file.len());
        self.note(FileName::Current, bytes, Findings { entries: 1, torn_bytes: 0, error });
    }

    /// Files the error under CURRENT or under the manifest that it names.
    fn note_bad_manifest(&mut self, error: Error) {
        let name = error.file().and_then(Path::file_name).and_then(|name| name.to_str());
        match name.and_then(FileName::parse) {
            Some(name @ FileName::Manifest(_)) => {
                self.note_current(None);
                let bytes = self.fs.metadata(&name.in_dir(self.dir)).map_or(0, |found| found.len);
                self.note(name, bytes, Findings::failed(error));
            }
            _ => self.note_current(Some(error)),
        }
    }

    fn check_manifest(&mut self, number: FileNumber) {
        self.check_file(FileName::Manifest(number), |file| {
            let bytes = file.len();
            let mut reader = ManifestReader::new(file);
            let mut findings = Findings::default();
            loop {
                match reader.next() {
                    Ok(Some(_)) => findings.entries += 1,
                    Ok(None) => break,
                    Err(error) => {
                        findings.error = Some(error);
                        break;
                    }
                }
            }
            findings.torn_bytes = reader.torn_tail().map_or(0, |offset| bytes - offset);
            findings
        });
    }

    /// Checks all that a version names, then what newer versions name, then lists what is left.
    fn check_named(&mut self, mut recovered: Recovered) -> Result<()> {
        for _ in 0..PASSES_MAX {
            let wals = self.wals_of(&recovered)?;
            self.check_pass(&recovered, &wals);
            // A bad manifest by now is one being replaced: the pass before stands.
            let Ok(newer) = self.recover() else { break };
            recovered = newer;
            let tables = recovered.version.tables();
            let mut named = tables.map(|(_, table)| FileName::Table(table.number));
            if named.all(|name| self.checked.contains_key(&name)) {
                break;
            }
        }
        self.forget_what_left(&recovered);
        self.check_logs_together()?;
        let names = Files::list(self.fs, self.dir)?;
        let floor = recovered.oldest_log();
        let orphans = names.orphans(&recovered.version, floor, recovered.manifest);
        for name in orphans {
            self.note_orphan(name);
        }
        if let Err(error) = names.next_number(self.dir, recovered.next_file) {
            self.blame(error);
        }
        Ok(())
    }

    fn check_pass(&mut self, recovered: &Recovered, wals: &[FileNumber]) {
        let tables: Vec<_> = recovered.version.tables().map(|(_, table)| table.clone()).collect();
        self.bytes_total = self.bytes_done + tables.iter().map(|table| table.size).sum::<u64>();
        for table in tables {
            if !self.checked.contains_key(&FileName::Table(table.number)) {
                self.check_table(&table, recovered);
            }
        }
        for wal in wals {
            if !self.checked.contains_key(&FileName::Wal(*wal)) {
                self.check_file(FileName::Wal(*wal), wal::check);
            }
        }
    }

    /// Looks for writes that are missing between logs. A writer that moves on meanwhile makes some
    /// seem so, but not the same twice.
    fn check_logs_together(&mut self) -> Result<()> {
        let mut last: Option<Error> = None;
        for _ in 0..PASSES_MAX {
            let Ok(recovered) = self.recover() else { break };
            let wals = self.wals_of(&recovered)?;
            let is_damaged = |wal: &FileNumber| {
                let file = self.checked.get(&FileName::Wal(*wal));
                file.is_some_and(|file| matches!(file.verdict, Verdict::Damaged(_)))
            };
            if wals.iter().any(is_damaged) {
                break; // Which is told already.
            }
            let settings = ReplaySettings {
                order: self.settings.order.user.clone(),
                memtable_bytes: self.settings.write_buffer_bytes,
                paranoid: true,
                baseline: recovered.last_seqno,
                seed: 0,
            };
            let Err(error) = wal::check_together(self.fs, self.dir, settings, &wals) else { break };
            if last.is_some_and(|last| last.to_string() == error.to_string()) {
                self.blame(error);
                break;
            }
            last = Some(error);
        }
        Ok(())
    }

    /// Files an error under the file that it names.
    fn blame(&mut self, error: Error) {
        let name = error.file().and_then(Path::file_name).and_then(|name| name.to_str());
        let Some(name) = name.and_then(FileName::parse) else { return };
        match self.checked.get_mut(&name) {
            Some(file) => file.verdict = Verdict::Damaged(error),
            None => {
                let bytes = self.fs.metadata(&name.in_dir(self.dir)).map_or(0, |found| found.len);
                self.note(name, bytes, Findings::failed(error));
            }
        }
    }

    /// The logs that recovery would replay; the one that the manifest names, there or not, unless
    /// healing has replaced it.
    fn wals_of(&self, recovered: &Recovered) -> Result<Vec<FileNumber>> {
        let mut wals = Files::list(self.fs, self.dir)?.wals();
        wals.retain(|number| recovered.needs_wal(*number));
        if check_logs(self.fs, self.dir, recovered, &wals).is_err() {
            wals.insert(0, recovered.log_number);
        }
        Ok(wals)
    }

    fn check_table(&mut self, meta: &TableMeta, recovered: &Recovered) {
        let name = FileName::Table(meta.number);
        let read = self.settings.read.clone();
        let expected = table::Expected {
            number: meta.number,
            meta: Some(meta),
            last_seqno: recovered.last_seqno,
        };
        self.check_file(name, |file| table::check(file, read, &expected));
    }

    /// Without a manifest: everything that is there, each for itself.
    fn check_all(&mut self) -> Result<()> {
        let names = Files::list(self.fs, self.dir)?;
        for number in names.tables() {
            let read = self.settings.read.clone();
            let expected = table::Expected::by_name(number);
            self.check_file(FileName::Table(number), |file| table::check(file, read, &expected));
        }
        for number in names.wals() {
            self.check_file(FileName::Wal(number), wal::check);
        }
        Ok(())
    }

    fn check_file(
        &mut self,
        name: FileName,
        check: impl FnOnce(Arc<dyn RandomAccessFile>) -> Findings,
    ) {
        let path = name.in_dir(self.dir);
        self.tell_progress(path.clone());
        let opened = match name {
            FileName::Table(number) => open_table(self.fs, self.dir, number),
            _ => self.fs.open(&path),
        };
        match opened {
            Ok(file) => {
                let bytes = file.len();
                self.note(name, bytes, check(file));
                self.bytes_done += bytes;
            }
            Err(error) => self.note(name, 0, Findings::failed(error)),
        }
    }

    fn note(&mut self, name: FileName, bytes: u64, findings: Findings) {
        let Findings { entries, torn_bytes, error } = findings;
        let path = name.in_dir(self.dir);
        let verdict = error.map_or(Verdict::Ok, |error| Verdict::Damaged(error.in_file(&path)));
        let kind = FileKind::of(name);
        self.checked.insert(name, VerifiedFile { path, kind, bytes, entries, torn_bytes, verdict });
    }

    fn note_orphan(&mut self, name: FileName) {
        let path = name.in_dir(self.dir);
        // Gone meanwhile: then it is none.
        let Ok(found) = self.fs.metadata(&path) else { return };
        let (kind, verdict) = (FileKind::of(name), Verdict::Orphan);
        let file =
            VerifiedFile { path, kind, bytes: found.len, entries: 0, torn_bytes: 0, verdict };
        self.checked.entry(name).or_insert(file);
    }

    /// A file that was missing and that the last version read does not name was removed rightly.
    fn forget_what_left(&mut self, recovered: &Recovered) {
        self.checked.retain(|name, file| {
            let missing = matches!(&file.verdict, Verdict::Damaged(error) if error.is_not_found());
            let named = match name {
                FileName::Table(number) => recovered.version.find(*number).is_some(),
                FileName::Wal(number) => recovered.needs_wal(*number),
                FileName::Manifest(number) => recovered.manifest == *number,
                _ => true,
            };
            named || !missing
        });
    }

    fn tell_progress(&mut self, path: PathBuf) {
        let progress = VerifyProgress {
            file: &path,
            files_done: self.checked.len() as u64,
            bytes_done: self.bytes_done,
            bytes_total: self.bytes_total.max(self.bytes_done),
        };
        (self.progress)(&progress);
    }
}
