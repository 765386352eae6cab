//! Damaged and hostile files: a right answer or an error that names the place, never a wrong answer
//! and never a panic. Retells LevelDB's `corruption_test`; damage to logs is in `recovery` and
//! `defects`, the cases that repair are with repair.

mod hostile;
#[path = "../support/mod.rs"]
mod support;
mod tables;
