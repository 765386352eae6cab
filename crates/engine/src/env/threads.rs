//! Threads: long-lived, named lanes for background work.

use crate::base::error::Result;

/// The thread seam.
pub trait Threads: Send + Sync {
    /// Starts a named thread.
    fn spawn(&self, name: &str, work: Box<dyn FnOnce() + Send>) -> Result<Box<dyn Lane>>;
}

/// A running thread.
pub trait Lane: Send {
    /// Waits until it has ended. A panic inside it was reported to the panic hook already.
    fn join(self: Box<Self>);
}
