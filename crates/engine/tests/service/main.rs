//! Merges that run elsewhere: what whoever runs them makes, and what becomes of it in the database.
#![expect(clippy::disallowed_methods, reason = "tests start threads as they please")]
#![expect(clippy::unwrap_used, reason = "cases are functions that the tests call")]

mod away;
mod bytes;
mod left;
mod stage;
