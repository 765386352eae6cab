//! Extents of tables on a local disk: what was got from a bucket need not be got again, not even after a restart. Tables in
//! a bucket look here before they ask the bucket.
//!
//! ```text
//!  reader --copy--> queue, index --> segment files      0000000007.extents  oldest: goes first
//!  reader --keep--> queue --thread--> newest segment    0000000008.extents
//!                                                       0000000009.extents  newest: written
//! ```
//!
//! I1: nobody gets bytes from here that were not kept under that key: every page has a checksum, which is looked at whenever it is
//! read. What fails it is forgotten, and counted.
//! I2: a reader never waits for a write, and never fails for want of a cache: what cannot be read is not cached, what cannot
//! be written is not kept.
//!
//! **Concurrency.** The index has a lock, and so has the queue; both are held for a look in memory. One thread writes.

mod ghosts;
mod index;
mod inner;
mod layout;
mod queue;
#[cfg(test)]
mod tests;
mod writer;

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use siltstone::{Env, Error, FileLock, Lane, Result, Site};

use self::ghosts::Ghosts;
use self::inner::{Inner, add};
use self::writer::Writer;
use super::object::{ExtentBytes, ObjectKey, TableObject, copy_from};

/// An extent of an object.
pub(super) type Key = (ObjectKey, u32);

/// Segments are a sixteenth of the cache, but no longer than this: to give one up should not take long, ..
const SEGMENT_BYTES_MAX: u64 = 64 << 20;
/// .. and no shorter than this: two extents with all that belongs to them.
const SEGMENT_BYTES_MIN: u64 = 256 << 10;
/// What can be cached in at all.
const CAPACITY_BYTES_MIN: u64 = 1 << 20;

fn segment_bytes(capacity_bytes: u64) -> u64 {
    (capacity_bytes / 16).clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX)
}

/// How large a cache is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheOptions {
    /// What its files may take. At least 1 MiB; in memory it takes some 90 bytes for each extent.
    pub capacity_bytes: u64,
    /// What is got, kept and forgotten as a whole: a power of two from 4 to 64 KiB. A cache of another size is emptied when it is opened.
    pub extent_bytes: u32,
}

impl CacheOptions {
    /// Extents of 64 KiB: a get of them takes hardly longer than one of 4 KiB.
    pub fn new(capacity_bytes: u64) -> Self {
        CacheOptions { capacity_bytes, extent_bytes: 64 << 10 }
    }
}

/// Why an extent is to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fill {
    /// Somebody has asked for it.
    Wanted,
    /// A scan came by: once the cache is full it is kept only if one did not long ago.
    PassedBy,
}

/// What a cache holds, and what has become of extents since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStats {
    /// Extents it has.
    pub extents: u64,
    /// Files they lie in.
    pub segments: u64,
    /// What these take on disk.
    pub bytes: u64,
    /// Extents written.
    pub kept: u64,
    /// Extents of scans that were not kept.
    pub refused: u64,
    /// Extents that were not kept because the disk could not follow, or is full.
    pub dropped: u64,
    /// Extents that went with a segment.
    pub evicted: u64,
    /// Extents that were written again, because they had been read, when their segment went.
    pub carried: u64,
    /// Extents and segments that were not as they were written.
    pub damaged: u64,
    /// Writes that failed. Each ends caching for half a minute.
    pub failed_writes: u64,
}

/// A cache of tables' extents in a folder of its own, for tables of one bucket. It outlives the process. A crash at any moment loses extents
/// that were written last, and nothing else; what has been damaged is got again.
pub struct ExtentCache {
    inner: Arc<Inner>,
    ghosts: Ghosts,
    lane: Mutex<Option<Box<dyn Lane>>>,
    _lock: Box<dyn FileLock>,
}

impl ExtentCache {
    /// Opens the cache in `folder`, which is made if it is not there. Reads what its segments contain: some milliseconds for a GiB. Starts a
    /// thread, which ends with the value. [`ErrorKind::Locked`](siltstone::ErrorKind) if somebody has it open.
    pub fn open(env: &Env, folder: &Path, options: CacheOptions) -> Result<Arc<Self>> {
        let extents = ExtentBytes::new(options.extent_bytes)?;
        if options.capacity_bytes < CAPACITY_BYTES_MIN {
            let message =
                format!("a cache of {} bytes: 1 MiB is the least", options.capacity_bytes);
            return Err(Error::invalid_argument(message));
        }
        env.file_system.create_dir(folder, Site::DbDirCreate)?;
        let lock = env.file_system.lock(&folder.join("LOCK"), Site::LockCreate)?;
        let inner = Arc::new(Inner::new(env.clone(), folder, options.capacity_bytes, extents));
        inner.find_segments()?;
        let writer = Writer::new(Arc::clone(&inner));
        let lane = env.threads.spawn("extent-cache", Box::new(move || writer.run()))?;
        let ghosts = Ghosts::new(options.capacity_bytes / u64::from(options.extent_bytes));
        Ok(Arc::new(ExtentCache { inner, ghosts, lane: Mutex::new(Some(lane)), _lock: lock }))
    }

    /// An extent of a table, if it is cached.
    pub fn read(&self, object: &TableObject, extent: u32) -> Option<Bytes> {
        let range = self.inner.extents.bytes_of(&(extent..extent.saturating_add(1)), object.bytes);
        let mut bytes = vec![0; usize::try_from(range.end - range.start).ok()?];
        let found = !bytes.is_empty() && self.copy((object.key(), extent), 0, &mut bytes, true);
        found.then(|| Bytes::from(bytes))
    }

    /// Has an extent of a table written soon. Dropped if it has not the length that it must have.
    pub fn keep(&self, object: &TableObject, extent: u32, bytes: Bytes) {
        let range = self.inner.extents.bytes_of(&(extent..extent.saturating_add(1)), object.bytes);
        if !bytes.is_empty() && bytes.len() as u64 == range.end - range.start {
            let len = bytes.len();
            self.keep_part((object.key(), extent), &bytes, 0..len, Fill::Wanted);
        }
    }

    /// Forgets a table that nobody will read again.
    pub fn forget(&self, object: &TableObject) {
        let object = object.key();
        self.inner.queue.forget(|(of, _)| *of == object);
        self.inner.index().remove_object(object);
    }

    /// How much of a table is cached, but for what is still to be written.
    pub fn cached_bytes(&self, object: &TableObject) -> u64 {
        self.inner.index().bytes_of(object.key())
    }

    /// Which of a table's bytes are cached, but for what is still to be written: in order, and apart from each other.
    pub fn cached(&self, object: &TableObject) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for extent in self.inner.index().extents_of(object.key()) {
            let bytes = self.inner.extents.bytes_of(&(extent..extent + 1), object.bytes);
            match ranges.last_mut() {
                Some(last) if last.end == bytes.start => last.end = bytes.end,
                _ => ranges.push(bytes),
            }
        }
        ranges
    }

    /// Waits until all that was kept is written.
    pub fn settle(&self) {
        self.inner.queue.settle();
    }

    /// What it holds, and what has become of it.
    pub fn stats(&self) -> CacheStats {
        let (extents, segments, bytes) = self.inner.index().totals();
        let counters = &self.inner.counters;
        CacheStats {
            extents,
            segments,
            bytes,
            kept: counters.kept.load(Relaxed),
            refused: counters.refused.load(Relaxed),
            dropped: counters.dropped.load(Relaxed),
            evicted: counters.evicted.load(Relaxed),
            carried: counters.carried.load(Relaxed),
            damaged: counters.damaged.load(Relaxed),
            failed_writes: counters.failed_writes.load(Relaxed),
        }
    }

    pub(super) fn extent_bytes(&self) -> u32 {
        self.inner.extents.bytes()
    }

    pub(super) fn has(&self, key: &Key) -> bool {
        self.inner.queue.get(key).is_some() || self.inner.index().has(key)
    }

    /// Copies a part of an extent, all of `buf`; false if it is not there. `counts` if it is to stay for it.
    pub(super) fn copy(&self, key: Key, within: u32, buf: &mut [u8], counts: bool) -> bool {
        // In this order: what leaves the queue is in the index by then.
        if let Some(bytes) = self.inner.queue.get(&key) {
            return copy_from(bytes.get(within as usize..).unwrap_or_default(), buf) == buf.len();
        }
        let Some((place, file)) = self.inner.index().find(&key, counts) else { return false };
        let is_sound = layout::read_part(&*file, &key, place, within, buf).unwrap_or(false);
        if !is_sound && self.inner.index().remove(&key, Some(place)) {
            add(&self.inner.counters.damaged, 1);
        }
        is_sound
    }

    /// Has a part of what was got written as an extent.
    pub(super) fn keep_part(&self, key: Key, got: &Bytes, part: Range<usize>, fill: Fill) {
        if self.has(&key) {
            return;
        }
        if fill == Fill::PassedBy && self.inner.is_full() && !self.ghosts.note(&key) {
            return add(&self.inner.counters.refused, 1);
        }
        // A slice would keep all that was got in memory until it is written.
        let bytes = match part.len() == got.len() {
            true => got.clone(),
            false => Bytes::copy_from_slice(got.get(part).unwrap_or_default()),
        };
        if !self.inner.queue.push(key, bytes) {
            add(&self.inner.counters.dropped, 1);
        }
    }

    /// What was kept is damaged, though its checksum is right: it was damaged when it came.
    pub(super) fn drop_damaged(&self, key: &Key) {
        self.inner.queue.forget(|one| one == key);
        if self.inner.index().remove(key, None) {
            add(&self.inner.counters.damaged, 1);
        }
    }
}

impl fmt::Debug for ExtentCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ExtentCache").field(&self.stats()).finish()
    }
}

impl Drop for ExtentCache {
    fn drop(&mut self) {
        self.inner.queue.close();
        let mut lane = self.lane.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lane) = lane.take() {
            lane.join();
        }
    }
}
