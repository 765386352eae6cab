//! What keeps versions from being collected: readers' leases, which end by themselves, and pins, which are checkpoints
//! and clones' holds on their parents.

pub(crate) mod clone;
pub(crate) mod follow;
pub(crate) mod lease;
pub(crate) mod pin;
