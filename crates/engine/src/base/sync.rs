//! Locks and signals. No other file names `std`'s locks, so that ranks are checked here and a
//! simulator can take their place: `--cfg loom` and `--cfg shuttle` build everything on the types of
//! those two, which explore schedules.
//!
//! **Concurrency.** Every [`Mutex`] has a [`Rank`]; a thread takes locks in rising rank only. Debug
//! builds assert it. A panic while a lock is held does not poison it: the engine's invariants are
//! kept by construction of the guarded state, and a poisoned lock would turn one failed callback
//! into a process that can no longer close its database.

mod swap;

use std::ops::{Deref, DerefMut};
pub(crate) use std::sync::{LazyLock, OnceLock};
use std::sync::{PoisonError, TryLockError};

pub(crate) use swap::{Swap, SwapOption};

/// Explorers have many threads on one of the system's, and the next schedule must not find what the
/// last one left.
#[cfg(loom)]
macro_rules! loom_thread_local {
    ($(#[$doc:meta])* static $name:ident: $of:ty = const $init:block;) => {
        loom::thread_local! { $(#[$doc])* static $name: $of = $init; }
    };
}
#[cfg(loom)]
pub(crate) use loom_thread_local as thread_local;
#[cfg(shuttle)]
pub(crate) use shuttle::thread_local;
#[cfg(not(any(loom, shuttle)))]
pub(crate) use std::thread_local;

/// Whose locks and signals these are.
mod backend {
    #[cfg(loom)]
    pub(super) use loom::sync::{Condvar, Mutex, MutexGuard};
    #[cfg(shuttle)]
    pub(super) use shuttle::sync::{Condvar, Mutex, MutexGuard};
    #[cfg(not(any(loom, shuttle)))]
    pub(super) use std::sync::{Condvar, Mutex, MutexGuard};
}

#[cfg(not(any(loom, shuttle)))]
const LOOKS_BETWEEN_YIELDS: u32 = 10;
/// A microsecond or two. Explorers would take each for a step.
const LOOKS_FOR_LOCK: u32 = if cfg!(any(loom, shuttle)) { 1 } else { 64 };

/// The atomics by which threads agree, where a schedule may turn. Plain counters may use `std`'s.
pub(crate) mod atomic {
    #[cfg(loom)]
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    #[cfg(shuttle)]
    pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    #[cfg(not(any(loom, shuttle)))]
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
}

/// The atomics inside lock-free structures. Loom explores these; for Shuttle, which runs a whole
/// database, an operation on such a structure is one step.
pub(crate) mod lockless {
    #[cfg(loom)]
    pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering};
    #[cfg(not(loom))]
    pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering};
}

/// Looks whether other threads have done what they are at, for a moment: until it has left the processor to others
/// so often, a third of a microsecond each if there are none. Returns whether they have.
pub(crate) fn look_for(yields: u32, is_done: impl Fn() -> bool) -> bool {
    // Explorers would take each look for a step of its own.
    #[cfg(not(any(loom, shuttle)))]
    for look in 1..=yields * LOOKS_BETWEEN_YIELDS {
        if is_done() {
            return true;
        }
        // A thread that waits for the processor, perhaps the very one, has better use for it.
        match look % LOOKS_BETWEEN_YIELDS {
            0 => std::thread::yield_now(),
            _ => std::hint::spin_loop(),
        }
    }
    let _ = yields;
    is_done()
}

/// A number that no other thread has while this one lives.
#[inline]
pub(crate) fn this_thread() -> u64 {
    std::thread_local! {
        static HERE: u8 = const { 0 };
    }
    HERE.try_with(|here| std::ptr::from_ref(here).addr() as u64).unwrap_or_default()
}

/// Runs `case` under every schedule with up to three preemptions, and every value that its relaxed
/// loads may see.
#[cfg(all(test, loom))]
pub(crate) fn explore(case: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(case);
}

/// The order in which locks may be taken; the table with what each guards is in `ARCHITECTURE.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Rank {
    /// The running lanes; held while they are joined at close.
    Lanes = 5,
    /// Waiting writers, and the committer when at rest.
    WriteQueue = 10,
    /// The manifest writer; held across its I/O.
    Manifest = 20,
    /// The way to the database of those who run its jobs elsewhere.
    Away = 25,
    /// Memtables, version, policy, jobs, first error.
    State = 30,
    /// Live snapshots.
    Snapshots = 40,
    /// The info log's file; held across its writes.
    InfoLog = 45,
    /// Lists and maps that call nothing while held.
    Leaf = 50,
    /// What memory is taken from, and given back to wherever something is dropped.
    Memory = 60,
}

pub(crate) struct Mutex<T> {
    rank: Rank,
    inner: backend::Mutex<T>,
}

pub(crate) struct Guard<'a, T> {
    rank: Rank,
    inner: Option<backend::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    pub(crate) fn new(rank: Rank, value: T) -> Self {
        Mutex { rank, inner: backend::Mutex::new(value) }
    }

    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        held::enter(self.rank);
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        Guard { rank: self.rank, inner: Some(inner) }
    }

    /// For what can be left undone: the lock, unless others have it for longer than a moment. Who has it may have been taken off
    /// its processor, for milliseconds.
    #[inline]
    pub(crate) fn lock_soon(&self) -> Option<Guard<'_, T>> {
        (0..LOOKS_FOR_LOCK).find_map(|look| {
            if look > 0 {
                std::hint::spin_loop();
            }
            self.try_lock()
        })
    }

    fn try_lock(&self) -> Option<Guard<'_, T>> {
        let inner = match self.inner.try_lock() {
            Ok(inner) => inner,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        held::enter(self.rank);
        Some(Guard { rank: self.rank, inner: Some(inner) })
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        self.inner.as_ref().expect("a guard is empty only inside Signal::wait")
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.inner.as_mut().expect("a guard is empty only inside Signal::wait")
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        held::leave(self.rank);
    }
}

/// A condition variable.
#[derive(Default)]
pub(crate) struct Signal(backend::Condvar);

impl Signal {
    pub(crate) fn wait<'a, T>(&self, mut guard: Guard<'a, T>) -> Guard<'a, T> {
        let inner = guard.inner.take().expect("a guard outside Signal::wait is full");
        let inner = self.0.wait(inner).unwrap_or_else(PoisonError::into_inner);
        guard.inner = Some(inner);
        guard
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

#[cfg(debug_assertions)]
mod held {
    use super::Rank;
    use std::cell::RefCell;

    super::thread_local! {
        static HELD: RefCell<Vec<Rank>> = const { RefCell::new(Vec::new()) };
    }

    // A thread that is about to end, and has no locals any more, goes unchecked.

    pub(super) fn enter(rank: Rank) {
        let _ = HELD.try_with(|held| {
            let mut held = held.borrow_mut();
            if let Some(&last) = held.last() {
                assert!(last < rank, "lock of rank {rank:?} taken while holding {last:?}");
            }
            held.push(rank);
        });
    }

    pub(super) fn leave(rank: Rank) {
        let _ = HELD.try_with(|held| {
            let mut held = held.borrow_mut();
            let at = held.iter().rposition(|&other| other == rank);
            held.remove(at.expect("a lock is released by the thread that took it"));
        });
    }
}

#[cfg(not(debug_assertions))]
mod held {
    use super::Rank;

    #[inline]
    pub(super) fn enter(_: Rank) {}
    #[inline]
    pub(super) fn leave(_: Rank) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "lock of rank Manifest taken while holding State")]
    fn falling_rank_is_caught() {
        let state = Mutex::new(Rank::State, ());
        let manifest = Mutex::new(Rank::Manifest, ());
        let _state = state.lock();
        let _manifest = manifest.lock();
    }

    #[test]
    fn a_lock_that_others_keep_is_not_waited_for() {
        let mutex = std::sync::Arc::new(Mutex::new(Rank::Leaf, 7));
        let other = mutex.clone();
        let guard = mutex.lock();
        std::thread::spawn(move || assert!(other.lock_soon().is_none())).join().unwrap();
        drop(guard);
        assert_eq!(mutex.lock_soon().as_deref(), Some(&7));
    }

    #[test]
    fn a_panic_does_not_poison() {
        let mutex = std::sync::Arc::new(Mutex::new(Rank::Leaf, 7));
        let other = mutex.clone();
        let panicked = std::thread::spawn(move || {
            let _guard = other.lock();
            panic!("on purpose");
        });
        assert!(panicked.join().is_err());
        assert_eq!(*mutex.lock(), 7);
        assert!(mutex.lock_soon().is_some());
    }
}
