//! The worker: holds jobs for a broker, and has a runner do them. What it decides is a state machine; the network and the
//! threads around it are in `grpc`.

pub(crate) mod event;
pub(crate) mod runner;
pub(crate) mod state;

#[cfg(test)]
mod tests;
