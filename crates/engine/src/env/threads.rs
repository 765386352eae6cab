//! Threads: long-lived, named lanes for background work.

use std::thread::{Builder, JoinHandle};

use crate::base::error::{Error, ErrorKind, Result};

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

/// One thread of the operating system per lane: lanes live as long as their database, so a pool
/// would only hide how many there are.
pub(crate) struct SystemThreads;

impl Threads for SystemThreads {
    #[expect(clippy::disallowed_methods, reason = "the one place that starts threads")]
    fn spawn(&self, name: &str, work: Box<dyn FnOnce() + Send>) -> Result<Box<dyn Lane>> {
        match Builder::new().name(name.to_owned()).spawn(work) {
            Ok(handle) => Ok(Box::new(SystemLane(handle))),
            Err(cause) => Err(Error::new(ErrorKind::Io, format!("start thread {name}: {cause}"))),
        }
    }
}

struct SystemLane(JoinHandle<()>);

impl Lane for SystemLane {
    fn join(self: Box<Self>) {
        // The only error is the lane's own panic, which the panic hook has shown.
        let _ = self.0.join();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_lane_has_its_name_and_is_over_once_joined() {
        let (sender, receiver) = mpsc::channel();
        let work = move || {
            let name = std::thread::current().name().map(str::to_owned);
            sender.send(name).expect("the receiver outlives the lane");
        };
        let lane = SystemThreads.spawn("flush", Box::new(work)).unwrap();
        lane.join();
        assert_eq!(receiver.try_recv(), Ok(Some("flush".to_owned())));
    }

    #[test]
    fn joining_survives_a_panic() {
        let work = || panic!("on purpose");
        SystemThreads.spawn("doomed", Box::new(work)).unwrap().join();
    }
}
