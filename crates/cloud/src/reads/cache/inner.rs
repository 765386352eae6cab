//! What readers and the writing thread of a cache share, and how it is found again when it is opened.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use siltstone::{Env, Result, Site};

use super::index::Index;
use super::layout;
use super::queue::Queue;
use crate::reads::object::ExtentBytes;

/// What segments are called: their number, and this.
const SUFFIX: &str = ".extents";

pub(super) struct Inner {
    pub(super) env: Env,
    folder: PathBuf,
    pub(super) capacity_bytes: u64,
    pub(super) segment_bytes: u64,
    pub(super) extents: ExtentBytes,
    pub(super) queue: Queue,
    pub(super) counters: Counters,
    index: Mutex<Index>,
}

#[derive(Default)]
pub(super) struct Counters {
    pub(super) kept: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) dropped: AtomicU64,
    pub(super) carried: AtomicU64,
    pub(super) evicted: AtomicU64,
    pub(super) damaged: AtomicU64,
    pub(super) failed_writes: AtomicU64,
}

/// Counters order nothing.
pub(super) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Relaxed);
}

impl Inner {
    pub(super) fn new(env: Env, folder: &Path, capacity_bytes: u64, extents: ExtentBytes) -> Self {
        Inner {
            env,
            folder: folder.to_owned(),
            capacity_bytes,
            segment_bytes: super::segment_bytes(capacity_bytes),
            extents,
            queue: Queue::default(),
            counters: Counters::default(),
            index: Mutex::default(),
        }
    }

    pub(super) fn index(&self) -> MutexGuard<'_, Index> {
        // Its changes are whole: nothing in them calls out.
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn path_of(&self, segment: u32) -> PathBuf {
        self.folder.join(format!("{segment:010}{SUFFIX}"))
    }

    /// What segments may take before one is given up: out of it, others are taken along.
    pub(super) fn limit_bytes(&self) -> u64 {
        self.capacity_bytes - self.segment_bytes
    }

    /// True if what comes now has others go, or will soon.
    pub(super) fn is_full(&self) -> bool {
        self.index().bytes() > self.limit_bytes().saturating_sub(2 * self.segment_bytes)
    }

    /// Takes in the segments that are there. What cannot be read, or is of other settings, is removed.
    pub(super) fn find_segments(&self) -> Result<()> {
        let names = self.env.file_system.list(&self.folder)?;
        let mut numbers: Vec<u32> = names.iter().filter_map(|name| number_of(name)).collect();
        numbers.sort_unstable();
        for number in numbers {
            if !self.find_segment(number).unwrap_or(false) {
                add(&self.counters.damaged, 1);
                self.env.file_system.remove_file(&self.path_of(number), Site::TableRemove)?;
            }
        }
        self.shrink()
    }

    /// False if the file is none of these.
    fn find_segment(&self, number: u32) -> Result<bool> {
        let file = self.env.file_system.open(&self.path_of(number))?;
        let contents = layout::read_contents(&*file, number, self.extents.bytes())?;
        let Some(records) = contents else { return Ok(false) };
        let mut index = self.index();
        index.add_segment(number, file.clone(), file.len());
        records.into_iter().for_each(|(key, place)| index.put(key, place));
        Ok(true)
    }

    /// The cache may have been larger before.
    fn shrink(&self) -> Result<()> {
        loop {
            let index = self.index();
            let oldest = index.next_to_go(None).filter(|_| index.bytes() > self.capacity_bytes);
            drop(index);
            match oldest {
                Some(oldest) => self.drop_segment(oldest)?,
                None => return Ok(()),
            }
        }
    }

    /// Forgets what lies in a segment, and removes it.
    pub(super) fn drop_segment(&self, number: u32) -> Result<()> {
        let gone = self.index().remove_segment(number);
        add(&self.counters.evicted, u64::from(gone));
        self.env.file_system.remove_file(&self.path_of(number), Site::TableRemove)
    }
}

/// The number of a segment, by the only name that it may have.
fn number_of(name: &str) -> Option<u32> {
    let number = name.strip_suffix(SUFFIX)?.parse().ok()?;
    (format!("{number:010}{SUFFIX}") == name).then_some(number)
}
