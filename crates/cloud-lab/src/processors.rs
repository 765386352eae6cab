//! Which processor work is kept on, so that machines on one machine do not take each other's. What a thread starts while it
//! is kept runs there as well: lanes, and the threads of runtimes. On Linux; elsewhere the system decides.

#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::Kept;
#[cfg(target_os = "linux")]
pub(crate) use linux::Kept;

/// How many this process may use.
pub(crate) fn count() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Keeps the calling thread on one of those that it may use, the first being number 0, and behind the last the first again,
/// until what is returned is dropped.
pub(crate) fn keep_on(nth: usize) -> Kept {
    Kept::on(nth)
}

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    pub(crate) struct Kept;

    impl Kept {
        pub(super) fn on(_: usize) -> Self {
            Kept
        }
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::marker::PhantomData;

    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    /// Ends with the place that the thread had before. It stays on its thread.
    pub(crate) struct Kept(Option<CpuSet>, PhantomData<*const ()>);

    impl Kept {
        pub(super) fn on(nth: usize) -> Self {
            // What the system refuses stays as it is: figures say how many processors there were.
            let before = sched_getaffinity(None).ok().filter(|allowed| allowed.count() > 0);
            if let Some(allowed) = before {
                let nth = nth % allowed.count() as usize;
                let mut processors = (0..CpuSet::MAX_CPU).filter(|number| allowed.is_set(*number));
                let mut only = CpuSet::new();
                processors.nth(nth).into_iter().for_each(|number| only.set(number));
                let _ = sched_setaffinity(None, &only);
            }
            Kept(before, PhantomData)
        }
    }

    impl Drop for Kept {
        fn drop(&mut self) {
            if let Some(before) = &self.0 {
                let _ = sched_setaffinity(None, before);
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn what_a_kept_thread_starts_is_kept_and_all_ends_with_it() {
            let allowed = || sched_getaffinity(None).unwrap();
            let before = allowed();
            let count = super::super::count();
            let kept = Kept::on(0);
            let (here, there) = (allowed(), std::thread::spawn(allowed).join().unwrap());
            assert_eq!((here.count(), there), (1, here));
            drop(kept);
            assert_eq!(allowed(), before);
            let again = Kept::on(count);
            assert_eq!(allowed(), here, "behind the last comes the first");
            drop(again);
            if count > 1 {
                let _second = Kept::on(1);
                assert!(allowed() != here && allowed().count() == 1);
            }
        }
    }
}
