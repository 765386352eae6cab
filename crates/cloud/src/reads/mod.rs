//! Reading tables from a bucket.

pub(crate) mod cache;
pub(crate) mod object;
