//! Floor 1: the only door to the world. Files, clock, threads and randomness are reached through
//! an [`Env`], so that all of them can be simulated, crashed and replayed by seed.

pub(crate) mod clock;
pub(crate) mod fs;
pub(crate) mod memory;
pub(crate) mod posix;
pub(crate) mod site;
pub(crate) mod threads;

use std::fmt;
use std::sync::Arc;

use clock::Clock;
use fs::FileSystem;
use threads::Threads;

/// The world a database lives in: a bundle handed down at open. Cheap to clone.
#[derive(Clone)]
pub struct Env {
    /// Where files are.
    pub file_system: Arc<dyn FileSystem>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Who runs background work.
    pub threads: Arc<dyn Threads>,
    /// Where the engine's own random choices start (the heights of skip list nodes).
    pub seed: u64,
}

impl Env {
    /// The operating system's files, clock and threads.
    pub fn posix() -> Self {
        Env {
            file_system: Arc::new(posix::PosixFileSystem::new()),
            clock: Arc::new(clock::SystemClock::new()),
            threads: Arc::new(threads::SystemThreads),
            seed: posix::random_seed(),
        }
    }

    /// Files in memory, gone with the last clone of this value; the system's clock and threads.
    /// Locks work between databases that share the value.
    pub fn memory() -> Self {
        Env {
            file_system: Arc::new(memory::MemoryFileSystem::new()),
            clock: Arc::new(clock::SystemClock::new()),
            threads: Arc::new(threads::SystemThreads),
            seed: 0,
        }
    }
}

impl Default for Env {
    fn default() -> Self {
        Env::posix()
    }
}

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Env").field("seed", &self.seed).finish_non_exhaustive()
    }
}
