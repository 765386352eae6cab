//! Snapshots: sequence numbers that compaction must keep readable.
//!
//! **Concurrency.** A snapshot reads the visible number and registers it under one lock; a job reads
//! the registered numbers and the visible one under the same lock. So no job can miss a snapshot
//! that is older than its start.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::base::key::SeqNo;
use crate::base::sync::{Mutex, Rank};
use crate::db::core::Core;

/// The live snapshots and how many handles each has.
pub(crate) struct SnapshotList(Mutex<BTreeMap<SeqNo, usize>>);

impl SnapshotList {
    pub(crate) fn new() -> Self {
        SnapshotList(Mutex::new(Rank::Snapshots, BTreeMap::new()))
    }

    /// The lowest number that some read may ask for: the oldest snapshot's, or the visible one.
    pub(crate) fn oldest(&self, visible: impl FnOnce() -> SeqNo) -> SeqNo {
        self.0.lock().keys().next().copied().unwrap_or_else(visible)
    }

    fn acquire(&self, visible: impl FnOnce() -> SeqNo) -> SeqNo {
        let mut live = self.0.lock();
        let seqno = visible();
        *live.entry(seqno).or_default() += 1;
        seqno
    }

    fn release(&self, seqno: SeqNo) {
        let mut live = self.0.lock();
        let handles = live.get_mut(&seqno).expect("a snapshot is released once");
        *handles -= 1;
        if *handles == 0 {
            live.remove(&seqno);
        }
    }

    /// Every number that some read may ask for, ascending: the snapshots', then the visible one.
    pub(crate) fn with_visible(&self, visible: impl FnOnce() -> SeqNo) -> Vec<SeqNo> {
        let live = self.0.lock();
        let mut seqnos: Vec<SeqNo> = live.keys().copied().collect();
        let visible = visible();
        if seqnos.last() != Some(&visible) {
            seqnos.push(visible);
        }
        seqnos
    }
}

/// A view of the database as it was at one moment. Cheap to clone; while a clone lives, compaction
/// keeps what it sees, which costs disk space where keys are overwritten or deleted.
///
/// A snapshot belongs to the database that made it and keeps it open.
#[derive(Clone)]
pub struct Snapshot(Arc<Registered>);

struct Registered {
    core: Arc<Core>,
    seqno: SeqNo,
}

impl Snapshot {
    pub(crate) fn new(core: &Arc<Core>) -> Self {
        let seqno = core.snapshots.acquire(|| core.visible_seqno());
        Snapshot(Arc::new(Registered { core: Arc::clone(core), seqno }))
    }

    /// The sequence number of the last write it sees.
    pub fn seqno(&self) -> SeqNo {
        self.0.seqno
    }

    pub(crate) fn belongs_to(&self, core: &Core) -> bool {
        std::ptr::eq(&*self.0.core, core)
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.core.snapshots.release(self.seqno);
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Snapshot({})", self.0.seqno)
    }
}

#[cfg(all(test, loom))]
mod exhaustive {
    use super::*;
    use crate::base::sync::atomic::{AtomicU64, Ordering};
    use crate::base::sync::explore;

    #[test]
    fn loom_no_job_misses_a_snapshot_older_than_its_start() {
        explore(|| {
            let live = Arc::new(SnapshotList::new());
            let visible = Arc::new(AtomicU64::new(1));
            let look = |visible: &AtomicU64| SeqNo(visible.load(Ordering::Acquire));
            let reader = {
                let (live, visible) = (Arc::clone(&live), Arc::clone(&visible));
                loom::thread::spawn(move || {
                    let first = live.acquire(|| look(&visible));
                    let second = live.acquire(|| look(&visible));
                    assert!(first <= second);
                    live.release(first);
                    second
                })
            };
            let job = {
                let (live, visible) = (Arc::clone(&live), Arc::clone(&visible));
                loom::thread::spawn(move || live.with_visible(|| look(&visible)))
            };
            visible.store(2, Ordering::Release);
            visible.store(3, Ordering::Release);
            let (snapshot, kept) = (reader.join().unwrap(), job.join().unwrap());
            let newest = *kept.last().unwrap();
            assert!(kept.contains(&snapshot) || snapshot >= newest, "{snapshot} not in {kept:?}");
            assert_eq!(live.oldest(|| SeqNo(9)), snapshot);
            live.release(snapshot);
            assert_eq!(live.oldest(|| SeqNo(9)), SeqNo(9));
        });
    }
}
