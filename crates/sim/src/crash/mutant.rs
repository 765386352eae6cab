//! Syncs left out or done too late, by name: what the enumerator must notice, or it proves nothing.

use std::fmt;

use siltstone::Site;

use crate::disk::{Entry, Step};

/// A broken promise of the file system, which stands for a sync that the engine forgot or made in the
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
    /// They are done only after the next call that changes the disk.
    TooLate,
}

impl Mutant {
    /// Every mutant: each site that syncs something, with each flaw.
    pub fn all() -> Vec<Mutant> {
        let syncs = Site::ALL.iter().filter(|site| is_sync(**site));
        let both =
            |site: &Site| [Flaw::LeftOut, Flaw::TooLate].map(|flaw| Mutant { site: *site, flaw });
        syncs.flat_map(both).collect()
    }

    /// The mutant of this name, as [`Display`](fmt::Display) writes it.
    pub fn named(name: &str) -> Option<Mutant> {
        Mutant::all().into_iter().find(|mutant| mutant.to_string() == name)
    }

    /// None if the call is to do nothing, `Some(true)` if it is to be done later.
    pub(crate) fn holds_back(self, entry: &Entry) -> Option<bool> {
        let is_sync = matches!(entry.step, Step::SyncFile { .. } | Step::SyncFolder { .. });
        match self.flaw {
            _ if entry.site != self.site || !is_sync => Some(false),
            Flaw::LeftOut => None,
            Flaw::TooLate => Some(true),
        }
    }
}

/// Sites are named for what they do.
fn is_sync(site: Site) -> bool {
    site.name().split('.').any(|part| part == "sync")
}

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flaw = match self.flaw {
            Flaw::LeftOut => "left-out",
            Flaw::TooLate => "too-late",
        };
        write!(f, "{}:{flaw}", self.site.name())
    }
}
