//! The policy seam: who says what to compact next.

use std::sync::Arc;

use crate::base::comparator::UserOrder;
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
    /// True while a snapshot may keep deletions from being dropped.
    pub(crate) has_snapshots: bool,
}

/// What a policy is told.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PolicyEvent {
    /// Reads went through this table for nothing as often as a compaction of it would cost.
    SeeksSpent { slot: Slot, table: FileNumber },
}

/// Chooses compactions. Called under the state lock: no I/O, no clock, no locks; a function of what
/// it sees and what it was told.
pub(crate) trait CompactionPolicy: Send {
    /// A name for people to read.
    fn name(&self) -> &str;

    /// The most pressing plan that may start beside the running jobs.
    fn pick(&mut self, view: &PickView<'_>) -> Option<Plan>;

    /// Bytes that would have to be merged to bring every level to its limit.
    fn debt_bytes(&self, version: &Version) -> u64;

    fn observe(&mut self, _event: PolicyEvent) {}
}
