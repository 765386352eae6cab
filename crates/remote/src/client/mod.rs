//! The client: what a database's process submits jobs with. What it decides is a state machine; the network around it is
//! in `grpc`.

pub(crate) mod event;
pub(crate) mod fallback;
pub(crate) mod state;

#[cfg(test)]
mod tests;
