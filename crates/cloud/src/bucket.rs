//! The bucket seam: objects by name, written whole, and replaced only on a condition. All that is kept in the cloud goes
//! through it, so that a test can be the cloud.
//!
//! What an implementation promises: a put is seen whole or not at all; who reads or lists after a put or delete has
//! succeeded sees it; of puts that race on a [`Condition`] one succeeds at most. Calls block their thread, until the
//! deadline of their [`Call`] at the latest.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use bytes::Bytes;

/// What a call on a bucket returns.
pub type Result<T> = std::result::Result<T, BucketError>;

/// Objects by name. Names are relative: where in a bucket they lie is the implementation's affair.
pub trait Bucket: Send + Sync {
    /// All or a part of an object. A part may reach past the object's end, and then ends there.
    fn get(&self, name: &str, part: Part, call: Call) -> Result<Object>;

    /// The same part of many objects, in their order: each as [`get`](Self::get) would answer, with a call's time for
    /// itself. One after the other, unless the implementation can do better.
    fn get_each(&self, names: &[String], part: Part, call: Call) -> Vec<Result<Object>> {
        names.iter().map(|name| self.get(name, part, call)).collect()
    }

    /// Size and tag of an object.
    fn head(&self, name: &str, call: Call) -> Result<Stat>;

    /// Writes an object. [`Failure::Refused`] if the condition does not hold; [`Failure::Unsure`] if nobody knows whether
    /// it was written: it may even be written later.
    fn put(&self, name: &str, body: Bytes, when: Condition, call: Call) -> Result<Tag>;

    /// Begins to write an object that is not made yet, whatever is there under its name. The call's time is for all of it. `None` from a bucket
    /// that has nothing better than to [put](Self::put) what is made.
    fn upload(&self, _name: &str, _call: Call) -> Option<Box<dyn Upload>> {
        None
    }

    /// Removes objects. Those that are not there count as removed. After an error any of them may be gone.
    fn delete(&self, names: &[String], call: Call) -> Result<()>;

    /// A page of the objects whose names begin with `prefix` and come behind `after`, in the order of their names' bytes.
    /// An empty page is the end.
    fn list(&self, prefix: &str, after: &str, call: Call) -> Result<Page>;
}

/// A part of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Some objects.
    pub stats: Vec<Stat>,
    /// Nothing was behind them: who asks for the next page pays for a request that brings nothing.
    pub is_last: bool,
}

impl Deref for Page {
    type Target = [Stat];

    fn deref(&self) -> &[Stat] {
        &self.stats
    }
}

/// An object that is sent while it is made. It is seen whole once it is [finished](Self::finish), and not before; who drops it gives it
/// up.
pub trait Upload: Send {
    /// Sends the next bytes, without waiting for them. All but the last are 5 MiB at least. [`finish`](Self::finish) tells if they did not get there.
    fn send(&mut self, part: Bytes);

    /// Waits until the object is there, which needs all of its bytes. Fails as a put does.
    fn finish(self: Box<Self>) -> Result<Tag>;
}

/// Which bytes of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of them.
    Whole,
    /// So many from an offset on.
    Range {
        /// Where they begin.
        offset: u64,
        /// How many.
        len: u64,
    },
    /// So many at its end.
    Tail(u64),
}

/// When a put may go through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Always.
    Always,
    /// Only if there is no object of that name.
    Absent,
    /// Only if the object there has this tag.
    Tagged(Tag),
}

/// What a version of an object is known by, as the server says it (an entity tag).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tag(pub String);

/// What is known of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Its name.
    pub name: String,
    /// All its bytes.
    pub bytes: u64,
    /// Its version.
    pub tag: Tag,
    /// When it was written, by the server's clock: milliseconds since 1970 (UTC).
    pub written_ms: u64,
}

/// What a get brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// The bytes asked for.
    pub body: Bytes,
    /// Where they begin in the object.
    pub offset: u64,
    /// All the object's bytes.
    pub bytes: u64,
    /// The object's version.
    pub tag: Tag,
}

/// How one call is to be done, and what it counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// What it is for: requests, bytes and money are counted by it.
    pub purpose: Purpose,
    /// How long the caller waits at most, retries included.
    pub within: Duration,
}

impl Call {
    /// A call for `purpose`, with the time that such calls usually get: reads that a user waits for a few seconds,
    /// uploads and merges a minute.
    pub fn new(purpose: Purpose) -> Self {
        Call { purpose, within: purpose.patience() }
    }
}

/// What requests are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Purpose {
    /// A user's get.
    Get,
    /// A user's scan.
    Scan,
    /// A table's upload after a flush.
    Flush,
    /// What a merge reads.
    CompactIn,
    /// What a merge writes.
    CompactOut,
    /// Version records, and who owns the database.
    Manifest,
    /// The write-ahead log.
    Wal,
    /// Looking for what may go, and removing it.
    Collect,
    /// A replica that follows.
    Replica,
    /// What is fetched before somebody asks.
    Warm,
    /// Tools that look at or check a bucket.
    Tool,
}

impl Purpose {
    /// All of them.
    pub const ALL: [Purpose; 11] = [
        Purpose::Get,
        Purpose::Scan,
        Purpose::Flush,
        Purpose::CompactIn,
        Purpose::CompactOut,
        Purpose::Manifest,
        Purpose::Wal,
        Purpose::Collect,
        Purpose::Replica,
        Purpose::Warm,
        Purpose::Tool,
    ];

    /// As properties and metrics call it.
    pub fn name(self) -> &'static str {
        match self {
            Purpose::Get => "get",
            Purpose::Scan => "scan",
            Purpose::Flush => "flush",
            Purpose::CompactIn => "compact-in",
            Purpose::CompactOut => "compact-out",
            Purpose::Manifest => "manifest",
            Purpose::Wal => "wal",
            Purpose::Collect => "gc",
            Purpose::Replica => "replica",
            Purpose::Warm => "warm",
            Purpose::Tool => "tool",
        }
    }

    fn patience(self) -> Duration {
        Duration::from_secs(match self {
            Purpose::Get | Purpose::Scan => 5,
            Purpose::Manifest | Purpose::Wal | Purpose::Replica => 15,
            Purpose::Warm | Purpose::Tool => 30,
            Purpose::Flush | Purpose::CompactIn | Purpose::CompactOut | Purpose::Collect => 60,
        })
    }
}

/// Why a call failed: what its caller can do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// There is no such object.
    Missing,
    /// The condition does not hold. After a [`Failure::Unsure`] it may be one's own put that has made it so.
    Refused,
    /// A put or delete that may have been done, or may still be.
    Unsure,
    /// Too much asked, a server in trouble, no network: nothing was done. Try again later.
    Unavailable,
    /// The server does not let us.
    Denied,
    /// What came back is not what was stored.
    Damaged,
    /// The request makes no sense, or the server does not know it.
    Wrong,
}

/// A call that failed, and on what.
#[derive(Clone, Debug)]
pub struct BucketError {
    /// What can be done about it.
    pub failure: Failure,
    /// The object, or the prefix of a list.
    pub name: String,
    /// What happened, for people.
    pub message: String,
}

impl BucketError {
    /// A failed call on `name`.
    pub fn new(failure: Failure, name: impl Into<String>, message: impl Into<String>) -> Self {
        BucketError { failure, name: name.into(), message: message.into() }
    }
}

impl fmt::Display for BucketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.message)
    }
}

impl std::error::Error for BucketError {}
