//! What brokers, workers and clients say to each other, as plain data. The state machines speak in these; on the wire they
//! are the messages of `proto/siltstone.proto`.

use std::sync::Arc;
use std::time::Duration;

use crate::job::failure::JobFailure;
use crate::job::id::{Attempt, JobId};
use crate::job::name::WorkerId;
use crate::job::result::{JobResult, OutputTable, Progress};
use crate::job::spec::{Compression, JobSpec};
use crate::security::secret::Secret;

/// The version of the protocol that this crate speaks. It grows when a message changes its meaning; new fields that may
/// be ignored do not count.
pub const PROTOCOL: u32 = 1;

/// One attempt at one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId {
    /// The job.
    pub job: JobId,
    /// The attempt.
    pub attempt: Attempt,
}

/// How soon a job should run. What comes first here counts first; among equals the older one goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority {
    /// How near level 0 is to stopping writers: 0 where it is not meant, 1,000 where they stand.
    pub level0_pressure: u32,
    /// The level's score in thousandths.
    pub score: u32,
}

/// What a worker is and can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Its name.
    pub worker: WorkerId,
    /// Which start of it, by chance: two processes of one name are two workers.
    pub incarnation: u64,
    /// The protocol's version that it speaks.
    pub protocol: u32,
    /// Jobs that it runs at once.
    pub slots: u32,
    /// Memory that its jobs may use.
    pub memory_bytes: u64,
    /// Disk that its jobs may use.
    pub disk_bytes: u64,
    /// Where it is; empty if that does not matter.
    pub zone: String,
    /// What it knows.
    pub capabilities: Capabilities,
    /// What it holds already: after a lost connection, or a broker that has forgotten.
    pub held: Vec<Held>,
}

/// What a worker knows to read and to write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Comparators by name.
    pub comparators: Vec<String>,
    /// Filters by name.
    pub filters: Vec<String>,
    /// Whether it has Zstandard. Everybody has Snappy.
    pub zstd: bool,
    /// Versions of the table format.
    pub formats: Vec<u32>,
    /// Names of what else a spec may ask for.
    pub features: Vec<String>,
}

impl Capabilities {
    /// Whether a worker that knows this can run such a job.
    pub fn suffice_for(&self, spec: &JobSpec) -> bool {
        let layout = &spec.layout;
        self.comparators.contains(&layout.comparator)
            && layout.filter.as_ref().is_none_or(|(name, _)| self.filters.contains(name))
            && (self.zstd || !matches!(layout.compression, Compression::Zstd(_)))
            && self.formats.contains(&layout.format)
            && spec.features.iter().all(|feature| self.features.contains(feature))
    }
}

/// An attempt that a worker still holds, and what it has finished of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Which one.
    pub id: AttemptId,
    /// Outputs so far, those of earlier attempts first.
    pub outputs: Vec<OutputTable>,
    /// How many of them are of earlier attempts.
    pub resumed: usize,
}

/// From a worker to its broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerMessage {
    /// Alive, and still at these: their leases are renewed.
    Heartbeat(Vec<AttemptId>),
    /// Outputs were finished.
    Progress(AttemptId, Progress),
    /// All is finished. Told again until it is settled.
    Done(AttemptId, Finished),
    /// The attempt has ended without a result, and its slot is free.
    Failed(AttemptId, JobFailure),
    /// No more jobs, please.
    Leaving,
}

/// A result, and how much of it earlier attempts made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// So many outputs at its start are of earlier attempts, as their progress told.
    pub resumed: usize,
    /// The whole result.
    pub result: JobResult,
}

/// From a broker to a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerOrder {
    /// The answer to a hello: how often to send heartbeats.
    Welcome {
        /// A lease lasts so long after it was renewed.
        lease: Duration,
        /// Time between heartbeats.
        heartbeat: Duration,
    },
    /// The answer to a heartbeat.
    Pulse,
    /// Run this.
    Assign(Assignment),
    /// Stop this: who submitted it does not want it any more.
    Cancel(AttemptId),
    /// Stop this: it is somebody else's by now. What it made is garbage.
    LeaseLost(AttemptId),
    /// The result has arrived; forget it.
    Settled(AttemptId),
    /// Take no more jobs, and leave when the last one has ended.
    Drain,
}

/// A job for a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Which attempt it is.
    pub attempt: Attempt,
    /// What to do.
    pub spec: Arc<JobSpec>,
    /// How soon.
    pub priority: Priority,
    /// What earlier attempts have finished: go on behind it.
    pub resumed: Vec<OutputTable>,
    /// Credentials for the inputs and the place for outputs, as the runner understands them.
    pub storage: Option<Secret>,
}

impl Assignment {
    /// The attempt's full name.
    pub fn id(&self) -> AttemptId {
        AttemptId { job: self.spec.job, attempt: self.attempt }
    }
}

/// A job for a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    /// What to do.
    pub spec: Arc<JobSpec>,
    /// How soon.
    pub priority: Priority,
    /// After so many failed attempts the job has failed; 0 for never.
    pub attempts_max: u32,
    /// Credentials for workers, handed on unread. Short-lived ones, for these inputs and this place only.
    pub storage: Option<Secret>,
    /// A worker has begun with it, as far as anybody knows: a broker that has just started, and knows nothing yet, gives that
    /// worker two heartbeats' time to come back, before it asks another one.
    pub begun: bool,
}

/// From a client to its broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientMessage {
    /// Do this, if it is not being done already.
    Submit(Submission),
    /// Not wanted any more.
    Cancel(JobId),
    /// The outcome has arrived; forget the job.
    Collected(JobId),
    /// The result is not what such a job can return: try again.
    Reject(AttemptId),
    /// Alive.
    Heartbeat,
}

/// From a broker to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientReply {
    /// The answer to opening: how often to send heartbeats.
    Welcome {
        /// Time between heartbeats.
        heartbeat: Duration,
    },
    /// The answer to a heartbeat.
    Pulse,
    /// The job waits.
    Queued(JobId),
    /// A worker has it.
    Started(AttemptId, WorkerId),
    /// An attempt has failed, and there will be another one.
    Retrying(AttemptId, JobFailure),
    /// Finished. Told again at each submission, until it is collected.
    Done(Completion),
    /// It will not be done. Told again likewise.
    Failed(JobId, JobFailure),
    /// The broker has not taken it at all.
    Refused(JobId, Refused),
}

/// A finished job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The attempt that finished it.
    pub id: AttemptId,
    /// The result.
    pub finished: Finished,
}

/// Why a broker does not take a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refused {
    /// Too many jobs of the database wait. Try again later.
    Full,
    /// The client may not submit for this database.
    Denied,
    /// Another job has this id already.
    Taken,
    /// The spec makes no sense.
    BadSpec,
}
