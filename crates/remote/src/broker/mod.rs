//! The broker: a queue of jobs with leases. It decides who runs what, and runs nothing; the network around it is in
//! `grpc`, and the simulation drives it without any.

mod adopt;
mod attempts;
mod clients;
pub(crate) mod config;
mod dispatch;
pub(crate) mod event;
mod job;
pub(crate) mod report;
pub(crate) mod state;
mod workers;

#[cfg(test)]
mod tests;
