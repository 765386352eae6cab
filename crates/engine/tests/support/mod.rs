//! What several test binaries share: temporary folders and a file system with faults.
#![allow(dead_code, unused_imports, unreachable_pub, reason = "each binary uses a part")]
#![allow(clippy::disallowed_methods, reason = "tests set the stage with the system's own files")]

pub mod fault_fs;
pub mod temp_dir;

pub use fault_fs::{Fault, FaultFs};
pub use temp_dir::TempDir;
