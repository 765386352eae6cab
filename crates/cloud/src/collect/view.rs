//! The version log as a collector has it: every record that is there, when it was written, and what time it is.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;

use super::{Doomed, Reason};
use crate::bucket::Purpose;
use crate::error::{Error, ErrorKind, Outcome};
use crate::home::Home;
use crate::log::record::Record;
use crate::log::state::VersionState;
use crate::log::{boundary, replay};
use crate::names::{Name, TableId, Token, VersionNumber};

/// The log at one moment.
#[derive(Default)]
pub(super) struct View {
    /// What lies in the folder, and when it was written.
    pub(super) written_ms: BTreeMap<VersionNumber, u64>,
    /// Records, without their payloads. Those from the boundary on are the log's for sure; before it there may be a
    /// latecomer's, put into a gap.
    records: BTreeMap<VersionNumber, Record>,
    /// Records before the boundary that are there and say nothing.
    unreadable: BTreeSet<VersionNumber>,
    pub(super) boundary: VersionNumber,
    /// By the bucket's clock.
    pub(super) now_ms: u64,
    newest: VersionNumber,
}

impl View {
    /// Reads what is new.
    pub(super) fn read(&mut self, home: &Home, token: Token) -> Outcome<()> {
        self.now_ms = bucket_now(home, token)?;
        self.boundary = boundary::look(home, Purpose::Collect)?;
        self.written_ms.clear();
        let (boundary, mut newest) = (self.boundary, VersionNumber(0));
        home.list_each("v/", "", Purpose::Collect, |stat| {
            if let Some(Name::Version(version)) = home.root().parse(&stat.name) {
                self.written_ms.insert(version, stat.written_ms);
                newest = version;
            }
            Ok(())
        })?;
        if newest < boundary {
            let message = format!("ends before the boundary {boundary}");
            return Err(Error::damaged(&home.root().prefix("v/"), message));
        }
        self.newest = newest;
        let there = &self.written_ms;
        self.records.retain(|version, _| there.contains_key(version));
        self.unreadable.clear();
        self.fetch_missing(home)
    }

    fn fetch_missing(&mut self, home: &Home) -> Outcome<()> {
        for version in self.written_ms.keys() {
            if self.records.contains_key(version) {
                continue;
            }
            match replay::fetch(home, *version, Purpose::Collect) {
                Ok(Some(record)) => {
                    let payloads = Vec::new();
                    self.records.insert(*version, Record { payloads, ..record });
                }
                // Another collector was faster.
                Ok(None) => {}
                // Perhaps nobody needs it.
                Err(error) if error.is_of_object() && *version < self.boundary => {
                    self.unreadable.insert(*version);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The newest record; `None` if there is no log. Another collector may have taken it away since it was listed.
    pub(super) fn newest(&self, home: &Home) -> Outcome<Option<&Record>> {
        let newest = self.records.get(&self.newest);
        if newest.is_none() && self.newest.0 > 0 {
            let name = home.object(&Name::Version(self.newest));
            return Err(Error::new(ErrorKind::Contended, &name, "others collect faster than we"));
        }
        Ok(newest)
    }

    /// The first version that has not been past for `age_min`: a version is past when the next has come.
    pub(super) fn past(&self, age_min: Duration) -> VersionNumber {
        let age_ms = u64::try_from(age_min.as_millis()).unwrap_or(u64::MAX);
        let first = self.written_ms.range(self.boundary..).next().map(|(version, _)| *version);
        let mut past = first.unwrap_or(self.boundary);
        while let Some(written_ms) = self.written_ms.get(&past.next()) {
            if written_ms.saturating_add(age_ms) > self.now_ms {
                break;
            }
            past = past.next();
        }
        past
    }

    /// The records that make up a version, or `None` if it is not whole. One that is damaged is an error: what a pin
    /// keeps is not taken apart because a part of it cannot be read.
    pub(super) fn chain(
        &self,
        home: &Home,
        version: VersionNumber,
    ) -> Outcome<Option<Vec<&Record>>> {
        let base = self.records.get(&version).map_or(version, |record| record.base);
        if let Some(unreadable) = self.unreadable.range(base..=version).next() {
            let name = home.object(&Name::Version(*unreadable));
            return Err(Error::damaged(&name, format!("is a part of version {version}, damaged")));
        }
        let numbers = (base.0..=version.0).map(VersionNumber);
        Ok(numbers.map(|number| self.records.get(&number)).collect())
    }

    /// Ids of a version's own tables.
    pub(super) fn tables(&self, home: &Home, version: VersionNumber) -> Outcome<Option<Tables>> {
        let Some(state) = self.state(home, version)? else { return Ok(None) };
        let own = state.tables().values().filter(|table| table.home == 0);
        Ok(Some(own.map(|table| table.id).collect()))
    }

    pub(super) fn state(
        &self,
        home: &Home,
        version: VersionNumber,
    ) -> Outcome<Option<VersionState>> {
        let Some(chain) = self.chain(home, version)? else { return Ok(None) };
        let mut state = VersionState::default();
        for record in chain {
            state.apply(&home.object(&Name::Version(record.version)), record)?;
        }
        Ok(Some(state))
    }

    /// Ids of own tables that any version from `first` to the newest has, or `None` if a record is missing.
    pub(super) fn tables_from(&self, home: &Home, first: VersionNumber) -> Outcome<Option<Tables>> {
        let Some(mut tables) = self.tables(home, first)? else { return Ok(None) };
        for number in first.next().0..=self.newest.0 {
            let Some(record) = self.records.get(&VersionNumber(number)) else { return Ok(None) };
            tables.extend(own_tables(record));
        }
        Ok(Some(tables))
    }

    /// Ids of own tables that any record says anything of.
    pub(super) fn all_tables(&self) -> Tables {
        self.records.values().flat_map(own_tables).collect()
    }

    /// Their objects.
    pub(super) fn mentioned(&self, home: &Home) -> BTreeSet<String> {
        self.all_tables().into_iter().map(|id| home.root().table(id)).collect()
    }

    /// Records that were removed are no longer there.
    pub(super) fn forget(&mut self, home: &Home, doomed: &[Doomed]) {
        for doomed in doomed.iter().filter(|doomed| doomed.reason == Reason::OldRecord) {
            if let Some(Name::Version(version)) = home.root().parse(&doomed.name) {
                self.records.remove(&version);
            }
        }
    }
}

/// Ids of tables.
pub(super) type Tables = BTreeSet<TableId>;

fn own_tables(record: &Record) -> impl Iterator<Item = TableId> + '_ {
    record.tables.iter().filter(|(_, table)| table.home == 0).map(|(_, table)| table.id)
}

/// What time it is by the bucket's clock: learned by writing something and asking when that was.
fn bucket_now(home: &Home, token: Token) -> Outcome<u64> {
    let name = home.object(&Name::Now);
    home.write(&name, &Bytes::copy_from_slice(token.to_string().as_bytes()), Purpose::Collect)?;
    let stat = home.head(&name, Purpose::Collect)?;
    stat.map(|stat| stat.written_ms)
        .ok_or_else(|| Error::damaged(&name, "is gone just after it was written"))
}
