//! LevelDB's C API, as C programs see it: compiled with our header or LevelDB's, linked or loaded.
//!
//! The programs are in `programs/`. They check what they do themselves, and end badly if it is wrong.
#![expect(clippy::unwrap_used, reason = "cases are functions that the tests call")]

mod install;
mod programs;
mod readme;
mod stage;
mod stand_in;
mod symbols;
