//! The collector: removes what no version that may still be read consists of, and what no later version may name. Run by
//! an owner now and then, by a command, or by a process of its own; several at once do no harm, nor does one that wakes
//! after days.
//!
//! I1, the order: owner, versions, boundary moved, leases and pins, owner again, and only then deletes.
//! I2, why it is enough. A pin or lease that is not seen was put after the boundary had moved, and its maker finds that
//! out. A table that is in no kept version can be named again only by an owner who sets the database back to a pin
//! that was there; he has claimed the database before the pin could go, so the second look at the owner, after the pins
//! were read, finds him. What is garbage when that look finds the same owner is garbage for ever, and a delete may come as
//! late as it likes.
//! I3: nothing goes whose name does not parse as this database's.
//! I4: ages are by the bucket's own clock, which is asked before anything whose age counts: so nothing is taken for older
//! than it is.
//! I5: tables go before the records that say they are to go.

mod reach;
mod sweep;
mod view;

use std::collections::BTreeSet;
use std::time::Duration;

use crate::error::{Error, ErrorKind};
use crate::home::Home;
use crate::log::{boundary, owner};
use crate::names::{Token, VersionNumber};
use reach::Reach;
use view::View;

use crate::bucket::Purpose;

/// How to collect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectOptions {
    /// How long a version may be read after the next has come, without a lease: an hour. Not less than the longest lease
    /// that is found, whatever is said here.
    pub age_min: Duration,
    /// Lists all tables and jobs, and finds those that no version ever named. Once a day is enough.
    pub reconcile: bool,
    /// Says what would go, and removes nothing.
    pub dry_run: bool,
    /// How many names go in one delete; S3 takes a thousand.
    pub batch: usize,
}

impl Default for CollectOptions {
    fn default() -> Self {
        let age_min = Duration::from_secs(3600);
        CollectOptions { age_min, reconcile: false, dry_run: false, batch: 1000 }
    }
}

/// Why an object goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// A table that was part of a version, and is of none that is kept.
    Dropped,
    /// A table that no version names, nor may a later one.
    Orphan,
    /// What is left of a job that is over.
    JobOver,
    /// A record that no kept version needs.
    OldRecord,
    /// A lease or checkpoint that has ended long ago.
    Ended,
}

impl Reason {
    /// For people.
    pub fn text(self) -> &'static str {
        match self {
            Reason::Dropped => "a table of past versions only",
            Reason::Orphan => "a table that no version names or may name",
            Reason::JobOver => "left by a job that is over",
            Reason::OldRecord => "a record that no kept version needs",
            Reason::Ended => "a lease or checkpoint that has ended",
        }
    }
}

/// An object that goes, and why.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Doomed {
    /// Why.
    pub reason: Reason,
    /// Its name.
    pub name: String,
}

/// What a collection has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collection {
    /// What was removed, or would be.
    pub removed: Vec<Doomed>,
    /// Versions before it are past.
    pub boundary: VersionNumber,
    /// The newest version it knew.
    pub newest: VersionNumber,
}

/// Collects the garbage of one database. It remembers the log's records, so that each is read once.
pub struct Collector {
    home: Home,
    options: CollectOptions,
    view: View,
    /// Tables that were removed by this value, and are still mentioned by records.
    gone: BTreeSet<String>,
}

impl Collector {
    /// A collector that knows nothing yet.
    pub fn new(home: &Home, options: CollectOptions) -> Self {
        Collector { home: home.clone(), options, view: View::default(), gone: BTreeSet::new() }
    }

    /// Collects once. Some ten requests, and one for each new record, lease and pin; with `reconcile` one more for a
    /// thousand tables. [`ErrorKind::Contended`] if a takeover is under way, [`ErrorKind::Fenced`] if one came in between:
    /// nothing is wrong, collect again later. After any error some of it may be removed. `token` is fresh.
    pub fn collect(&mut self, token: Token) -> Result<Collection, Error> {
        let owner = owner::look(&self.home, Purpose::Collect)?.map(|(owner, _)| owner);
        self.view.read(&self.home, token)?;
        let Some(newest) = self.view.newest(&self.home)? else { return Ok(Collection::default()) };
        let epoch = owner.as_ref().map_or(0, |owner| owner.epoch.0);
        if newest.epoch.0 != epoch {
            let message = format!("epoch {epoch} has begun, but the log is at {}", newest.epoch.0);
            return Err(Error::new(ErrorKind::Contended, self.home.root().as_str(), message));
        }
        let newest = newest.version;
        let past = self.move_boundary(token)?;
        let reach = Reach::read(&self.home, &self.view, past)?;
        let age_min = self.options.age_min.max(reach.longest_life());
        let doomed = self.doomed(&reach, age_min)?;
        if !self.options.dry_run {
            sweep::remove(&self.home, owner.as_ref(), &doomed, self.options.batch)?;
            self.forget(&doomed);
        }
        Ok(Collection { removed: doomed, boundary: past, newest })
    }

    /// Moves the boundary as far as ages and leases allow. Leases are only looked at so as not to move it in vain; those
    /// that count are read afterwards.
    fn move_boundary(&self, token: Token) -> Result<VersionNumber, Error> {
        let leases = Reach::leases_alive(&self.home, self.view.now_ms)?;
        let lives = leases.iter().map(|lease| lease.life).max().unwrap_or_default();
        let past = self.view.past(self.options.age_min.max(lives));
        let past = leases.iter().map(|lease| lease.version).fold(past, VersionNumber::min);
        if self.options.dry_run {
            return Ok(past.max(boundary::look(&self.home, Purpose::Collect)?));
        }
        boundary::advance(&self.home, past, token)
    }

    fn doomed(&self, reach: &Reach, age_min: Duration) -> Result<Vec<Doomed>, Error> {
        let mut doomed = sweep::dropped_tables(&self.home, &self.view, reach);
        doomed.retain(|doomed| !self.gone.contains(&doomed.name));
        if self.options.reconcile {
            let known = doomed.iter().map(|doomed| doomed.name.clone()).collect();
            doomed.extend(sweep::orphans(&self.home, &self.view, reach, age_min, &known)?);
        }
        doomed.extend(sweep::old_records(&self.home, &self.view, reach));
        doomed.extend(reach.ended(self.view.now_ms, age_min));
        Ok(doomed)
    }

    fn forget(&mut self, doomed: &[Doomed]) {
        let tables = doomed.iter().filter(|doomed| doomed.reason == Reason::Dropped);
        self.gone.extend(tables.map(|doomed| doomed.name.clone()));
        self.view.forget(&self.home, doomed);
        let mentioned = self.view.mentioned(&self.home);
        self.gone.retain(|name| mentioned.contains(name));
    }
}

#[cfg(test)]
mod tests;
