//! LevelDB's errors: through the C API, only their text comes out. Returned by every fallible call
//! of the wrapper.

use std::fmt;

/// The wrapper's result type.
pub type Result<T> = std::result::Result<T, Error>;

/// The text of a `leveldb::Status`, such as `Corruption: block checksum mismatch`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(pub(super) String);

impl Error {
    /// Bytes on disk are not what was written.
    pub fn is_corruption(&self) -> bool {
        self.0.starts_with("Corruption: ")
    }

    /// The options do not fit the database, or a file is missing that must be there.
    pub fn is_invalid_argument(&self) -> bool {
        self.0.starts_with("Invalid argument: ")
    }

    /// The operating system refused, or the database is locked.
    pub fn is_io(&self) -> bool {
        self.0.starts_with("IO error: ")
    }

    /// Someone else, or this process, has the database open.
    pub fn is_locked(&self) -> bool {
        self.0.starts_with("IO error: lock ")
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}
