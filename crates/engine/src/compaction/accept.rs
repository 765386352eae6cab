//! The gate that every plan goes through: it is completed by the rules (A4, A5), and turned away if it may not run beside
//! the jobs in flight (A7) or if what it names is gone.

use crate::base::comparator::UserOrder;
use crate::base::slot::Slot;
use crate::compaction::closure::{self, Closed};
use crate::compaction::in_flight::InFlight;
use crate::compaction::{Plan, slice};
use crate::version::Version;

/// A plan that may begin.
pub(crate) struct Accepted {
    pub(crate) closed: Closed,
    pub(crate) to: Slot,
    /// Its tables change their slot as they are.
    pub(crate) moves: bool,
}

pub(crate) fn accept(
    order: &UserOrder,
    version: &Version,
    in_flight: &InFlight,
    plan: &Plan,
) -> Option<Accepted> {
    let (closed, to) = match plan {
        Plan::Move { tables, to } => (closure::close(order, version, tables, *to)?, *to),
        Plan::Merge { inputs, to } => (closure::close(order, version, inputs, *to)?, *to),
        Plan::Slice { from, part } => {
            (slice::close(order, version, *from, part)?, slice::target(*from)?)
        }
    };
    if !in_flight.admits(order, &closed, to) {
        return None;
    }
    // A move of tables that would then overlap is a merge.
    let moves = matches!(plan, Plan::Move { .. }) && closed.may_move(order, to);
    Some(Accepted { closed, to, moves })
}
