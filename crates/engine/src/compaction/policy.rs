//! The policy seam: who says what to compact next.

use std::sync::Arc;

use crate::base::comparator::UserOrder;
use crate::base::key::SeqNo;
use crate::base::slot::Slot;
use crate::compaction::Plan;
use crate::compaction::in_flight::InFlight;
use crate::format::filename::FileNumber;
use crate::version::Version;

/// What a policy sees when it picks.
pub(crate) struct PickView<'a> {
    pub(crate) version: &'a Arc<Version>,
    pub(crate) order: &'a UserOrder,
    pub(crate) in_flight: &'a InFlight,
    /// The oldest state that some read may ask for. What is newer stays as it is in any merge.
    pub(crate) oldest_read: SeqNo,
}

/// What a policy is told.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PolicyEvent {
    /// Reads went through this table for nothing as often as a compaction of it would cost.
    SeeksSpent { slot: Slot, table: FileNumber },
    /// Scans have paid as much for level 0's tables, of which this is the newest, as merging them would cost.
    ScansSpent { newest: FileNumber },
}

/// Chooses compactions. Called under the state lock: no I/O, no clock, no locks; a function of what
/// it sees and what it was told.
pub(crate) trait CompactionPolicy: Send {
    /// The most pressing plan that may start beside the running jobs.
    fn pick(&mut self, view: &PickView<'_>) -> Option<Plan>;

    fn observe(&mut self, _event: PolicyEvent) {}
}
