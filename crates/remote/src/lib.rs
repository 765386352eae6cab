//! Compaction on other machines: jobs with leases, over gRPC.
//!
//! A database's process *submits* jobs and alone installs what comes of them; a *broker*, in that process or by itself,
//! queues and leases them; *workers* connect out to the broker and run them by a [`JobRunner`]. Workers own nothing: they
//! read inputs, write outputs below a name that belongs to their attempt only, and what they return is checked before
//! anybody believes it. Nothing here knows the engine; a job travels as a [`JobSpec`], complete in itself.
//!
//! The broker also passes on which version of a database is in the bucket, from its writer to its replicas
//! (feature `grpc`, too).
//!
//! The three of them are state machines without threads, clocks or sockets ([`machine`]), and the network is around them
//! (feature `grpc`). So everything that is decided can be replayed from a seed.
#![forbid(unsafe_code)]

mod backoff;
mod broker;
mod client;
mod dice;
#[cfg(feature = "grpc")]
mod grpc;
mod job;
mod message;
mod security;
#[cfg(test)]
mod testing;
mod validate;
mod worker;

pub use backoff::BackoffLimits;
pub use broker::config::BrokerConfig;
pub use broker::report::{BrokerStats, JobState, JobView};
pub use client::event::{ClientConfig, Outcome, Request};
pub use client::fallback::{HomeReason, Patience, Policy};
#[cfg(feature = "grpc")]
pub use grpc::{
    client::{BrokerPlace, OnBegun, OnDone, RemoteClient, Ticket},
    host::BrokerHost,
    security::{BrokerAddress, ClientSecurity, OnLost, ServerSecurity, TlsFiles, TransportError},
    termination::termination,
    watching::{OnVersion, VersionWatch},
    worker::run_worker,
};
pub use job::failure::{FailureCode, JobFailure};
pub use job::id::{Attempt, JobId};
pub use job::invalid::Invalid;
pub use job::key::{BytewiseOrder, KeyOrder, TaggedKey};
pub use job::name::{DbId, ObjectName, WorkerId};
pub use job::result::{Costs, JobResult, OutputTable, Progress};
pub use job::spec::{
    Area, Border, Compression, CutRule, InputTable, JobSpec, KeyPart, KeyRange, Layout, SeqRange,
    Slot, Span,
};
pub use message::{
    Assignment, AttemptId, Capabilities, Completion, Finished, Priority, Submission,
};
pub use security::authority::{Authority, Grant, Role, Scope};
pub use security::secret::Secret;
pub use worker::event::WorkerConfig;
pub use worker::runner::{JobRunner, Leash, RunContext};

/// A broker, workers and wires in one process, for tests and measurements: to be killed, paused and cut.
#[cfg(feature = "grpc")]
pub mod loopback {
    pub use crate::grpc::loopback::{Broker, Wire, Worker, address, runtime};
}

/// The state machines and what they say, for who brings a network of their own, or simulates one.
pub mod machine {
    pub use crate::broker::event::{BrokerAction, BrokerEvent, CloseReason, SessionId};
    pub use crate::broker::state::Broker;
    pub use crate::client::event::{ClientAction, ClientEvent};
    pub use crate::client::state::Client;
    pub use crate::message::{
        ClientMessage, ClientReply, Held, Hello, PROTOCOL, Refused, WorkerMessage, WorkerOrder,
    };
    pub use crate::security::authority::{Caller, Denied};
    pub use crate::validate::{
        Rule, Violation, check_adopted, check_new, check_order, check_shape,
    };
    pub use crate::worker::event::{WorkerAction, WorkerEvent};
    pub use crate::worker::state::Worker;
}
