//! `Db`: the handle users hold. Every method is a line or two that goes to the room that does it.

use std::cell::Cell;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::base::error::{Error, Result};
use crate::base::event::RecoveryReport;
use crate::base::metrics::Metrics;
use crate::db::background::Lanes;
use crate::db::core::Core;
use crate::db::open;
use crate::db::open::close::Opened;
use crate::db::options::{Options, ReadOptions, WriteOptions};
use crate::db::read::iterator::DbIterator;
use crate::db::read::snapshot::Snapshot;
use crate::db::shape::LevelInfo;
use crate::format::batch::WriteBatch;
use crate::version::KeyRange;

/// An open database: an ordered map from byte strings to byte strings.
///
/// The handle is cheap to clone, and may be used from many threads at once. The database closes
/// when the last clone is dropped, or with [`close`](Db::close); iterators and snapshots keep its
/// files readable, and its lock held, until they are dropped too.
///
/// ```
/// # fn main() -> siltstone::Result<()> {
/// use siltstone::{Db, Env, Options, WriteBatch, WriteOptions};
///
/// let options = Options { create_if_missing: true, env: Env::memory(), ..Default::default() };
/// let db = Db::open("orders", options)?;
/// db.put("order/17", "paper")?;
///
/// let mut batch = WriteBatch::new();
/// batch.delete("order/17");
/// batch.put("order/18", "ink");
/// db.write(&batch, WriteOptions { sync: true })?; // both or neither, and on disk
///
/// assert_eq!(db.get("order/17")?, None);
/// for entry in db.iter()?.entries()? {
///     let (key, value) = entry?;
///     assert_eq!((&key[..], &value[..]), (&b"order/18"[..], &b"ink"[..]));
/// }
/// db.close()
/// # }
/// ```
#[derive(Clone)]
pub struct Db {
    opened: Arc<Opened>,
}

thread_local! {
    /// Where single puts and deletes are built, so that they allocate nothing.
    static SCRATCH: Cell<Option<WriteBatch>> = const { Cell::new(None) };
}

/// A scratch batch that one large value has grown beyond this is given back.
const SCRATCH_KEPT_MAX: usize = 64 << 10;

impl Db {
    /// Opens the database in the folder `path`, and recovers what its logs hold.
    ///
    /// Blocks for the time of reading the manifest and replaying the logs: at most a few write
    /// buffers' worth. The folder is locked against other handles, processes and LevelDB.
    ///
    /// # Errors
    ///
    /// `Locked` if it is open elsewhere; `InvalidArgument` if it is missing (and
    /// [`create_if_missing`](Options::create_if_missing) is false: then nothing is touched) or
    /// exists against [`error_if_exists`](Options::error_if_exists); `Incompatible` for another
    /// comparator's database; `Corruption`, naming file and offset, for damage to promised data.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        let (core, lanes) = open::open(path.as_ref(), options)?;
        Ok(Db { opened: Arc::new(Opened::new(core, lanes)) })
    }

    /// Opens the database for reading only, beside a live writer if there is one: takes no lock and
    /// touches no file. It shows the state of the moment; later writes need another open.
    ///
    /// Holds the logs' content in memory.
    ///
    /// # Errors
    ///
    /// As [`open`](Db::open), without `Locked`; `Io` if a writer changes the files faster than they
    /// can be read.
    pub fn open_read_only(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        let core = open::read_only::open(path.as_ref(), options)?;
        Ok(Db { opened: Arc::new(Opened::new(core, Lanes::default())) })
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        self.opened.core()
    }

    /// The value of `key`, or `None`.
    ///
    /// Takes no lock. Reads from memory, or at most one block from each table whose range and
    /// filter admit the key.
    ///
    /// # Errors
    ///
    /// `Corruption` if a block on the way is damaged, `Io` if it cannot be read.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.core().get(key.as_ref(), &ReadOptions::default(), <[u8]>::to_vec)
    }

    /// As [`get`](Db::get), with options.
    ///
    /// # Errors
    ///
    /// As [`get`](Db::get); `InvalidArgument` for a snapshot of another database.
    pub fn get_with(
        &self,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Result<Option<Vec<u8>>> {
        self.read(key, options, <[u8]>::to_vec)
    }

    /// As [`get_with`](Db::get_with), but hands the value to `found` where it lies, without copying
    /// it.
    ///
    /// # Errors
    ///
    /// As [`get_with`](Db::get_with).
    pub fn read<R>(
        &self,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
        found: impl FnMut(&[u8]) -> R,
    ) -> Result<Option<R>> {
        self.check(options)?;
        self.core().get(key.as_ref(), options, found)
    }

    /// Sets the value of `key`. As a [`write`](Db::write) of one update without sync: it survives the
    /// death of the process, and perhaps not a power cut.
    ///
    /// # Errors
    ///
    /// As [`write`](Db::write).
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(key, value, WriteOptions::default())
    }

    /// As [`put`](Db::put), with options. Cheaper than a batch of one: it allocates nothing.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # use siltstone::{Db, Env, Options, WriteOptions};
    /// # let options = Options { create_if_missing: true, env: Env::memory(), ..Default::default() };
    /// # let db = Db::open("orders", options)?;
    /// db.put_with("order/17", "paper", WriteOptions { sync: true })?; // on disk when it returns
    /// # assert_eq!(db.get("order/17")?.as_deref(), Some(&b"paper"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`write`](Db::write).
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: WriteOptions,
    ) -> Result<()> {
        self.write_one(options, |batch| batch.put(key, value))
    }

    /// Removes `key`; fine if it has no value. As a [`write`](Db::write) of one update without sync.
    ///
    /// # Errors
    ///
    /// As [`write`](Db::write).
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_with(key, WriteOptions::default())
    }

    /// As [`delete`](Db::delete), with options.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # use siltstone::{Db, Env, Options, WriteOptions};
    /// # let options = Options { create_if_missing: true, env: Env::memory(), ..Default::default() };
    /// # let db = Db::open("orders", options)?;
    /// # db.put("order/17", "paper")?;
    /// db.delete_with("order/17", WriteOptions { sync: true })?;
    /// # assert_eq!(db.get("order/17")?, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`write`](Db::write).
    pub fn delete_with(&self, key: impl AsRef<[u8]>, options: WriteOptions) -> Result<()> {
        self.write_one(options, |batch| batch.delete(key))
    }

    /// Writes a batch: all of it or nothing, in one step for readers and for recovery.
    ///
    /// When it returns, the batch survives the death of the process; with
    /// [`sync`](WriteOptions::sync), it and every write before it survive a power cut. Writers on
    /// several threads share log appends and syncs. A writer waits while compaction is far behind; and of threads that
    /// write without a sync and without a pause, one sleeps for a millisecond now and then, for all are faster by turns.
    ///
    /// # Errors
    ///
    /// After an error the batch is not visible; a sync that failed may show it after a reopen.
    /// `NoSpace`: nothing is lost, and writes succeed again when there is space. `ReadOnly`: an
    /// earlier failure ended writing; reopen. `InvalidArgument`: an update does not fit the format.
    pub fn write(&self, batch: &WriteBatch, options: WriteOptions) -> Result<()> {
        self.core().write(batch, options)
    }

    fn write_one(&self, options: WriteOptions, fill: impl FnOnce(&mut WriteBatch)) -> Result<()> {
        // A thread that is about to end may have given its scratch batch back already.
        let mut batch = SCRATCH.try_with(Cell::take).ok().flatten().unwrap_or_default();
        batch.clear();
        fill(&mut batch);
        let written = self.core().write(&batch, options);
        if batch.approximate_size() <= SCRATCH_KEPT_MAX {
            let _ = SCRATCH.try_with(|scratch| scratch.set(Some(batch)));
        }
        written
    }

    /// An iterator over the database as it is now. Takes no lock; opens the tables of level 0, and
    /// the others as it gets to them.
    ///
    /// # Errors
    ///
    /// If a table cannot be opened.
    pub fn iter(&self) -> Result<DbIterator> {
        self.iter_with(&ReadOptions::default())
    }

    /// As [`iter`](Db::iter), with options.
    ///
    /// # Errors
    ///
    /// As [`iter`](Db::iter); `InvalidArgument` for a snapshot of another database.
    pub fn iter_with(&self, options: &ReadOptions) -> Result<DbIterator> {
        self.check(options)?;
        DbIterator::new(self.core(), options)
    }

    fn check(&self, options: &ReadOptions) -> Result<()> {
        match &options.snapshot {
            Some(snapshot) if !snapshot.belongs_to(self.core()) => {
                Err(Error::invalid_argument("the snapshot belongs to another database"))
            }
            _ => Ok(()),
        }
    }

    /// A view of the database as it is now, for [`ReadOptions::snapshot`]. Copies nothing and waits
    /// for nobody.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.core())
    }

    /// Writes all that memory holds as tables, and waits until they are durable. Writes that come
    /// meanwhile may have to wait; reads do not.
    ///
    /// # Errors
    ///
    /// As [`write`](Db::write).
    pub fn flush(&self) -> Result<()> {
        self.core().flush_all()
    }

    /// Flushes, then compacts all tables that hold keys from `from` to `to`, both included (`None`
    /// is open), as deep as data lies, dropping what is overwritten or deleted. Blocks until done;
    /// other reads and writes go on. Works in the calling thread and on those
    /// [lanes](Options::compaction_lanes) that have nothing else to do. A range of up to 1 GiB is written once, and takes as
    /// much free space meanwhile; a larger one, or one that merges are in the way of, goes down level by level.
    /// Where there is then more of it than its level should hold, its tables move, as they are, to a deeper one.
    ///
    /// # Errors
    ///
    /// As [`write`](Db::write), and whatever reading a table may meet.
    pub fn compact_range(&self, from: Option<&[u8]>, to: Option<&[u8]>) -> Result<()> {
        self.core().compact_range(KeyRange { from, to })
    }

    /// Merges all that SST logs hold ([`Compaction`](crate::Compaction)) into the levels below them, and writes a manifest
    /// that LevelDB reads again. From then on this database compacts as with
    /// [`Compaction::Leveled`](crate::Compaction::Leveled), until it is opened again. Blocks until done, which takes as long as
    /// rewriting about ten times what the logs hold; reads and writes go on. Without logs it waits for background work, and
    /// writes the manifest.
    ///
    /// # Errors
    ///
    /// `ReadOnly` if the database is open read-only, or the failure that keeps it from ending. What was merged until then
    /// stays so; to call it again is safe.
    pub fn drain_logs(&self) -> Result<()> {
        self.core().drain_logs()
    }

    /// Waits until background work has nothing left to flush or compact.
    ///
    /// # Errors
    ///
    /// The failure that keeps it from ending.
    pub fn wait_for_background(&self) -> Result<()> {
        self.core().wait_for_rest()
    }

    /// Does one piece of background work, if there is any, and returns whether there was. For
    /// databases opened with [`Background::ByHand`](crate::Background::ByHand); with lanes running
    /// it merely helps them.
    ///
    /// # Errors
    ///
    /// The failure of that work.
    pub fn run_background_step(&self) -> Result<bool> {
        self.core().run_background_step()
    }

    /// LevelDB's properties: `leveldb.num-files-at-level<N>`, `leveldb.stats`, `leveldb.sstables`,
    /// `leveldb.approximate-memory-usage`; and `siltstone.metrics`. `None` for any other name.
    pub fn property(&self, name: &str) -> Option<String> {
        self.core().property(name)
    }

    /// For each range of keys (end excluded), about how many bytes of tables hold it. What is in
    /// memory does not count.
    ///
    /// # Errors
    ///
    /// If a table cannot be opened.
    pub fn approximate_sizes(&self, ranges: &[(&[u8], &[u8])]) -> Result<Vec<u64>> {
        ranges.iter().map(|(from, to)| self.core().approximate_size(from, to)).collect()
    }

    /// The tables of every level that has some, as of now. Reads memory only.
    pub fn levels(&self) -> Vec<LevelInfo> {
        self.core().levels()
    }

    /// How many tables reach over `key`, as of now: a get that no filter spares one may have to ask all. Reads memory only.
    pub fn tables_over(&self, key: impl AsRef<[u8]>) -> usize {
        self.core().tables_over(key.as_ref())
    }

    /// Counters since open.
    pub fn metrics(&self) -> Metrics {
        self.core().counters.snapshot()
    }

    /// The options in force: as given, moved into their ranges.
    pub fn options(&self) -> &Options {
        &self.core().options
    }

    /// What opening the database found in its logs.
    pub fn recovery_report(&self) -> &RecoveryReport {
        &self.core().recovery
    }

    /// Ends writing, for good: writes fail from now on, and say `why`; reads go on. For stores of tables
    /// ([`Options::table_store`]) that find out that somebody else owns the database by now. The first failure of a
    /// database counts, later ones change nothing.
    pub fn stop_writes(&self, why: Error) {
        self.core().fail(why);
    }

    /// Has a store of tables ([`Options::table_store`]) [bring near](crate::TableStore::bring_near) what is
    /// [near](crate::TableStore::near) of another state of the same database, which is about to be read in this one: of its
    /// tables that are not there, the same keys of those that there are only here. As merges do. Takes as long as the store
    /// does; without such a store, nothing.
    pub fn bring_near_of(&self, other: &Db) {
        self.core().bring_near_of(other.core());
    }

    /// Closes the database: ends background work, syncs the log, and returns the failure that ended
    /// writing, if one did. Other clones of the handle, and iterators, can still read; writes fail
    /// with `Closed`.
    ///
    /// Dropping the last handle does the same, but can tell failures only to listeners.
    ///
    /// # Errors
    ///
    /// The failure that ended writing, or else that of the last sync.
    pub fn close(self) -> Result<()> {
        self.opened.close()
    }
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Db").field("path", &self.core().dir).finish_non_exhaustive()
    }
}
