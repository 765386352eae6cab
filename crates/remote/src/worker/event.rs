//! What happens to a worker, what it wants done about it, and what can be set about it.

use std::time::Duration;

use crate::backoff::BackoffLimits;
use crate::job::failure::JobFailure;
use crate::job::name::WorkerId;
use crate::job::result::{Costs, JobResult, OutputTable};
use crate::message::{Assignment, AttemptId, Capabilities, Hello, WorkerMessage, WorkerOrder};

/// Settings of a worker.
#[derive(Clone, Debug)]
pub struct WorkerConfig {
    /// Its name. Certificates and logs speak of it.
    pub worker: WorkerId,
    /// Which start of it: by chance, so that two processes of one name are told apart. Where a copy of the process has the
    /// same, one of the two changes its own.
    pub incarnation: u64,
    /// Jobs that it runs at once.
    pub slots: u32,
    /// Memory that its jobs may use.
    pub memory_bytes: u64,
    /// Disk that its jobs may use.
    pub disk_bytes: u64,
    /// Where it is; empty if that does not matter.
    pub zone: String,
    /// What its runner knows.
    pub capabilities: Capabilities,
    /// How long it waits before it connects again.
    pub reconnect: BackoffLimits,
    /// Cut off from its broker for so long, it gives its jobs up.
    pub cut_off_max: Duration,
    /// Sent home, it lets its jobs run for so long.
    pub drain_patience: Duration,
    /// For waits between connections.
    pub seed: u64,
}

impl WorkerConfig {
    /// The usual settings.
    pub fn new(worker: WorkerId, slots: u32, capabilities: Capabilities, seed: u64) -> Self {
        WorkerConfig {
            worker,
            incarnation: seed,
            slots,
            memory_bytes: 0,
            disk_bytes: 0,
            zone: String::new(),
            capabilities,
            reconnect: BackoffLimits {
                first: Duration::from_millis(200),
                most: Duration::from_secs(5),
            },
            cut_off_max: Duration::from_secs(60),
            drain_patience: Duration::from_secs(20),
            seed,
        }
    }
}

/// What happens to a worker.
#[derive(Clone, Debug)]
pub enum WorkerEvent {
    /// The broker has sent something.
    Ordered(WorkerOrder),
    /// The session has ended, or could not be opened.
    Lost,
    /// The broker has ended the session: another process says that it is this one.
    Replaced,
    /// A runner has finished outputs.
    Advanced(AttemptId, Vec<OutputTable>, Costs),
    /// A runner has ended, stopped or not.
    Ended(AttemptId, Result<JobResult, JobFailure>),
    /// Somebody sends the worker home.
    Drain,
    /// Time has passed.
    Tick,
}

/// What a worker wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerAction {
    /// Open a session with this hello.
    Connect(Hello),
    /// Send this in the open session.
    Send(WorkerMessage),
    /// End the session, which counts as lost from now on.
    HangUp,
    /// Run this.
    Start(Assignment),
    /// Have the runner stop; it still tells that it has ended.
    Stop(AttemptId),
    /// The broker has heard of so many outputs of the job, those of earlier attempts counted: a next attempt goes on behind
    /// them.
    Heard(AttemptId, usize),
    /// Nothing is left to do: the process may end.
    Leave,
}
