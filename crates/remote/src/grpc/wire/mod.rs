//! The messages of `proto/siltstone.proto`, as generated. They go no further than the conversions and the services.

use std::fmt;

#[rustfmt::skip]
#[allow(missing_docs, unreachable_pub, unused_qualifications, clippy::all)]
mod generated;

pub(super) use generated::*;

/// Without the secret, and without the spec, which is the database's affair.
impl fmt::Debug for Assign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Assign").field("attempt", &self.attempt).finish_non_exhaustive()
    }
}

/// Likewise.
impl fmt::Debug for Submission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Submission")
            .field("attempts_max", &self.attempts_max)
            .finish_non_exhaustive()
    }
}
