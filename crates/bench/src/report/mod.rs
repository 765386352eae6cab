//! What is printed: LevelDB's report on standard output, to the byte; progress on a terminal.

pub(crate) mod header;
pub(crate) mod histogram;
pub(crate) mod progress;
pub(crate) mod stats;
