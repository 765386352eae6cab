//! The benchmarks themselves: what one thread does, for each [`Task`]. They allocate before their
//! loops and not in them.

mod compute;
pub(crate) mod pace;
mod read;
mod write;
pub(crate) mod ycsb;

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::benchmark::{Plan, Task};
use crate::engine::{Engine, Result};
use crate::flags::Flags;
use crate::keys::KeyBuffer;
use crate::random::{Lehmer, ValuePool};
use crate::report::stats::Stats;
use pace::Pace;
use ycsb::Records;

/// What all threads of a benchmark share.
pub(crate) struct Job<'a, D> {
    pub(crate) db: &'a D,
    pub(crate) plan: &'a Plan,
    pub(crate) flags: &'a Flags,
    pub(crate) pool: &'a ValuePool,
    /// For the workloads of YCSB.
    pub(crate) records: Option<Records>,
    /// How many threads there are, and how many have finished.
    pub(crate) threads: usize,
    pub(crate) finished: AtomicUsize,
}

impl<D> Job<'_, D> {
    /// Keys are drawn from the numbers below this.
    fn range(&self) -> u32 {
        u32::try_from(self.flags.num).unwrap_or(0)
    }

    fn key_buffer(&self) -> KeyBuffer {
        KeyBuffer::new(self.flags.key_prefix)
    }
}

/// What one thread has for itself.
pub(crate) struct Worker {
    /// Counted from 0.
    pub(crate) index: usize,
    pub(crate) random: Lehmer,
    pub(crate) stats: Stats,
    /// The timetable, if there is one.
    pub(crate) pace: Option<Pace>,
}

impl Worker {
    /// An operation on the database begins: now, or when the timetable says.
    #[inline]
    fn begin(&mut self) {
        self.begin_batch(1);
    }

    /// Operations that are done together begin.
    #[inline]
    fn begin_batch(&mut self, operations: u32) {
        if let Some(pace) = &mut self.pace {
            self.stats.begin_at(pace.wait(operations));
        }
    }
}

/// Does one thread's part.
pub(crate) fn perform<D: Engine>(job: &Job<'_, D>, worker: &mut Worker) -> Result<()> {
    let done = match job.plan.task {
        Task::Open => unreachable!("the session opens databases itself"),
        Task::Fill(order) => write::fill(job, worker, order),
        Task::Delete(order) => write::delete(job, worker, order),
        Task::ReadSequential => read::sequential(job, worker),
        Task::ReadReverse => read::reverse(job, worker),
        Task::ReadRandom => read::random(job, worker),
        Task::ReadMissing => read::missing(job, worker),
        Task::ReadHot => read::hot(job, worker),
        Task::SeekRandom => read::seek_random(job, worker),
        Task::SeekOrdered => read::seek_ordered(job, worker),
        Task::ReadWhileWriting if worker.index == 0 => write::until_others_finish(job, worker),
        Task::ReadWhileWriting => read::random(job, worker),
        Task::YcsbLoad => ycsb::load(job, worker),
        Task::Ycsb(mix) => ycsb::mixed(job, worker, mix),
        Task::Compact => job.db.compact(),
        Task::Checksum => compute::checksum(worker),
        Task::Compress(codec) => compute::compress(job, worker, codec),
        Task::Uncompress(codec) => compute::uncompress(job, worker, codec),
    };
    worker.stats.stop();
    job.finished.fetch_add(1, Relaxed);
    done
}
