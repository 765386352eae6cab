//! An `Arc` that is swapped as a whole and read without a lock; views of the database are published
//! through it.
//!
//! **Concurrency.** Who loads what was stored sees all that was done before the store.

use std::ops::Deref;
use std::sync::Arc;

pub(crate) use kind::Swap;

/// As [`Swap`], of a value that may be missing. One of the lock-free structures that are one step to explorers.
pub(crate) struct SwapOption<T>(arc_swap::ArcSwapOption<T>);

impl<T> SwapOption<T> {
    /// Cheap, for a short look.
    #[inline]
    pub(crate) fn load(&self) -> impl Deref<Target = Option<Arc<T>>> + use<T> {
        self.0.load()
    }

    #[inline]
    pub(crate) fn load_full(&self) -> Option<Arc<T>> {
        self.0.load_full()
    }

    /// As [`load_full`](Self::load_full), and shows what there is before it is counted as held: to count is a locked instruction,
    /// behind which nothing begins until its miss is over.
    #[inline]
    pub(crate) fn load_full_shown(&self, show: impl FnMut(&Arc<T>)) -> Option<Arc<T>> {
        let loaded = self.0.load();
        loaded.iter().for_each(show);
        arc_swap::Guard::into_inner(loaded)
    }

    pub(crate) fn swap(&self, value: Option<Arc<T>>) -> Option<Arc<T>> {
        self.0.swap(value)
    }
}

impl<T> Default for SwapOption<T> {
    fn default() -> Self {
        SwapOption(arc_swap::ArcSwapOption::empty())
    }
}

#[cfg(not(any(loom, shuttle)))]
mod kind {
    use super::{Arc, Deref};

    pub(crate) struct Swap<T>(arc_swap::ArcSwap<T>);

    impl<T> Swap<T> {
        pub(crate) fn new(value: Arc<T>) -> Self {
            Swap(arc_swap::ArcSwap::new(value))
        }

        /// Cheap, for a short look.
        #[inline]
        pub(crate) fn load(&self) -> impl Deref<Target = Arc<T>> + use<T> {
            self.0.load()
        }

        pub(crate) fn load_full(&self) -> Arc<T> {
            self.0.load_full()
        }

        pub(crate) fn store(&self, value: Arc<T>) {
            self.0.store(value);
        }
    }
}

/// A stand-in that explorers of schedules can see into: the crate behind the real one has no seam
/// for them.
#[cfg(any(loom, shuttle))]
mod kind {
    use std::sync::PoisonError;

    use super::super::backend;
    use super::{Arc, Deref};

    pub(crate) struct Swap<T>(backend::Mutex<Arc<T>>);

    impl<T> Swap<T> {
        pub(crate) fn new(value: Arc<T>) -> Self {
            Swap(backend::Mutex::new(value))
        }

        pub(crate) fn load(&self) -> impl Deref<Target = Arc<T>> + use<T> {
            Loaded(self.load_full())
        }

        pub(crate) fn load_full(&self) -> Arc<T> {
            Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
        }

        pub(crate) fn store(&self, value: Arc<T>) {
            let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let old = std::mem::replace(&mut *place, value);
            drop(place);
            drop(old); // Its destructors take locks.
        }
    }

    struct Loaded<T>(Arc<T>);

    impl<T> Deref for Loaded<T> {
        type Target = Arc<T>;
        fn deref(&self) -> &Arc<T> {
            &self.0
        }
    }
}
