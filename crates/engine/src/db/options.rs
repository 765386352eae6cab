//! What a user can set, with LevelDB's names and defaults where LevelDB has them.

use std::fmt;
use std::sync::Arc;

use crate::base::comparator::Comparator;
use crate::base::event::EventListener;
use crate::compaction::policy::Compaction;
use crate::compaction::service::CompactionService;
use crate::db::read::snapshot::Snapshot;
use crate::env::Env;
use crate::format::table::cache::Cache;
use crate::format::table::compress::Compression;
use crate::format::table::filter::FilterPolicy;
use crate::store::TableStore;

/// How a database is opened. Plain data: fill in what differs from the default.
///
/// ```
/// let options = siltstone::Options { create_if_missing: true, ..Default::default() };
/// assert_eq!(options.write_buffer_size, 4 << 20);
/// ```
///
/// Numbers outside the ranges given are moved to the nearest bound at open, as LevelDB does;
/// [`Db::options`](crate::Db::options) tells what is in force.
#[derive(Clone)]
pub struct Options {
    /// Order of keys; `None` is bytewise. Must be the one the database was made with.
    pub comparator: Option<Arc<dyn Comparator>>,
    /// Make the database if it is not there. Default: false.
    pub create_if_missing: bool,
    /// Refuse to open a database that is there. Default: false.
    pub error_if_exists: bool,
    /// Fail on any damage in a log, torn tails apart, instead of keeping the writes before it.
    /// Damage to writes that a sync had promised fails the open either way. Default: false.
    pub paranoid_checks: bool,
    /// Files, clock, threads and seed. Default: the operating system's.
    pub env: Env,
    /// Where tables lie; one store for each database. Default: in the database's folder, which is where verification, repair
    /// and destruction look for them. A checkpoint has copies of its own there.
    pub table_store: Option<Arc<dyn TableStore>>,
    /// Runs merges elsewhere, those that it wants; the others run here. See [`service`](crate::service). Default: none.
    pub compaction_service: Option<Arc<dyn CompactionService>>,
    /// Told of flushes, compactions, stalls and failures, on the thread where they happen.
    /// Default: none.
    pub listeners: Vec<Arc<dyn EventListener>>,
    /// Keep a text log of events, `LOG`, in the database folder, as LevelDB does. Default: true.
    pub info_log: bool,
    /// Bytes of writes gathered in memory before they are written as a table, with what indexes them; 64 KiB to 1 GiB.
    /// Memory of up to one such buffer is kept for the next until the database is closed. Default: 4 MiB.
    pub write_buffer_size: usize,
    /// Write buffers that may wait to be written as tables while another takes writes; 1 to 16.
    /// Default: 2 (LevelDB: 1).
    pub max_immutable_memtables: usize,
    /// Files the database may hold open; 74 to 50,000. Default: 1000.
    pub max_open_files: usize,
    /// Cache of decompressed blocks; `None` is a private one of 8 MiB. May be shared by databases. The built-in one does with up to an
    /// eighth less while write buffers beyond one have waited to be written.
    pub block_cache: Option<Arc<dyn Cache>>,
    /// Bytes of memory for tables as they are stored, those that are read most: a block that is not in the cache is had from
    /// there without a call to the system. What write buffers and compactions take is taken off it. On Linux, and as
    /// far as the process may lock memory (`RLIMIT_MEMLOCK`). It counts as the process's and is the page cache's all the
    /// same: the system as a whole needs no more. Who cuts such a table short from outside ends the process (`SIGBUS`).
    /// 0 turns it off. Default: 23 MiB.
    pub resident_bytes: usize,
    /// Bytes of entries in a block before compression; 1 KiB to 4 MiB. Default: 4096.
    pub block_size: usize,
    /// Keys between restart points in a block, at least 1. Default: 16.
    pub block_restart_interval: usize,
    /// Bytes of a table before the next one begins; 1 MiB to 1 GiB. Default: 2 MiB.
    pub max_file_size: usize,
    /// Compression of blocks. Default: Snappy.
    pub compression: Compression,
    /// Recover the last log's writes into memory instead of writing them as a table. The log is
    /// copied into a fresh, synced one first, so unlike LevelDB's option it is safe after a crash.
    /// Default: false.
    pub reuse_logs: bool,
    /// Write logs through memory maps where that is as safe as by calls: on Linux, on ext4, XFS and
    /// tmpfs. A put then makes no call to the system, and survives the death of the process all the
    /// same. An open log has up to 2 MiB more of the disk than it needs, and is up to 128 KiB longer than what is in it. Who
    /// cuts a live log short from outside ends the process (`SIGBUS`), as a disk does that fails while the log is paged in
    /// again. Default: true.
    pub map_logs: bool,
    /// Filter that spares reads of tables that lack a key. Default: none; tables that lie above
    /// others then still get a Bloom filter of 10 bits per key, if the order is bytewise.
    pub filter_policy: Option<Arc<dyn FilterPolicy>>,
    /// How tables are merged. Default: as LevelDB does.
    pub compaction: Compaction,
    /// Compact tables that reads often visit in vain, as LevelDB does. It makes reads write; off by
    /// default.
    pub seek_compaction: bool,
    /// Merge level 0 once scans have paid more for its tables, each of which they visit, than merging them costs: at
    /// most once for each flush, and never on account of gets. Where large tables wait for more of them
    /// ([`level0`](Self::level0)), a few scans will do. With [`Compaction::Sliced`] the same goes for logs beside levels, slice by
    /// slice, and for gets, which ask each table of a log over their key. Default: true.
    pub scan_compaction: bool,
    /// Tables in level 0 at which it is compacted, writes are slowed, and writes stop. Each holds a write buffer, on
    /// disk half of it. The more may wait, the more writes a burst may bring before it is slowed down, and the less is
    /// merged for each; meanwhile gets and scans look into all of them. Tables larger than
    /// [`level1_bytes`](Self::level1_bytes), which come of large write buffers, are compacted at twice as many, if they have
    /// filters and scans may have them merged sooner. Defaults: 4, 20 and 36 (LevelDB: 4, 8 and 12).
    pub level0: Level0Limits,
    /// Bytes of level 1 before it is compacted. Default: 10 MiB.
    pub level1_bytes: u64,
    /// How many times the one before it each deeper level holds; 2 to 1000. With less there are more levels, and each is
    /// merged for less. Default: 10, which is LevelDB's.
    pub level_growth: u64,
    /// Compactions that may run side by side, and threads that merge for one
    /// [`compact_range`](crate::Db::compact_range); 1 to 16. Default: 2.
    pub compaction_lanes: usize,
    /// Let lanes make way: those that compact run at a lower priority (by 5 steps of `nice`), so that flushes come first; all
    /// go 7 steps lower, for good, once other threads read beside one that writes; and all keep off the processor on which a
    /// thread writes without a pause, or, if there is no other, flushes that have time stop for it again and again. On
    /// Linux; it shortens the longest writes and helps readers where there are few processors, and changes nothing for the
    /// program's own threads. Default: true.
    pub lanes_make_way: bool,
    /// Who does background work. Default: lanes of the database's own.
    pub background: Background,
    /// Take the numbers above as they are, without moving them into their ranges. For experiments.
    /// Default: false.
    pub unclamped: bool,
}

/// When level 0 is compacted and how it holds writers back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level0Limits {
    /// Tables at which a compaction starts.
    pub compact: usize,
    /// Tables from which writes are slowed.
    pub slow_down: usize,
    /// Tables at which writes wait.
    pub stop: usize,
}

impl Level0Limits {
    /// Tables from which level 0 is filling: half way to where writers are slowed down.
    pub(crate) fn filling(self) -> usize {
        self.compact.saturating_add(self.slow_down).div_ceil(2)
    }
}

impl Default for Level0Limits {
    fn default() -> Self {
        Level0Limits { compact: 4, slow_down: 20, stop: 36 }
    }
}

/// Who flushes, compacts and removes files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Background {
    /// Threads that the database starts, and joins when it closes.
    #[default]
    Lanes,
    /// Nobody but the caller, one step at a time with
    /// [`Db::run_background_step`](crate::Db::run_background_step). A writer that finds no room
    /// takes the steps itself. For simulation and tests.
    ByHand,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            comparator: None,
            create_if_missing: false,
            error_if_exists: false,
            paranoid_checks: false,
            env: Env::default(),
            table_store: None,
            compaction_service: None,
            listeners: Vec::new(),
            info_log: true,
            write_buffer_size: 4 << 20,
            max_immutable_memtables: 2,
            max_open_files: 1000,
            block_cache: None,
            resident_bytes: 23 << 20,
            block_size: 4096,
            block_restart_interval: 16,
            max_file_size: 2 << 20,
            compression: Compression::default(),
            reuse_logs: false,
            map_logs: true,
            filter_policy: None,
            compaction: Compaction::default(),
            seek_compaction: false,
            scan_compaction: true,
            level0: Level0Limits::default(),
            level1_bytes: 10 << 20,
            level_growth: 10,
            compaction_lanes: 2,
            lanes_make_way: true,
            background: Background::default(),
            unclamped: false,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let comparator = self.comparator.as_ref().map(|comparator| comparator.name().to_owned());
        let filter = self.filter_policy.as_ref().map(|filter| filter.name().to_owned());
        f.debug_struct("Options")
            .field("comparator", &comparator)
            .field("create_if_missing", &self.create_if_missing)
            .field("error_if_exists", &self.error_if_exists)
            .field("paranoid_checks", &self.paranoid_checks)
            .field("write_buffer_size", &self.write_buffer_size)
            .field("max_immutable_memtables", &self.max_immutable_memtables)
            .field("max_open_files", &self.max_open_files)
            .field("resident_bytes", &self.resident_bytes)
            .field("block_size", &self.block_size)
            .field("block_restart_interval", &self.block_restart_interval)
            .field("max_file_size", &self.max_file_size)
            .field("compression", &self.compression)
            .field("reuse_logs", &self.reuse_logs)
            .field("map_logs", &self.map_logs)
            .field("filter_policy", &filter)
            .field("compaction", &self.compaction)
            .field("seek_compaction", &self.seek_compaction)
            .field("scan_compaction", &self.scan_compaction)
            .field("level0", &self.level0)
            .field("level1_bytes", &self.level1_bytes)
            .field("level_growth", &self.level_growth)
            .field("compaction_lanes", &self.compaction_lanes)
            .field("lanes_make_way", &self.lanes_make_way)
            .finish_non_exhaustive()
    }
}

/// How one read is done.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// Verify the checksum of every block read from disk. Default: true (LevelDB: false, which
    /// returns flipped bits as data).
    pub verify_checksums: bool,
    /// Keep blocks read in the block cache. Turn off for scans larger than the cache. Default: true.
    pub fill_cache: bool,
    /// Read as of this snapshot; `None` is now.
    pub snapshot: Option<Snapshot>,
}

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions { verify_checksums: true, fill_cache: true, snapshot: None }
    }
}

/// How one write is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Return only when the write, and every write before it, survives a power cut. Without it a
    /// write survives the death of the process, and a power cut loses at most the latest writes.
    /// Costs a sync of the disk, which threads that ask for it at the same time share: with others
    /// about, a write waits for them for some forty microseconds at most.
    /// Default: false.
    pub sync: bool,
}
