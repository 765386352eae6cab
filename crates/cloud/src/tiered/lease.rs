//! An owner with a lease: he proves that he still is the owner, and acknowledges nothing once the last proof is too old.
//! So who takes over after waiting that long has taken over from somebody who is silent, wherever he is.
//!
//! I1: a write is acknowledged only if the clock was read behind its append, and the lease was proved by then.
//!
//! Time is the clock's that does not jump. A machine that is put to sleep with its clock, and wakes up, still believes its
//! last proof; what it then acknowledges is in its folder only, and its next commit is refused.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use siltstone::{Error as EngineError, ErrorKind as EngineKind};

use super::lanes::Failed;
use super::shared::Shared;
use crate::error::{Error, ErrorKind};
use crate::home::Home;
use crate::log::owner::OwnerLease;

/// How long a wait looks away at most.
const GLANCE: Duration = Duration::from_millis(20);

/// What writes pass before they are acknowledged.
pub(crate) struct Gate {
    home: Home,
    life: Duration,
    /// Until when they may, on the home's clock; nanoseconds.
    open_until: AtomicU64,
    /// Why never again.
    ended: Mutex<Option<Error>>,
    changed: Condvar,
}

impl Gate {
    /// `None` without a lease.
    pub(super) fn new(home: &Home, lease: &OwnerLease) -> Option<Arc<Self>> {
        let life = lease.life();
        let gate = Gate {
            home: home.clone(),
            life,
            open_until: AtomicU64::new(nanos(lease.lapses_at())),
            ended: Mutex::default(),
            changed: Condvar::new(),
        };
        (!life.is_zero()).then(|| Arc::new(gate))
    }

    /// Returns at once while the lease is proved; else waits for a proof, for as long as a lease lasts.
    #[inline]
    pub(crate) fn pass(&self) -> siltstone::Result<()> {
        if self.is_open() { Ok(()) } else { self.wait() }
    }

    fn is_open(&self) -> bool {
        nanos(self.home.now()) < self.open_until.load(Ordering::Acquire)
    }

    #[cold]
    fn wait(&self) -> siltstone::Result<()> {
        let until = self.home.now().saturating_add(self.life);
        let mut ended = self.ended();
        loop {
            if let Some(error) = &*ended {
                return Err(error.clone().into());
            }
            if self.is_open() {
                return Ok(());
            }
            if self.home.now() >= until {
                let message = format!(
                    "the owner's lease of {:?} has run out, and the bucket does not say whether he still is the \
                     owner: the write may be lost if another machine takes over",
                    self.life
                );
                return Err(EngineError::new(EngineKind::Io, message));
            }
            let (awake, _) =
                self.changed.wait_timeout(ended, GLANCE).unwrap_or_else(PoisonError::into_inner);
            ended = awake;
        }
    }

    fn ended(&self) -> MutexGuard<'_, Option<Error>> {
        // Nothing under the lock stops half way.
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn renew(&self, until: Duration) {
        let ended = self.ended();
        self.open_until.store(nanos(until), Ordering::Release);
        drop(ended);
        self.changed.notify_all();
    }

    fn end(&self, error: Error) {
        let mut ended = self.ended();
        self.open_until.store(0, Ordering::Release);
        *ended = Some(error);
        drop(ended);
        self.changed.notify_all();
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Looks at the register when it is time: a lane's work.
pub(super) struct Prover {
    pub(super) shared: Arc<Shared>,
    pub(super) lease: OwnerLease,
    pub(super) gate: Arc<Gate>,
}

impl Prover {
    pub(super) fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        // After a failure the time for the next try has come at once.
        let pause = self.lease.life() / 20;
        while shared
            .wait_within(self.lease.due_in(), |state| state.stopping.then_some(()))
            .is_none()
        {
            match self.lease.prove() {
                Ok(()) => self.gate.renew(self.lease.lapses_at()),
                Err(error) if error.kind() == ErrorKind::Fenced => {
                    self.gate.end(error.clone());
                    return shared.fail(error);
                }
                Err(error) => {
                    shared.tell(&Failed::There(error));
                    shared.rest(pause);
                }
            }
        }
    }
}
