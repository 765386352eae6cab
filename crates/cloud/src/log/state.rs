//! What a version consists of, as far as a bucket is concerned: its tables' objects, and which more may still be named.
//! Made by reading the log ([`replay`](super::replay)), one record at a time.
//!
//! I1: versions follow each other without holes, and their epochs never fall.
//! I2: an edit adds only tables of its own database that the version before it said may be named. A collector relies on
//! it: what is neither part of a version nor may be named by a later one is nobody's for ever.

use std::collections::{BTreeMap, BTreeSet};

use super::record::{Ancestor, Kind, Record, Span, Table};
use crate::error::{Error, Outcome};
use crate::names::{Epoch, JobId, TableId, VersionNumber};

/// A version, as far as objects are concerned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionState {
    pub(super) version: VersionNumber,
    pub(super) epoch: Epoch,
    pub(super) base: VersionNumber,
    tables: BTreeMap<u64, Table>,
    pub(super) spans: Vec<Span>,
    pub(super) held: BTreeSet<JobId>,
    ancestors: Vec<Ancestor>,
}

impl VersionState {
    /// Which version it is; 0 before the first.
    pub fn version(&self) -> VersionNumber {
        self.version
    }

    /// Whose time it is of.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The last version whose record lists all tables.
    pub fn base(&self) -> VersionNumber {
        self.base
    }

    /// The tables, by the numbers the engine knows them by.
    pub fn tables(&self) -> &BTreeMap<u64, Table> {
        &self.tables
    }

    /// The databases whose tables this one shares.
    pub fn ancestors(&self) -> &[Ancestor] {
        &self.ancestors
    }

    /// True if a later version may name this table, which none has named so far.
    pub fn may_name(&self, id: TableId) -> bool {
        match id {
            TableId::Own { epoch, number } => self.is_open(epoch, number),
            TableId::Worked { job, .. } => self.is_alive(job),
        }
    }

    /// True if what comes of this job may still be installed. Only such jobs may be adopted by a new owner.
    pub fn is_alive(&self, job: JobId) -> bool {
        self.held.contains(&job) || self.is_open(job.epoch, job.number)
    }

    fn is_open(&self, epoch: Epoch, number: u64) -> bool {
        self.spans.iter().any(|span| span.epoch == epoch && span.from <= number)
    }

    /// True of a record that may follow.
    pub(crate) fn check(&self, name: &str, record: &Record) -> Outcome<()> {
        let begins = self.version.0 == 0 && record.kind.is_whole();
        let follows = record.version == self.version.next() && record.epoch >= self.epoch;
        if !begins && !follows {
            return Err(Error::damaged(
                name,
                format!(
                    "is version {} of epoch {}, behind version {} of epoch {}",
                    record.version, record.epoch.0, self.version, self.epoch.0
                ),
            ));
        }
        if !record.kind.is_whole() && record.base != self.base {
            let message = format!("stands on {} instead of {}", record.base, self.base);
            return Err(Error::damaged(name, message));
        }
        match record.kind {
            Kind::Takeover => {}
            Kind::Edit => self.check_edit(name, record)?,
            Kind::Snapshot | Kind::Restart => check_list(name, record)?,
        }
        Ok(())
    }

    /// Goes on to the next version. `name` is the record's, for errors; after one the state is as before.
    pub(crate) fn apply(&mut self, name: &str, record: &Record) -> Outcome<()> {
        self.check(name, record)?;
        if record.kind.is_whole() {
            self.tables.clear();
            self.ancestors.clone_from(&record.ancestors);
        }
        for number in &record.removed {
            self.tables.remove(number);
        }
        self.tables.extend(record.tables.iter().copied());
        self.held = record.held.iter().copied().collect();
        self.spans.clone_from(&record.spans);
        (self.version, self.epoch, self.base) = (record.version, record.epoch, record.base);
        Ok(())
    }

    fn check_edit(&self, name: &str, record: &Record) -> Outcome<()> {
        let removed: BTreeSet<u64> = record.removed.iter().copied().collect();
        let mut added = BTreeSet::new();
        let stranger = removed.iter().find(|number| !self.tables.contains_key(number));
        if let Some(number) = stranger {
            return Err(Error::damaged(
                name,
                format!("removes table {number}, which is not there"),
            ));
        }
        for (number, table) in &record.tables {
            let is_there = self.tables.contains_key(number) && !removed.contains(number);
            if is_there || !added.insert(*number) {
                return Err(Error::damaged(name, format!("adds table {number} once more")));
            }
            if table.home != 0 || !self.may_name(table.id) {
                let message = format!("adds table {number}, which had been given up");
                return Err(Error::damaged(name, message));
            }
        }
        Ok(())
    }
}

fn check_list(name: &str, record: &Record) -> Outcome<()> {
    let numbers: BTreeSet<u64> = record.tables.iter().map(|(number, _)| *number).collect();
    let twice = numbers.len() != record.tables.len();
    if twice { Err(Error::damaged(name, "lists a table twice")) } else { Ok(()) }
}
