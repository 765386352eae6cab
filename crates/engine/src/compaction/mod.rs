//! Floor 5: rewriting tables so that reads stay short and space comes back.
//!
//! One ladder: a policy proposes a [`Plan`]; [`closure`] completes it by the rules A4 and A5 and
//! [`in_flight`] checks A7, which makes it a [`job::Job`]; an executor turns it into an output, large
//! ones in [`parts`]; the database installs the edit. No policy or manual request has another way. Repair, which
//! takes all there is into a new database, runs the merge alone.

pub(crate) mod closure;
pub(crate) mod cut;
pub(crate) mod executor;
pub(crate) mod in_flight;
pub(crate) mod job;
pub(crate) mod leveled;
pub(crate) mod merge;
pub(crate) mod parts;
pub(crate) mod policy;
pub(crate) mod retention;
pub(crate) mod share;
pub(crate) mod stretch;

#[cfg(test)]
mod model;

use crate::base::slot::Slot;
use crate::format::filename::FileNumber;

/// What a policy wants done. The engine adds what the rules demand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Tables change their slot; no byte is copied.
    Move {
        /// The tables.
        tables: Vec<FileNumber>,
        /// Where they go.
        to: Slot,
    },
    /// Tables are merged into new ones.
    Merge {
        /// The tables.
        inputs: Vec<FileNumber>,
        /// Where the output goes: a sorted slot.
        to: Slot,
    },
}
