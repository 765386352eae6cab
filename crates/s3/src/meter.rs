//! What is asked of a bucket, and what it costs, by purpose: requests, bytes, times, second tries, errors, money. The
//! client counts each attempt; anybody may look at a [`Snapshot`].
//!
//! **Concurrency.** Counters are relaxed atomics: a snapshot is not of one moment, but each of its numbers only grows.

mod histogram;
mod price;
mod prometheus;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use siltstone_cloud::Purpose;

pub use histogram::Histogram;
pub(crate) use histogram::{BUCKETS, Histograph, bucket_of, upper_bound};
pub use price::Prices;

use crate::trouble::Class;

/// Kinds of requests, as they are paid for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Bytes of an object.
    Get,
    /// Size and tag of an object.
    Head,
    /// An object, or a part of one.
    Put,
    /// The begin or end of an upload in parts.
    Post,
    /// A page of names.
    List,
    /// Removal of objects, or of what an upload left.
    Delete,
}

impl Verb {
    /// All of them.
    pub const ALL: [Verb; 6] =
        [Verb::Get, Verb::Head, Verb::Put, Verb::Post, Verb::List, Verb::Delete];

    /// As metrics call it.
    pub fn name(self) -> &'static str {
        match self {
            Verb::Get => "get",
            Verb::Head => "head",
            Verb::Put => "put",
            Verb::Post => "post",
            Verb::List => "list",
            Verb::Delete => "delete",
        }
    }

    /// It changes what is stored.
    pub(crate) fn writes(self) -> bool {
        matches!(self, Verb::Put | Verb::Post | Verb::Delete)
    }
}

const PURPOSES: usize = Purpose::ALL.len();
const VERBS: usize = Verb::ALL.len();
const CLASSES: usize = Class::ALL.len();

/// Counts.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    uses: [[Use; VERBS]; PURPOSES],
    extras: [Extras; PURPOSES],
}

#[derive(Debug, Default)]
struct Use {
    requests: AtomicU64,
    sent_bytes: AtomicU64,
    received_bytes: AtomicU64,
    times: Histograph,
}

#[derive(Debug, Default)]
struct Extras {
    retries: AtomicU64,
    hedges: AtomicU64,
    hedges_won: AtomicU64,
    errors: [AtomicU64; CLASSES],
}

/// What a request is counted as.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tag {
    pub(crate) purpose: Purpose,
    pub(crate) verb: Verb,
}

impl Meter {
    /// A request goes out. It counts, and costs, whatever becomes of it.
    pub(crate) fn asked(&self, tag: Tag, bytes: u64) {
        let used = self.used(tag);
        add(&used.requests, 1);
        add(&used.sent_bytes, bytes);
    }

    /// It brought `bytes` after `time`.
    pub(crate) fn answered(&self, tag: Tag, bytes: u64, time: Duration) {
        let used = self.used(tag);
        add(&used.received_bytes, bytes);
        used.times.count(time);
    }

    pub(crate) fn failed(&self, tag: Tag, class: Class) {
        let at = Class::ALL.iter().position(|other| *other == class);
        add(&self.extra(tag).errors[at.expect("ALL has every class")], 1);
    }

    pub(crate) fn retried(&self, tag: Tag) {
        add(&self.extra(tag).retries, 1);
    }

    pub(crate) fn hedged(&self, tag: Tag) {
        add(&self.extra(tag).hedges, 1);
    }

    pub(crate) fn hedge_won(&self, tag: Tag) {
        add(&self.extra(tag).hedges_won, 1);
    }

    pub(crate) fn snapshot(&self, prices: Prices) -> Snapshot {
        let by_purpose = Purpose::ALL.iter().zip(self.uses.iter().zip(&self.extras));
        let by_purpose = by_purpose.map(|(purpose, (uses, extras))| PurposeUse {
            purpose: *purpose,
            verbs: std::array::from_fn(|at| uses[at].snapshot()),
            retries: read(&extras.retries),
            hedges: read(&extras.hedges),
            hedges_won: read(&extras.hedges_won),
            errors: std::array::from_fn(|at| read(&extras.errors[at])),
        });
        Snapshot { by_purpose: by_purpose.collect(), prices }
    }

    fn used(&self, tag: Tag) -> &Use {
        let verb = Verb::ALL.iter().position(|other| *other == tag.verb);
        &self.uses[place(tag.purpose)][verb.expect("ALL has every verb")]
    }

    fn extra(&self, tag: Tag) -> &Extras {
        &self.extras[place(tag.purpose)]
    }
}

fn place(purpose: Purpose) -> usize {
    Purpose::ALL.iter().position(|other| *other == purpose).expect("ALL has every purpose")
}

impl Use {
    fn snapshot(&self) -> VerbUse {
        VerbUse {
            requests: read(&self.requests),
            sent_bytes: read(&self.sent_bytes),
            received_bytes: read(&self.received_bytes),
            times: self.times.snapshot(),
        }
    }
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// All counts since a bucket was opened.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// One entry for each purpose, in the order of [`Purpose::ALL`].
    pub by_purpose: Vec<PurposeUse>,
    /// What requests cost.
    pub prices: Prices,
}

/// What was asked for one purpose.
#[derive(Clone, Debug, PartialEq)]
pub struct PurposeUse {
    /// The purpose.
    pub purpose: Purpose,
    /// One entry for each verb, in the order of [`Verb::ALL`].
    pub verbs: [VerbUse; VERBS],
    /// Attempts after a first one had failed.
    pub retries: u64,
    /// Second requests for a read that was late.
    pub hedges: u64,
    /// Of those: they were answered first.
    pub hedges_won: u64,
    /// Failed attempts, in the order of [`Class::ALL`].
    pub errors: [u64; CLASSES],
}

/// Requests of one kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VerbUse {
    /// All that went out, retries and hedges included.
    pub requests: u64,
    /// Bytes of their bodies.
    pub sent_bytes: u64,
    /// Bytes of the answers' bodies that arrived.
    pub received_bytes: u64,
    /// How long answers took to be whole, of those that came.
    pub times: Histogram,
}

impl Snapshot {
    /// What was asked for `purpose`.
    pub fn of(&self, purpose: Purpose) -> &PurposeUse {
        &self.by_purpose[place(purpose)]
    }

    /// All requests.
    pub fn requests(&self) -> u64 {
        self.by_purpose.iter().map(PurposeUse::requests).sum()
    }

    /// What all requests cost, in dollars. Storage is not in it.
    pub fn dollars(&self) -> f64 {
        self.by_purpose.iter().map(|used| used.dollars(&self.prices)).sum()
    }
}

impl PurposeUse {
    /// All requests.
    pub fn requests(&self) -> u64 {
        self.verbs.iter().map(|used| used.requests).sum()
    }

    /// Requests of one kind.
    pub fn verb(&self, verb: Verb) -> &VerbUse {
        let at = Verb::ALL.iter().position(|other| *other == verb);
        &self.verbs[at.expect("ALL has every verb")]
    }

    /// Failed attempts of one class.
    pub fn failed(&self, class: Class) -> u64 {
        let at = Class::ALL.iter().position(|other| *other == class);
        self.errors[at.expect("ALL has every class")]
    }

    /// What its requests cost, in dollars.
    pub fn dollars(&self, prices: &Prices) -> f64 {
        Verb::ALL.iter().zip(&self.verbs).map(|(verb, used)| prices.dollars(*verb, used)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_counted_where_they_belong_and_paid() {
        let meter = Meter::default();
        let get = Tag { purpose: Purpose::Get, verb: Verb::Get };
        let put = Tag { purpose: Purpose::Flush, verb: Verb::Put };
        for _ in 0..1_000 {
            meter.asked(get, 0);
            meter.answered(get, 4_096, Duration::from_millis(24));
            meter.asked(put, 1 << 20);
        }
        meter.failed(put, Class::Throttled);
        meter.retried(put);
        let seen = meter.snapshot(Prices::STANDARD);
        assert_eq!(seen.of(Purpose::Get).verb(Verb::Get).received_bytes, 4_096_000);
        assert_eq!(seen.of(Purpose::Flush).verb(Verb::Put).sent_bytes, 1_000 << 20);
        assert_eq!(seen.of(Purpose::Flush).failed(Class::Throttled), 1);
        assert_eq!(seen.of(Purpose::Flush).retries, 1);
        assert_eq!((seen.requests(), seen.of(Purpose::Scan).requests()), (2_000, 0));
        assert!((seen.dollars() - 0.0054).abs() < 1e-9, "{}", seen.dollars());
    }
}
