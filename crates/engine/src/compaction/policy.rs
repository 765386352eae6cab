//! The policy seam: who says what to compact next.

use std::sync::Arc;

use crate::base::comparator::UserOrder;
use crate::base::key::SeqNo;
use crate::base::slot::{Level, Slot};
use crate::compaction::Plan;
use crate::compaction::in_flight::InFlight;
use crate::compaction::l2sm::L2sm;
use crate::compaction::leveled::{Leveled, LeveledSettings, Picking};
use crate::compaction::sliced::Sliced;
use crate::format::filename::FileNumber;
use crate::version::Version;

/// How tables are merged, and where they lie until then. It may be another one each time a database is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compaction {
    /// Each level is ten times as large as the one before it, and what it has too much goes down where that rewrites
    /// least of the next one.
    #[default]
    Leveled,
    /// The same, table by table in turn, as LevelDB does. For comparison.
    Cursor,
    /// What a level has too much goes into an *SST log* beside it, which copies nothing, and is merged into the next level
    /// later and in larger numbers. Random updates write about half as much; reads have more tables to look into, and
    /// the logs take a tenth more space. **LevelDB does not open such a database**, until its logs were drained: see
    /// [`Db::drain_logs`](crate::Db::drain_logs).
    Sliced,
    /// The same with the choices of L2SM ("Less is More", ICDE 2021): into the log goes what is written often or spread
    /// widely, and what has become the opposite leaves it. To know what is written often takes 4 MB of memory, 15 at most.
    /// For comparison: [`Sliced`](Self::Sliced) writes less.
    L2sm,
}

impl Compaction {
    /// All of them.
    pub const ALL: [Compaction; 4] =
        [Compaction::Leveled, Compaction::Cursor, Compaction::Sliced, Compaction::L2sm];

    /// As options and command lines call it.
    pub fn name(self) -> &'static str {
        match self {
            Compaction::Leveled => "leveled",
            Compaction::Cursor => "cursor",
            Compaction::Sliced => "sliced",
            Compaction::L2sm => "l2sm",
        }
    }

    /// The one of that name.
    pub fn of_name(name: &str) -> Option<Self> {
        Compaction::ALL.into_iter().find(|compaction| compaction.name() == name)
    }

    pub(crate) fn policy(self, settings: LeveledSettings) -> Box<dyn CompactionPolicy> {
        match self {
            Compaction::Leveled => Box::new(Leveled::new(settings)),
            Compaction::Cursor => Box::new(Leveled::picking(settings, Picking::Cursor)),
            Compaction::Sliced => Box::new(Sliced::new(settings)),
            Compaction::L2sm => Box::new(L2sm::new(settings)),
        }
    }
}

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
    /// Reads have paid as much for the log beside this level as it would cost to merge a slice of it.
    LogPaid { level: Level },
}

/// Chooses compactions. Called under the state lock: no I/O, no clock, no locks; a function of what
/// it sees and what it was told.
pub(crate) trait CompactionPolicy: Send {
    /// The most pressing plan that may start beside the running jobs.
    fn pick(&mut self, view: &PickView<'_>) -> Option<Plan>;

    fn observe(&mut self, _event: PolicyEvent) {}
}
