//! What measurements stand on: a store in memory, slow by a profile, a bucket on it for each machine, and databases in each
//! mode. Programs that measure other engines stage theirs here, too, so that all meet the same store. Where somebody names a
//! bucket of a server, a stage may lie there instead.

mod machine;
mod server;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use object_store::ObjectStore;
use object_store::memory::InMemory;
use siltstone::{Env, Error, ErrorKind, EventListener, Result, TableStore};
use siltstone_cloud::{Announce, Home, LogArchive, Prepare, Root};
use siltstone_s3::{Faults, Location, Options as BucketOptions, Profile, S3Bucket, SlowStore};

pub(crate) use machine::{CACHE_BYTES, Near, engine};
pub use machine::{Machine, Opened};
use server::Server;

/// What is measured, and on what.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How slow the store is.
    pub profile: Profile,
    /// Entries of a database.
    pub records: u64,
    /// Bytes of a value, none of which can be compressed.
    pub value_bytes: usize,
    /// Runs, of which the middle one counts.
    pub runs: u64,
    /// Where folders of databases are made, and removed.
    pub folder: PathBuf,
    /// Where random numbers begin.
    pub seed: u64,
}

impl Plan {
    /// Bytes of all entries.
    pub(crate) fn bytes(&self) -> u64 {
        self.records * self.entry_bytes()
    }

    pub(crate) fn entry_bytes(&self) -> u64 {
        (key(0).len() + self.value_bytes) as u64
    }
}

/// Where a database has what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// All in a folder.
    Local,
    /// Tables in the bucket, the log in the folder.
    Tiered,
    /// The same, and the log follows within 0.1 s.
    Archive,
    /// Every write is in the bucket before it is acknowledged.
    Remote,
}

impl Mode {
    /// All of them.
    pub const ALL: [Mode; 4] = [Mode::Local, Mode::Tiered, Mode::Archive, Mode::Remote];

    /// As tables call it.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Local => "local",
            Mode::Tiered => "tiered",
            Mode::Archive => "tiered + archive",
            Mode::Remote => "remote",
        }
    }

    fn log(self) -> LogArchive {
        match self {
            Mode::Local | Mode::Tiered => LogArchive::Off,
            Mode::Archive => LogArchive::Every(Duration::from_millis(100)),
            Mode::Remote => LogArchive::BeforeAcknowledging { patience: Duration::from_secs(60) },
        }
    }
}

/// How large what a database is made of gets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) write_buffer: u64,
    pub(crate) table: u64,
    pub(crate) level1: u64,
    /// Of each deeper level to the one before.
    pub(crate) growth: u64,
}

impl Sizes {
    /// So that there is as much to flush and to merge for few entries as for many: the sizes of a bucket, in proportion, for
    /// a database that flushes so many times while it is filled.
    pub(crate) fn of(plan: &Plan, flushes: u64) -> Self {
        let write_buffer = (plan.bytes() / flushes).clamp(16 << 10, 16 << 20);
        Sizes { write_buffer, table: write_buffer * 2, level1: write_buffer * 4, growth: 10 }
    }
}

/// What one measurement has a database do, and others do not.
#[derive(Clone, Default)]
pub(crate) struct Extras {
    /// Other sizes than those that suit a bucket.
    pub(crate) sizes: Option<Sizes>,
    pub(crate) listener: Option<Arc<dyn EventListener>>,
    /// For databases in a bucket.
    pub(crate) prepare: Option<Prepare>,
    /// Likewise.
    pub(crate) announce: Option<Announce>,
    /// Another place for the tables of a database in a folder.
    pub(crate) table_store: Option<Arc<dyn TableStore>>,
}

/// A store that machines share.
pub struct Stage {
    store: Store,
    plan: Plan,
    faults: Faults,
}

enum Store {
    Memory(Arc<InMemory>),
    /// As slow as it is: it knows no profile and no faults, and nobody has a copy of it.
    Server(Server),
}

impl Stage {
    /// An empty store.
    pub fn new(plan: &Plan) -> Self {
        let store = Store::Memory(Arc::new(InMemory::new()));
        Stage { store, plan: plan.clone(), faults: Faults::default() }
    }

    /// An empty place of its own in a server's bucket, which goes with it.
    pub(crate) fn on(plan: &Plan, location: &Location) -> Self {
        let store = Store::Server(Server::new(location));
        Stage { store, plan: plan.clone(), faults: Faults::default() }
    }

    pub(crate) fn with_faults(self, faults: Faults) -> Self {
        Stage { faults, ..self }
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Another store, with what this one holds now: what is left when a machine is lost at this moment.
    pub fn as_of_now(&self) -> Self {
        let (plan, faults) = (self.plan.clone(), self.faults.clone());
        Stage { store: Store::Memory(Arc::new(self.memory().fork())), plan, faults }
    }

    /// The same store, with other random numbers for each run.
    pub(crate) fn seeded_by(mut self, run: u64) -> Self {
        self.plan.seed += run;
        self
    }

    fn memory(&self) -> &Arc<InMemory> {
        match &self.store {
            Store::Memory(store) => store,
            Store::Server(_) => panic!("only a store in memory is copied, or slow by a profile"),
        }
    }

    /// A way to the store, as slow as planned, its times drawn from the beginning. For other engines as for ours.
    pub fn way(&self) -> SlowStore {
        let Plan { profile, seed, .. } = self.plan;
        SlowStore::new(self.memory().clone(), profile, self.faults.clone(), seed)
    }

    /// A new machine, with an empty folder and counts of its own.
    pub(crate) fn machine(&self, name: &str) -> Result<Machine> {
        self.machine_with(BucketOptions::default(), name)
    }

    /// The same, with another way to ask its bucket.
    pub(crate) fn machine_with(&self, options: BucketOptions, name: &str) -> Result<Machine> {
        match &self.store {
            Store::Memory(_) => self.machine_over(Arc::new(self.way()), options, name),
            Store::Server(server) => {
                self.machine_at(server.bucket(options)?, (server.root(), name))
            }
        }
    }

    /// A new machine, with an empty folder and a way to the store that somebody wrapped.
    ///
    /// # Errors
    ///
    /// If its bucket cannot be made.
    pub fn machine_by(&self, way: Arc<dyn ObjectStore>, name: &str) -> Result<Machine> {
        self.machine_over(way, BucketOptions::default(), name)
    }

    fn machine_over(
        &self,
        way: Arc<dyn ObjectStore>,
        options: BucketOptions,
        name: &str,
    ) -> Result<Machine> {
        let options = BucketOptions { seed: Some(self.plan.seed), ..options };
        let bucket = S3Bucket::over(way, "", options).map_err(wrong)?;
        self.machine_at(bucket, ("db", name))
    }

    fn machine_at(&self, bucket: S3Bucket, (root, name): (&str, &str)) -> Result<Machine> {
        let bucket = Arc::new(bucket);
        let root = Root::new(root).map_err(wrong)?;
        let home = Home::new(bucket.clone(), root, Env::posix().clock);
        let folder =
            self.plan.folder.join(format!("siltstone-lab-cloud-{name}-{}", std::process::id()));
        remove(&folder);
        Ok(Machine::new(bucket, home, folder))
    }
}

fn remove(folder: &PathBuf) {
    // It may not be there; what cannot be removed is told by whoever makes it next.
    let _ = fs::remove_dir_all(folder);
}

pub(crate) fn wrong(error: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidArgument, error.to_string())
}

/// Random numbers by seed (SplitMix64).
pub struct Dice(pub u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// One of `bound` numbers from 0 on.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// Bytes that cannot be compressed.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let random = self.next().to_le_bytes();
            chunk.copy_from_slice(&random[..chunk.len()]);
        }
    }
}

/// As LevelDB's benchmark has them: 16 digits.
pub fn key(number: u64) -> String {
    format!("{number:016}")
}

/// For tests: little, on a store that takes no time, in a folder that is removed with it.
#[cfg(test)]
pub(crate) struct Small(Plan);

#[cfg(test)]
pub(crate) fn small(name: &str) -> Small {
    let folder = format!("siltstone-cloud-lab-test-{name}-{}", std::process::id());
    let folder = std::env::temp_dir().join(folder);
    fs::create_dir_all(&folder).unwrap();
    let profile = Profile::ZERO;
    Small(Plan { profile, records: 4_000, value_bytes: 100, runs: 1, folder, seed: 42 })
}

#[cfg(test)]
impl std::ops::Deref for Small {
    type Target = Plan;

    fn deref(&self) -> &Plan {
        &self.0
    }
}

#[cfg(test)]
impl Drop for Small {
    fn drop(&mut self) {
        remove(&self.0.folder);
    }
}
