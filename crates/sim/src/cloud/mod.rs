//! The cloud: writers, zombies, collectors, replicas and clones on one bucket that loses requests and answers,
//! applies them hours late, and goes away for minutes; in virtual time, as a seed says.
//!
//! The protocol's code is synchronous, so each actor has a thread; one runs at a time, and hands on when it waits. All
//! that waits is a call on the bucket or a sleep, so the order is that of virtual time and of nothing else. (State machines
//! would save some microseconds a call, and would not be the code that users run.)
//!
//! What must hold is checked in two ways: a `ledger` sees every change of the bucket at the moment it takes effect,
//! and the actors check what they are told and what they read. In the end the weather is calm, everything is collected,
//! and what is left must be exactly what belongs there.

mod actor;
pub mod campaign;
mod cheat;
mod client;
mod collector;
mod content;
mod fate;
mod ledger;
mod life;
mod operator;
mod reader;
mod stage;
mod writer;
