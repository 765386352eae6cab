//! A table in a bucket, read as if it were a file at hand. The engine's readers of tables call it, from many threads.
//!
//! What is asked for is looked for in the table's tail, then in what scans have read ahead, then in the cache on disk; what
//! is in none of them is got, whole extents at a time.
//!
//! **Concurrency.** The lock of the tail is held for a look; no call is made under it.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use siltstone::{Access, RandomAccessFile, Result};

use super::counters::add;
use super::flight::Flight;
use super::object::{ObjectKey, TableObject, copy_from};
use super::tables::Shared;
use super::tail::Tail;
use super::windows::Near;
use crate::bucket::{Purpose, Tag};

/// An open table in a bucket. Made by [`RemoteTables`](crate::RemoteTables).
///
/// Reads wait for the bucket if they must, until the deadline of their purpose at the latest. An object that is gone is
/// `NotFound`, one of another size `Corruption`; a bucket that cannot be reached, or an answer that did not get here whole, `Io`.
pub struct RemoteTable {
    core: Arc<Core>,
}

/// The table, as those who have opened it share it.
pub(super) struct Core {
    pub(super) shared: Arc<Shared>,
    pub(super) object: TableObject,
    pub(super) key: ObjectKey,
    id: u64,
    pub(super) path: PathBuf,
    pub(super) tail: Mutex<Tail>,
    /// Where the tail begins, at most: most reads need not lock it.
    pub(super) tail_start: AtomicU64,
    pub(super) flights: Mutex<Vec<Arc<Flight>>>,
    /// Of the object that answers came from.
    pub(super) tag: Mutex<Option<Tag>>,
}

/// Where bytes were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// In memory, or on the disk here.
    Near,
    /// In the bucket.
    Far,
}

impl RemoteTable {
    pub(super) fn new(core: Arc<Core>) -> Self {
        RemoteTable { core }
    }

    pub(super) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Which bytes it is.
    pub fn object(&self) -> &TableObject {
        &self.core.object
    }
}

impl fmt::Debug for RemoteTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RemoteTable").field(self.object()).finish()
    }
}

impl RandomAccessFile for RemoteTable {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.core.read(buf, offset, Access::Get)
    }

    fn read_for(&self, buf: &mut [u8], offset: u64, access: Access) -> Result<usize> {
        self.core.read(buf, offset, access)
    }

    fn drop_copy(&self, offset: u64, len: usize) -> bool {
        self.core.drop_copy(offset, len)
    }

    fn len(&self) -> u64 {
        self.core.object.bytes
    }

    fn path(&self) -> &Path {
        &self.core.path
    }
}

impl Core {
    pub(super) fn new(shared: Arc<Shared>, object: TableObject, id: u64) -> Self {
        let tail = Tail { start: object.bytes, bytes: Bytes::new(), purpose: Purpose::Get };
        Core {
            shared,
            key: object.key(),
            id,
            path: PathBuf::from(&object.name),
            tail: Mutex::new(tail),
            tail_start: AtomicU64::new(object.bytes),
            flights: Mutex::default(),
            tag: Mutex::default(),
            object,
        }
    }

    pub(super) fn object(&self) -> &TableObject {
        &self.object
    }

    fn read(self: &Arc<Self>, buf: &mut [u8], offset: u64, access: Access) -> Result<usize> {
        let end = offset.saturating_add(buf.len() as u64).min(self.object.bytes);
        let Some(len) = end.checked_sub(offset) else { return Ok(0) };
        let buf = buf.get_mut(..len as usize).unwrap_or_default();
        match access {
            Access::Open => self.go_on_opening(offset)?,
            _ => self.end_opening(),
        }
        self.fill(buf, offset, access)?;
        Ok(buf.len())
    }

    /// Fills all of `buf`, which ends within the table. Returns how far some of it was.
    pub(super) fn fill(
        self: &Arc<Self>,
        buf: &mut [u8],
        offset: u64,
        access: Access,
    ) -> Result<Found> {
        let (mut filled, mut found) = (0, Found::Near);
        while let Some(rest) = buf.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let at = offset + filled as u64;
            filled += match self.copy_near(rest, at, access) {
                0 => {
                    found = Found::Far;
                    self.copy_far(rest, at, access)?
                }
                copied => copied,
            };
        }
        Ok(found)
    }

    /// Copies from `offset` on what takes no call on the bucket; 0 if the first byte does.
    fn copy_near(&self, buf: &mut [u8], offset: u64, access: Access) -> usize {
        let is_scan = matches!(access, Access::Scan | Access::Merge);
        let mut copied = 0;
        if offset >= self.tail_start.load(Relaxed) {
            copied = self.tail().copy(buf, offset);
        }
        if copied == 0 && is_scan {
            let at = (offset, self.shared.extents.at(offset));
            match self.shared.windows.copy((self.id, access), at, buf) {
                Near::Copied(len) => copied = len,
                Near::Ahead => return 0,
                Near::Not => {}
            }
        }
        if copied == 0 {
            copied = self.copy_cached(buf, offset, access);
        }
        copied
    }

    /// Copies from the cache what it has of the extent at `offset`.
    fn copy_cached(&self, buf: &mut [u8], offset: u64, access: Access) -> usize {
        let Some(cache) = &self.shared.cache else { return 0 };
        let extents = self.shared.extents;
        let extent = extents.at(offset);
        let within = offset - extents.start(extent);
        let len = (u64::from(extents.bytes()) - within).min(buf.len() as u64);
        let buf = buf.get_mut(..len as usize).unwrap_or_default();
        if !cache.copy((self.key, extent), within as u32, buf, access != Access::Merge) {
            return 0;
        }
        add(&self.shared.counters.cache_hits, 1);
        add(&self.shared.counters.cache_bytes, len);
        buf.len()
    }

    /// Gets what `buf` needs from `offset` on, or waits for who is at it already. 0 if meanwhile it has come near.
    fn copy_far(self: &Arc<Self>, buf: &mut [u8], offset: u64, access: Access) -> Result<usize> {
        add(&self.shared.counters.misses, 1);
        let read = offset..offset + buf.len() as u64;
        let (extents, windows) = (self.shared.extents, &self.shared.windows);
        let extent = extents.at(offset);
        let copy = |from: &Range<u32>, bytes: &Bytes, buf: &mut [u8]| {
            let at = (offset - extents.start(from.start)) as usize;
            copy_from(bytes.get(at..).unwrap_or_default(), buf)
        };
        if matches!(access, Access::Get | Access::Open) {
            let wanted = extents.span(&read);
            let Some((from, bytes)) = self.get_once(extent, wanted, access)? else { return Ok(0) };
            return Ok(copy(&from, &bytes, buf));
        }
        let landed = windows.take_ahead(self.id, access, extent);
        landed.iter().for_each(|(run, _)| self.read_ahead(*run, access));
        // What was read ahead in vain is tried again by who needs it.
        let landed = landed
            .and_then(|(run, flight)| Some((run, flight.extents.clone(), flight.wait().ok()?)));
        let (run, from, bytes) = match landed {
            Some(landed) => landed,
            None => {
                let end = self.tail_start.load(Relaxed);
                let plan = windows.plan(self.id, access, &read, end);
                let wanted = extents.span(&plan.bytes);
                windows.wait_to(plan.run, extents.bytes_of(&wanted, self.object.bytes).end);
                self.read_ahead(plan.run, access);
                let Some((from, bytes)) = self.get_once(extent, wanted, access)? else {
                    return Ok(0);
                };
                (plan.run, from, bytes)
            }
        };
        let copied = copy(&from, &bytes, buf);
        windows.hold(run, extents.start(from.start), bytes);
        Ok(copied)
    }

    pub(super) fn tail(&self) -> MutexGuard<'_, Tail> {
        // A tail is changed in single steps.
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes that are damaged are not to come again from where they came. True if they lay in a copy.
    fn drop_copy(&self, offset: u64, len: usize) -> bool {
        let range = offset..offset.saturating_add(len as u64).min(self.object.bytes);
        self.shared.windows.forget(self.id);
        {
            let mut tail = self.tail();
            if range.end > tail.start {
                (tail.start, tail.bytes) = (self.object.bytes, Bytes::new());
                self.tail_start.store(tail.start, Relaxed);
            }
        }
        if let Some(cache) = &self.shared.cache {
            for extent in self.shared.extents.span(&range) {
                cache.drop_damaged(&(self.key, extent));
            }
        }
        // Where nothing was kept, they came by a get: another one may bring them whole.
        true
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.shared.forget(&self.object.name, self.id);
    }
}
