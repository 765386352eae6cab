//! Floor 0: what every other floor speaks in. Keys, order, bytes, errors, iterators, locks.

pub(crate) mod checksum;
pub(crate) mod coding;
pub(crate) mod comparator;
pub(crate) mod error;
pub(crate) mod escape;
pub(crate) mod event;
pub(crate) mod fences;
pub(crate) mod hash;
pub(crate) mod huge;
pub(crate) mod iter;
pub(crate) mod key;
pub(crate) mod merging;
pub(crate) mod metrics;
pub(crate) mod prefetch;
pub(crate) mod slot;
pub(crate) mod sync;
