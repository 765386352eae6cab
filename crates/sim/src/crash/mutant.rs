//! Syncs left out, or made after what they must precede: by name, so that the enumerator can be asked to
//! notice each. What it does not notice it does not prove.
//!
//! The file system does the cheating, so the engine under test is the engine as it is.

use std::fmt;
use std::str::FromStr;

use siltstone::Site;

use crate::disk::{Entry, Step};

/// A broken promise of the file system, which stands for a sync that the engine forgot, or made in the
/// wrong order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mutant {
    pub site: Site,
    pub flaw: Flaw,
}

/// What is wrong with the syncs of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// They do nothing.
    LeftOut,
    /// They are done only after the next call from this site, which relies on them.
    After(Site),
}

/// The orders that the rules of durability ask for: the sync, and the call that relies on it.
const ORDERS: [(Site, Site); 9] = [
    // R1: before an edit names a table, its bytes and its name are durable.
    (Site::TableSync, Site::ManifestSync),
    (Site::TableDirSync, Site::ManifestSync),
    // R2: the log's name, before the first write in it is acknowledged.
    (Site::WalDirSync, Site::WalAppend),
    // R4: a manifest before CURRENT names it, CURRENT's bytes before its name.
    (Site::ManifestSync, Site::CurrentDirSync),
    (Site::CurrentSync, Site::CurrentDirSync),
    // R4, R5: nothing old goes before the new is in force.
    (Site::CurrentDirSync, Site::ManifestRemove),
    (Site::ManifestSync, Site::TableRemove),
    // R6: a log that takes over is whole before it takes the name.
    (Site::WalSyncRelog, Site::WalDirSync),
    // CURRENT is gone before anything it needs goes.
    (Site::DestroyDirSync, Site::DestroyRemove),
];

impl Mutant {
    /// Every mutant: each site that syncs something left out, and each order turned round.
    pub fn all() -> Vec<Mutant> {
        let syncs = Site::ALL.iter().filter(|site| is_sync(**site));
        let left_out = syncs.map(|site| Mutant { site: *site, flaw: Flaw::LeftOut });
        let turned = ORDERS.map(|(site, until)| Mutant { site, flaw: Flaw::After(until) });
        left_out.chain(turned).collect()
    }

    /// What becomes of a call.
    pub(crate) fn treats(self, entry: &Entry) -> Treatment {
        let is_sync = matches!(entry.step, Step::SyncFile { .. } | Step::SyncFolder { .. });
        match self.flaw {
            _ if entry.site != self.site || !is_sync => Treatment::Done,
            Flaw::LeftOut => Treatment::LeftOut,
            Flaw::After(_) => Treatment::HeldBack,
        }
    }

    /// True if what was held back is done after this call.
    pub(crate) fn releases_after(self, site: Site) -> bool {
        self.flaw == Flaw::After(site)
    }
}

/// What becomes of a call that changes the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Treatment {
    Done,
    LeftOut,
    HeldBack,
}

/// Sites are named for what they do.
fn is_sync(site: Site) -> bool {
    site.name().split('.').any(|part| part == "sync")
}

impl FromStr for Mutant {
    type Err = String;

    /// The mutant of this name, as [`Display`](fmt::Display) writes it.
    fn from_str(name: &str) -> Result<Self, String> {
        let found = Mutant::all().into_iter().find(|mutant| mutant.to_string() == name);
        found.ok_or_else(|| "no such mutant; `ground mutants` lists them".to_owned())
    }
}

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.flaw {
            Flaw::LeftOut => write!(f, "{}:left-out", self.site.name()),
            Flaw::After(until) => write!(f, "{}:after:{}", self.site.name(), until.name()),
        }
    }
}
