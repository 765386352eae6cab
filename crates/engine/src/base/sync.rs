//! Locks and signals. No other file names `std`'s locks, so that ranks are checked here and a
//! simulator can take their place.
//!
//! **Concurrency.** Every [`Mutex`] has a [`Rank`]; a thread takes locks in rising rank only. Debug
//! builds assert it. A panic while a lock is held does not poison it: the engine's invariants are
//! kept by construction of the guarded state, and a poisoned lock would turn one failed callback
//! into a process that can no longer close its database.

use std::ops::{Deref, DerefMut};
pub(crate) use std::sync::OnceLock;
use std::time::Duration;

/// The atomics of lock-free structures, swapped for Loom's when it explores their interleavings.
/// Counters and flags may use `std`'s.
pub(crate) mod atomic {
    #[cfg(loom)]
    pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
    #[cfg(not(loom))]
    pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
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
    /// Memtables, version, policy, jobs, first error.
    State = 30,
    /// Live snapshots.
    Snapshots = 40,
    /// The info log's file; held across its writes.
    InfoLog = 45,
    /// Lists and maps that call nothing while held.
    Leaf = 50,
}

pub(crate) struct Mutex<T> {
    rank: Rank,
    inner: std::sync::Mutex<T>,
}

pub(crate) struct Guard<'a, T> {
    rank: Rank,
    inner: Option<std::sync::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    pub(crate) const fn new(rank: Rank, value: T) -> Self {
        Mutex { rank, inner: std::sync::Mutex::new(value) }
    }

    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        held::enter(self.rank);
        let inner = self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        Guard { rank: self.rank, inner: Some(inner) }
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
pub(crate) struct Signal(std::sync::Condvar);

impl Signal {
    pub(crate) fn wait<'a, T>(&self, mut guard: Guard<'a, T>) -> Guard<'a, T> {
        let inner = guard.inner.take().expect("a guard outside Signal::wait is full");
        let inner = self.0.wait(inner).unwrap_or_else(std::sync::PoisonError::into_inner);
        guard.inner = Some(inner);
        guard
    }

    pub(crate) fn wait_for<'a, T>(&self, mut guard: Guard<'a, T>, time: Duration) -> Guard<'a, T> {
        let inner = guard.inner.take().expect("a guard outside Signal::wait is full");
        let waited = self.0.wait_timeout(inner, time);
        let (inner, _) = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
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

    thread_local! {
        static HELD: RefCell<Vec<Rank>> = const { RefCell::new(Vec::new()) };
    }

    pub(super) fn enter(rank: Rank) {
        HELD.with_borrow_mut(|held| {
            if let Some(&last) = held.last() {
                assert!(last < rank, "lock of rank {rank:?} taken while holding {last:?}");
            }
            held.push(rank);
        });
    }

    pub(super) fn leave(rank: Rank) {
        HELD.with_borrow_mut(|held| {
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
    fn a_panic_does_not_poison() {
        let mutex = std::sync::Arc::new(Mutex::new(Rank::Leaf, 7));
        let other = mutex.clone();
        let panicked = std::thread::spawn(move || {
            let _guard = other.lock();
            panic!("on purpose");
        });
        assert!(panicked.join().is_err());
        assert_eq!(*mutex.lock(), 7);
    }
}
