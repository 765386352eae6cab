//! A database with its log in a folder and its tables in a bucket.
//!
//! Writes are as fast as without a bucket: log and new tables are written to the folder. Behind that, tables are uploaded,
//! and each change of the set of tables becomes a record of the version log, in order, as soon as the bucket has its
//! tables. So the bucket always holds a whole version, a little behind; what is in the folder only is lost with the
//! machine. Tables that are in the bucket need no copy here, and a folder that is lost is made anew from there.
//!
//! | who | does |
//! | --- | --- |
//! | [`store`] | what the engine calls: files here, or objects there |
//! | [`ledger`] | what the bucket does not know yet, and what may go together |
//! | [`lanes`] | uploads, commits |
//! | [`copies`] | brings copies of what workers have made |
//! | [`nearness`] | keeps near what readers had near |
//! | [`room`] | lets copies go |
//! | [`folder`] | whose folder it is |
//! | [`lease`] | acknowledges nothing once it may be somebody else's |
//! | [`notes`] | where tables of workers lie, before the bucket's log knows |
//! | [`away`] | what whoever opens it next must know of jobs under way |
//! | [`told`] | what all of it counts, as text |
//! | [`handle`] | what those who compact elsewhere need |
//! | [`claim`] | whose it all is |
//! | [`open`] | brings all of it together |

mod arrivals;
mod away;
mod claim;
mod copies;
mod folder;
mod handle;
mod heat;
mod lanes;
pub(crate) mod lease;
mod ledger;
mod local;
mod nearness;
mod notes;
mod open;
mod remote;
mod room;
mod shared;
mod store;
mod tables;
mod told;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use handle::CloudTables;
pub use open::CloudDb;
use siltstone::{BloomFilter, Options};

pub use crate::archive::ship::LogArchive;
use crate::log::version_log::Announce;
use crate::names::Token;
use crate::reads::tables::RemoteOptions;

/// How a database with its tables in a bucket is opened, beside the engine's options.
#[derive(Clone)]
#[non_exhaustive]
pub struct CloudOptions {
    /// Which tables have a copy in the folder. Default: all that fit into 8 GiB.
    pub local: LocalCopies,
    /// Bytes of tables that may be in the folder only. With more, flushes and merges wait, and with them, once memory is
    /// full, writers. As long as a bucket is out of reach, this is how much can still be written. Default: 1 GiB.
    pub bytes_waiting_max: u64,
    /// Tables that are uploaded at once; each is in memory as a whole meanwhile. Default: 8.
    pub uploads: usize,
    /// How long [`CloudDb::close`] waits for what is not in the bucket yet. What is left goes there when the folder is
    /// opened again. Default: 30 s.
    pub close_within: Duration,
    /// How tables are read that have no copy here, and where what was read is kept. Default: nowhere.
    pub reads: RemoteOptions,
    /// When the write-ahead log goes to the bucket. Default: never.
    pub log: LogArchive,
    /// With a lease the owner looks three times in its life whether he still is the owner, and acknowledges no write once the
    /// last such look is that old: writes wait then, and if it takes that long again they fail, until it is opened anew. Who takes over from another
    /// folder waits for it to be over. For databases that fail over while the last owner may still run; a request each
    /// third of it. Default: zero, no lease, and no requests while nothing happens.
    pub lease: Duration,
    /// Where this owner can be reached; others see it when they take over. Default: empty.
    pub address: String,
    /// A whole record of the version log after so many others: who opens the database reads no more. Default: 16.
    pub snapshot_every: u64,
    /// Takes over a database whose folder here has been overtaken by another machine, and throws away what only the folder
    /// knows. Default: false, an error of the kind [`Fenced`](siltstone::ErrorKind::Fenced).
    pub discard_overtaken: bool,
    /// Refuses to take over from an owner who has not closed the database, as far as anybody knows, unless it was this
    /// folder's. For people at a terminal: whether a machine is gone they know better. Default: false.
    pub unless_owned: bool,
    /// By which this opening knows its own records. Default: made from the environment's seed and time.
    pub token: Option<Token>,
    /// Called when it is clear where tables lie, before the engine opens: for services that need to know. Default: none.
    pub prepare: Option<Prepare>,
    /// Called with a version's number as soon as its record is in the bucket, on the thread that commits, which it must not
    /// block: for services that tell replicas ([`News`](crate::News)). Default: none.
    pub announce: Option<Announce>,
}

/// Amends the engine's options; see [`CloudOptions::prepare`].
pub type Prepare = Arc<dyn Fn(&CloudTables, &mut Options) + Send + Sync>;

impl fmt::Debug for CloudOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CloudOptions").field("local", &self.local).finish_non_exhaustive()
    }
}

impl Default for CloudOptions {
    fn default() -> Self {
        CloudOptions {
            local: LocalCopies::UpTo(8 << 30),
            bytes_waiting_max: 1 << 30,
            uploads: 8,
            close_within: Duration::from_secs(30),
            reads: RemoteOptions::default(),
            log: LogArchive::Off,
            lease: Duration::ZERO,
            address: String::new(),
            snapshot_every: 16,
            discard_overtaken: false,
            unless_owned: false,
            token: None,
            prepare: None,
            announce: None,
        }
    }
}

impl CloudOptions {
    /// The same, with copies of other tables.
    pub fn with_local(self, local: LocalCopies) -> Self {
        CloudOptions { local, ..self }
    }

    /// The same, which takes over only from who has closed the database, or does not ask.
    pub fn with_unless_owned(self, unless_owned: bool) -> Self {
        CloudOptions { unless_owned, ..self }
    }

    /// The same, reading so.
    pub fn with_reads(self, reads: RemoteOptions) -> Self {
        CloudOptions { reads, ..self }
    }

    /// The same, with the log archived so.
    pub fn with_log(self, log: LogArchive) -> Self {
        CloudOptions { log, ..self }
    }
}

/// Bits a key: one absent key in 800 passes.
const FILTER_BITS: usize = 14;

/// The engine's options with sizes that suit a bucket, where each request costs as much as a mebibyte or more: tables of 32
/// MiB, gathered in write buffers of 16, on a first level of 64, and a [wide](BloomFilter::wide) filter of 14 bits a key, for
/// each wrong answer of a filter is a request. What was not left at its default stays.
pub fn sized_for_buckets(options: Options) -> Options {
    let usual = Options::default();
    let Options { write_buffer_size, max_file_size, level1_bytes, .. } = options;
    let filter = options.filter_policy.clone();
    Options {
        filter_policy: filter.or_else(|| Some(Arc::new(BloomFilter::wide(FILTER_BITS)))),
        write_buffer_size: if write_buffer_size == usual.write_buffer_size {
            16 << 20
        } else {
            write_buffer_size
        },
        max_file_size: if max_file_size == usual.max_file_size { 32 << 20 } else { max_file_size },
        level1_bytes: if level1_bytes == usual.level1_bytes { 64 << 20 } else { level1_bytes },
        ..options
    }
}

/// Which tables have a copy in the database's folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalCopies {
    /// All, also those that the bucket has and the folder has not: they are fetched before the database opens, and those that
    /// workers make before they are shown, if somebody has read lately what they hold, else as soon as somebody reads them, or some
    /// time after.
    All,
    /// The newest, up to so many bytes, with those that workers make, likewise. Those that the bucket does not have yet stay in any case.
    UpTo(u64),
}

impl LocalCopies {
    fn takes(self, bytes: u64) -> bool {
        match self {
            LocalCopies::All => true,
            LocalCopies::UpTo(bytes_max) => bytes <= bytes_max,
        }
    }
}

/// How a database in a bucket is doing. Counts begin at its opening.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TieredMetrics {
    /// How often the database has changed hands.
    pub epoch: u64,
    /// The last version that is committed.
    pub version: u64,
    /// Tables of that version.
    pub tables: u64,
    /// Their bytes.
    pub table_bytes: u64,
    /// Version edits that are not committed.
    pub edits_waiting: u64,
    /// Bytes of tables that are in the folder only.
    pub bytes_waiting: u64,
    /// Tables uploaded.
    pub uploads: u64,
    /// Their bytes.
    pub upload_bytes: u64,
    /// Uploads and commits that failed, and were tried again.
    pub failures: u64,
    /// Records of edits committed.
    pub commits: u64,
    /// Version edits that were in them.
    pub edits: u64,
    /// Flushes and merges that waited for uploads.
    pub waits: u64,
    /// How long, in microseconds.
    pub wait_micros: u64,
    /// Copies that were let go.
    pub evicted: u64,
    /// Pieces of the log that were put into the bucket.
    pub log_pieces: u64,
    /// Their bytes.
    pub log_bytes: u64,
    /// Bytes of the log that are in the folder only; all of them count while the log is not archived at all.
    pub log_lag: u64,
}
