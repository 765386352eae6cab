//! Checks a database in a bucket without touching it: registers, records, pins, leases, and every table that the newest
//! version or a pin names. One bad object does not keep the others from being looked at.
//!
//! Beside a live owner and a collector objects come and go: what was uploaded after the list is asked for by name, and a
//! table that is gone is damage only if the newest version, read again, still names it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use siltstone::{EditedVersion, FileNumber, Options, RandomAccessFile};

use super::kept::Kept;
use crate::bucket::Purpose;
use crate::error::{Error, ErrorKind, Outcome};
use crate::home::Home;
use crate::log::owner;
use crate::log::record::Table;
use crate::log::replay::{self, Replay};
use crate::names::{Name, VersionNumber};
use crate::pins::clone::home_of;
use crate::pins::lease::read_lease;
use crate::table::download;

/// How closely tables are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    /// They are there, and have the size that the record says.
    Presence,
    /// All their bytes match the record's checksum.
    Bytes,
    /// They are read as tables: every block, filter and entry, and the bounds that the version edits say.
    Entries,
}

/// What a check thinks of an object.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// It is as it should be.
    Whole,
    /// It is missing or damaged.
    Damaged(Error),
    /// Of versions that are past, and kept by nobody who is known: the next collections remove it.
    Past,
    /// No version names it, and one to come may.
    Unnamed,
    /// No version names it, and none may: garbage.
    Orphan,
    /// It is not of this database.
    Foreign,
}

/// An object, and what was found.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Its name in the bucket.
    pub object: String,
    /// What it is.
    pub name: Option<Name>,
    /// Its size; of one that is missing, what it should be.
    pub bytes: u64,
    /// Entries of a table that was read.
    pub entries: Option<u64>,
    /// What to think of it.
    pub verdict: Verdict,
}

/// A table that a version names.
struct Wanted {
    /// Where it lies: in this database, or in one that it shares tables with.
    home: Home,
    number: u64,
    table: Table,
    /// Which of the versions says so.
    version: usize,
    is_pinned: bool,
}

struct Verifier<'a> {
    home: &'a Home,
    depth: Depth,
    /// `None` where the edits do not fit, or there are none.
    versions: Vec<Option<EditedVersion>>,
    each: &'a mut dyn FnMut(Finding),
}

/// Checks all of a database, and calls `each` with every object; false if there is none. Reads as much as `depth` says,
/// one table in memory at a time. `options` say the comparator and the filter policy, as for opening.
///
/// An error is only what keeps it from looking: a bucket out of reach, or a comparator that is not the database's
/// ([`ErrorKind::Misuse`]). Damage is in the findings.
pub fn verify_database(
    home: &Home,
    depth: Depth,
    options: &Options,
    each: &mut dyn FnMut(Finding),
) -> Result<bool, Error> {
    let listed = home.list("", "", Purpose::Tool)?;
    let is_database = listed
        .iter()
        .any(|stat| matches!(home.root().parse(&stat.name), Some(Name::Owner | Name::Version(_))));
    if !is_database {
        return Ok(false);
    }
    let listed = listed.into_iter().map(|stat| (stat.name, stat.bytes)).collect();
    let mut damage = BTreeMap::new();
    let kept = Kept::read(home, &mut |error| {
        damage.entry(error.name().to_owned()).or_insert(error);
        Ok(())
    })?;
    check_registers(home, &kept, &mut damage)?;
    let versions = edited(home, depth, options, &kept, &mut damage)?;
    Verifier { home, depth, versions, each }.run(listed, &kept, damage)?;
    Ok(true)
}

type Damage = BTreeMap<String, Error>;

/// The owner's register, and leases.
fn check_registers(home: &Home, kept: &Kept, damage: &mut Damage) -> Outcome<()> {
    let owner = match owner::look(home, Purpose::Tool) {
        Ok(owner) => owner.map_or(0, |(owner, _)| owner.epoch.0),
        Err(error) => return note(error, damage),
    };
    let newest = kept.newest.as_ref().map_or(0, |newest| newest.state.epoch().0);
    if owner < newest {
        let message = format!("is of epoch {owner}, and the log at {newest}");
        note(Error::damaged(&home.object(&Name::Owner), message), damage)?;
    }
    for stat in home.list("readers/", "", Purpose::Tool)? {
        if let Err(error) = read_lease(home, &stat, Purpose::Tool) {
            note(error, damage)?;
        }
    }
    Ok(())
}

fn note(error: Error, damage: &mut Damage) -> Outcome<()> {
    if !error.is_of_object() {
        return Err(error);
    }
    damage.entry(error.name().to_owned()).or_insert(error);
    Ok(())
}

/// All versions that tables are looked up in, newest first, each with its last record's name.
fn versions_of(kept: &Kept) -> impl Iterator<Item = (&Replay, bool)> {
    let newest = kept.newest.iter().map(|newest| (newest, false));
    newest.chain(kept.pinned.iter().map(|(_, replay)| (replay, true)))
}

/// What the engine has to say to each version, if tables are to be read. One that does not fit its record is damage.
fn edited(
    home: &Home,
    depth: Depth,
    options: &Options,
    kept: &Kept,
    damage: &mut Damage,
) -> Outcome<Vec<Option<EditedVersion>>> {
    let mut all = Vec::new();
    if depth < Depth::Entries {
        return Ok(all);
    }
    for (replay, _) in versions_of(kept) {
        let name = home.object(&Name::Version(replay.state.version()));
        match edited_version(replay, options) {
            Ok(version) => all.push(version),
            Err(error) if error.kind() == siltstone::ErrorKind::Incompatible => {
                return Err(Error::new(ErrorKind::Misuse, &name, error.to_string()));
            }
            Err(error) => {
                let message = format!("has version edits that do not fit: {error}");
                note(Error::damaged(&name, message), damage)?;
                all.push(None);
            }
        }
    }
    Ok(all)
}

/// What the engine has to say to one version; nothing, if it was never told anything.
fn edited_version(replay: &Replay, options: &Options) -> siltstone::Result<Option<EditedVersion>> {
    if replay.payloads.is_empty() && replay.state.tables().is_empty() {
        return Ok(None);
    }
    let edits = replay.payloads.iter().map(|payload| payload.as_ref());
    let version = EditedVersion::replay(edits, options)?;
    let levels = version.levels();
    let tables = levels.iter().flat_map(|level| &level.tables);
    let edited: BTreeMap<u64, u64> = tables.map(|table| (table.number.0, table.bytes)).collect();
    // Collectors go by the record, and readers by the edits: what only readers know would be removed from under them.
    let listed = replay.state.tables().iter();
    let listed: BTreeMap<u64, u64> = listed.map(|(number, table)| (*number, table.bytes)).collect();
    if edited != listed {
        let stray = edited.iter().find(|(number, bytes)| listed.get(number) != Some(bytes));
        let stray =
            stray.or_else(|| listed.iter().find(|(number, _)| !edited.contains_key(number)));
        let number = stray.map_or(0, |(number, _)| *number);
        let message = format!("table {number} is not the same in the edits and in the record");
        return Err(siltstone::Error::corruption(message));
    }
    Ok(Some(version))
}

impl Verifier<'_> {
    fn run(
        mut self,
        listed: BTreeMap<String, u64>,
        kept: &Kept,
        mut damage: Damage,
    ) -> Outcome<()> {
        let mut wanted = self.wanted(kept);
        let mut gone = Vec::new();
        for (object, bytes) in listed {
            if let Some(wanted) = wanted.remove(&object) {
                gone.extend(self.check_wanted(object, wanted, Some(bytes))?);
                continue;
            }
            let name = self.home.root().parse(&object);
            let verdict = match damage.remove(&object) {
                Some(error) => Verdict::Damaged(error),
                None => self.judge(name.as_ref(), kept),
            };
            (self.each)(Finding { object, name, bytes, entries: None, verdict });
        }
        for (object, wanted) in wanted {
            let stat = wanted.home.head(&object, Purpose::Tool)?;
            gone.extend(self.check_wanted(object, wanted, stat.map(|stat| stat.bytes))?);
        }
        for (object, error) in damage {
            let name = self.home.root().parse(&object);
            let verdict = Verdict::Damaged(error);
            (self.each)(Finding { object, name, bytes: 0, entries: None, verdict });
        }
        self.settle(gone)
    }

    /// Tables of all versions that are kept for sure, by their objects' names.
    fn wanted(&self, kept: &Kept) -> BTreeMap<String, Wanted> {
        let mut all = BTreeMap::new();
        for (version, (replay, is_pinned)) in versions_of(kept).enumerate() {
            for (number, table) in replay.state.tables() {
                let home = home_of(self.home, &replay.state, table);
                let home = home.unwrap_or_else(|| self.home.clone());
                let object = home.root().table(table.id);
                let wanted = Wanted { home, number: *number, table: *table, version, is_pinned };
                all.entry(object).or_insert(wanted);
            }
        }
        all
    }

    /// Checks a table that a version names. One that is missing is given back.
    fn check_wanted(
        &mut self,
        object: String,
        wanted: Wanted,
        bytes: Option<u64>,
    ) -> Outcome<Option<(String, Wanted)>> {
        let Some(bytes) = bytes else { return Ok(Some((object, wanted))) };
        let (entries, verdict) = match self.check_table(&object, &wanted, bytes) {
            Ok(entries) => (entries, Verdict::Whole),
            Err(error) if error.is_of_object() => (None, Verdict::Damaged(error)),
            Err(error) => return Err(error),
        };
        self.tell(object, &wanted, entries, verdict);
        Ok(None)
    }

    fn tell(&mut self, object: String, wanted: &Wanted, entries: Option<u64>, verdict: Verdict) {
        let (name, bytes) = (Some(Name::Table(wanted.table.id)), wanted.table.bytes);
        (self.each)(Finding { object, name, bytes, entries, verdict });
    }

    /// Its entries, if they were read.
    fn check_table(&self, object: &str, wanted: &Wanted, bytes: u64) -> Outcome<Option<u64>> {
        let said = wanted.table.bytes;
        if bytes != said {
            let message = format!("has {bytes} bytes, the version says {said}");
            return Err(Error::damaged(object, message));
        }
        if self.depth == Depth::Presence {
            return Ok(None);
        }
        let body = download(&wanted.home, &wanted.table, Purpose::Tool)?;
        let version = self.versions.get(wanted.version).and_then(Option::as_ref);
        // Nothing is asked of it, or its edits do not fit, which has been told.
        let Some(version) = version else { return Ok(None) };
        let file = Arc::new(Fetched { path: PathBuf::from(object), body });
        let entries = version.verify_table(FileNumber(wanted.number), file);
        entries.map(Some).map_err(|error| {
            let at = error.offset().map_or(String::new(), |offset| format!("at byte {offset}: "));
            Error::damaged(object, format!("{at}{}", error.message()))
        })
    }

    /// Tables that are missing are damage, unless the newest version has gone on without them.
    fn settle(&mut self, gone: Vec<(String, Wanted)>) -> Outcome<()> {
        if gone.is_empty() {
            return Ok(());
        }
        let newest = replay::read_newest(self.home).ok().flatten();
        for (object, wanted) in gone {
            let is_named = newest.as_ref().is_none_or(|newest| {
                newest.state.tables().values().any(|table| *table == wanted.table)
            });
            let verdict = if is_named || wanted.is_pinned {
                Verdict::Damaged(Error::damaged(&object, "is missing, and a version names it"))
            } else {
                Verdict::Past
            };
            self.tell(object, &wanted, None, verdict);
        }
        Ok(())
    }

    fn judge(&self, name: Option<&Name>, kept: &Kept) -> Verdict {
        let newest = kept.newest.as_ref().map(|newest| &newest.state);
        let open = |may: bool| if may { Verdict::Unnamed } else { Verdict::Orphan };
        match name {
            None => Verdict::Foreign,
            Some(Name::Table(id)) if kept.names(*id) => Verdict::Past,
            Some(Name::Table(id)) => open(newest.is_none_or(|newest| newest.may_name(*id))),
            Some(Name::Job(job)) if newest.is_some_and(|newest| !newest.is_alive(*job)) => {
                Verdict::Orphan
            }
            Some(Name::Version(version)) => judge_record(*version, kept),
            Some(_) => Verdict::Whole,
        }
    }
}

fn judge_record(version: VersionNumber, kept: &Kept) -> Verdict {
    let is_kept = kept.newest.is_none() || kept.records.contains(&version);
    if is_kept { Verdict::Whole } else { Verdict::Past }
}

/// A table in memory.
struct Fetched {
    path: PathBuf,
    body: Bytes,
}

impl RandomAccessFile for Fetched {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> siltstone::Result<usize> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(self.body.len());
        let len = buf.len().min(self.body.len() - from);
        buf[..len].copy_from_slice(&self.body[from..from + len]);
        Ok(len)
    }

    fn len(&self) -> u64 {
        self.body.len() as u64
    }

    fn path(&self) -> &Path {
        &self.path
    }
}
