//! What several test binaries share: temporary folders, file systems with faults and power cuts,
//! and a world to run a database in.
#![allow(dead_code, unused_imports, unreachable_pub, reason = "each binary uses a part")]
#![allow(clippy::disallowed_methods, reason = "tests set the stage with the system's own files")]
#![allow(clippy::unwrap_used, reason = "a test that cannot set its stage is over")]

pub mod dice;
pub mod fault_fs;
pub mod folder;
pub mod log_file;
pub mod power_fs;
pub mod temp_dir;
pub mod world;

pub use dice::Dice;
pub use fault_fs::{Fault, FaultFs};
pub use folder::Folder;
pub use power_fs::PowerFs;
pub use temp_dir::TempDir;
pub use world::{World, contents, contents_at, put_all, scan, scan_back, synced, unsynced};
