//! Reading: pin a super version, then the visible sequence number, then look. No lock on the way.

pub(crate) mod get;
pub(crate) mod iterator;
pub(crate) mod kept;
pub(crate) mod log_bills;
pub(crate) mod sampling;
pub(crate) mod snapshot;
