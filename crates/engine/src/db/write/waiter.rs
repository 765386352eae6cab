//! A write that waits behind the leader, and how its thread is told the outcome.
//!
//! **Concurrency.** A leader tells by one store, and wakes who sleeps: to wake is a system call, even if nobody does. Who is about to sleep says
//! so with the waiter's lock held until it is asleep, and the leader takes that lock before it wakes.

use std::cell::Cell;
use std::sync::Arc;

use crate::base::error::{Error, Result};
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::base::sync::{Mutex, Rank, Signal, thread_local};
use crate::db::write::queue::Request;

/// A body's memory is kept for the next one up to this.
const BODY_BYTES_KEPT: usize = 4 << 10;

/// It owns its bytes: the leader reads them on its thread.
pub(crate) struct Waiter {
    pub(crate) body: Vec<u8>,
    pub(crate) count: u32,
    pub(crate) sync: bool,
    state: AtomicU64,
    /// Set before the state, where the write failed.
    failure: Mutex<Option<Error>>,
    signal: Signal,
}

/// Not told yet, and awake.
const LOOKING: u64 = 0;
const ASLEEP: u64 = 1;
/// The states of being told begin here.
const DONE: u64 = 2;
const FAILED: u64 = 3;
const LEAD: u64 = 4;

/// What a waiter is told.
pub(crate) enum Told {
    /// To take the committer from the queue.
    Lead,
    Done(Result<()>),
}

thread_local! {
    /// The last one that a thread had.
    static SPARE: Cell<Option<Arc<Waiter>>> = const { Cell::new(None) };
}

impl Waiter {
    pub(crate) fn new(request: Request<'_>) -> Arc<Self> {
        let mut waiter = Waiter::spare().unwrap_or_else(|| Arc::new(Waiter::empty()));
        let own = Arc::get_mut(&mut waiter).expect("no leader has it");
        own.body.extend_from_slice(request.body);
        (own.count, own.sync) = (request.count, request.sync);
        waiter
    }

    fn empty() -> Self {
        Waiter {
            body: Vec::new(),
            count: 0,
            sync: false,
            state: AtomicU64::new(LOOKING),
            failure: Mutex::new(Rank::Leaf, None),
            signal: Signal::default(),
        }
    }

    /// The thread's last one as if it were new, if no leader holds it any more.
    fn spare() -> Option<Arc<Self>> {
        let mut spare = SPARE.try_with(Cell::take).ok()??;
        let own = Arc::get_mut(&mut spare)?;
        own.body.clear();
        own.state = AtomicU64::new(LOOKING);
        Some(spare)
    }

    /// Keeps it for the thread's next write.
    pub(crate) fn keep(self: Arc<Self>) {
        if self.body.capacity() <= BODY_BYTES_KEPT {
            let _ = SPARE.try_with(|spare| spare.set(Some(self))); // None is kept by a thread that ends.
        }
    }

    pub(crate) fn tell(&self, told: Told) {
        let state = match told {
            Told::Lead => LEAD,
            Told::Done(Ok(())) => DONE,
            Told::Done(Err(error)) => {
                *self.failure.lock() = Some(error);
                FAILED
            }
        };
        if self.state.swap(state, Ordering::AcqRel) == ASLEEP {
            drop(self.failure.lock());
            self.signal.notify_one();
        }
    }

    /// Takes no lock.
    pub(crate) fn is_told(&self) -> bool {
        self.state.load(Ordering::Acquire) >= DONE
    }

    /// Sleeps until it is told.
    pub(crate) fn wait(&self) -> Told {
        if !self.is_told() {
            self.sleep();
        }
        match self.state.load(Ordering::Acquire) {
            LEAD => Told::Lead,
            FAILED => Told::Done(self.failure.lock().take().map_or(Ok(()), Err)),
            _ => Told::Done(Ok(())),
        }
    }

    #[cold]
    fn sleep(&self) {
        let mut failure = self.failure.lock();
        let (from, to) = (LOOKING, ASLEEP);
        // Fails if it was told just now.
        let _ = self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
        while !self.is_told() {
            failure = self.signal.wait(failure);
        }
    }
}
