//! The ground that siltstone is tested on. Disks that lose what was not synced, calls that fail, time
//! and threads that follow a seed; a model that says what must be found afterwards; and campaigns
//! that put the engine through all of it and count.
//!
//! Nothing here is shipped. Integration tests of the engine use the parts; the program `ground` runs
//! the campaigns, and every failure it prints comes with the command that repeats it.

#![forbid(unsafe_code)]
#![allow(
    missing_docs,
    reason = "for the project's own tests; what does not speak for itself is documented"
)]
#![allow(clippy::unwrap_used, reason = "a test that cannot set its stage is over")]

#[cfg(shuttle)]
pub mod baton;
pub mod clock;
pub mod cloud;
pub mod corrupt;
pub mod crash;
pub mod dice;
pub mod differential;
pub mod disk;
pub mod faults;
pub mod folder;
pub mod fs;
pub mod hash;
pub mod linear;
pub mod log_file;
pub mod report;
pub mod temp_dir;
pub mod world;

pub use dice::Dice;
pub use folder::Folder;
pub use fs::fault::{Fault, FaultFs, Op};
pub use fs::power::PowerFs;
pub use report::Report;
pub use temp_dir::TempDir;
pub use world::{World, contents, contents_at, put_all, scan, scan_back, synced, unsynced};
