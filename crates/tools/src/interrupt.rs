//! Ctrl-C and SIGTERM: the first asks the running verb to finish its step and close the database,
//! the second ends the program at once. Installed by verbs that run long; the others die as usual.
//!
//! Concurrency: one flag, set by the signal thread and read between batches or rows. Nothing is
//! published with it, so relaxed order suffices.

use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: AtomicBool = AtomicBool::new(false);

/// Starts listening. Called once per process; a failure leaves the default behaviour.
pub(crate) fn listen() {
    let installed = ctrlc::set_handler(|| {
        if ASKED.swap(true, Ordering::Relaxed) {
            std::process::exit(crate::errors::Exit::Interrupted as i32);
        }
    });
    // Without a handler Ctrl-C ends the program at once, which the write-ahead log survives.
    drop(installed);
}

/// True once the user asked to stop.
pub(crate) fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// Forgets the request: the shell stopped one command and goes on with the next.
pub(crate) fn forget() {
    ASKED.store(false, Ordering::Relaxed);
}
