//! Where a database's tables lie: asked of its store, which alone knows.

use std::time::Duration;

use bytes::Bytes;
use siltstone::Result;
use siltstone_cloud::JobId;
use siltstone_remote::{ObjectName, OutputTable};

/// A table's object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectRef {
    /// Its name in the bucket.
    pub name: ObjectName,
    /// All its bytes.
    pub bytes: u64,
    /// CRC-32C of all its bytes, if it is known.
    pub crc32c: Option<u32>,
}

/// What a fleet must know of a store, and what the store must know of a fleet. Calls come from lanes, under no lock, but for
/// [`job_ends`](Self::job_ends).
pub trait Tables: Send + Sync {
    /// The object of a table; `None` while it is not in the bucket.
    fn object_of(&self, number: u64) -> Option<ObjectRef>;

    /// Calls `then` once all these tables are in the bucket, or that has taken `within`, or nothing more comes: at once, or
    /// later on any thread. A job of which a table is not there even then runs at home.
    fn when_there(&self, _numbers: Vec<u64>, _within: Duration, then: Box<dyn FnOnce() + Send>) {
        then();
    }

    /// A table of this number is, from now on, what a worker has made. Its size is the bucket's, and its checksum as
    /// far as that was asked for. `end` is what the bucket has at its end, so that it can be opened without another request. If the number is
    /// [removed](siltstone::TableStore::remove), so may the object be.
    fn adopt(&self, number: u64, output: &OutputTable, end: &Bytes) -> Result<()>;

    /// How much of its end will be read to open a table of so many bytes.
    fn end_bytes(&self, _bytes: u64) -> u64 {
        0
    }

    /// A job of this number is about to be given away: until it ends, the database may name tables that workers make of
    /// it, and a collector must leave them alone. Returns the number that it goes by from now on: another one, if collectors have been
    /// told already that nothing of this one will come.
    fn job_begins(&self, number: u64) -> u64 {
        number
    }

    /// What whoever opens the database next must know of a job of this number, to go on with it. It need not be durable when
    /// this returns, nor ever: without it, work is lost. Gone when the job ends, but not when the database closes before.
    /// False by who keeps none: then closing cancels the job. Must not block.
    fn keep_job(&self, _number: u64, _record: Bytes) -> bool {
        false
    }

    /// Asked when the database closes: whether what was kept of a job will be found by whoever opens it next, as far as that can be
    /// told now. Must not block.
    fn is_kept(&self, _job: JobId) -> bool {
        true
    }

    /// Jobs of earlier openings that have not ended, as far as anybody knows, and what was kept of each. Asked once, before
    /// the database opens; each of them [ends](Self::job_ends). May block.
    fn left_jobs(&self) -> Vec<(JobId, Bytes)> {
        Vec::new()
    }

    /// Whether a worker has made a table of one of them, as far as anybody knows. May block.
    fn has_begun(&self, _job: JobId) -> bool {
        true
    }

    /// What comes of this job was installed, or never will be. May be called on a thread of the network's: must not
    /// block.
    fn job_ends(&self, _job: JobId) {}
}
