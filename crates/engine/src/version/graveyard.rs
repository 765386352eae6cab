//! What destructors, installers and writers leave to the housekeeping lane: files to remove and to close, memory to let go of,
//! and what else it does for them. Whoever leaves something does no I/O.

use crate::base::sync::{Mutex, Rank, Signal};
use crate::env::fs::WritableFile;
use crate::format::filename::FileName;

pub(crate) struct Graveyard {
    inner: Mutex<Buried>,
    bell: Signal,
}

#[derive(Default)]
struct Buried {
    graves: Graves,
    closed: bool,
}

#[derive(Default)]
pub(crate) struct Graves {
    /// To remove.
    pub(crate) names: Vec<FileName>,
    /// Logs to close that nobody needs. Of a file that is removed already, its close frees the memory and the disk space,
    /// which may take milliseconds.
    pub(crate) logs: Vec<Box<dyn WritableFile>>,
    /// Memory that nobody needs: the maps by which full logs were appended to, and where writers of full memtables looked.
    pub(crate) scraps: Vec<Box<dyn Send>>,
    /// Writers will need memory soon.
    pub(crate) wants_memory: bool,
    /// The block cache will need memory soon.
    pub(crate) wants_cache_memory: bool,
    /// The next log should be made.
    pub(crate) wants_log: bool,
    /// Somebody should see which tables are to be in memory.
    pub(crate) wants_residents: bool,
}

impl Graves {
    /// Scraps alone are not worth a thread's waking: a full log is flushed, and removed soon.
    pub(crate) fn is_empty(&self) -> bool {
        let wants_memory = self.wants_memory || self.wants_cache_memory;
        let wants = wants_memory || self.wants_log || self.wants_residents;
        self.names.is_empty() && self.logs.is_empty() && !wants
    }
}

impl Graveyard {
    pub(crate) fn new() -> Self {
        Graveyard { inner: Mutex::new(Rank::Leaf, Buried::default()), bell: Signal::default() }
    }

    pub(crate) fn bury(&self, name: FileName) {
        self.inner.lock().graves.names.push(name);
        self.bell.notify_one();
    }

    pub(crate) fn bury_log(&self, log: Box<dyn WritableFile>) {
        self.inner.lock().graves.logs.push(log);
        self.bell.notify_one();
    }

    pub(crate) fn ask_for_memory(&self) {
        self.inner.lock().graves.wants_memory = true;
        self.bell.notify_one();
    }

    pub(crate) fn ask_for_cache_memory(&self) {
        self.inner.lock().graves.wants_cache_memory = true;
        self.bell.notify_one();
    }

    pub(crate) fn ask_for_log(&self) {
        self.inner.lock().graves.wants_log = true;
        self.bell.notify_one();
    }

    /// Has housekeeping look which tables should be in memory.
    pub(crate) fn ask_for_residents(&self) {
        self.inner.lock().graves.wants_residents = true;
        self.bell.notify_one();
    }

    /// Takes memory to let go of, whenever there is something else to do.
    pub(crate) fn bury_scrap(&self, scrap: Box<dyn Send>) {
        self.inner.lock().graves.scraps.push(scrap);
    }

    /// What there is to do now.
    pub(crate) fn take(&self) -> Graves {
        std::mem::take(&mut self.inner.lock().graves)
    }

    /// Waits for something to do; `None` once closed and empty.
    pub(crate) fn wait(&self) -> Option<Graves> {
        let mut buried = self.inner.lock();
        while buried.graves.is_empty() {
            if buried.closed {
                return None;
            }
            buried = self.bell.wait(buried);
        }
        Some(std::mem::take(&mut buried.graves))
    }

    /// Lets the waiting lane end when nothing is left.
    pub(crate) fn close(&self) {
        self.inner.lock().closed = true;
        self.bell.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::env::site::Site;

    #[test]
    fn logs_are_handed_over_to_be_closed() {
        let graveyard = Graveyard::new();
        let fs = crate::Env::memory().file_system;
        graveyard.bury_log(fs.create_log("1.log".as_ref(), Site::WalCreate).unwrap());
        let graves = graveyard.wait().unwrap();
        assert_eq!((graves.names.len(), graves.logs.len()), (0, 1));
        assert!(graveyard.take().is_empty());
    }

    #[test]
    fn scraps_wait_for_the_next_file() {
        let graveyard = Graveyard::new();
        let map = Arc::new(());
        graveyard.bury_scrap(Box::new(Arc::clone(&map)));
        graveyard.bury(FileName::Current);
        let graves = graveyard.wait().unwrap();
        assert_eq!((graves.names.len(), graves.scraps.len()), (1, 1));
        drop(graves);
        assert_eq!(Arc::strong_count(&map), 1);
    }

    #[test]
    fn waiting_ends_with_something_to_remove_or_the_end() {
        let graveyard = Arc::new(Graveyard::new());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| (graveyard.wait(), graveyard.wait()));
            graveyard.bury(FileName::Current);
            // Whether the lane waits already or not, it hears of both.
            graveyard.close();
            let (first, second) = waiting.join().unwrap();
            assert_eq!(first.unwrap().names, [FileName::Current]);
            assert!(second.is_none());
        });
    }
}
