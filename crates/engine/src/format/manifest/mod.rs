//! The manifest: the history of a database's shape, one [`VersionEdit`] per record, and CURRENT,
//! the file that names the live one. The version set writes and replays it; the tools show it.

mod current;
mod edit;
mod reader;

pub(crate) use current::{CURRENT_BYTES_MAX, current_text, parse_current};
pub(crate) use edit::{NewTable, VersionEdit};
pub(crate) use reader::ManifestReader;
