//! The tables of a bucket, open to be read: what all of them share. Stores of tables have one.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use siltstone::{Error, Result, Threads};

use super::cache::ExtentCache;
use super::counters::{Counters, ReadStats};
use super::object::{ExtentBytes, TableObject};
use super::remote_table::{Core, RemoteTable};
use super::tail::TailShare;
use super::windows::{Limits, Windows};
use crate::bucket::{Bucket, Purpose};
use crate::crew::{Crew, CrewDesk};

/// How tables are read from a bucket.
#[derive(Clone)]
pub struct RemoteOptions {
    /// Where extents are kept on a local disk; nowhere if `None`: then a get brings what is read, and not what lies beside it.
    pub cache: Option<Arc<ExtentCache>>,
    /// How far users' scans read ahead at most. They begin with 32 KiB and grow fourfold.
    pub scan_bytes_max: u64,
    /// How far merges read ahead at most, for each of their sources. They begin with 1 MiB and double.
    pub merge_bytes_max: u64,
    /// What all that read ahead hold together.
    pub window_memory: u64,
    /// Who reads ahead while the window before is used; nobody if `None`.
    pub threads: Option<Arc<dyn Threads>>,
    /// How many threads that are at most. They start when they are wanted.
    pub lanes_max: usize,
}

impl Default for RemoteOptions {
    /// No cache and no threads; up to 2 MiB for scans, 8 MiB for merges, 64 MiB in all.
    fn default() -> Self {
        RemoteOptions {
            cache: None,
            scan_bytes_max: 2 << 20,
            merge_bytes_max: 8 << 20,
            window_memory: 64 << 20,
            threads: None,
            lanes_max: 8,
        }
    }
}

/// The tables of one bucket, opened as they are asked for. Threads end with this value; open tables can be read on.
pub struct RemoteTables {
    shared: Arc<Shared>,
    /// Kept for its end.
    _crew: Option<Crew>,
}

/// What open tables need of the whole.
pub(super) struct Shared {
    pub(super) bucket: Arc<dyn Bucket>,
    pub(super) cache: Option<Arc<ExtentCache>>,
    pub(super) extents: ExtentBytes,
    pub(super) counters: Counters,
    pub(super) tails: TailShare,
    pub(super) windows: Windows,
    pub(super) ahead: Option<CrewDesk>,
    last_id: AtomicU64,
    /// By name: two who open the same table share it.
    open: Mutex<BTreeMap<String, Weak<Core>>>,
}

impl RemoteTables {
    /// Of the tables in `bucket`. A cache must not be shared between buckets that have objects of the same names.
    pub fn new(bucket: Arc<dyn Bucket>, options: RemoteOptions) -> Result<Self> {
        let extents = match &options.cache {
            Some(cache) => ExtentBytes::new(cache.extent_bytes())?,
            None => ExtentBytes::FINEST,
        };
        let crew = options.threads.map(|threads| Crew::new(threads, options.lanes_max));
        let shared = Arc::new(Shared {
            bucket,
            cache: options.cache,
            extents,
            counters: Counters::default(),
            tails: TailShare::default(),
            windows: Windows::new(Limits {
                scan_bytes_max: options.scan_bytes_max,
                merge_bytes_max: options.merge_bytes_max,
                memory_max: options.window_memory,
            }),
            ahead: crew.as_ref().map(|crew| crew.desk().clone()),
            last_id: AtomicU64::new(0),
            open: Mutex::default(),
        });
        Ok(RemoteTables { shared, _crew: crew })
    }

    /// Opens a table, with one get as a rule, and with none if its end is in the cache. That get counts for `purpose`.
    /// [`ErrorKind::NotFound`](siltstone::ErrorKind) if there is no such object, `Corruption` if it has another size.
    pub fn open(&self, object: &TableObject, purpose: Purpose) -> Result<Arc<RemoteTable>> {
        let core = self.shared.core(object)?;
        core.load_usual_tail(purpose)?;
        Ok(Arc::new(RemoteTable::new(core)))
    }

    /// The same where the table's last bytes are known: without a request, if they are as many as [`end_bytes`](Self::end_bytes) says.
    /// Into the cache they go by [`keep_end`](Self::keep_end) alone.
    pub fn open_by_its_end(
        &self,
        object: &TableObject,
        end: &Bytes,
        purpose: Purpose,
    ) -> Result<Arc<RemoteTable>> {
        let core = self.shared.core(object)?;
        core.begin_with(end);
        core.load_usual_tail(purpose)?;
        Ok(Arc::new(RemoteTable::new(core)))
    }

    /// Opens a table before anybody reads it, and brings so many of its first bytes into the cache.
    pub fn warm(&self, object: &TableObject, front_bytes: u64) -> Result<Arc<RemoteTable>> {
        let table = self.open(object, Purpose::Warm)?;
        table.core().warm(front_bytes)?;
        Ok(table)
    }

    /// Puts the last bytes of a table into the cache, from whoever has just written it: to open it will take no get. What tables
    /// need of their end, 64 KiB or more, [`end_bytes`](Self::end_bytes) tells.
    pub fn keep_end(&self, object: &TableObject, end: &Bytes) -> Result<()> {
        self.shared.core(object)?.keep_end(end);
        Ok(())
    }

    /// Brings parts of a table into the cache, if there is one, before anybody reads it.
    pub(crate) fn warm_parts(&self, object: &TableObject, parts: &[Range<u64>]) -> Result<()> {
        self.shared.core(object)?.warm_parts(parts)
    }

    /// Puts parts of a table into the cache, if there is one, from whoever has them.
    pub(crate) fn keep_parts(
        &self,
        object: &TableObject,
        parts: &[Range<u64>],
        read: impl Fn(&Range<u64>) -> Result<Bytes>,
    ) -> Result<()> {
        self.shared.core(object)?.keep_parts(parts, read)
    }

    /// How much of its end a table of so many bytes will need to be opened, by what others needed.
    pub fn end_bytes(&self, bytes: u64) -> u64 {
        self.shared.usual_tail(bytes)
    }

    /// What reading has cost so far.
    pub fn stats(&self) -> ReadStats {
        self.shared.counters.snapshot()
    }

    #[cfg(test)]
    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Where extents are kept.
    pub fn cache(&self) -> Option<&Arc<ExtentCache>> {
        self.shared.cache.as_ref()
    }
}

impl fmt::Debug for RemoteTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RemoteTables").field(&self.stats()).finish()
    }
}

impl Shared {
    /// The table as it is open already, or a new one that has read nothing.
    fn core(self: &Arc<Self>, object: &TableObject) -> Result<Arc<Core>> {
        if self.extents.count(object.bytes).is_none() {
            let message = format!("table of {} bytes is too long", object.bytes);
            return Err(Error::invalid_argument(message).in_file(object.name.as_ref()));
        }
        let id = self.last_id.fetch_add(1, Relaxed) + 1;
        let fresh = Arc::new(Core::new(Arc::clone(self), object.clone(), id));
        // Tables are dropped with the lock free: they take it to be forgotten.
        let mut open = self.open();
        let there = open.get(&object.name).and_then(Weak::upgrade);
        match there {
            Some(core) if core.object() == object => {
                drop(open);
                Ok(core)
            }
            other => {
                open.insert(object.name.clone(), Arc::downgrade(&fresh));
                drop(open);
                drop(other);
                Ok(fresh)
            }
        }
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<String, Weak<Core>>> {
        // No call leaves the map half changed.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A table has been closed.
    pub(super) fn forget(&self, name: &str, id: u64) {
        self.windows.forget(id);
        let mut open = self.open();
        // Somebody may have opened it anew.
        if open.get(name).is_some_and(|core| core.strong_count() == 0) {
            open.remove(name);
        }
    }
}
