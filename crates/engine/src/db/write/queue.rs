//! The writers' queue: one leads and commits for all who wait behind it.
//!
//! **Invariant.** The right to append is a value. Whoever holds the `C` (the committer) is the
//! leader; at rest it lies in the queue. Nobody else can name the log, the next sequence number or
//! the memtable's inserter.
//!
//! **Concurrency.** The queue's lock guards the resting committer and the list of waiters. A waiter is told its outcome, or
//! to take the committer. A lone one looks for that for a moment: a leader is mostly done before a thread is asleep
//! and awake again. The others, and then it, too, sleep on their own signals.
//!
//! Two who write all the time meet at every write, on two processors. What they both touch is moved from one's cache to the other's,
//! and whoever waits for a lock is mostly put to sleep. So waiters are made without the lock, of memory that their thread keeps for that;
//! a leader asks for the lock only where somebody waits; and outcomes are told without any.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::base::error::Result;
use crate::base::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::base::sync::{Mutex, Rank, look_for};
use crate::db::write::crowd::Crowd;
use crate::db::write::waiter::{Told, Waiter};

/// Some ten microseconds: what a sleep and waking up take.
const YIELDS_FOR_LEADER: u32 = 30;
/// Some forty microseconds: for several to wake up, by turns, and to write again. A sync takes longer.
const YIELDS_FOR_CROWD: u32 = 100;

pub(crate) struct WriteQueue<C> {
    state: Mutex<QueueState<C>>,
    /// How many write, the leader and those who wait: for a look without the lock. What counts is the state.
    writers: AtomicU64,
}

struct QueueState<C> {
    /// Here while nobody leads, and while a waiter is told to.
    committer: Option<C>,
    is_led: bool,
    waiting: VecDeque<Arc<Waiter>>,
    /// Whether the last leader took more than one along.
    is_crowded: bool,
    crowd: Crowd,
}

/// What joining the queue comes to.
pub(crate) enum Turn<C> {
    /// This writer leads, and must [`finish`](WriteQueue::finish).
    Lead(C),
    /// A leader committed this write.
    Done(Result<()>),
}

/// One write's body, its number of entries, and whether it wants a sync.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) body: &'a [u8],
    pub(crate) count: u32,
    pub(crate) sync: bool,
}

impl<C> WriteQueue<C> {
    pub(crate) fn new(committer: Option<C>) -> Self {
        let state = QueueState {
            is_led: committer.is_none(),
            committer,
            waiting: VecDeque::new(),
            is_crowded: false,
            crowd: Crowd::default(),
        };
        WriteQueue { state: Mutex::new(Rank::WriteQueue, state), writers: AtomicU64::new(0) }
    }

    /// Leads at once if nobody does (a lone writer pays one lock and copies nothing); else waits.
    pub(crate) fn join(&self, request: Request<'_>) -> Turn<C> {
        if self.writers.load(Relaxed) == 0
            && let Some(committer) = self.change(QueueState::try_to_lead)
        {
            return Turn::Lead(committer);
        }
        let waiter = Waiter::new(request);
        let joined = self.change(|state| match state.try_to_lead() {
            Some(committer) => Err(committer),
            None => {
                state.waiting.push_back(Arc::clone(&waiter));
                Ok(state.waiting.len() == 1 && !state.is_crowded)
            }
        });
        let is_next = match joined {
            Ok(is_next) => is_next,
            Err(committer) => {
                waiter.keep();
                return Turn::Lead(committer);
            }
        };
        // A sync takes longer than any moment, and many writers have better use for the processors.
        if is_next && !request.sync {
            look_for(YIELDS_FOR_LEADER, || waiter.is_told());
        }
        let told = waiter.wait();
        waiter.keep();
        match told {
            Told::Done(result) => Turn::Done(result),
            Told::Lead => {
                let committer = self.state.lock().committer.take();
                Turn::Lead(committer.expect("it was laid down for whom is told"))
            }
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut QueueState<C>) -> T) -> T {
        let mut state = self.state.lock();
        let changed = change(&mut state);
        let writers = usize::from(state.is_led) + state.waiting.len();
        self.writers.store(writers as u64, Relaxed);
        changed
    }

    /// A leader that is about to sync waits a moment for those whom the last sync was for.
    pub(crate) fn gather(&self) {
        let (awaited, patience) = {
            let crowd = &mut self.state.lock().crowd;
            (crowd.awaited(), crowd.patience())
        };
        if awaited == 0 {
            return;
        }
        look_for(patience * YIELDS_FOR_CROWD, || self.state.lock().waiting.len() >= awaited);
        let mut state = self.state.lock();
        let came = state.waiting.len();
        state.crowd.waited(awaited, came);
    }

    /// A leader's commit with a sync took so long.
    pub(crate) fn synced(&self, took: Duration) {
        self.state.lock().crowd.synced(took);
    }

    /// The leader takes along those who wait, in order, up to `bytes_max` bytes of bodies. A write
    /// that wants a sync does not join a leader that wants none: it would make it wait for the disk.
    pub(crate) fn take_group(&self, sync: bool, bytes_max: usize) -> Vec<Arc<Waiter>> {
        if self.writers.load(Relaxed) <= 1 {
            return Vec::new(); // Who is about to join will be asked for once more.
        }
        self.change(|state| {
            let (mut group, mut bytes) = (Vec::new(), 0);
            while let Some(waiter) = state.waiting.front() {
                bytes += waiter.body.len();
                if (waiter.sync && !sync) || bytes > bytes_max {
                    break;
                }
                group.extend(state.waiting.pop_front());
            }
            state.is_crowded = group.len() > 1;
            group
        })
    }

    /// Tells a group how its writes went.
    pub(crate) fn tell(&self, group: &[Arc<Waiter>], result: &Result<()>) {
        group.iter().for_each(|waiter| waiter.tell(Told::Done(result.clone())));
    }

    /// Lays the committer down if nobody waits for it; else gives it back.
    pub(crate) fn rest(&self, committer: C) -> Option<C> {
        self.change(|state| match state.waiting.is_empty() {
            true => {
                state.lay_down(committer);
                None
            }
            false => Some(committer),
        })
    }

    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.state.lock().waiting.len()
    }

    /// The leader's last act: tells its group, and hands the committer to the next in line.
    pub(crate) fn finish(&self, committer: C, group: &[Arc<Waiter>], result: &Result<()>) {
        let next = self.change(|state| {
            let waiting = state.waiting.len();
            state.crowd.committed(1 + group.len(), waiting);
            let next = state.waiting.pop_front();
            match next {
                Some(_) => state.committer = Some(committer),
                None => state.lay_down(committer),
            }
            next
        });
        if let Some(next) = next {
            next.tell(Told::Lead);
        }
        self.tell(group, result);
    }
}

impl<C> QueueState<C> {
    fn try_to_lead(&mut self) -> Option<C> {
        let committer = if self.is_led { None } else { self.committer.take() };
        if committer.is_some() {
            // Where nobody leads, nobody waits.
            (self.is_led, self.is_crowded) = (true, false);
        }
        committer
    }

    fn lay_down(&mut self, committer: C) {
        self.committer = Some(committer);
        self.is_led = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::Error;

    const EMPTY: Request<'_> = Request { body: b"", count: 0, sync: false };

    #[test]
    fn a_lone_writer_leads() {
        let queue = WriteQueue::new(Some(7));
        let Turn::Lead(committer) = queue.join(EMPTY) else { panic!("nobody else leads") };
        assert!(queue.take_group(true, usize::MAX).is_empty());
        queue.finish(committer, &[], &Ok(()));
        assert!(matches!(queue.join(EMPTY), Turn::Lead(7)));
    }

    /// The committer is a plain counter that every write raises once: a lost or doubled commit, or
    /// two leaders at once, would show in its final value.
    #[test]
    fn every_write_is_committed_once() {
        const THREADS: u64 = 4;
        const WRITES: u64 = 2000;
        let queue = WriteQueue::new(Some(0u64));
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for _ in 0..WRITES {
                        if let Turn::Lead(mut commits) = queue.join(EMPTY) {
                            let group = queue.take_group(false, usize::MAX);
                            commits += 1 + group.len() as u64;
                            queue.finish(commits, &group, &Ok(()));
                        }
                    }
                });
            }
        });
        assert!(matches!(queue.join(EMPTY), Turn::Lead(commits) if commits == THREADS * WRITES));
    }

    #[test]
    fn a_crowd_that_has_gone_is_forgotten() {
        let queue = WriteQueue::new(Some(()));
        queue.state.lock().is_crowded = true;
        let Turn::Lead(()) = queue.join(EMPTY) else { panic!("nobody else leads") };
        assert!(!queue.state.lock().is_crowded);
    }

    #[test]
    fn a_failure_reaches_the_whole_group() {
        let queue = WriteQueue::new(Some(()));
        let Turn::Lead(()) = queue.join(EMPTY) else { panic!("nobody else leads") };
        std::thread::scope(|scope| {
            let follower = scope.spawn(|| queue.join(EMPTY));
            let group = loop {
                let group = queue.take_group(false, usize::MAX);
                if !group.is_empty() {
                    break group;
                }
                std::thread::yield_now();
            };
            queue.finish((), &group, &Err(Error::corruption("on purpose")));
            let turn = follower.join().unwrap();
            assert!(matches!(turn, Turn::Done(Err(error)) if error.is_corruption()));
        });
    }

    #[test]
    fn sync_writes_wait_for_a_sync_leader() {
        let queue = WriteQueue::new(Some(()));
        let Turn::Lead(()) = queue.join(EMPTY) else { panic!("nobody else leads") };
        let synced = Request { sync: true, ..EMPTY };
        std::thread::scope(|scope| {
            let follower = scope.spawn(|| queue.join(synced));
            while queue.waiting() == 0 {
                std::thread::yield_now();
            }
            assert!(queue.take_group(false, usize::MAX).is_empty());
            queue.finish((), &[], &Ok(()));
            assert!(matches!(follower.join().unwrap(), Turn::Lead(())));
        });
    }
}

#[cfg(all(test, loom))]
mod exhaustive {
    use super::*;
    use crate::base::sync::explore;

    /// The committer keeps a journal of who was committed, and whether with a sync.
    type Journal = Vec<(u8, bool)>;

    /// Writes as `Core::write` does.
    fn write(queue: &WriteQueue<Journal>, id: u8, sync: bool) {
        let body = [id];
        let own = Request { body: &body, count: 1, sync };
        match queue.join(own) {
            Turn::Done(result) => result.unwrap(),
            Turn::Lead(mut journal) => {
                if sync {
                    queue.gather();
                }
                let group = queue.take_group(sync, usize::MAX);
                let synced = sync || group.iter().any(|waiter| waiter.sync);
                journal.push((id, synced));
                journal.extend(group.iter().map(|waiter| (waiter.body[0], synced)));
                if sync {
                    return queue.finish(journal, &group, &Ok(()));
                }
                queue.tell(&group, &Ok(()));
                let Some(mut journal) = queue.rest(journal) else { return };
                let late = queue.take_group(false, usize::MAX);
                journal.extend(late.iter().map(|waiter| (waiter.body[0], false)));
                queue.finish(journal, &late, &Ok(()));
            }
        }
    }

    fn every_write_is_committed_once(syncs: [bool; 3]) {
        explore(move || {
            let queue = Arc::new(WriteQueue::new(Some(Journal::new())));
            let start = |id: u8| {
                let queue = Arc::clone(&queue);
                loom::thread::spawn(move || write(&queue, id, syncs[id as usize]))
            };
            let others = [start(1), start(2)];
            write(&queue, 0, syncs[0]);
            others.into_iter().for_each(|other| other.join().unwrap());
            let nothing = Request { body: b"", count: 0, sync: false };
            let Turn::Lead(mut journal) = queue.join(nothing) else { panic!("all are done") };
            journal.sort_unstable();
            assert!(journal.iter().map(|(id, _)| *id).eq([0, 1, 2]), "{journal:?}");
            assert!(journal.iter().all(|(id, synced)| *synced || !syncs[*id as usize]));
        });
    }

    #[test]
    fn loom_a_group_is_committed_once_and_told() {
        every_write_is_committed_once([false; 3]);
    }

    #[test]
    fn loom_waiters_may_be_used_again() {
        explore(|| {
            let queue = Arc::new(WriteQueue::new(Some(Journal::new())));
            let own = Arc::clone(&queue);
            let other = loom::thread::spawn(move || [1, 2].map(|id| write(&own, id, false)));
            write(&queue, 0, false);
            other.join().unwrap();
            let nothing = Request { body: b"", count: 0, sync: false };
            let Turn::Lead(mut journal) = queue.join(nothing) else { panic!("all are done") };
            journal.sort_unstable();
            assert!(journal.iter().map(|(id, _)| *id).eq([0, 1, 2]), "{journal:?}");
        });
    }

    #[test]
    fn loom_syncs_are_not_lost_in_a_group() {
        every_write_is_committed_once([false, true, false]);
        every_write_is_committed_once([true, false, true]);
    }
}
