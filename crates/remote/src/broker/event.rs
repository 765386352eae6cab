//! What happens to a broker, and what it wants done about it.

use std::fmt;

use crate::job::id::JobId;
use crate::job::name::WorkerId;
use crate::message::{ClientMessage, ClientReply, Hello, WorkerMessage, WorkerOrder};
use crate::security::authority::Scope;

/// A connection, by a number that is given once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// What happens to a broker.
#[derive(Clone, Debug)]
pub enum BrokerEvent {
    /// A worker has opened a session, and may run jobs of these databases.
    WorkerOpened(SessionId, Hello, Scope),
    /// It has sent something.
    WorkerSaid(SessionId, WorkerMessage),
    /// A client has opened a session, and may submit for these databases.
    ClientOpened(SessionId, Scope),
    /// It has sent something.
    ClientSaid(SessionId, ClientMessage),
    /// A session has ended, whoever ended it.
    Closed(SessionId),
    /// Somebody who may do so ends a job.
    Cancel(JobId),
    /// Somebody who may do so sends a worker home.
    Drain(WorkerId),
    /// Time has passed: [`next_wake`](crate::machine::Broker::next_wake) has come.
    Tick,
}

/// What a broker wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BrokerAction {
    /// Send this to a worker.
    Order(SessionId, WorkerOrder),
    /// Send this to a client.
    Reply(SessionId, ClientReply),
    /// End a session. It counts as ended from now on.
    Close(SessionId, CloseReason),
}

/// Why a broker ends a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CloseReason {
    /// Another version of the protocol.
    Protocol,
    /// A hello that makes no sense.
    BadHello,
    /// Nothing was heard for the length of a lease.
    Silent,
    /// The same worker has opened another one.
    Replaced,
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CloseReason::Protocol => {
                "this broker speaks another version of the protocol; update the older side"
            }
            CloseReason::BadHello => {
                "a hello with no slots, or with more of anything than there may be"
            }
            CloseReason::Silent => "nothing was heard for the length of a lease; connect again",
            CloseReason::Replaced => "the same worker has opened another session",
        })
    }
}
