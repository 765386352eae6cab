//! What opening finds: logs whole, torn or gone, manifests, folders beside a live writer, and the
//! known ways in which engines of this family have lost data. Retells LevelDB's `recovery_test` and
//! the recovery cases of its `db_test` and `corruption_test`.
//!
//! Left out: `ManifestReused`, since every open begins a new manifest here.
#![expect(clippy::disallowed_methods, reason = "tests start threads as they please")]
#![expect(clippy::unwrap_used, reason = "cases are functions that the tests call")]

mod logs;
mod manifests;
mod read_only;
mod regressions;
#[path = "../support/mod.rs"]
mod support;
