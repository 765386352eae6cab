//! A watchdog: a case that does not end takes the whole program down, with its command.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longer than any case may take.
const LIMIT: Duration = Duration::from_secs(10);
/// Between two looks.
const PAUSE: Duration = Duration::from_secs(1);

pub(crate) struct Watch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    running: Option<(String, Instant)>,
    over: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut state = self.state();
        while !state.over {
            if let Some((command, since)) = &state.running
                && since.elapsed() > LIMIT
            {
                eprintln!("FAILED: hangs, no end within {LIMIT:?}\n  replay: {command}");
                std::process::exit(1);
            }
            let waited = self.changed.wait_timeout(state, PAUSE);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Watch {
    pub(crate) fn start() -> Self {
        let shared = Arc::<Shared>::default();
        let watched = shared.clone();
        Watch { shared, thread: Some(std::thread::spawn(move || watched.run())) }
    }

    /// Does `case`, which `command` repeats.
    pub(crate) fn over<T>(&self, command: String, case: impl FnOnce() -> T) -> T {
        self.shared.state().running = Some((command, Instant::now()));
        let done = case();
        self.shared.state().running = None;
        done
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.state().over = true;
        self.shared.changed.notify_all();
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
