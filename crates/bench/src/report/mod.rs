//! What is printed and written: LevelDB's report on standard output, to the byte; what flags of ours
//! add below its lines, or put into a file; progress on a terminal.

pub(crate) mod causes;
pub(crate) mod header;
pub(crate) mod histogram;
pub(crate) mod json;
pub(crate) mod progress;
pub(crate) mod spread;
pub(crate) mod stats;

use causes::Causes;
use stats::Stats;

/// What one benchmark came to.
pub(crate) struct Record {
    pub(crate) name: String,
    pub(crate) threads: usize,
    pub(crate) stats: Stats,
    pub(crate) comparisons: Option<u64>,
    pub(crate) causes: Option<Causes>,
}
