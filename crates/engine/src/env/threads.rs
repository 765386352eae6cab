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

    /// Where the calling thread may run, by the last [`settle`](Self::settle); `None` on threads that were not started
    /// by [`spawn`](Self::spawn), and where the system has no such thing.
    fn place(&self) -> Option<Place> {
        None
    }

    /// On a thread that has a [`place`](Self::place), and only of processors that it may run on at all: has it run there
    /// from now on.
    fn settle(&self, _place: Place) {}

    /// On a thread started by [`spawn`](Self::spawn): lets others go first, for good: its priority is by so many steps of `nice`, at
    /// least, lower than when it began. To say so again costs nothing.
    fn lower_priority(&self, _steps: u32) {}

    /// Lets others have the processor for now, if any want it.
    fn give_way(&self) {}
}

/// Where a lane runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Wherever the system likes.
    Anywhere,
    /// On any processor but this one.
    Off(usize),
    /// On this processor.
    On(usize),
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
    fn place(&self) -> Option<Place> {
        placement::place()
    }

    #[cfg(target_os = "linux")]
    fn settle(&self, place: Place) {
        placement::settle(place);
    }

    #[cfg(target_os = "linux")]
    fn lower_priority(&self, steps: u32) {
        placement::lower_priority(steps);
    }

    fn give_way(&self) {
        std::thread::yield_now();
    }
}

/// Where lanes run. All of it is help for the scheduler: what the system refuses stays as it is.
#[cfg(target_os = "linux")]
mod placement {
    use std::cell::{Cell, RefCell};

    use rustix::process::{getpriority_process, setpriority_process};
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    use super::Place;

    thread_local! {
        /// Present on lanes.
        static SETTLED: RefCell<Option<Settled>> = const { RefCell::new(None) };
        /// By so many steps.
        static LOWERED: Cell<u32> = const { Cell::new(0) };
    }

    /// There are no more.
    const NICE_MAX: u32 = 39;

    struct Settled {
        place: Place,
        /// What was asked for last, and the set that it was made of.
        asked: CpuSet,
        allowed: CpuSet,
    }

    /// This thread is a lane.
    pub(super) fn begin() {
        if let Ok(allowed) = sched_getaffinity(None) {
            SETTLED.set(Some(Settled { place: Place::Anywhere, asked: allowed, allowed }));
        }
    }

    pub(super) fn place() -> Option<Place> {
        SETTLED.with_borrow(|settled| settled.as_ref().map(|settled| settled.place))
    }

    pub(super) fn settle(place: Place) {
        SETTLED.with_borrow_mut(|settled| {
            if let Some(settled) = settled {
                settled.settle(place);
            }
        });
    }

    impl Settled {
        fn settle(&mut self, place: Place) {
            self.place = place;
            let Ok(current) = sched_getaffinity(None) else { return };
            if current != self.asked {
                self.allowed = current; // Somebody has changed it from outside.
            }
            let wanted = self.processors();
            if sched_setaffinity(None, &wanted).is_ok() {
                self.asked = wanted;
            }
        }

        /// All that are allowed, if none of them are of the place.
        fn processors(&self) -> CpuSet {
            let mut of_place = self.allowed;
            match self.place {
                Place::Off(processor) if is_known(processor) => of_place.unset(processor),
                Place::On(processor) if is_known(processor) && of_place.is_set(processor) => {
                    of_place.clear();
                    of_place.set(processor);
                }
                Place::Anywhere | Place::Off(_) | Place::On(_) => {}
            }
            if of_place.count() == 0 { self.allowed } else { of_place }
        }
    }

    fn is_known(processor: usize) -> bool {
        processor < CpuSet::MAX_CPU
    }

    /// On Linux this is of the calling thread alone.
    pub(super) fn lower_priority(steps: u32) {
        let more = steps.saturating_sub(LOWERED.replace(steps.max(LOWERED.get())));
        if more > 0
            && let Ok(nice) = getpriority_process(None)
        {
            let _ = setpriority_process(None, nice.saturating_add(more.min(NICE_MAX) as i32));
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
    fn a_lane_settles_where_it_is_told() {
        use rustix::thread::sched_getaffinity;
        let allowed = sched_getaffinity(None).unwrap();
        let here = SystemThreads.processor().unwrap();
        let places = [Place::Off(here), Place::On(here), Place::On(1 << 20), Place::Anywhere];
        let [off, on, on_none, anywhere] = on_a_lane(move || {
            places.map(|place| {
                SystemThreads.settle(place);
                assert_eq!(SystemThreads.place(), Some(place));
                sched_getaffinity(None).unwrap()
            })
        });
        assert_eq!([on_none, anywhere], [allowed; 2]);
        assert!(on.is_set(here) && on.count() == 1);
        let others = allowed.count() - 1;
        assert_eq!(off.is_set(here), others == 0, "of one processor there is no other");
        assert_eq!(off.count(), others.max(1));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn threads_of_others_stay_where_they_are() {
        use rustix::thread::sched_getaffinity;
        let allowed = sched_getaffinity(None).unwrap();
        SystemThreads.settle(Place::On(SystemThreads.processor().unwrap()));
        assert_eq!((SystemThreads.place(), sched_getaffinity(None).unwrap()), (None, allowed));
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
            SystemThreads.settle(Place::Off(first));
            sched_setaffinity(None, &only).unwrap();
            SystemThreads.settle(Place::Anywhere);
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
            [5, 5, 12, 7].map(|steps| {
                SystemThreads.lower_priority(steps);
                getpriority_process(None).unwrap()
            })
        });
        assert_eq!(after, [5, 5, 12, 12].map(|steps| (before + steps).min(19)));
        assert_eq!(getpriority_process(None).unwrap(), before, "of the lane alone");
    }

    #[test]
    fn joining_survives_a_panic() {
        let work = || panic!("on purpose");
        SystemThreads.spawn("doomed", Box::new(work)).unwrap().join();
    }
}
