//! File systems that misbehave, each in its own way.

pub mod fault;
pub mod power;
pub mod watch;
