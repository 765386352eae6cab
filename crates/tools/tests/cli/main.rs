//! The built command, driven as a user or a script would: every verb and format, exit codes,
//! wild arguments, round trips, signals. Grouped by subject; `harness` runs the program.
#![allow(missing_docs, clippy::disallowed_methods, clippy::unwrap_used)]

mod care;
#[cfg(feature = "cloud")]
mod cloud;
mod demo;
mod examples;
mod exits;
#[cfg(feature = "cloud")]
mod fleet;
mod harness;
mod pairs;
mod shell;
mod verbs;
