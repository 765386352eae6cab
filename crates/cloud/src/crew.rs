//! Threads that ask a bucket while those who want the answer go on. They are started when the first is wanted, and take what is left
//! to them in order.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use siltstone::{Lane, Threads};

/// More work than this waits for nobody: who wants it will do it.
const WAITING_MAX: usize = 64;

type Work = Box<dyn FnOnce() + Send>;

/// Where work is left for a [`Crew`]. Cheap to clone; those who have one do not keep the threads.
#[derive(Clone)]
pub struct CrewDesk(Arc<Shared>);

struct Shared {
    threads: Arc<dyn Threads>,
    lanes_max: usize,
    state: Mutex<State>,
    called: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Work>,
    is_closed: bool,
    /// Threads that wait for work.
    idle: usize,
    lanes: Vec<Box<dyn Lane>>,
}

/// Threads that wait for a bucket so that others need not. They end with this value, once they have done what they are at; work that
/// still waits is dropped.
pub struct Crew(CrewDesk);

impl Crew {
    /// Up to so many threads, of which none is started yet.
    pub fn new(threads: Arc<dyn Threads>, lanes_max: usize) -> Self {
        let (state, called) = (Mutex::default(), Condvar::new());
        Crew(CrewDesk(Arc::new(Shared { threads, lanes_max, state, called })))
    }

    /// Where their work is left.
    pub fn desk(&self) -> &CrewDesk {
        &self.0
    }
}

impl CrewDesk {
    fn state(&self) -> MutexGuard<'_, State> {
        // Work is done outside; what is inside is whole.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves work. False if nobody will do it; then it is dropped. Starts a thread if all are busy and there may be another.
    pub fn leave(&self, work: Box<dyn FnOnce() + Send>) -> bool {
        self.offer(work).is_ok()
    }

    /// Leaves work, or does it at once if nobody else will.
    pub fn have_done(&self, work: Box<dyn FnOnce() + Send>) {
        if let Err(work) = self.offer(work) {
            work();
        }
    }

    fn offer(&self, work: Work) -> Result<(), Work> {
        let mut state = self.state();
        if state.is_closed || state.waiting.len() >= WAITING_MAX {
            return Err(work);
        }
        if state.waiting.len() >= state.idle && state.lanes.len() < self.0.lanes_max {
            let desk = self.clone();
            let lane = self.0.threads.spawn("bucket", Box::new(move || desk.work_off()));
            // If it cannot be had, those who are here will get to it.
            state.lanes.extend(lane.ok());
        }
        if state.lanes.is_empty() {
            return Err(work);
        }
        state.waiting.push_back(work);
        self.0.called.notify_one();
        Ok(())
    }

    /// What a lane does.
    fn work_off(&self) {
        let mut state = self.state();
        while !state.is_closed {
            match state.waiting.pop_front() {
                Some(work) => {
                    drop(state);
                    work();
                    state = self.state();
                }
                None => {
                    state.idle += 1;
                    state = self.0.called.wait(state).unwrap_or_else(PoisonError::into_inner);
                    state.idle -= 1;
                }
            }
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.is_closed = true;
        let (lanes, undone) =
            (std::mem::take(&mut state.lanes), std::mem::take(&mut state.waiting));
        drop(state);
        self.0.0.called.notify_all();
        // Readers may wait for it: that it is dropped tells them.
        drop(undone);
        lanes.into_iter().for_each(Lane::join);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use siltstone::Env;

    use super::*;

    #[test]
    fn work_is_done_as_long_as_the_crew_is_there() {
        let crew = Crew::new(Env::memory().threads, 2);
        let desk = crew.desk().clone();
        let (sender, receiver) = mpsc::channel();
        for number in 0..20 {
            let sender = sender.clone();
            let work = Box::new(move || sender.send(number).unwrap());
            assert!(desk.leave(work));
        }
        let mut done: Vec<i32> = receiver.iter().take(20).collect();
        done.sort_unstable();
        assert_eq!(done, (0..20).collect::<Vec<_>>());
        assert!(desk.state().lanes.len() <= 2);
        drop(crew);
        assert!(!desk.leave(Box::new(|| ())));
    }

    #[test]
    fn nobody_does_it_where_there_are_no_threads() {
        let crew = Crew::new(Env::memory().threads, 0);
        assert!(!crew.desk().leave(Box::new(|| ())));
        let (sender, receiver) = mpsc::channel();
        crew.desk().have_done(Box::new(move || sender.send(()).unwrap()));
        receiver.try_recv().unwrap();
    }
}
