//! Counters of one database: plain atomics, read as one snapshot. There is no global registry;
//! exporters turn the snapshot into whatever they speak.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number that only grows. `Relaxed` throughout: counters order nothing.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub(crate) fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Relaxed);
    }

    /// As [`add`](Self::add), for less: of a number that one thread at a time changes, which sees what the one before it left.
    #[inline]
    pub(crate) fn add_alone(&self, amount: u64) {
        self.0.store(self.get().wrapping_add(amount), Relaxed);
    }

    /// To `amount`, if that is more.
    pub(crate) fn raise_to(&self, amount: u64) {
        self.0.fetch_max(amount, Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

macro_rules! metrics {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// The live counters.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: Counter,)+
        }

        impl Counters {
            pub(crate) fn snapshot(&self) -> Metrics {
                Metrics { $($name: self.$name.get(),)+ }
            }
        }

        /// Counters since the database was opened.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Metrics {
            $($(#[doc = $doc])+ pub $name: u64,)+
        }

        impl Metrics {
            /// Every counter with its name, for exporters and `-o json`.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)+].into_iter()
            }
        }
    };
}

metrics! {
    /// Batches written.
    batches_written,
    /// Keys put or deleted.
    keys_written,
    /// Bytes of user data in written batches.
    bytes_written,
    /// Bytes appended to write-ahead logs.
    wal_bytes,
    /// Syncs of write-ahead logs.
    wal_syncs,
    /// Memtables flushed.
    flushes,
    /// Bytes of tables made by flushes.
    flush_bytes,
    /// Compactions that merged.
    merges,
    /// Compactions that merged elsewhere, of all that merged.
    merges_away,
    /// Compactions that were to merge elsewhere, and came home.
    merges_come_home,
    /// Compactions that only moved tables.
    moves,
    /// Bytes read by compactions.
    compaction_bytes_read,
    /// Bytes written by compactions.
    compaction_bytes_written,
    /// Bytes written by the compaction that wrote most.
    compaction_bytes_largest,
    /// Entries that compactions dropped: overwritten, or deleted and shadowing nothing.
    entries_dropped,
    /// Edits appended to manifests.
    manifest_edits,
    /// Manifests begun, the first included.
    manifest_rotations,
    /// Microseconds that writers were slowed because level 0 holds many tables.
    stall_l0_slowdown_micros,
    /// Microseconds that writers waited because level 0 was full.
    stall_l0_stop_micros,
    /// Microseconds that writers were slowed because flushes were behind.
    stall_flush_slowdown_micros,
    /// Microseconds that writers waited for memtables to be flushed.
    stall_memtables_full_micros,
    /// Failures of background work.
    background_errors,
}
