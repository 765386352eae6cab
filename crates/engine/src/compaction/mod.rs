//! Floor 5: rewriting tables so that reads stay short and space comes back.
//!
//! One ladder: a policy proposes a [`Plan`]; [`closure`] completes it by the rules A4 and A5 and
//! [`in_flight`] checks A7, which makes it a [`job::Job`]; an executor turns it into an output, large
//! ones in [`parts`]; the database installs the edit. No policy or manual request has another way. Repair, which
//! takes all there is into a new database, runs the merge alone.

pub(crate) mod accept;
pub(crate) mod closure;
pub(crate) mod cut;
pub(crate) mod executor;
pub(crate) mod hot_map;
pub(crate) mod in_flight;
pub(crate) mod job;
pub(crate) mod l2sm;
pub(crate) mod leveled;
pub(crate) mod merge;
pub(crate) mod parts;
pub(crate) mod policy;
pub(crate) mod remains;
pub(crate) mod retention;
pub(crate) mod service;
pub(crate) mod share;
pub(crate) mod simulation;
pub(crate) mod slice;
pub(crate) mod sliced;
pub(crate) mod stretch;
pub(crate) mod turns;

#[cfg(test)]
mod model;

use crate::base::slot::Slot;
use crate::compaction::parts::Part;
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
    /// All that an SST log holds of a range of keys is merged into the next level. Of a table that reaches
    /// out of the range, the rest stays where it is.
    Slice {
        /// The SST log.
        from: Slot,
        /// The range. No table of the next level may reach out of it.
        part: Part,
    },
}
