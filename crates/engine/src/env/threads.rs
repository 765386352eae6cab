//! Threads: long-lived, named lanes for background work.

use std::thread::{Builder, JoinHandle};

use crate::base::error::{Error, ErrorKind, Result};

/// The thread seam.
pub trait Threads: Send + Sync {
    /// Starts a named thread.
    fn spawn(&self, name: &str, work: Box<dyn FnOnce() + Send>) -> Result<Box<dyn Lane>>;

    /// The processor that the caller runs on at the moment, where the system tells.
    fn processor(&self) -> Option<usize> {
        None
    }

    /// On a thread started by [`spawn`](Self::spawn): where there are others, keeps off that processor from now on; with
    /// `None`, off none. Called again and again, so it should cost little where nothing changes. On other threads, and
    /// where the system has no such thing, it does nothing.
    fn keep_off(&self, _processor: Option<usize>) {}

    /// On a thread started by [`spawn`](Self::spawn): lets others go first, for good.
    fn lower_priority(&self) {}
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
        let work = move || {
            #[cfg(target_os = "linux")]
            placement::begin();
            work();
        };
        match Builder::new().name(name.to_owned()).spawn(work) {
            Ok(handle) => Ok(Box::new(SystemLane(handle))),
            Err(cause) => Err(Error::new(ErrorKind::Io, format!("start thread {name}: {cause}"))),
        }
    }

    #[cfg(target_os = "linux")]
    fn processor(&self) -> Option<usize> {
        Some(rustix::thread::sched_getcpu())
    }

    #[cfg(target_os = "linux")]
    fn keep_off(&self, processor: Option<usize>) {
        placement::keep_off(processor);
    }

    #[cfg(target_os = "linux")]
    fn lower_priority(&self) {
        placement::lower_priority();
    }
}

/// Where lanes run. All of it is help for the scheduler: what the system refuses stays as it is.
#[cfg(target_os = "linux")]
mod placement {
    use std::cell::RefCell;

    use rustix::process::{getpriority_process, setpriority_process};
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    const NICER_BY: i32 = 5;

    thread_local! {
        /// Present on lanes.
        static PLACE: RefCell<Option<Place>> = const { RefCell::new(None) };
    }

    struct Place {
        /// Kept off at the moment.
        off: Option<usize>,
        /// What was asked for last, and the set that it was made of.
        asked: CpuSet,
        allowed: CpuSet,
    }

    /// This thread is a lane.
    pub(super) fn begin() {
        if let Ok(allowed) = sched_getaffinity(None) {
            PLACE.set(Some(Place { off: None, asked: allowed, allowed }));
        }
    }

    pub(super) fn keep_off(processor: Option<usize>) {
        PLACE.with_borrow_mut(|place| {
            if let Some(place) = place
                && place.off != processor
            {
                place.keep_off(processor);
            }
        });
    }

    impl Place {
        fn keep_off(&mut self, processor: Option<usize>) {
            self.off = processor;
            let Ok(current) = sched_getaffinity(None) else { return };
            if current != self.asked {
                self.allowed = current; // Somebody has changed it from outside.
            }
            let mut wanted = self.allowed;
            if let Some(processor) = processor.filter(|number| *number < CpuSet::MAX_CPU) {
                wanted.unset(processor);
            }
            if wanted.count() == 0 {
                wanted = self.allowed;
            }
            if sched_setaffinity(None, &wanted).is_ok() {
                self.asked = wanted;
            }
        }
    }

    /// On Linux this is of the calling thread alone.
    pub(super) fn lower_priority() {
        if let Ok(nice) = getpriority_process(None) {
            let _ = setpriority_process(None, nice + NICER_BY);
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

    /// What `look` sees on a lane.
    fn on_a_lane<R: Send + 'static>(look: impl FnOnce() -> R + Send + 'static) -> R {
        let (sender, receiver) = mpsc::channel();
        let work = move || sender.send(look()).expect("the receiver outlives the lane");
        SystemThreads.spawn("lane", Box::new(work)).unwrap().join();
        receiver.recv().unwrap()
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_lane_keeps_off_a_processor_and_comes_back() {
        use rustix::thread::sched_getaffinity;
        let allowed = sched_getaffinity(None).unwrap();
        let here = SystemThreads.processor().unwrap();
        let [without, all] = on_a_lane(move || {
            [Some(here), None].map(|processor| {
                SystemThreads.keep_off(processor);
                sched_getaffinity(None).unwrap()
            })
        });
        assert_eq!(all, allowed);
        let others = allowed.count() - u32::from(allowed.is_set(here));
        assert_eq!(without.is_set(here), others == 0, "of one processor there is no other");
        assert_eq!(without.count(), others.max(1));
        SystemThreads.keep_off(Some(here));
        assert_eq!(sched_getaffinity(None).unwrap(), allowed, "this thread is no lane");
    }

    /// As `taskset` does.
    #[cfg(target_os = "linux")]
    #[test]
    fn what_others_set_from_outside_is_kept_to() {
        use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
        let last = on_a_lane(|| {
            let allowed = sched_getaffinity(None).unwrap();
            let first = (0..CpuSet::MAX_CPU).find(|number| allowed.is_set(*number)).unwrap();
            let mut only = CpuSet::new();
            only.set(first);
            SystemThreads.keep_off(Some(first));
            sched_setaffinity(None, &only).unwrap();
            SystemThreads.keep_off(None);
            sched_getaffinity(None).unwrap() == only
        });
        assert!(last);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_lane_lets_others_go_first() {
        use rustix::process::getpriority_process;
        let before = getpriority_process(None).unwrap();
        let after = on_a_lane(|| {
            SystemThreads.lower_priority();
            getpriority_process(None).unwrap()
        });
        assert_eq!(after, (before + 5).min(19));
        assert_eq!(getpriority_process(None).unwrap(), before, "of the lane alone");
    }

    #[test]
    fn joining_survives_a_panic() {
        let work = || panic!("on purpose");
        SystemThreads.spawn("doomed", Box::new(work)).unwrap().join();
    }
}
