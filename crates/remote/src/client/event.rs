//! What happens to a client, and what it wants done about it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::backoff::BackoffLimits;
use crate::client::fallback::{HomeReason, Policy};
use crate::job::failure::JobFailure;
use crate::job::id::JobId;
use crate::job::key::KeyOrder;
use crate::message::{ClientMessage, ClientReply, Completion, Submission};

/// Settings of a client.
#[derive(Clone, Copy, Debug)]
pub struct ClientConfig {
    /// How long it waits before it connects again.
    pub reconnect: BackoffLimits,
    /// For waits between connections.
    pub seed: u64,
}

impl ClientConfig {
    /// The usual settings.
    pub fn new(seed: u64) -> Self {
        let reconnect =
            BackoffLimits { first: Duration::from_millis(200), most: Duration::from_secs(5) };
        ClientConfig { reconnect, seed }
    }
}

/// A job that somebody wants to be done.
#[derive(Clone)]
pub struct Request {
    /// The job.
    pub submission: Submission,
    /// When it is to run at home.
    pub policy: Policy,
    /// The database's order of keys, for checking the result.
    pub order: Arc<dyn KeyOrder + Send + Sync>,
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "job {} ({:?})", self.submission.spec.job, self.policy)
    }
}

/// How a request ends. Each ends once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done, and the result is one that the job can have. Before it is installed, sizes and checksums must be compared
    /// with the store's.
    Done(Completion),
    /// It failed in a way that running it at home would not mend, or must not.
    Failed(JobFailure),
    /// It is to be run at home.
    RunHere(HomeReason),
    /// It was cancelled, as asked.
    Cancelled,
}

/// What happens to a client.
#[derive(Clone, Debug)]
pub enum ClientEvent {
    /// Somebody wants a job done. A second request for one that is not over is ignored.
    Request(Request),
    /// Nobody wants it any more.
    Cancel(JobId),
    /// Whoever wanted it goes, and somebody may come back for it: the broker keeps it for as long as for a lost client.
    Leave(JobId),
    /// The broker has sent something.
    Replied(ClientReply),
    /// The session has ended, or could not be opened.
    Lost,
    /// Time has passed.
    Tick,
}

/// What a client wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientAction {
    /// Open a session.
    Connect,
    /// Send this in the open session.
    Send(ClientMessage),
    /// End the session, which counts as lost from now on.
    HangUp,
    /// Tell whoever asked that a worker has it.
    Begun(JobId),
    /// Tell whoever asked.
    Complete(JobId, Outcome),
}
