//! What a database needs of its objects, and who needs it: the newest version, pins, and versions that may still be read.
//!
//! Damage is handed to the caller, who ends there, or notes it and has the rest.

use std::collections::BTreeSet;

use crate::bucket::Purpose;
use crate::error::{Error, ErrorKind, Outcome};
use crate::home::Home;
use crate::log::boundary;
use crate::log::record::Table;
use crate::log::replay::{self, Replay};
use crate::names::{Name, TableId, VersionNumber};
use crate::pins::pin::{Pin, read_pin};

/// Versions that are kept, and what they consist of.
#[derive(Default)]
pub(super) struct Kept {
    /// `None` if there is none, or it cannot be read.
    pub(super) newest: Option<Replay>,
    pub(super) pinned: Vec<(Pin, Replay)>,
    /// Own tables of the newest version.
    pub(super) in_newest: BTreeSet<TableId>,
    /// Own tables of pinned versions.
    pub(super) in_pins: BTreeSet<TableId>,
    /// Own tables of versions that may still be read by whoever has begun to.
    pub(super) in_past: BTreeSet<TableId>,
    /// Records that somebody needs.
    pub(super) records: BTreeSet<VersionNumber>,
}

/// Told of what cannot be read; an error ends the reading.
pub(super) type OnDamage<'a> = &'a mut dyn FnMut(Error) -> Outcome<()>;

impl Kept {
    /// Reads all of it: a request for each record that may still be read, and some for each pin.
    pub(super) fn read(home: &Home, on_damage: OnDamage<'_>) -> Outcome<Self> {
        let mut kept = Kept::default();
        match replay::read_newest(home) {
            Ok(newest) => kept.newest = newest,
            // Nobody collects that often: a record is missing.
            Err(error) if error.kind() == ErrorKind::Contended => {
                on_damage(find_hole(home)?.unwrap_or(error))?;
            }
            Err(error) => hand(error, on_damage)?,
        }
        if let Some(newest) = &kept.newest {
            kept.in_newest = own_tables(newest.state.tables().values());
            kept.records.extend(chain(newest));
        }
        kept.read_past(home, on_damage)?;
        for stat in home.list("pins/", "", Purpose::Tool)? {
            match read_pin(home, &stat.name, Purpose::Tool) {
                Ok(Some(pin)) => kept.read_pinned(home, pin, on_damage)?,
                Ok(None) => {}
                Err(error) => hand(error, on_damage)?,
            }
        }
        Ok(kept)
    }

    /// From the boundary on.
    fn read_past(&mut self, home: &Home, on_damage: OnDamage<'_>) -> Outcome<()> {
        let boundary = match boundary::look(home, Purpose::Tool) {
            Ok(boundary) => boundary,
            // What may still be read is not known.
            Err(error) => return hand(error, on_damage),
        };
        let versions = listed_from(home, boundary)?;
        if let Some(oldest) = versions.first() {
            match replay::read_version(home, *oldest) {
                Ok(oldest) => {
                    self.in_past = own_tables(oldest.state.tables().values());
                    self.records.extend(chain(&oldest));
                }
                Err(error) => hand(error, on_damage)?,
            }
        }
        for version in versions {
            match replay::fetch(home, version, Purpose::Tool) {
                Ok(record) => {
                    let tables = record.iter().flat_map(|record| &record.tables);
                    self.in_past.extend(own_tables(tables.map(|(_, table)| table)));
                }
                Err(error) => hand(error, on_damage)?,
            }
            self.records.insert(version);
        }
        Ok(())
    }

    fn read_pinned(&mut self, home: &Home, pin: Pin, on_damage: OnDamage<'_>) -> Outcome<()> {
        match replay::read_version(home, pin.version) {
            Ok(replay) => {
                self.in_pins.extend(own_tables(replay.state.tables().values()));
                self.records.extend(chain(&replay));
                self.pinned.push((pin, replay));
                Ok(())
            }
            // What a checkpoint that has ended kept may be gone.
            Err(error) if error.kind() == ErrorKind::Gone && !pin.life.is_zero() => Ok(()),
            Err(error) => hand(error, on_damage),
        }
    }

    /// True if a version that is kept has this table of its own.
    pub(super) fn names(&self, id: TableId) -> bool {
        [&self.in_newest, &self.in_pins, &self.in_past].iter().any(|tables| tables.contains(&id))
    }
}

/// The records that make up a version.
fn chain(replay: &Replay) -> impl Iterator<Item = VersionNumber> + use<> {
    (replay.state.base().0..=replay.state.version().0).map(VersionNumber)
}

fn own_tables<'a>(tables: impl Iterator<Item = &'a Table>) -> BTreeSet<TableId> {
    tables.filter(|table| table.home == 0).map(|table| table.id).collect()
}

/// The versions that are there from `first` on.
fn listed_from(home: &Home, first: VersionNumber) -> Outcome<Vec<VersionNumber>> {
    let mut versions = Vec::new();
    home.list_each("v/", "", Purpose::Tool, |stat| {
        if let Some(Name::Version(version)) = home.root().parse(&stat.name) {
            versions.extend(Some(version).filter(|version| *version >= first));
        }
        Ok(())
    })?;
    Ok(versions)
}

/// The first record that the newest version stands on and that is not there.
fn find_hole(home: &Home) -> Outcome<Option<Error>> {
    let there = listed_from(home, VersionNumber(0))?;
    let Some(last) = there.last() else { return Ok(None) };
    let Some(record) = replay::fetch(home, *last, Purpose::Tool)? else { return Ok(None) };
    let mut chain = (record.base.0..record.version.0).map(VersionNumber);
    let hole = chain.find(|version| there.binary_search(version).is_err());
    Ok(hole.map(|version| {
        let message = format!("is missing, and version {last} stands on it");
        Error::damaged(&home.object(&Name::Version(version)), message)
    }))
}

/// Damage and gaps are the caller's to judge; a bucket out of reach ends everything.
fn hand(error: Error, on_damage: OnDamage<'_>) -> Outcome<()> {
    if error.kind() == ErrorKind::Gone || error.is_of_object() {
        return on_damage(error);
    }
    Err(error)
}
