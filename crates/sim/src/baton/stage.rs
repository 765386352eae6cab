//! The world of one schedule: Shuttle's threads, a clock that only schedules move, files in memory
//! with faults and power cuts, and buffers so small that a few dozen writes go through everything.

use std::hash::{Hash, Hasher};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use siltstone::{
    Background, BlockCache, Clock, Compression, Db, Env, Lane, Level0Limits, Metrics, Options,
    Result, Site, Threads,
};

use super::ledger::Ledger;
use super::scheduler::Trace;
use crate::clock::SimClock;
use crate::fs::watch::{WatchFs, Watcher};
use crate::hash::Mixer;
use crate::{Dice, FaultFs, PowerFs};

/// Where the database lies.
pub(super) const DIR: &str = "/db";

/// What all schedules of a campaign did together: a figure that stays at zero tells of a scenario
/// that tests less than it says.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) snapshots: AtomicU64,
    pub(super) reopened: AtomicU64,
    pub(super) power_cuts: AtomicU64,
    pub(super) faults: AtomicU64,
    pub(super) flushes: AtomicU64,
    pub(super) compactions: AtomicU64,
    pub(super) groups: AtomicU64,
    pub(super) stalls: AtomicU64,
}

/// Adds to a figure.
pub(super) fn count(figure: &AtomicU64, more: u64) {
    figure.fetch_add(more, Relaxed);
}

pub(super) struct Stage {
    pub(super) dice: Mutex<Dice>,
    pub(super) tally: Arc<Tally>,
    pub(super) faults: Arc<FaultFs>,
    pub(super) camera: Arc<Camera>,
    options: Options,
}

impl Stage {
    pub(super) fn new(trace: Arc<Trace>, tally: Arc<Tally>) -> Self {
        let dice = super::scheduler::dice_of(!trace.seed());
        let memory = Env::memory();
        let power = PowerFs::new(memory.file_system);
        let camera = Arc::new(Camera { power: power.clone(), trace, state: Mutex::default() });
        let faults = FaultFs::new(WatchFs::new(power, camera.clone()));
        let env = Env {
            file_system: faults.clone(),
            clock: Arc::new(StepClock::default()),
            threads: Arc::new(ShuttleThreads),
            seed: camera.trace.seed(),
        };
        Stage { dice: Mutex::new(dice), tally, faults, camera, options: tiny(env) }
    }

    /// A number below `sides`, from the schedule's seed.
    pub(super) fn roll(&self, sides: u64) -> u64 {
        self.dice.lock().unwrap().roll(sides)
    }

    pub(super) fn open(&self) -> Result<Db> {
        Db::open(DIR, self.options.clone())
    }

    pub(super) fn open_with(&self, change: impl FnOnce(&mut Options)) -> Result<Db> {
        let mut options = self.options.clone();
        change(&mut options);
        Db::open(DIR, options)
    }

    /// Opens a folder of this world's files with nothing in the background, for a look.
    pub(super) fn reopen(&self, dir: impl AsRef<Path>) -> Db {
        count(&self.tally.reopened, 1);
        let options = Options { background: Background::ByHand, ..self.options.clone() };
        Db::open(dir, options).unwrap()
    }

    /// Notes what a database that is about to close has been through.
    pub(super) fn note_metrics(&self, metrics: &Metrics) {
        count(&self.tally.flushes, metrics.flushes);
        count(&self.tally.compactions, metrics.merges + metrics.moves);
        let stalls = metrics.stall_memtables_full_micros + metrics.stall_l0_stop_micros;
        count(&self.tally.stalls, u64::from(stalls > 0));
    }
}

fn tiny(env: Env) -> Options {
    Options {
        create_if_missing: true,
        env,
        info_log: false,
        unclamped: true,
        write_buffer_size: 900,
        max_immutable_memtables: 1,
        max_file_size: 700,
        block_size: 256,
        block_cache: Some(Arc::new(BlockCache::new(2 << 10))),
        max_open_files: 13,
        compression: Compression::None,
        level0: Level0Limits { compact: 2, slow_down: 3, stop: 4 },
        level1_bytes: 1_200,
        compaction_lanes: 1,
        ..Options::default()
    }
}

/// Sees every call that changes the disk: takes it into the schedule's hash, and at a chosen one
/// keeps what a power cut would leave.
pub(super) struct Camera {
    power: Arc<PowerFs>,
    trace: Arc<Trace>,
    state: Mutex<Shot>,
}

#[derive(Default)]
struct Shot {
    /// Calls until the cut; 0 is none.
    left: u64,
    ledger: Option<Arc<Ledger>>,
    taken: Option<Picture>,
}

/// What a power cut leaves, and the ledger at its moment.
pub(super) struct Picture {
    pub(super) files: Vec<(String, Vec<u8>)>,
    pub(super) ledger: Ledger,
}

impl Camera {
    /// Cuts the power after so many more calls.
    pub(super) fn cut_after(&self, calls: u64, ledger: &Arc<Ledger>) {
        let mut shot = self.state.lock().unwrap();
        (shot.left, shot.ledger) = (calls, Some(Arc::clone(ledger)));
    }

    /// What the cut has left, or one of this moment.
    pub(super) fn take(&self) -> Picture {
        let mut shot = self.state.lock().unwrap();
        let ledger = shot.ledger.take().expect("a cut was asked for");
        shot.taken.take().unwrap_or_else(|| self.picture(&ledger))
    }

    fn picture(&self, ledger: &Ledger) -> Picture {
        Picture { files: self.power.after_power_cut(Path::new(DIR)), ledger: ledger.copy() }
    }
}

impl Watcher for Camera {
    fn done(&self, site: Site, path: &Path, data: &[u8]) {
        let mut hasher = Mixer::default();
        (site, path, data).hash(&mut hasher);
        self.trace.note(hasher.finish());
        let mut shot = self.state.lock().unwrap();
        if shot.left > 0 {
            shot.left -= 1;
            if let (0, Some(ledger)) = (shot.left, shot.ledger.clone()) {
                shot.taken = Some(self.picture(&ledger));
            }
        }
    }
}

/// A sleeper lets others go first.
#[derive(Default)]
struct StepClock(SimClock);

impl Clock for StepClock {
    fn now(&self) -> Duration {
        self.0.now()
    }

    fn wall_micros(&self) -> u64 {
        self.0.wall_micros()
    }

    fn sleep(&self, time: Duration) {
        self.0.sleep(time);
        shuttle::thread::yield_now();
    }
}

struct ShuttleThreads;

impl Threads for ShuttleThreads {
    fn spawn(&self, name: &str, work: Box<dyn FnOnce() + Send>) -> Result<Box<dyn Lane>> {
        let thread = shuttle::thread::Builder::new().name(name.to_owned()).spawn(work);
        Ok(Box::new(ShuttleLane(thread.unwrap())))
    }
}

struct ShuttleLane(shuttle::thread::JoinHandle<()>);

impl Lane for ShuttleLane {
    fn join(self: Box<Self>) {
        self.0.join().unwrap();
    }
}
