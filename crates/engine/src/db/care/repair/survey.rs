//! What a damaged database still holds: which files count, and what can be read of each. The plan
//! is this much; the repair goes on from here.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::log;
use super::report::{LostRange, RepairPlan, SalvagedTable, TableState};
use super::salvage::{Salvage, Source};
use super::{Damaged, RepairOptions};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::key::{SeqNo, seqno_of};
use crate::db::open::files::{Files, check_tables};
use crate::db::open::recovery::LOST_FOLDER;
use crate::format::filename::{FileName, FileNumber};
use crate::store::local::open_table;
use crate::version::graveyard::Graveyard;
use crate::version::recover::{self, Recovered};
use crate::version::table_meta::TableMeta;

pub(super) struct Survey {
    pub(super) plan: RepairPlan,
    /// Tables of which something can be read.
    pub(super) sources: Vec<Source>,
    /// Logs, with the number of updates that can be read.
    pub(super) logs: Vec<(PathBuf, u64)>,
    /// The greatest sequence number met.
    pub(super) last_seqno: SeqNo,
}

impl Survey {
    /// Reads everything once.
    pub(super) fn take(damaged: &Damaged, how: &RepairOptions) -> Result<Self> {
        let files = Files::list(&*damaged.fs, &damaged.dir)?;
        let mut survey = Survey {
            plan: RepairPlan::default(),
            sources: Vec::new(),
            logs: Vec::new(),
            last_seqno: SeqNo(0),
        };
        match survey.find_manifest(damaged, &files)? {
            Some(recovered) => survey.take_named(damaged, &files, &recovered, how)?,
            None => {
                for number in files.tables() {
                    survey.read_table(damaged, number, None)?;
                }
                survey.read_logs(damaged, files.wals())?;
            }
        }
        survey.mention_set_aside(damaged);
        Ok(survey)
    }

    /// What recovery has put aside lies behind a gap in time; mixing it in is a person's decision.
    fn mention_set_aside(&mut self, damaged: &Damaged) {
        let lost = damaged.dir.join(LOST_FOLDER);
        let names = damaged.fs.list(&lost).unwrap_or_default();
        if names.iter().any(|name| matches!(FileName::parse(name), Some(FileName::Wal(_)))) {
            let lost = lost.display();
            let warning = format!("{lost} holds logs that recovery had put aside; not used");
            self.plan.warnings.push(warning);
        }
    }

    fn find_manifest(&mut self, damaged: &Damaged, files: &Files) -> Result<Option<Recovered>> {
        let graveyard = Arc::new(Graveyard::new());
        let order = &damaged.settings.order;
        let named = recover::recover(&*damaged.fs, &damaged.dir, order, &graveyard);
        let recovered = match named {
            Ok(recovered) => Some(recovered),
            Err(error) if error.kind() == ErrorKind::Incompatible => return Err(error),
            Err(error) => self.guess_manifest(damaged, files, &error)?,
        };
        if let Some(recovered) = &recovered {
            let name = FileName::Manifest(recovered.manifest);
            self.plan.manifest = Some(name.in_dir(&damaged.dir));
        }
        Ok(recovered)
    }

    /// Without CURRENT, the newest manifest whose tables are all there was the live one: each new
    /// one is whole before the old one goes.
    fn guess_manifest(
        &mut self,
        damaged: &Damaged,
        files: &Files,
        error: &Error,
    ) -> Result<Option<Recovered>> {
        let graveyard = Arc::new(Graveyard::new());
        let current_tells =
            error.file().and_then(Path::file_name).is_none_or(|name| name != "CURRENT");
        for number in files.manifests().into_iter().rev().filter(|_| !current_tells) {
            let (fs, dir, order) = (&*damaged.fs, &damaged.dir, &damaged.settings.order);
            match recover::recover_manifest(fs, dir, order, &graveyard, number) {
                Ok(recovered) if check_tables(files.tables(), dir, &recovered.version).is_ok() => {
                    let name = FileName::Manifest(number);
                    let warning = format!("{error}; {name} is the newest and was taken for it");
                    self.plan.warnings.push(warning);
                    return Ok(Some(recovered));
                }
                Err(error) if error.kind() == ErrorKind::Incompatible => return Err(error),
                _ => {}
            }
        }
        self.plan.warnings.push(format!(
            "{error}; without a manifest, all tables and logs were used: keys that were deleted \
             before may be back"
        ));
        Ok(None)
    }

    fn take_named(
        &mut self,
        damaged: &Damaged,
        files: &Files,
        recovered: &Recovered,
        how: &RepairOptions,
    ) -> Result<()> {
        self.last_seqno = recovered.last_seqno;
        for (_, table) in recovered.version.tables() {
            self.read_table(damaged, table.number, Some(table))?;
        }
        let floor = recovered.oldest_log();
        let orphans = files.orphans(&recovered.version, floor, recovered.manifest);
        for name in orphans {
            let (FileName::Table(number) | FileName::OldTable(number)) = name else { continue };
            self.plan.orphans.push(name.in_dir(&damaged.dir));
            if how.use_orphans {
                self.read_table(damaged, number, None)?;
            }
        }
        if how.use_orphans && !self.plan.orphans.is_empty() {
            let warning = "orphans were used: keys that were deleted before may be back";
            self.plan.warnings.push(warning.to_owned());
        }
        let wals = files.wals().into_iter().filter(|number| recovered.needs_wal(*number)).collect();
        self.read_logs(damaged, wals)
    }

    /// Reads all of a table that can be read. `meta` is what the manifest says.
    fn read_table(
        &mut self,
        damaged: &Damaged,
        number: FileNumber,
        meta: Option<&Arc<TableMeta>>,
    ) -> Result<()> {
        let opened = open_table(&*damaged.fs, &damaged.dir, number);
        let name = || FileName::Table(number).in_dir(&damaged.dir);
        let path = opened.as_ref().map_or_else(|_| name(), |file| file.path().to_owned());
        let bytes = opened.as_ref().map_or(0, |file| file.len());
        let salvage = opened.and_then(|file| Salvage::open(file, &damaged.settings.order, meta));
        let (entries, state) = match salvage {
            Ok(salvage) => self.read_through(salvage, &path, meta),
            Err(error) => {
                self.plan.lost.push(LostRange {
                    file: path.clone(),
                    offset: 0,
                    bytes: meta.map_or(bytes, |meta| meta.size),
                    from: meta.map(|meta| meta.smallest.user().to_vec()),
                    to: meta.map(|meta| meta.largest.user().to_vec()),
                    reason: error.message().to_owned(),
                });
                (0, TableState::Unreadable)
            }
        };
        self.plan.tables.push(SalvagedTable { path, bytes, entries, state });
        Ok(())
    }

    fn read_through(
        &mut self,
        mut salvage: Salvage,
        path: &Path,
        meta: Option<&Arc<TableMeta>>,
    ) -> (u64, TableState) {
        let mut smallest = Vec::new();
        let mut largest = Vec::new();
        salvage.advance();
        while salvage.valid() {
            let key = salvage.key();
            if smallest.is_empty() {
                smallest.extend_from_slice(key);
            }
            largest.clear();
            largest.extend_from_slice(key);
            self.last_seqno = self.last_seqno.max(seqno_of(key));
            salvage.advance();
        }
        let entries = salvage.given;
        let state = match (entries, salvage.lost.is_empty() && salvage.has_index()) {
            (_, true) => TableState::Whole,
            (0, false) => TableState::Unreadable,
            (_, false) => TableState::Damaged,
        };
        self.plan.lost.append(&mut salvage.lost);
        if entries > 0 {
            let meta = meta.filter(|meta| !meta.is_whole()).cloned();
            self.sources.push(Source { path: path.to_owned(), entries, smallest, largest, meta });
        }
        (entries, state)
    }

    fn read_logs(&mut self, damaged: &Damaged, wals: Vec<FileNumber>) -> Result<()> {
        for number in wals {
            let path = FileName::Wal(number).in_dir(&damaged.dir);
            let file = match damaged.fs.open(&path) {
                Ok(file) => file,
                Err(error) => {
                    let reason = error.message().to_owned();
                    self.plan.lost.push(LostRange {
                        file: path,
                        offset: 0,
                        bytes: 0,
                        from: None,
                        to: None,
                        reason,
                    });
                    continue;
                }
            };
            let last = &mut self.last_seqno;
            let mut see = |update: log::Update<'_>| {
                *last = update.seqno.max(*last);
                Ok(())
            };
            let read = log::read(file, &mut self.plan.lost, &mut see)?;
            self.logs.push((path, read.entries));
            self.plan.logs.push(read);
        }
        Ok(())
    }
}
