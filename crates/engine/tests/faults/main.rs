//! What the database does when the disk refuses: the order of its calls, full disks, I/O errors,
//! torn appends and power cuts. Retells LevelDB's `fault_injection_test` and the fault cases of its
//! `db_test` and `corruption_test`.
#![expect(clippy::unwrap_used, reason = "cases are functions that the tests call")]

mod full_disk;
mod io_errors;
mod order;
mod power_cuts;
mod promises;
mod short_reads;
#[path = "../support/mod.rs"]
mod support;
mod sweep;
