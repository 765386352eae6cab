//! What is kept: versions from the boundary or the lowest lease on, and those that are pinned, with all that makes them up.

use std::collections::BTreeSet;
use std::time::Duration;

use super::view::{Tables, View};
use super::{Doomed, Reason};
use crate::bucket::{Purpose, Stat};
use crate::error::{Error, ErrorKind, Outcome};
use crate::home::Home;
use crate::log::state::VersionState;
use crate::names::VersionNumber;
use crate::pins::lease::{self, Leased};
use crate::pins::pin;

/// What is kept.
pub(super) struct Reach {
    /// Own tables.
    pub(super) tables: Tables,
    /// Records.
    pub(super) records: BTreeSet<VersionNumber>,
    /// The newest version: what it says may still be named is kept, too.
    pub(super) newest: VersionState,
    /// When and for how long leases and pins that end were written.
    mortals: Vec<(Stat, Duration)>,
    longest_life: Duration,
}

impl Reach {
    /// What is kept, given that everything before `past` may go.
    pub(super) fn read(home: &Home, view: &View, past: VersionNumber) -> Outcome<Self> {
        let broken = || {
            let message = "lacks a record that it needs";
            let error = Error::damaged(&home.root().prefix("v/"), message);
            // Another collector may have been faster.
            let is_old_view = past > view.boundary;
            if is_old_view { error.of_kind(ErrorKind::Contended) } else { error }
        };
        let newest = view.newest(home)?.ok_or_else(broken)?.version;
        let newest = view.state(home, newest)?.ok_or_else(broken)?;
        let (tables, records, mortals) = (Tables::new(), BTreeSet::new(), Vec::new());
        let longest_life = Duration::ZERO;
        let mut reach = Reach { tables, records, newest, mortals, longest_life };
        // More than we know of may be past by now, if another collector was faster.
        let past = past.min(reach.newest.version());
        if !reach.keep_from(home, view, past)? {
            return Err(broken());
        }
        for lease in lease::read_leases(home, Purpose::Collect)? {
            if is_alive(&lease, view.now_ms) {
                reach.longest_life = reach.longest_life.max(lease.life);
                // A lease on what is gone was too late; its reader has noticed.
                reach.keep_from(home, view, lease.version)?;
            }
            reach.mortals.push((lease.stat, lease.life));
        }
        for (pin, stat) in pin::read_pins(home, Purpose::Collect)? {
            if pin.life.is_zero() || has_life(&stat, pin.life, view.now_ms) {
                reach.keep_one(home, view, pin.version)?;
            }
            if !pin.life.is_zero() {
                reach.mortals.push((stat, pin.life));
            }
        }
        Ok(reach)
    }

    /// Leases that have not ended.
    pub(super) fn leases_alive(home: &Home, now_ms: u64) -> Outcome<Vec<Leased>> {
        let mut leases = lease::read_leases(home, Purpose::Collect)?;
        leases.retain(|lease| is_alive(lease, now_ms));
        Ok(leases)
    }

    /// Of the leases that are kept.
    pub(super) fn longest_life(&self) -> Duration {
        self.longest_life
    }

    /// Leases and pins that have ended so long ago that nobody renews them.
    pub(super) fn ended(&self, now_ms: u64, age_min: Duration) -> Vec<Doomed> {
        let ended = self
            .mortals
            .iter()
            .filter(|(stat, life)| !has_life(stat, life.saturating_add(age_min), now_ms));
        let doomed = |(stat, _): &(Stat, Duration)| Doomed {
            reason: Reason::Ended,
            name: stat.name.clone(),
        };
        ended.map(doomed).collect()
    }

    /// Keeps everything from a version on; false if that is no longer whole.
    fn keep_from(&mut self, home: &Home, view: &View, first: VersionNumber) -> Outcome<bool> {
        let (Some(tables), Some(chain)) =
            (view.tables_from(home, first)?, view.chain(home, first)?)
        else {
            return Ok(false);
        };
        self.tables.extend(tables);
        self.records.extend(chain.iter().map(|record| record.version));
        let newest = self.newest.version();
        self.records.extend(view.written_ms.range(first..=newest).map(|(version, _)| *version));
        Ok(true)
    }

    /// Keeps a version, if it is still whole.
    fn keep_one(&mut self, home: &Home, view: &View, version: VersionNumber) -> Outcome<()> {
        if let (Some(tables), Some(chain)) =
            (view.tables(home, version)?, view.chain(home, version)?)
        {
            self.tables.extend(tables);
            self.records.extend(chain.iter().map(|record| record.version));
        }
        Ok(())
    }
}

fn is_alive(lease: &Leased, now_ms: u64) -> bool {
    has_life(&lease.stat, lease.life, now_ms)
}

fn has_life(stat: &Stat, life: Duration, now_ms: u64) -> bool {
    let life_ms = u64::try_from(life.as_millis()).unwrap_or(u64::MAX);
    stat.written_ms.saturating_add(life_ms) >= now_ms
}
