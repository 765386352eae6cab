//! Damaged and hostile files: a right answer or an error that names the place, never a wrong answer
//! and never a panic. Retells LevelDB's `corruption_test`; damage to logs is in `recovery` and
//! `defects`, the cases that repair are with repair.
#![expect(clippy::unwrap_used, reason = "cases are functions that the tests call")]

mod hostile;
#[path = "../support/mod.rs"]
mod support;
mod tables;
