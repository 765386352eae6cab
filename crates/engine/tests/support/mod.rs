//! What several test binaries share, beside what the crate `siltstone-sim` has.
#![allow(dead_code, unused_imports, unreachable_pub, reason = "each binary uses a part")]
#![allow(clippy::disallowed_methods, reason = "tests set the stage with the system's own files")]
#![allow(clippy::unwrap_used, reason = "a test that cannot set its stage is over")]

pub use siltstone_sim::*;
