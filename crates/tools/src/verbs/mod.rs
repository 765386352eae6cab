//! What the verbs do: one file per group. Each takes its arguments and the output context, and
//! returns an exit code or a failure.

pub(crate) mod bench;
pub(crate) mod care;
#[cfg(feature = "cloud")]
pub(crate) mod cloud;
pub(crate) mod copies;
pub(crate) mod data;
pub(crate) mod files;
#[cfg(feature = "cloud")]
pub(crate) mod fleet;
pub(crate) mod generate;
pub(crate) mod inside;
pub(crate) mod lab;
pub(crate) mod load;
pub(crate) mod repair;
pub(crate) mod scan;
pub(crate) mod simulate;
pub(crate) mod verify;
