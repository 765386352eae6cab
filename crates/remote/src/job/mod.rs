//! What travels: a job's spec, what became of it, and the names of both. Plain data, without any wire format; whoever
//! submits, runs or installs jobs speaks in these.

pub(crate) mod failure;
pub(crate) mod id;
pub(crate) mod invalid;
pub(crate) mod key;
pub(crate) mod limits;
pub(crate) mod name;
pub(crate) mod result;
pub(crate) mod spec;
