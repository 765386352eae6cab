//! What a user may set of a bucket: how often it tries, how much it asks at a time, what it pays.

use std::time::Duration;

use crate::meter::Prices;

/// Settings of an [`S3Bucket`](crate::S3Bucket). The defaults suit S3 Standard from within its region.
#[derive(Clone, Debug)]
pub struct Options {
    /// Steers jitter, and the marks by which a put knows its own object. Two buckets that write to the same place must
    /// not have the same: leave it out, and it comes from the operating system.
    pub seed: Option<u64>,
    /// Requests under way at once; what comes beyond waits.
    pub requests_max: usize,
    /// Threads that drive the network.
    pub threads: usize,
    /// Objects up to so many bytes are put by one request, larger ones in parts.
    pub single_put_bytes: usize,
    /// Bytes of a part. S3 takes no parts below 5 MiB, but for the last, and no more than 10,000 of them.
    pub part_bytes: usize,
    /// Parts of one object under way at once.
    pub parts_in_flight: usize,
    /// An object that is read whole must not have more bytes; larger ones are read by ranges.
    pub whole_bytes_max: u64,
    /// How failed requests are tried again.
    pub retry: Retry,
    /// When a slow read is asked for twice.
    pub hedge: Hedge,
    /// What requests cost.
    pub prices: Prices,
    /// How a put whose answer was lost finds out what became of it.
    pub marks: Marks,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            seed: None,
            requests_max: 128,
            threads: 2,
            single_put_bytes: 32 << 20,
            part_bytes: 32 << 20,
            parts_in_flight: 4,
            whole_bytes_max: 1 << 30,
            retry: Retry::default(),
            hedge: Hedge::default(),
            prices: Prices::STANDARD,
            marks: Marks::Metadata,
        }
    }
}

/// How failed requests are tried again, within the time of their call.
#[derive(Clone, Debug)]
pub struct Retry {
    /// Attempts at most, the first included.
    pub attempts_max: u32,
    /// The rest after a first failure; twice as long after each further one. Half of it is drawn by lot.
    pub rest: Duration,
    /// The rest after a server has asked for fewer requests.
    pub rest_throttled: Duration,
    /// No rest is longer.
    pub rest_max: Duration,
    /// A connection that moves fewer bytes a second is given up: an attempt's time grows by its bytes at this rate.
    pub bytes_per_second_min: u64,
}

impl Default for Retry {
    fn default() -> Self {
        Retry {
            attempts_max: 10,
            rest: Duration::from_millis(40),
            rest_throttled: Duration::from_millis(200),
            rest_max: Duration::from_secs(4),
            bytes_per_second_min: 2 << 20,
        }
    }
}

/// When a slow read is asked for twice: the first answer counts, the other request is dropped.
#[derive(Clone, Debug)]
pub struct Hedge {
    /// Second requests, of all reads, in percent. None at 0.
    pub budget_percent: u32,
    /// A second request is sent when an answer is later than this share of recent ones, in percent.
    pub percentile: u32,
    /// Never earlier than after so long.
    pub after_min: Duration,
    /// None while fewer of the recent reads succeed, in percent: a server in trouble needs fewer requests, not more.
    pub success_percent_min: u32,
}

impl Default for Hedge {
    fn default() -> Self {
        Hedge {
            budget_percent: 3,
            percentile: 95,
            after_min: Duration::from_millis(5),
            success_percent_min: 90,
        }
    }
}

/// How a put whose answer was lost finds out what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marks {
    /// Conditional puts carry a mark in the object's metadata, which is read back.
    Metadata,
    /// The store keeps no metadata, as `object_store`'s local one: such a put stays unsure.
    None,
}
