//! The network around the state machines: gRPC by tonic, on tokio. What is decided, is decided elsewhere; here are the
//! queues, timers and connections that bring events to the machines and carry their actions out.

mod announcing;
mod board;
mod broker;
mod caller;
pub(crate) mod client;
mod convert;
pub(crate) mod host;
mod link;
pub(crate) mod loopback;
pub(crate) mod security;
mod service;
pub(crate) mod termination;
#[cfg(test)]
mod tests;
pub(crate) mod watching;
mod wire;
pub(crate) mod worker;

/// Bytes of one message on the wire: all that the limits of its parts allow for in a job as jobs are.
const MESSAGE_BYTES_MAX: usize = 16 << 20;
