//! The shared heart of an open database: what its handles, lanes and iterators all hold.
//!
//! **Concurrency.** Readers touch `view` only, and take no lock. Writers
//! pass through `queue`. Everything that changes the set of tables goes through `manifest`
//! (rank 20), then `state` (rank 30); see `ARCHITECTURE.md` for the table of locks.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::event::{Event, Listeners, RecoveryReport};
use crate::base::key::SeqNo;
use crate::base::metrics::Counters;
use crate::base::slot::Slot;
use crate::base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::base::sync::{Mutex, Signal};
use crate::compaction::executor::CompactionExecutor;
use crate::compaction::hot_map::HotMap;
use crate::db::background::bell::Bell;
use crate::db::background::entrance::Entrance;
use crate::db::background::quiet::Quiet;
use crate::db::background::readers::Readers;
use crate::db::background::seat::Seat;
use crate::db::loan::Loan;
use crate::db::options::{Background, Options};
use crate::db::read::kept::KeptScans;
use crate::db::read::log_bills::LogBills;
use crate::db::read::snapshot::SnapshotList;
use crate::db::settings::Settings;
use crate::db::state::{Floor, State};
use crate::db::super_version::{SuperVersion, View};
use crate::db::write::backlog::Backlog;
use crate::db::write::committer::Lead;
use crate::db::write::queue::WriteQueue;
use crate::db::write::spare::Spare;
use crate::db::write::turns::Turns;
use crate::db::write::wal::LogPlace;
use crate::env::Env;
use crate::env::fs::FileLock;
use crate::format::filename::FileNumber;
use crate::memtable::{Inserter, MemTable, Pool};
use crate::store::TableStore;
use crate::store::table_cache::TableCache;
use crate::version::graveyard::Graveyard;
use crate::version::manifest_log::ManifestLog;

pub(crate) struct Core {
    pub(crate) dir: PathBuf,
    pub(crate) env: Env,
    pub(crate) options: Options,
    pub(crate) settings: Settings,
    pub(crate) listeners: Listeners,
    pub(crate) counters: Counters,
    pub(crate) recovery: RecoveryReport,

    pub(crate) view: View<SuperVersion>,
    pub(crate) snapshots: SnapshotList,
    pub(crate) kept_scans: KeptScans,

    /// `None` when open read-only.
    pub(crate) queue: Option<WriteQueue<Lead>>,
    pub(crate) turns: Turns,
    pub(crate) spare: Spare,
    pub(crate) manifest: Mutex<Option<ManifestLog>>,
    pub(crate) state: Mutex<State>,
    /// Tables of level 0, for the leader, who would pin a version for each write to count them.
    pub(crate) level0_tables: AtomicU64,
    /// Of the blocks of its newest table so many were in use in the block cache when the last flush looked, in percent.
    pub(crate) level0_use: AtomicU64,
    pub(crate) backlog: Backlog,
    /// How often keys were written lately, if the policy asks.
    pub(crate) hot_map: Option<Mutex<HotMap>>,
    /// What reads have paid for logs, if the policy merges for their sake.
    pub(crate) log_bills: Option<LogBills>,
    /// Whether the manifest has how hot tables are, which LevelDB does not read.
    pub(crate) tells_hotness: AtomicBool,
    /// Merges that run.
    pub(crate) merges: AtomicU64,
    pub(crate) seat: Seat,
    pub(crate) readers: Readers,
    pub(crate) quiet: Quiet,
    /// Rung for lanes: there may be work.
    pub(crate) work: Bell,
    /// Rung for writers and waiting callers: background work changed something.
    pub(crate) changed: Signal,
    /// Set once writing has ended or the database closes; spares writers the state lock.
    pub(crate) failed: AtomicBool,
    pub(crate) cancelled: AtomicBool,

    pub(crate) next_file: AtomicU64,
    /// What the durable manifest says recovery needs. Written under the manifest lock; each half is
    /// read alone elsewhere.
    pub(crate) floor_wal: AtomicU64,
    pub(crate) floor_seqno: AtomicU64,
    pub(crate) seed: AtomicU64,
    /// Of memtables that are gone.
    pub(crate) memory: Arc<Pool>,
    pub(crate) loan: Loan,
    pub(crate) graveyard: Arc<Graveyard>,
    pub(crate) store: Arc<dyn TableStore>,
    pub(crate) tables: Arc<TableCache>,
    pub(crate) executor: Box<dyn CompactionExecutor>,
    /// By which services tell how jobs have ended.
    pub(crate) entrance: Arc<Entrance>,
    /// Held until the last handle, iterator and snapshot is gone. `None` when open read-only.
    pub(crate) _lock: Option<Box<dyn FileLock>>,
}

impl Core {
    pub(crate) fn share(self) -> Arc<Self> {
        let core = Arc::new(self);
        core.entrance.open(&core);
        core
    }

    #[inline]
    pub(crate) fn visible_seqno(&self) -> SeqNo {
        self.view.visible()
    }

    /// Makes the state's memtables and version what new readers pin.
    pub(crate) fn publish(&self, state: &State) {
        self.view.publish(state.super_version());
        self.kept_scans.clear();
        let level0 = state.version.slot(Slot::L0).len() as u64;
        self.level0_tables.store(level0, Ordering::Relaxed);
        let waiting = state.immutables.len();
        self.backlog.set_waiting(waiting, self.env.clock.now());
        self.loan.need_for(waiting, self.settings.write_buffer_bytes);
    }

    pub(crate) fn new_file_number(&self) -> FileNumber {
        // `Relaxed`: numbers need be unique, no more. The manifest records them under its lock.
        FileNumber(self.next_file.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn next_file_number(&self) -> FileNumber {
        FileNumber(self.next_file.load(Ordering::Relaxed))
    }

    pub(crate) fn log_place(&self) -> LogPlace<'_> {
        LogPlace { fs: &self.env.file_system, dir: &self.dir, maps: self.options.map_logs }
    }

    pub(crate) fn floor(&self) -> Floor {
        Floor {
            wal: FileNumber(self.floor_wal.load(Ordering::Relaxed)),
            last_seqno: SeqNo(self.floor_seqno.load(Ordering::Relaxed)),
        }
    }

    pub(crate) fn set_floor(&self, floor: Floor) {
        self.floor_wal.store(floor.wal.0, Ordering::Relaxed);
        self.floor_seqno.store(floor.last_seqno.0, Ordering::Relaxed);
    }

    /// An empty memtable, for writes and reads.
    pub(crate) fn new_memtable(&self) -> (Arc<MemTable>, Inserter) {
        let order = self.settings.order.user.clone();
        let bytes = self.settings.write_buffer_bytes;
        MemTable::in_pool(&self.memory, order, bytes, self.next_seed())
    }

    /// A seed for the next memtable's tower heights, so that a run is a function of `Env::seed`.
    pub(crate) fn next_seed(&self) -> u64 {
        self.seed.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed)
    }

    pub(crate) fn runs_by_hand(&self) -> bool {
        self.options.background == Background::ByHand
    }

    /// Called on lanes, again and again: keeps them off the processor on which writing goes on. Those who look often
    /// borrow it while the writer sleeps.
    pub(crate) fn make_way(&self, borrows: bool) {
        let place = self.env.threads.place();
        let Some(place) = place.filter(|_| self.options.lanes_make_way) else { return };
        let next = self.seat.next_place(place, self.env.clock.now(), borrows);
        if next != place {
            self.env.threads.settle(next);
        }
    }

    pub(crate) fn has_failed(&self) -> bool {
        // Pairs with the store under the state lock, which the caller takes next.
        self.failed.load(Ordering::Acquire)
    }

    /// Ends writing for good, unless it has ended before. Both marks change under the lock: who saw the
    /// one, and was told that writing has ended, must not find that it goes on.
    pub(crate) fn fail(&self, error: Error) {
        let mut state = self.state.lock();
        state.fail(error);
        self.failed.store(true, Ordering::Release);
        drop(state);
        self.changed.notify_all();
    }

    /// Does `work`. A panic in it (a comparator's, a file system's) ends writing, so that nobody waits for what
    /// will not come; the panic hook has told of it.
    pub(crate) fn watch<R>(&self, work: impl FnOnce() -> R) -> std::thread::Result<R> {
        let done = catch_unwind(AssertUnwindSafe(work));
        if done.is_err() {
            self.fail(panicked());
        }
        done
    }

    /// Like [`watch`](Core::watch); a panic is one more way to fail.
    pub(crate) fn watch_job<R>(&self, work: impl FnOnce() -> Result<R>) -> Result<R> {
        self.watch(work).unwrap_or_else(|_| Err(panicked()))
    }

    pub(crate) fn tell_background_error(&self, error: &Error, retries: bool) {
        self.counters.background_errors.add(1);
        self.listeners.tell(&Event::BackgroundError { error: error.clone(), retries });
    }

    /// Hands the logs below `floor` to housekeeping.
    pub(crate) fn retire_wals(&self, state: &mut State, floor: FileNumber) {
        for name in state.take_wals_below(floor) {
            self.graveyard.bury(name);
        }
    }
}

pub(crate) fn panicked() -> Error {
    Error::new(ErrorKind::ReadOnly, "a panic in the engine or in a callback; reopen")
}
