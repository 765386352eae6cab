//! The manifest: the history of a database's shape, one [version edit](edit::VersionEdit) per
//! record, and CURRENT, the file that names the live one. The version set writes and replays it;
//! the tools show it.

pub(crate) mod current;
pub(crate) mod edit;
pub(crate) mod reader;
