//! What reading from a bucket has cost so far. Counters order nothing, so all are relaxed.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::bucket::Purpose;

macro_rules! stats {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        #[derive(Default)]
        pub(super) struct Counters {
            $(pub(super) $name: AtomicU64,)+
            gets: [AtomicU64; Purpose::ALL.len()],
            get_bytes: [AtomicU64; Purpose::ALL.len()],
        }

        impl Counters {
            pub(super) fn snapshot(&self) -> ReadStats {
                let all = |counters: &[AtomicU64; Purpose::ALL.len()]| {
                    counters.each_ref().map(|counter| counter.load(Relaxed))
                };
                ReadStats {
                    $($name: self.$name.load(Relaxed),)+
                    gets: all(&self.gets),
                    get_bytes: all(&self.get_bytes),
                }
            }
        }

        /// Counters since the [tables](crate::RemoteTables) were made.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct ReadStats {
            $($(#[doc = $doc])+ pub $name: u64,)+
            gets: [u64; Purpose::ALL.len()],
            get_bytes: [u64; Purpose::ALL.len()],
        }

        impl ReadStats {
            /// Every counter with its name, but for what is counted by purpose.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)+].into_iter()
            }
        }
    };
}

stats! {
    /// Tables opened.
    opened,
    /// Of these, tables that took no get: their tail was in the cache, or open already.
    opened_near,
    /// Times that an open needed more than the tail.
    tails_too_short,
    /// Times that a read found bytes in the cache on disk.
    cache_hits,
    /// Bytes that came from it.
    cache_bytes,
    /// Times that a read had to wait for the bucket.
    misses,
    /// Of these, times that another's get was waited for.
    joined,
    /// Windows read ahead by threads.
    windows_ahead,
    /// Gets that failed.
    failed_gets,
}

fn place(purpose: Purpose) -> usize {
    Purpose::ALL.iter().position(|one| *one == purpose).unwrap_or_default()
}

pub(super) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Relaxed);
}

impl Counters {
    pub(super) fn note_get(&self, purpose: Purpose, bytes: u64) {
        let place = place(purpose);
        if let (Some(gets), Some(get_bytes)) = (self.gets.get(place), self.get_bytes.get(place)) {
            add(gets, 1);
            add(get_bytes, bytes);
        }
    }
}

impl ReadStats {
    /// Gets for a purpose, failed ones too.
    pub fn gets(&self, purpose: Purpose) -> u64 {
        self.gets.get(place(purpose)).copied().unwrap_or_default()
    }

    /// What they asked for.
    pub fn get_bytes(&self, purpose: Purpose) -> u64 {
        self.get_bytes.get(place(purpose)).copied().unwrap_or_default()
    }

    /// For all purposes.
    pub fn all_gets(&self) -> u64 {
        self.gets.iter().sum()
    }
}
